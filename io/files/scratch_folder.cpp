#include "io/files/scratch_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace vggt {
namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(const fs::path& parent) {
  std::string name = (parent / ("vggt-recon-" + std::to_string(::getpid()) + "-XXXXXX")).string();
  if (!::mkdtemp(name.data())) {
    throw std::system_error(errno, std::generic_category(),
                            "scratch: no folder can be made in " + parent.string());
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace vggt
