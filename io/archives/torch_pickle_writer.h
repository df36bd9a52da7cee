#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/tensors/tensor_index.h"

namespace vggt {

/// A tensor of an archive to be written; tensor i goes to the record data/i.
struct TensorRecord {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;
};

/// data.pkl of a state dict, as torch.save writes it.
std::string state_dict_pickle(const std::vector<TensorRecord>& tensors);

/// The parts of a TorchScript archive that describe modules: Python source of their classes, and data.pkl.
struct ScriptModule {
  std::string source;  // code/__torch__.py
  std::string pickle;
};

/// A tree of modules without methods, whose state_dict() has these names.
/// Throws std::invalid_argument if a name is no path of attributes, or is both a tensor and a module.
ScriptModule script_module(const std::vector<TensorRecord>& tensors);

}  // namespace vggt
