#include <chrono>

#include "attention/stream/stream_copies.h"

namespace vggt {
namespace {

class CpuCopies : public StreamCopies {
 public:
  CpuCopies(const StreamInput& input, const StreamOutput& output) : input_(input), output_(output) {}

  Mark load(std::vector<LoadPiece> pieces, const Mark&) override {
    const auto begin = Clock::now();
    for (const LoadPiece& piece : pieces) {
      if (piece.from.defined()) {
        piece.to.copy_(piece.from);
        continue;
      }
      read_rows(input_, piece.part, piece.first, piece.to.size(0), piece.to.mutable_data_ptr());
      times_.bytes_to_device += piece.to.numel() * piece.to.element_size();
    }
    took(begin);
    return nullptr;
  }
  Mark store(const at::Tensor& rows, int64_t first) override {
    const auto begin = Clock::now();
    write_rows(output_, first, rows.size(0), rows.const_data_ptr());
    times_.bytes_to_host += rows.numel() * rows.element_size();
    took(begin);
    return nullptr;
  }
  Mark fetch(const at::Tensor& x, const at::Tensor& to) override {
    const auto begin = Clock::now();
    to.copy_(x);
    times_.bytes_to_host += x.numel() * x.element_size();
    took(begin);
    return nullptr;
  }
  Mark mark() override { return nullptr; }
  void wait(const Mark&) override {}
  void join(const Mark&) override {}
  void settle() override {}
  StreamTimes times() override { return times_; }

 private:
  using Clock = std::chrono::steady_clock;

  void took(Clock::time_point begin) {
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    times_.copy_ms += ms;
    times_.wait_ms += ms;  // nothing overlaps
  }

  StreamInput input_;
  StreamOutput output_;
  StreamTimes times_;
};

}  // namespace

std::unique_ptr<StreamCopies> cpu_copies(const StreamInput& input, const StreamOutput& output) {
  return std::make_unique<CpuCopies>(input, output);
}

}  // namespace vggt
