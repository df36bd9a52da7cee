#include "io/files/scratch_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <regex>
#include <string>
#include <system_error>

#include "io/files/folder_mark.h"

namespace vggt {
namespace fs = std::filesystem;
namespace {

void remove_all_abandoned(const fs::path& parent) {
  static const std::regex kName("vggt-recon-[0-9]+-[A-Za-z0-9]{6}");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (std::regex_match(entry.path().filename().string(), kName)) remove_abandoned(entry.path());
  }
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent) {
  remove_all_abandoned(parent);
  const std::string pattern = (parent / ("vggt-recon-" + std::to_string(::getpid()) + "-XXXXXX")).string();
  while (lock_ < 0) {
    std::string name = pattern;
    if (!::mkdtemp(name.data())) {
      throw std::system_error(errno, std::generic_category(),
                              "scratch: no folder can be made in " + parent.string());
    }
    path_ = name;
    lock_ = mark_folder(path_);
    if (lock_ >= 0 || errno == ENOENT) continue;
    const int reason = errno;
    ::rmdir(path_.c_str());
    throw std::system_error(reason, std::generic_category(), "scratch: cannot write in " + path_.string());
  }
}

ScratchFolder::~ScratchFolder() {
  remove_marked(path_);
  ::close(lock_);
}

}  // namespace vggt
