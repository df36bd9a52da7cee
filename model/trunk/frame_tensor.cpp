#include "model/trunk/frame_tensor.h"

#include <algorithm>
#include <array>
#include <future>
#include <optional>

#include "io/files/scratch_file.h"
#include "model/state/host_memory.h"
#ifdef VGGT_CUDA
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace vggt {
namespace {

constexpr std::size_t kBuffers = 3;  // one read, one worked on, one written

#ifdef VGGT_CUDA
/// What a GPU's copies of one tensor wait for. Reading and writing have a stream each.
class CopyStreams {
 public:
  explicit CopyStreams(c10::DeviceIndex device)
      : in_(c10::cuda::getStreamFromPool(false, device)), out_(c10::cuda::getStreamFromPool(false, device)) {}
  ~CopyStreams() {
    // On an error copies may be under way, and the memory that they read or write is about to go.
    cudaStreamSynchronize(in_.stream());
    cudaStreamSynchronize(out_.stream());
  }

  /// Copies into a buffer beside the computation, after all that has been asked of the buffer so far.
  void read(std::size_t buffer, const at::Tensor& to, const at::Tensor& from) {
    done_.record(now());
    done_.block(in_);
    given_[buffer].block(in_);
    if (pass_begins_) last_given_.block(in_);
    const c10::cuda::CUDAStreamGuard guard(in_);
    to.copy_(from, /*non_blocking=*/true);
    taken_[buffer].record(in_);
  }
  /// What the computation is asked next waits for the buffer's contents.
  void wait_for(std::size_t buffer) { taken_[buffer].block(now()); }
  /// Copies a piece out after the computation so far. buffer: the one that it lies in, or none. Waits for the
  /// last one outside the buffers, whose memory is not free before it has left.
  void write(std::optional<std::size_t> buffer, const at::Tensor& to, const at::Tensor& from) {
    if (!buffer) last_outside_.synchronize();
    done_.record(now());
    done_.block(out_);
    const c10::cuda::CUDAStreamGuard guard(out_);
    to.copy_(from, /*non_blocking=*/true);
    if (buffer) {
      given_[*buffer].record(out_);
    } else {
      from.record_stream(out_.unwrap());
      last_outside_.record(out_);
    }
    last_given_.record(out_);
  }
  void begin_pass(bool begins) { pass_begins_ = begins; }
  void synchronize_in() { in_.synchronize(); }
  void synchronize_out() { out_.synchronize(); }
  void wait_until_taken(std::size_t buffer) { taken_[buffer].synchronize(); }

 private:
  c10::cuda::CUDAStream now() const { return c10::cuda::getCurrentCUDAStream(in_.device_index()); }

  c10::cuda::CUDAStream in_, out_;
  c10::cuda::CUDAEvent done_, last_given_, last_outside_;
  std::array<c10::cuda::CUDAEvent, kBuffers> taken_, given_;
  bool pass_begins_ = false;
};
#endif

}  // namespace

struct FrameTensor::Impl {
  Impl(std::vector<int64_t> shape_, const at::TensorOptions& options_, Place place_, int64_t piece_,
       const std::filesystem::path& path)
      : shape(std::move(shape_)), options(options_), place(place_), piece(piece_) {
    const at::Device device = options.device();
    const bool on_gpu = device.is_cuda();
    if (place == Place::device || (place == Place::host && !on_gpu)) {
      all = at::empty(shape, options);
      return;
    }
    const int64_t bytes = frame_bytes() * shape[0];
    if (place == Place::host) {
      host = host_tensor(shape, scalar_type(), true);
    } else {
      file = std::make_unique<ScratchFile>(path, bytes);
    }
    buffers.resize(kBuffers);
    staging.resize(place == Place::file && on_gpu ? kBuffers : 0);
#ifdef VGGT_CUDA
    if (on_gpu) streams = std::make_unique<CopyStreams>(device.index());
#endif
  }
  ~Impl() {
    if (reading.valid()) reading.wait();
    if (writing.valid()) writing.wait();
  }

  at::ScalarType scalar_type() const {
    return c10::typeMetaToScalarType(options.dtype());
  }
  int64_t frame_bytes() const {
    int64_t bytes = static_cast<int64_t>(c10::elementSize(scalar_type()));
    for (std::size_t i = 1; i < shape.size(); ++i) bytes *= shape[i];
    return bytes;
  }
  std::vector<int64_t> shape_of(int64_t frames) const {
    std::vector<int64_t> result = shape;
    result[0] = frames;
    return result;
  }

  /// Of a tensor in memory.
  at::Tensor held_bytes(int64_t offset, int64_t bytes) const {
    return (all.defined() ? all : host).view(-1).view(at::kByte).narrow(0, offset, bytes);
  }

  /// Memory on the device for a piece. Buffers take turns.
  at::Tensor buffer(std::size_t index, int64_t count) {
    if (!buffers[index].defined()) buffers[index] = at::empty(shape_of(piece), options);
    return buffers[index].narrow(0, 0, count);
  }
  at::Tensor stage(std::size_t index, int64_t count) {
    if (!staging[index].defined()) staging[index] = host_tensor(shape_of(piece), scalar_type(), true);
    return staging[index].narrow(0, 0, count);
  }
  /// The buffer whose memory this is.
  std::optional<std::size_t> buffer_of(const at::Tensor& tensor) const {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].defined() && buffers[i].is_alias_of(tensor)) return i;
    }
    return std::nullopt;
  }

  void start_reading(std::size_t index, int64_t first, int64_t count);
  at::Tensor take(int64_t first, int64_t count);
  void give(int64_t first, const at::Tensor& tensor);
  void finish();
  void resize_pieces(int64_t frames);
  void wait_for_writing() {
    if (writing.valid()) writing.get();
  }

  std::vector<int64_t> shape;
  at::TensorOptions options;
  Place place;
  int64_t piece;
  at::Tensor all;   // of a resident tensor
  at::Tensor host;  // of one in the host's memory
  std::unique_ptr<ScratchFile> file;
  std::vector<at::Tensor> buffers;  // [piece,...] on the device
  std::vector<at::Tensor> staging;  // [piece,...] page-locked, from a file to a GPU
  at::Tensor write_stage;           // [piece,...] the same, from a GPU to a file
  std::size_t turn = 0;
  int64_t ahead_first = -1, ahead_count = 0;  // what is being read ahead, into buffer `turn`
  std::future<void> reading, writing;
#ifdef VGGT_CUDA
  std::unique_ptr<CopyStreams> streams;
#endif
};

void FrameTensor::Impl::start_reading(std::size_t index, int64_t first, int64_t count) {
  at::Tensor to = buffer(index, count);
#ifdef VGGT_CUDA
  if (host.defined()) {
    streams->read(index, to, host.narrow(0, first, count));
  } else if (streams) {
    streams->wait_until_taken(index);  // the staging memory may still be copied from
    to = stage(index, count);
  }
#endif
  if (!file) return;
  reading = std::async(std::launch::async, [this, to, first, count] {
    file->read(first * frame_bytes(), to.data_ptr(), count * frame_bytes());
  });
}

at::Tensor FrameTensor::Impl::take(int64_t first, int64_t count) {
  if (count > piece) resize_pieces(count);
  const bool begins = first == 0 || ahead_first != first || ahead_count != count;
  if (begins) {
    if (reading.valid()) reading.get();
    ahead_first = -1;
    wait_for_writing();
  }
#ifdef VGGT_CUDA
  if (streams) streams->begin_pass(begins);
#endif
  if (begins) start_reading(turn, first, count);
  const std::size_t index = turn;
  if (reading.valid()) reading.get();
  at::Tensor result = buffer(index, count);
#ifdef VGGT_CUDA
  if (file && streams) streams->read(index, result, stage(index, count));
  if (streams) streams->wait_for(index);
  if (streams) streams->begin_pass(false);
#endif
  turn = (turn + 1) % kBuffers;
  const int64_t next = first + count, left = std::min(count, shape[0] - next);
  ahead_first = -1;  // stays so if start_reading() throws
  if (left > 0) start_reading(turn, next, left);
  ahead_first = next;
  ahead_count = left;
  return result;
}

void FrameTensor::Impl::give(int64_t first, const at::Tensor& tensor) {
  const int64_t count = tensor.size(0);
  if (all.defined()) {
    const at::Tensor own = all.narrow(0, first, count);
    if (own.data_ptr() != tensor.data_ptr()) own.copy_(tensor);
    return;
  }
  [[maybe_unused]] const std::optional<std::size_t> index = buffer_of(tensor);
#ifdef VGGT_CUDA
  if (host.defined()) {
    streams->write(index, host.narrow(0, first, count), tensor);
    return;
  }
  if (streams) {
    wait_for_writing();
    if (!write_stage.defined()) write_stage = host_tensor(shape_of(piece), scalar_type(), true);
    const at::Tensor from = write_stage.narrow(0, 0, count);
    streams->write(index, from, tensor);
    writing = std::async(std::launch::async, [this, from, first, count] {
      streams->synchronize_out();
      file->write(first * frame_bytes(), from.const_data_ptr(), count * frame_bytes());
    });
    return;
  }
#endif
  const at::Tensor values = tensor.contiguous();
  file->write(first * frame_bytes(), values.const_data_ptr(), count * frame_bytes());
}

void FrameTensor::Impl::finish() {
  wait_for_writing();
#ifdef VGGT_CUDA
  if (streams) streams->synchronize_out();
#endif
}

/// The buffers are made anew when they are needed.
void FrameTensor::Impl::resize_pieces(int64_t frames) {
  if (reading.valid()) reading.wait();
  reading = {};
  ahead_first = -1;
  finish();
#ifdef VGGT_CUDA
  if (streams) streams->synchronize_in();
#endif
  for (auto* memory : {&buffers, &staging}) std::ranges::fill(*memory, at::Tensor());
  write_stage = at::Tensor();
  piece = frames;
}

FrameTensor::FrameTensor(std::vector<int64_t> shape, const at::TensorOptions& options, Place place,
                         int64_t piece_frames, const std::filesystem::path& file)
    : impl_(std::make_unique<Impl>(std::move(shape), options, place, piece_frames, file)) {}
FrameTensor::FrameTensor() = default;
FrameTensor::FrameTensor(FrameTensor&&) noexcept = default;
FrameTensor& FrameTensor::operator=(FrameTensor&&) noexcept = default;
FrameTensor::~FrameTensor() = default;

bool FrameTensor::is_resident() const {
  return impl_ && impl_->all.defined();
}

const at::Tensor& FrameTensor::whole() const {
  TORCH_CHECK(is_resident(), "FrameTensor: the whole tensor is not on the device");
  return impl_->all;
}

at::Tensor FrameTensor::take(int64_t first, int64_t count) {
  if (is_resident()) return impl_->all.narrow(0, first, count);
  return impl_->take(first, count);
}

at::Tensor FrameTensor::blank(int64_t first, int64_t count) {
  if (is_resident()) return impl_->all.narrow(0, first, count);
  return at::empty(impl_->shape_of(count), impl_->options);
}

void FrameTensor::give(int64_t first, const at::Tensor& piece) {
  impl_->give(first, piece);
}

void FrameTensor::finish() {
  if (impl_) impl_->finish();
}

void FrameTensor::move_to(Place place, int64_t piece_frames, const std::filesystem::path& file) {
  if (!impl_) return;
  impl_->finish();
  if (impl_->place == place) {
    if (impl_->piece != piece_frames) impl_->resize_pieces(piece_frames);
    return;
  }
  FrameTensor moved(impl_->shape, impl_->options, place, piece_frames, file);
  const int64_t step = std::min(piece_frames, impl_->piece);
  for (int64_t first = 0; first < impl_->shape[0]; first += step)
    moved.give(first, take(first, std::min(step, impl_->shape[0] - first)));
  moved.finish();
  *this = std::move(moved);
}

at::Tensor FrameTensor::host() const {
  return impl_->host.defined() || !is_resident() || !impl_->all.is_cpu() ? impl_->host : impl_->all;
}

std::vector<int64_t> FrameTensor::shape() const {
  return impl_->shape;
}

at::ScalarType FrameTensor::scalar_type() const {
  return impl_->scalar_type();
}

int64_t FrameTensor::bytes() const {
  return impl_->frame_bytes() * impl_->shape[0];
}

void FrameTensor::read(int64_t offset, void* to, int64_t bytes) const {
  if (impl_->file) return impl_->file->read(offset, to, bytes);
  at::from_blob(to, {bytes}, at::kByte).copy_(impl_->held_bytes(offset, bytes));
}

void FrameTensor::write(int64_t offset, const void* from, int64_t bytes) {
  if (impl_->file) return impl_->file->write(offset, from, bytes);
  // from_blob() takes no pointer to const; nothing is written through it.
  impl_->held_bytes(offset, bytes).copy_(at::from_blob(const_cast<void*>(from), {bytes}, at::kByte));
}

}  // namespace vggt
