#pragma once
#include <string>
#include <vector>

#include "io/tensors/tensor_index.h"

namespace vggt {

/// data.pkl of a state dict, as torch.save writes it; the values of tensor i belong in the record data/i.
std::string state_dict_pickle(const std::vector<TensorDescription>& tensors);

/// The parts of a TorchScript archive that describe modules: the Python source of their classes, and
/// data.pkl.
struct ScriptModule {
  std::string source;  // code/__torch__.py
  std::string pickle;
};

/// A tree of modules without methods, whose state_dict() has these names; the values of tensor i belong in
/// the record data/i. Throws std::invalid_argument if a name is no path of attributes, or is both a tensor
/// and a module.
ScriptModule script_module(const std::vector<TensorDescription>& tensors);

}  // namespace vggt
