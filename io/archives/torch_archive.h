#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "io/archives/zip_archive.h"
#include "io/files/byte_source.h"
#include "io/tensors/tensor_index.h"

namespace vggt {

/// The tensors of a file that torch.save wrote (a state dict, or a dict that holds one as "model" or
/// "state_dict"), or of a TorchScript archive (parameters, named by their path in the module); and the text
/// of extra/config.json if the archive has it. Throws std::invalid_argument saying what is wrong.
TensorIndex read_torch_archive(const ByteSource& file);

/// The same from data.pkl and the directory of the archive. The config.json is left out.
TensorIndex read_torch_pickle(std::span<const std::byte> pickle,
                              const std::map<std::string, ZipEntry>& directory);

}  // namespace vggt
