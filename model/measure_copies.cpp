#include "model/measure_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <system_error>
#include <vector>
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace vggt {
namespace {

constexpr int64_t kBytes = kScratchMeasured;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A file without a name, closed in any case.
class NamelessFile {
 public:
  explicit NamelessFile(const std::filesystem::path& folder) : folder_(folder) {
    std::string name = (folder / "rates_XXXXXX").string();
    file_ = check(mkstemp(name.data()));
    unlink(name.c_str());
  }
  ~NamelessFile() { close(file_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  void write_all(std::vector<char>& bytes) const {
    for (std::size_t done = 0; done < bytes.size();)
      done += check(write(file_, bytes.data() + done, bytes.size() - done));
    check(fdatasync(file_));
  }
  void read_all(std::vector<char>& bytes) const {
    for (std::size_t done = 0, got = 1; done < bytes.size() && got > 0; done += got)
      got = check(pread(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done)));
  }
  void leave_cache() const { posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED); }

 private:
  template <class Result>
  Result check(Result result) const {
    if (result < 0) throw std::system_error(errno, std::generic_category(), folder_.string());
    return result;
  }

  std::filesystem::path folder_;
  int file_ = -1;
};

}  // namespace

void measure_copies([[maybe_unused]] at::Device device, [[maybe_unused]] Rates& rates) {
#ifdef VGGT_CUDA
  if (!device.is_cuda()) return;
  const at::Tensor host = at::empty({kBytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true)),
                   on_device = at::empty({kBytes}, at::device(device).dtype(at::kByte));
  const auto rate = [](const at::Tensor& to, const at::Tensor& from) {
    constexpr int kRuns = 3;
    double least = 1;
    for (int run = 0; run < kRuns; ++run) {
      c10::cuda::device_synchronize();
      least = std::min(least, seconds_of([&] {
                         to.copy_(from, /*non_blocking=*/true);
                         c10::cuda::device_synchronize();
                       }));
    }
    return least / kBytes;
  };
  rates.to_device = rate(on_device, host);
  rates.to_host = rate(host, on_device);
#endif
}

void measure_scratch(const std::filesystem::path& folder, Rates& rates) {
  const NamelessFile file(folder);
  std::vector<char> bytes(kBytes, 1);
  rates.to_scratch = seconds_of([&] { file.write_all(bytes); }) / kBytes;
  file.leave_cache();
  rates.from_scratch = seconds_of([&] { file.read_all(bytes); }) / kBytes;
}

}  // namespace vggt
