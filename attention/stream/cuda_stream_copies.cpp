#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "attention/cuda/cuda_check.h"
#include "attention/stream/stream_copies.h"
#include "attention/stream/worker.h"

namespace vggt {

struct StreamMark {
  c10::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};
  std::shared_future<void> issued;  // when a thread has recorded the events; invalid: they are
  /// Waits until the events are recorded. Throws what the thread threw.
  void get() const {
    if (issued.valid()) issued.get();
  }
};

namespace {

constexpr CudaCheck check{"attention_streamed"};

/// Copies rows of `width` bytes; `to` and `from` are the distances of rows in bytes.
void copy_rows(void* target, std::size_t to, const void* source, std::size_t from, std::size_t width,
               int64_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(rows);
  if (to == width && from == width) {
    check(cudaMemcpyAsync(target, source, width * count, kind, stream), "copying rows");
  } else {
    check(cudaMemcpy2DAsync(target, to, source, from, width, count, kind, stream), "copying rows");
  }
}

/// Whether the GPU copies from and to this memory by itself.
bool direct(const at::Tensor& x) {
  return x.is_cuda() || x.is_pinned();
}

bool direct(const StreamInput& input) {
  return input.q.defined() && input.k.defined() && direct(input.q) && direct(input.k) && direct(input.v);
}

class CudaCopies : public StreamCopies {
 public:
  CudaCopies(const StreamInput& input, const StreamOutput& output, at::Device device)
      : input_(input),
        output_(output),
        guard_(device),
        compute_(c10::cuda::getCurrentCUDAStream(device.index())),
        up_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())),
        down_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    Mark start = mark();  // memory that is given to the buffers may still be in use there
    start->end.block(up_);
    start->end.block(down_);
    if (!direct(input)) {
      for (Staging& staging : staging_) staging.memory = pinned_memory();
    }
    if (!output.out.defined() || !direct(output.out)) {
      out_memory_ = pinned_memory();
      writer_.emplace();
    }
    // A load may have to wait until the writer has begun a store: no wait for the thread that computes.
    if (writer_ || !direct(input)) reader_.emplace();
  }
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;
  ~CudaCopies() override {
    reader_.reset();
    writer_.reset();
    cudaStreamSynchronize(up_.stream());
    cudaStreamSynchronize(down_.stream());
  }

  Mark load(std::vector<LoadPiece> pieces, const Mark& free) override {
    Mark arrival = std::make_shared<StreamMark>();
    for (const LoadPiece& piece : pieces) {
      if (!piece.from.defined()) bytes_to_device_ += piece.to.numel() * piece.to.element_size();
    }
    auto job = [this, free, mark = arrival.get(), pieces = std::move(pieces)] {
      const c10::cuda::CUDAGuard guard(up_.device());
      if (free) {
        if (free->issued.valid()) free->issued.wait();
        free->end.block(up_);
      }
      mark->begin.record(up_);
      for (const LoadPiece& piece : pieces) copy_up(piece);
      mark->end.record(up_);
    };
    copies_.push_back(arrival);
    if (reader_) {
      arrival->issued = reader_->post(std::move(job));
    } else {
      job();
    }
    return arrival;
  }

  Mark store(const at::Tensor& rows, int64_t first) override {
    Mark done = std::make_shared<StreamMark>();
    bytes_to_host_ += rows.numel() * rows.element_size();
    auto job = [this, ready = mark(), mark = done.get(), rows, first] {
      const c10::cuda::CUDAGuard guard(down_.device());
      ready->end.block(down_);
      mark->begin.record(down_);
      copy_out(rows, first);
      mark->end.record(down_);
    };
    copies_.push_back(done);
    if (writer_) {
      done->issued = writer_->post(std::move(job));
      stores_.push_back(done->issued);
    } else {
      job();
    }
    return done;
  }

  Mark fetch(const at::Tensor& x, const at::Tensor& to) override {
    Mark done = std::make_shared<StreamMark>();
    mark()->end.block(down_);
    done->begin.record(down_);
    const int64_t bytes = x.numel() * x.element_size();
    check(cudaMemcpyAsync(to.mutable_data_ptr(), x.const_data_ptr(), static_cast<std::size_t>(bytes),
                          cudaMemcpyDeviceToHost, down_.stream()),
          "copying states");
    done->end.record(down_);
    bytes_to_host_ += bytes;
    copies_.push_back(done);
    return done;
  }

  Mark mark() override {
    Mark now = std::make_shared<StreamMark>();
    now->end.record(compute_);
    return now;
  }

  void wait(const Mark& mark) override {
    mark->get();
    Mark pause = std::make_shared<StreamMark>();
    pause->begin.record(compute_);
    mark->end.block(compute_);
    pause->end.record(compute_);
    pauses_.push_back(std::move(pause));
  }

  void join(const Mark& mark) override {
    mark->get();
    mark->end.synchronize();
  }

  void settle() override {
    // A thread's last job is the last to begin.
    for (auto* worker : {&reader_, &writer_}) {
      if (*worker) (*worker)->post([] {}).wait();
    }
    for (const auto& stream : {up_, down_, compute_})
      check(cudaStreamSynchronize(stream.stream()), "waiting for copies and computation");
    for (const auto& store : stores_) store.get();
  }

  StreamTimes times() override {
    StreamTimes times{0, 0, bytes_to_device_, bytes_to_host_};
    const auto add = [](double& sum, const std::vector<Mark>& marks) {
      for (const Mark& one : marks) {
        if (one->begin.isCreated() && one->end.isCreated()) sum += one->begin.elapsed_time(one->end);
      }
    };
    add(times.copy_ms, copies_);
    add(times.wait_ms, pauses_);
    return times;
  }

 private:
  struct Staging {
    at::Tensor memory;
    std::optional<c10::cuda::CUDAEvent> copied;
  };

  static constexpr int64_t kStaging = int64_t{1} << 25;  // bytes: copies of a millisecond

  at::Tensor pinned_memory() const {
    const int64_t row = 2 * input_.heads * input_.dim * static_cast<int64_t>(c10::elementSize(input_.type));
    return at::empty({std::max(kStaging, row)}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  }

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(input_.heads * input_.dim) * c10::elementSize(input_.type);
  }

  void copy_up(const LoadPiece& piece) {
    const int64_t rows = piece.to.size(0);
    if (rows == 0) return;
    const std::size_t width = static_cast<std::size_t>(piece.to.numel() / rows) * piece.to.element_size();
    if (piece.from.defined()) {
      copy_rows(piece.to.mutable_data_ptr(), width, piece.from.const_data_ptr(),
                static_cast<std::size_t>(piece.from.stride(0)) * piece.from.element_size(), width, rows,
                cudaMemcpyDeviceToDevice, up_.stream());
    } else if (const auto tensors = tensors_of(input_, piece.part);
               !tensors.empty() && std::ranges::all_of(tensors, [](auto& x) { return direct(x); })) {
      copy_direct(piece, tensors);
    } else {
      copy_staged(piece, width);
    }
  }

  void copy_direct(const LoadPiece& piece, const std::vector<at::Tensor>& tensors) {
    const std::size_t own = row_bytes(), pitch = own * tensors.size();
    const auto source = [&](std::size_t i) {
      const auto row = static_cast<std::size_t>(tensors[i].stride(0)) * tensors[i].element_size();
      return std::pair(
          static_cast<const char*>(tensors[i].const_data_ptr()) + row * static_cast<std::size_t>(piece.first),
          row);
    };
    auto* to = static_cast<char*>(piece.to.mutable_data_ptr());
    const auto [first, step] = source(0);
    const auto kind = tensors[0].is_cuda() ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    const int64_t rows = piece.to.size(0);
    if (tensors.size() == 2 && source(1) == std::pair(first + own, step)) {  // as in the model's qkv
      copy_rows(to, pitch, first, step, pitch, rows, kind, up_.stream());
      return;
    }
    for (std::size_t i = 0; i < tensors.size(); ++i)
      copy_rows(to + i * own, pitch, source(i).first, source(i).second, own, rows, kind, up_.stream());
  }

  void copy_staged(const LoadPiece& piece, std::size_t width) {
    const int64_t rows = piece.to.size(0);
    const int64_t most = staging_[0].memory.numel() / static_cast<int64_t>(width);
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t count = std::min(most, rows - row);
      Staging& staging = staging_[next_++ % staging_.size()];
      if (staging.copied) staging.copied->synchronize();
      read_rows(input_, piece.part, piece.first + row, count, staging.memory.mutable_data_ptr());
      copy_rows(static_cast<char*>(piece.to.mutable_data_ptr()) + static_cast<std::size_t>(row) * width,
                width, staging.memory.const_data_ptr(), width, width, count, cudaMemcpyHostToDevice,
                up_.stream());
      staging.copied.emplace(cudaEventDisableTiming);
      staging.copied->record(up_);
    }
  }

  void copy_out(const at::Tensor& rows, int64_t first) {
    const std::size_t width = row_bytes();
    const auto* from = static_cast<const char*>(rows.const_data_ptr());
    const int64_t most = writer_ ? out_memory_.numel() / static_cast<int64_t>(width) : rows.size(0);
    for (int64_t row = 0; row < rows.size(0); row += most) {
      const int64_t count = std::min(most, rows.size(0) - row);
      void* to = writer_ ? out_memory_.mutable_data_ptr()
                         : static_cast<char*>(output_.out.mutable_data_ptr()) +
                               static_cast<std::size_t>(first + row) * width;
      copy_rows(to, width, from + static_cast<std::size_t>(row) * width, width, width, count,
                cudaMemcpyDeviceToHost, down_.stream());
      if (!writer_) continue;
      check(cudaStreamSynchronize(down_.stream()), "copying the output");
      write_rows(output_, first + row, count, to);
    }
  }

  StreamInput input_;
  StreamOutput output_;
  c10::cuda::CUDAGuard guard_;
  c10::cuda::CUDAStream compute_, up_, down_;
  std::array<Staging, 3> staging_;  // of the reader
  std::size_t next_ = 0;
  at::Tensor out_memory_;  // of the writer
  std::vector<Mark> copies_, pauses_;
  std::vector<std::shared_future<void>> stores_;
  int64_t bytes_to_device_ = 0, bytes_to_host_ = 0;
  std::optional<Worker> reader_, writer_;  // last: they use all the others
};

}  // namespace

std::unique_ptr<StreamCopies> cuda_copies(const StreamInput& input, const StreamOutput& output,
                                          at::Device device) {
  return std::make_unique<CudaCopies>(input, output, device);
}

}  // namespace vggt
