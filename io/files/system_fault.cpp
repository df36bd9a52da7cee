#include "io/files/system_fault.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace vggt {

SystemFault fault_of(const std::error_code& error) {
  constexpr std::array kResources = {ENOSPC, EDQUOT, EFBIG, ENOMEM, EMFILE, ENFILE, EAGAIN, ENOLCK, ENOBUFS};
  constexpr std::array kMachine = {EIO,       ENXIO,     ENODEV,    ESTALE, ENOTCONN,
                                   ETIMEDOUT, EREMOTEIO, ENOMEDIUM, EPIPE,  EBADF};
  if (error.category() != std::generic_category() && error.category() != std::system_category()) {
    return SystemFault::machine;
  }
  if (std::ranges::count(kResources, error.value()) > 0) return SystemFault::resources;
  return std::ranges::count(kMachine, error.value()) > 0 ? SystemFault::machine : SystemFault::input;
}

}  // namespace vggt
