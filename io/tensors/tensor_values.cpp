#include "io/tensors/tensor_values.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace vggt {
namespace {

float float_from_half(uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 31) return mantissa != 0 ? std::nanf("") : sign * HUGE_VALF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

template <typename T>
T element(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

bool is_real(ElementType type) {
  return type == ElementType::f64 || type == ElementType::f32 || type == ElementType::f16 ||
         type == ElementType::bf16;
}

float tensor_value(ElementType type, const std::byte* data, std::size_t i) {
  if (type == ElementType::f32) return element<float>(data, i);
  if (type == ElementType::f64) return static_cast<float>(element<double>(data, i));
  const auto raw = element<uint16_t>(data, i);
  return type == ElementType::f16 ? float_from_half(raw) : std::bit_cast<float>(uint32_t{raw} << 16);
}

}  // namespace vggt
