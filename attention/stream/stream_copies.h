#pragma once
#include <memory>
#include <vector>

#include "attention/stream/stream_rows.h"

namespace vggt {

/// A point in the work of a device that other work can wait for; null: it has passed.
struct StreamMark;
using Mark = std::shared_ptr<StreamMark>;

/// Rows to be loaded: of the input from row `first` on, or of `from` on the device where that is defined.
struct LoadPiece {
  at::Tensor to;  // [rows,A,D] or [rows,2,A,D] on the device, contiguous
  StreamPart part = StreamPart::queries;
  int64_t first = 0;
  at::Tensor from;  // as `to`, with dense rows
};

struct StreamTimes {
  double copy_ms = 0, wait_ms = 0;
  int64_t bytes_to_device = 0, bytes_to_host = 0;
};

/// Copies between host and device beside the computation on the device. A load, store or fetch begins when
/// what is given here before it allows; the computation goes on.
class StreamCopies {
 public:
  virtual ~StreamCopies() = default;

  /// Loads the pieces once `free` has passed: the last use of their memory. The mark is their arrival.
  virtual Mark load(std::vector<LoadPiece> pieces, const Mark& free) = 0;
  /// Writes rows [rows,A,D] of the device, as they are now, to the output from row `first` on.
  virtual Mark store(const at::Tensor& rows, int64_t first) = 0;
  /// Copies x of the device, as it is now, to `to` of the same size in the host's memory, pinned for a GPU.
  virtual Mark fetch(const at::Tensor& x, const at::Tensor& to) = 0;
  /// The end of the computation so far.
  virtual Mark mark() = 0;
  /// Makes the computation wait for the mark, or this thread. Throws what a function of the caller threw.
  virtual void wait(const Mark& mark) = 0;
  virtual void join(const Mark& mark) = 0;
  /// Returns when nothing is under way. Throws what writing the output threw.
  virtual void settle() = 0;
  /// Of everything so far, after settle().
  virtual StreamTimes times() = 0;
};

/// Copies of the CPU to itself, done when they are asked for.
std::unique_ptr<StreamCopies> cpu_copies(const StreamInput& input, const StreamOutput& output);
/// Copies of a GPU beside its current stream. Memory that is not pinned passes through pinned memory, by
/// threads.
std::unique_ptr<StreamCopies> cuda_copies(const StreamInput& input, const StreamOutput& output,
                                          at::Device device);

/// settle() at the end of a scope, before the memory goes that copies use.
class SettleAtEnd {
 public:
  explicit SettleAtEnd(StreamCopies& copies) : copies_(copies) {}
  SettleAtEnd(const SettleAtEnd&) = delete;
  SettleAtEnd& operator=(const SettleAtEnd&) = delete;
  ~SettleAtEnd() {
    try {
      copies_.settle();
    } catch (...) {  // a failure to write is thrown again by the next settle()
    }
  }

 private:
  StreamCopies& copies_;
};

}  // namespace vggt
