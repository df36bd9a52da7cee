#include "model/state/binder.h"

#include <stdexcept>

namespace vggt {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

void Binder::record(const std::string& name, std::vector<int64_t> shape) {
  TORCH_CHECK(taken_.emplace(name, std::move(shape)).second, "tensor ", name, " is bound twice");
}

at::Tensor Binder::take(const std::string& name, std::vector<int64_t> shape, at::ScalarType type) {
  record(name, std::move(shape));
  if (source_ == nullptr) return {};
  return source_->load(name, type, device_);
}

void check_shapes(const TensorShapes& expected, const TensorShapes& offered) {
  std::string missing, misshapen, extra;
  for (const auto& [name, shape] : expected) {
    const auto found = offered.find(name);
    if (found == offered.end()) {
      missing += " " + name;
    } else if (found->second != shape) {
      misshapen +=
          " " + name + " (expected " + shape_text(shape) + ", got " + shape_text(found->second) + ")";
    }
  }
  for (const auto& [name, shape] : offered) {
    if (!expected.contains(name)) extra += " " + name;
  }
  std::string problems;
  if (!missing.empty()) problems += "; missing:" + missing;
  if (!misshapen.empty()) problems += "; misshapen:" + misshapen;
  if (!extra.empty()) problems += "; left over:" + extra;
  if (!problems.empty()) throw std::invalid_argument("the tensors do not fit the architecture" + problems);
}

}  // namespace vggt
