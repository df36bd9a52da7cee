#include "io/files/content_sum.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "io/files/crc32.h"
#include "io/files/input_file.h"
#include "io/files/machine_share.h"

namespace vggt {
namespace {

std::string text_of(uint64_t size, uint32_t sum) {
  return std::to_string(size) + " bytes, sum " + std::to_string(sum);
}

}  // namespace

std::string content_sum(const std::filesystem::path& path, const std::function<void()>& check) {
  constexpr uint64_t kBlock = uint64_t{4} << 20, kMostThreads = 8;
  const InputFile file(path);
  const uint64_t size = file.size(), blocks = (size + kBlock - 1) / kBlock;
  const auto bytes_of = [&](uint64_t block) { return std::min(kBlock, size - block * kBlock); };
  std::vector<uint32_t> sums(blocks);
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto sum_blocks = [&] {
    try {
      std::vector<std::byte> bytes(std::min(kBlock, size));
      for (uint64_t block = next++; block < blocks; block = next++) {
        if (check) check();
        const std::span part = std::span(bytes).first(bytes_of(block));
        file.read(block * kBlock, part);
        sums[block] = crc32(part);
      }
    } catch (...) {
      next = blocks;
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  {
    const auto cores = static_cast<uint64_t>(usable_cores());
    std::vector<std::jthread> others;
    try {
      for (uint64_t i = 1; i < std::min({cores, kMostThreads, blocks}); ++i) others.emplace_back(sum_blocks);
    } catch (const std::system_error&) {  // no more threads: those that there are do it
    }
    sum_blocks();
  }
  if (error) std::rethrow_exception(error);
  uint32_t sum = 0;
  for (uint64_t block = 0; block < blocks; ++block) sum = combine_crc32(sum, sums[block], bytes_of(block));
  return text_of(size, sum);
}

std::string sampled_sum(const std::filesystem::path& path) {
  constexpr uint64_t kParts = 64, kPartBytes = 1 << 16;
  const InputFile file(path);
  const uint64_t size = file.size();
  if (size <= kSummedWhole) return content_sum(path);
  std::vector<std::byte> bytes(kPartBytes);
  uint32_t sum = 0;
  for (uint64_t part = 0; part < kParts; ++part) {
    file.read((size - kPartBytes) * part / (kParts - 1), bytes);
    sum = combine_crc32(sum, crc32(bytes), bytes.size());
  }
  return text_of(size, sum);
}

}  // namespace vggt
