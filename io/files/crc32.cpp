#include "io/files/crc32.h"

#include <array>
#include <cstring>

namespace vggt {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;
constexpr std::size_t kSlices = 16;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[k][b]: the effect of byte b with k bytes after it.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t value = b;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = value;
  }
  for (std::size_t k = 1; k < kSlices; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xFF];
  return tables;
}
constexpr Tables kTables = make_tables();

// Product of two polynomials modulo the CRC's; the highest bit is x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t sum = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    std::array<uint32_t, 4> words;
    std::memcpy(words.data(), at, kSlices);
    words[0] ^= sum;
    sum = 0;
    for (std::size_t w = 0; w < words.size(); ++w)
      for (std::size_t b = 0; b < 4; ++b)
        sum ^= kTables[kSlices - 1 - 4 * w - b][(words[w] >> (8 * b)) & 0xFF];
  }
  for (; left > 0; --left, ++at) sum = (sum >> 8) ^ kTables[0][(sum ^ static_cast<uint32_t>(*at)) & 0xFF];
  return ~sum;
}

uint32_t combine_crc32(uint32_t a, uint32_t b, uint64_t b_bytes) {
  uint32_t shift = uint32_t{1} << 31;  // x^0
  uint32_t power = uint32_t{1} << 23;  // x^8: one byte
  for (; b_bytes != 0; b_bytes >>= 1, power = multiply(power, power))
    if ((b_bytes & 1) != 0) shift = multiply(shift, power);
  return multiply(shift, a) ^ b;
}

}  // namespace vggt
