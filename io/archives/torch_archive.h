#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "io/files/byte_source.h"
#include "io/tensors/tensor_index.h"
#include "io/archives/zip_archive.h"

namespace vggt {

/// The tensors of a file that torch.save wrote (a state dict, also as the value of a key "model" or
/// "state_dict") or of a TorchScript archive (parameters by their path in the module), and the config.json
/// among the extra files. Throws std::invalid_argument saying what is wrong.
WeightIndex read_torch_archive(const ByteSource& file);

/// The same from an archive's directory and its data.pkl.
WeightIndex read_torch_pickle(std::span<const std::byte> pickle,
                              const std::map<std::string, ZipEntry>& directory);

}  // namespace vggt
