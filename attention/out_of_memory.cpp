#include "attention/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace vggt {
namespace {

bool says(const std::exception& error, std::span<const char* const> texts) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string what = torch ? torch->what_without_backtrace() : error.what();
  return std::ranges::any_of(texts, [&](const char* text) { return what.find(text) != what.npos; });
}

}  // namespace

bool is_out_of_host_memory(const std::exception& error) {
  constexpr std::array kTexts = {"DefaultCPUAllocator: can't allocate memory",
                                 "DefaultCPUAllocator: not enough memory",
                                 "(-4:Insufficient memory)"};  // OpenCV's
  // oneDNN says no more where it has no memory; what it cannot do it says of a "primitive descriptor".
  constexpr std::array kOfOneDnn = {"could not create a primitive", "could not execute a primitive"};
  // A thread for which there is no memory.
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  const bool has_no_thread = system && system->code() == std::errc::resource_unavailable_try_again;
  return dynamic_cast<const std::bad_alloc*>(&error) || has_no_thread || says(error, kTexts) ||
         std::ranges::any_of(kOfOneDnn, [&](std::string_view text) { return error.what() == text; });
}

bool is_out_of_memory(const std::exception& error) {
  // Handles of cuBLAS and cuDNN are made when they are first needed, and cuDNN's convolutions take
  // workspaces: without memory they say so, or that they are not initialised, or that no engine does it.
  constexpr std::array kTexts = {"out of memory",
                                 "CUBLAS_STATUS_ALLOC_FAILED",
                                 "CUBLAS_STATUS_NOT_INITIALIZED",
                                 "CUDNN_STATUS_ALLOC_FAILED",
                                 "CUDNN_STATUS_NOT_INITIALIZED",
                                 "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
                                 "unable to find an engine to execute this computation"};
  return is_out_of_host_memory(error) || dynamic_cast<const c10::OutOfMemoryError*>(&error) ||
         says(error, kTexts);
}

}  // namespace vggt
