#include "app/run/refine_depth.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <list>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "app/run/frame_input.h"
#include "app/run/memory_limits.h"
#include "app/scene/median.h"
#include "io/files/piece_store.h"
#include "io/scene/radial_distortion.h"

namespace vggt {
namespace {

constexpr int kBlock = DepthRefiner::kBlock;
// Bytes as measured, with oneDNN: of weights, code and convolutions, of a block while its frame is refined,
// and of what is kept of a frame.
constexpr int64_t kFixedBytes = 45'000'000, kWorkBytes = 4200, kKeptBytes = 400;
constexpr int64_t kMostAtOnce = 8;               // frames
constexpr std::size_t kRounds = 8;               // frames of a thread before all wait for each other
constexpr int64_t kMostKeptBytes = 128'000'000;  // of frames that are not refined at once
constexpr int64_t kSeen = 1 + static_cast<int64_t>(DepthRefiner::kMostSources);  // to refine one of them

/// A frame's own pixels and depth as tensors. Several threads may ask.
class Inputs {
 public:
  /// unit: by which depth is divided.
  Inputs(const FramesToRefine& scene, const DenseMaps& depth, double unit)
      : scene_(scene), depth_(depth), unit_(unit) {}

  at::Tensor image(int frame) const {
    const std::lock_guard lock(mutex_);
    const at::Tensor pixels = frame_pixels(scene_.frames, frame, 1)[0];
    return pixels.scalar_type() == at::kByte ? pixels.to(at::kFloat).div_(255) : pixels;
  }
  at::Tensor depth(int frame) const {
    const std::lock_guard lock(mutex_);
    return map(depth_.values(frame, buffer_)).div_(unit_);
  }
  /// Undefined without masks.
  at::Tensor used(int frame) const {
    if (!scene_.frames.read_mask) return {};
    const std::lock_guard lock(mutex_);
    const at::Tensor mask = at::empty({scene_.frames.height, scene_.frames.width}, at::kByte);
    scene_.frames.read_mask(static_cast<std::size_t>(frame),
                            {mask.mutable_data_ptr<uint8_t>(), static_cast<std::size_t>(mask.numel())});
    return mask;
  }
  at::Tensor confidence(int frame) const {
    const std::lock_guard lock(mutex_);
    return map(depth_.confidence(frame, buffer_));
  }

 private:
  at::Tensor map(std::span<const float> values) const {
    const at::Tensor copy = at::empty({scene_.frames.height, scene_.frames.width}, at::kFloat);
    std::ranges::copy(values, copy.mutable_data_ptr<float>());
    return copy;
  }

  const FramesToRefine& scene_;
  const DenseMaps& depth_;
  const double unit_;
  mutable std::mutex mutex_;
  mutable DenseMaps::Buffer buffer_;
};

/// Calls work(i) for each i below count, on at most so many threads; each takes the next one when it is done.
template <class Work>
void each_on_a_thread(std::size_t count, std::size_t threads, Work&& work) {
  std::atomic<std::size_t> next = 0;
  at::parallel_for(0, static_cast<int64_t>(std::min(count, threads)), 1, [&](int64_t, int64_t) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  });
}

/// What the refiner saw of the frames that were asked for last.
class Looks {
 public:
  /// kept: of how many. at_once: how many are looked at on a thread each.
  Looks(const DepthRefiner& refiner, const Inputs& inputs, std::size_t kept, std::size_t at_once)
      : refiner_(refiner), inputs_(inputs), kept_(kept), at_once_(at_once) {}

  /// Of each of the scene's frames whether it is known.
  std::vector<bool> known(std::size_t frames) const {
    std::vector<bool> known(frames);
    for (const Look& look : last_) known[static_cast<std::size_t>(look.first)] = true;
    return known;
  }

  /// Looks at those of the frames, at most as many as are kept, that it does not know.
  void see(const std::vector<int>& frames) {
    std::vector<int> unknown;
    for (const int frame : frames) {
      const auto found = std::ranges::find(last_, frame, &Look::first);
      if (found != last_.end()) {
        last_.splice(last_.begin(), last_, found);
      } else if (std::ranges::find(unknown, frame) == unknown.end()) {
        unknown.push_back(frame);
      }
    }
    while (!last_.empty() && last_.size() + unknown.size() > kept_) last_.pop_back();
    std::vector<Look*> looks;
    for (const int frame : unknown) looks.push_back(&last_.emplace_front(frame, DepthRefiner::Frame()));
    each_on_a_thread(looks.size(), at_once_, [&](std::size_t i) {
      auto& [frame, look] = *looks[i];
      look = refiner_.look(inputs_.image(frame), inputs_.depth(frame), inputs_.used(frame));
    });
  }
  std::size_t at_once() const { return at_once_; }
  /// Of a frame that was asked for, until the next ones are.
  const DepthRefiner::Frame& at(int frame) const {
    return std::ranges::find(last_, frame, &Look::first)->second;
  }

 private:
  using Look = std::pair<int, DepthRefiner::Frame>;

  const DepthRefiner& refiner_;
  const Inputs& inputs_;
  const std::size_t kept_, at_once_;
  std::list<Look> last_;  // the last one first
};

/// unit: of depth.
RefinerTransfer transfer(const Camera& from, const Camera& to, const FrameView& view, double unit) {
  const Eigen::Isometry3d relative = to.cam_from_world * from.cam_from_world.inverse(Eigen::Isometry);
  RefinerTransfer result{};
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column)
      result.turn[static_cast<std::size_t>(3 * row + column)] =
          static_cast<float>(relative.linear()(row, column));
    result.shift[static_cast<std::size_t>(row)] = static_cast<float>(relative.translation()(row) / unit);
  }
  result.fx = static_cast<float>(to.k(0, 0));
  result.fy = static_cast<float>(to.k(1, 1));
  result.cx = static_cast<float>(to.k(0, 2));
  result.cy = static_cast<float>(to.k(1, 2));
  result.distortion = {static_cast<float>(to.distortion.x()), static_cast<float>(to.distortion.y())};
  if (const double most = unfolded_r2(to.distortion); std::isfinite(most))
    result.most_r2 = static_cast<float>(most);
  result.begin_x = static_cast<float>(view.begin_x);
  result.begin_y = static_cast<float>(view.begin_y);
  result.end_x = static_cast<float>(view.end_x);
  result.end_y = static_cast<float>(view.end_y);
  return result;
}

/// Calls take(x, y, depth) for some pixels of what a frame shows where there is depth, [H,W].
template <class Take>
void for_some_pixels(const Camera& camera, const FrameView& view, std::span<const float> depth, Take&& take) {
  constexpr int kStep = 16;
  for (int y = view.begin_y + kStep / 2; y < view.end_y; y += kStep) {
    for (int x = view.begin_x + kStep / 2; x < view.end_x; x += kStep) {
      const float d = depth[static_cast<std::size_t>(y) * static_cast<std::size_t>(camera.width) +
                            static_cast<std::size_t>(x)];
      if (d > 0 && std::isfinite(d)) take(x, y, double{d});
    }
  }
}

/// The first frame that shows the same.
int shown_by(const FramesToRefine& scene, int frame) {
  return scene.first.empty() ? frame : static_cast<int>(scene.first[static_cast<std::size_t>(frame)]);
}

/// The median depth of frames with a camera, about, copies left out; 1 where there is none.
double median_depth(const FramesToRefine& scene, const std::vector<FrameView>& views,
                    const DenseMaps& depth) {
  DenseMaps::Buffer buffer;
  std::vector<float> some;
  const std::size_t step = scene.cameras.size() / 64 + 1;
  for (std::size_t i = 0; i < scene.cameras.size(); i += step) {
    const auto frame = static_cast<int>(i);
    if (!scene.cameras[i].valid || !depth.has(frame) || shown_by(scene, frame) != frame) continue;
    for_some_pixels(scene.cameras[i], views[i], depth.values(frame, buffer),
                    [&](int, int, double d) { some.push_back(static_cast<float>(d)); });
  }
  return some.empty() ? 1 : median(std::span(some));
}

/// How much a frame tells of another one's depth, from 0 to 1: by the share of its points that it sees, and
/// by how far these move there where they are a tenth farther. view: of either. [H,W] depth.
double tells(const Camera& camera, const FrameView& view, std::span<const float> depth, const Camera& other,
             const FrameView& other_view) {
  constexpr double kLeastSeen = .05, kFarther = 1.1, kMove = 3;  // pixels, with which half is told
  const double most_r2 = unfolded_r2(other.distortion);
  const Eigen::Isometry3d relative = other.cam_from_world * camera.cam_from_world.inverse(Eigen::Isometry);
  int points = 0, seen = 0;
  double told = 0;
  for_some_pixels(camera, view, depth, [&](int x, int y, double d) {
    ++points;
    const Eigen::Vector3d ray = camera.ray({x, y}), point = relative * (d * ray),
                          farther = relative * (kFarther * d * ray);
    if (!(point.z() > 0) || !(farther.z() > 0) || !(point.hnormalized().squaredNorm() <= most_r2)) return;
    const Eigen::Vector2d pixel = other.project(point);
    if (!(pixel.x() > other_view.begin_x && pixel.x() < other_view.end_x - 1 &&
          pixel.y() > other_view.begin_y && pixel.y() < other_view.end_y - 1))
      return;
    const double move = (other.project(farther) - pixel).norm();
    if (!std::isfinite(move)) return;
    ++seen;
    told += move / (move + kMove);
  });
  return seen == 0 || seen < kLeastSeen * points ? 0 : told / points;
}

/// The frames that tell most of each frame's depth, at most as many as the refiner looks at, the best first.
class Partners {
 public:
  explicit Partners(const FramesToRefine& scene)
      : scene_(scene), views_(frame_views(scene.frames)), linked_(scene.cameras.size()) {
    std::vector<bool> is_weak(scene.cameras.size());
    for (const int frame : scene.weak) is_weak[static_cast<std::size_t>(frame)] = true;
    const auto link = [&](int frame, int other) {
      if (!is_weak[static_cast<std::size_t>(other)])
        linked_[static_cast<std::size_t>(frame)].push_back(other);
    };
    for (const auto& [a, b] : scene.pairs) {
      link(a, b);
      link(b, a);
    }
  }

  std::vector<int> of(int frame, std::span<const float> depth) const {
    constexpr double kLeast = .001;
    const Camera& camera = scene_.cameras[static_cast<std::size_t>(frame)];
    std::vector<std::pair<double, int>> found;
    for (const int other : linked_[static_cast<std::size_t>(frame)]) {
      const Camera& there = scene_.cameras[static_cast<std::size_t>(other)];
      if (!there.valid || !camera.valid) continue;
      const double told = tells(camera, view(frame), depth, there, view(other));
      if (told > kLeast) found.emplace_back(-told, other);
    }
    std::ranges::sort(found);
    std::vector<int> best;
    for (const auto& [told, other] : found) {
      if (best.size() < DepthRefiner::kMostSources) best.push_back(other);
    }
    return best;
  }
  const std::vector<FrameView>& views() const { return views_; }
  const FrameView& view(int frame) const { return views_[static_cast<std::size_t>(frame)]; }

 private:
  const FramesToRefine& scene_;
  const std::vector<FrameView> views_;
  std::vector<std::vector<int>> linked_;
};

/// x and y of the points (x, y, 1) that show in the middle of each block, [2,h·w].
at::Tensor rays_of(const Camera& camera) {
  const int rows = (camera.height + kBlock - 1) / kBlock, columns = (camera.width + kBlock - 1) / kBlock;
  at::Tensor rays = at::empty({2, int64_t{rows} * columns}, at::kFloat);
  float* const x = rays.mutable_data_ptr<float>();
  float* const y = x + rays.size(1);
  for (int i = 0; i < rows * columns; ++i) {
    constexpr double kMiddle = (kBlock - 1) / 2.0;
    const Eigen::Vector3d ray =
        camera.ray({kBlock * (i % columns) + kMiddle, kBlock * (i / columns) + kMiddle});
    x[i] = static_cast<float>(ray.x());
    y[i] = static_cast<float>(ray.y());
  }
  return rays;
}

/// A frame, and those that tell of its depth.
struct Task {
  int frame;
  std::vector<int> others;

  template <class Take>
  void for_frames(Take&& take) const {
    take(static_cast<std::size_t>(frame));
    for (const int other : others) take(static_cast<std::size_t>(other));
  }
};

std::vector<Task> tasks_of(const FramesToRefine& scene, const Partners& partners, const DenseMaps& depth,
                           const Events& events) {
  DenseMaps::Buffer buffer;
  std::vector<Task> tasks;
  for (int frame = 0; frame < static_cast<int>(scene.cameras.size()); ++frame) {
    events.check_stop();
    if (shown_by(scene, frame) != frame || !depth.has(frame)) continue;
    Task task{frame, partners.of(frame, depth.values(frame, buffer))};
    if (!task.others.empty()) tasks.push_back(std::move(task));
  }
  return tasks;
}

/// Takes some of the first tasks, those that need the fewest frames beside the known ones, so that few frames
/// are looked at more than once. most: tasks. kept: of how many frames they may need at most.
std::vector<Task> take_next(std::vector<Task>& tasks, std::vector<bool> known, std::size_t most,
                            std::size_t kept) {
  constexpr std::ptrdiff_t kAhead = 256;
  std::vector<Task> next;
  std::set<std::size_t> needed;
  while (!tasks.empty() && next.size() < most) {
    const auto unknown = [&](const Task& task) {
      int count = 0;
      task.for_frames([&](std::size_t frame) { count += known[frame] ? 0 : 1; });
      return count;
    };
    const auto size = static_cast<std::ptrdiff_t>(tasks.size());
    const auto chosen =
        std::ranges::min_element(tasks.begin(), tasks.begin() + std::min(size, kAhead), {}, unknown);
    std::set<std::size_t> with_it = needed;
    chosen->for_frames([&](std::size_t frame) { with_it.insert(frame); });
    if (!next.empty() && with_it.size() > kept) break;
    needed = std::move(with_it);
    chosen->for_frames([&](std::size_t frame) { known[frame] = true; });
    next.push_back(std::move(*chosen));
    tasks.erase(chosen);
  }
  return next;
}

/// Refines the depth of frames, each on a thread; where one is refined at once, all threads work on it.
class Refinement {
 public:
  /// unit: of depth.
  Refinement(const DepthRefiner& refiner, const FramesToRefine& scene, const Partners& partners,
             const Inputs& inputs, Looks looks, double unit)
      : refiner_(refiner),
        scene_(scene),
        partners_(partners),
        inputs_(inputs),
        looks_(std::move(looks)),
        unit_(unit) {}

  /// Of each frame whether it was looked at and is kept.
  std::vector<bool> known() const { return looks_.known(scene_.cameras.size()); }

  /// Calls take(frame, depth [H,W]) for each of the tasks, one after the other.
  template <class Take>
  void of(const std::vector<Task>& tasks, Take&& take) {
    std::vector<int> seen;
    for (const Task& task : tasks) {
      seen.push_back(task.frame);
      seen.insert(seen.end(), task.others.begin(), task.others.end());
    }
    looks_.see(seen);
    std::mutex taking;
    each_on_a_thread(tasks.size(), looks_.at_once(), [&](std::size_t i) {
      const at::Tensor refined = of(tasks[i]);
      const std::lock_guard lock(taking);
      take(tasks[i].frame, refined);
    });
  }

 private:
  at::Tensor of(const Task& task) const {
    const auto camera = [&](int frame) -> const Camera& {
      return scene_.cameras[static_cast<std::size_t>(frame)];
    };
    std::vector<DepthRefiner::Source> sources;
    for (const int other : task.others)
      sources.push_back(
          {&looks_.at(other), transfer(camera(task.frame), camera(other), partners_.view(other), unit_)});
    const int frame = task.frame;
    const at::Tensor found = refiner_.refine(looks_.at(frame), inputs_.image(frame), inputs_.depth(frame),
                                             inputs_.confidence(frame), rays_of(camera(frame)), sources);
    return (found * unit_).contiguous();
  }

  const DepthRefiner& refiner_;
  const FramesToRefine& scene_;
  const Partners& partners_;
  const Inputs& inputs_;
  Looks looks_;
  const double unit_;
};

}  // namespace

RefinedAtOnce::RefinedAtOnce(int64_t pixels, int64_t all, int64_t threads, int64_t room) {
  const int64_t blocks = pixels / (kBlock * kBlock) + 1,
                of_frame = (kWorkBytes + std::min(all, kSeen) * kKeptBytes) * blocks,
                fitting = std::max<int64_t>(0, room - kFixedBytes) / of_frame;
  least = kFixedBytes + of_frame;
  if (fitting == 0) return;
  frames = std::min({fitting, threads, kMostAtOnce, all});
  const int64_t left = std::min(kMostKeptBytes, room - kFixedBytes - frames * kWorkBytes * blocks);
  kept = std::min(all, std::max(frames * kSeen, left / (kKeptBytes * blocks)));
  bytes = kFixedBytes + (frames * kWorkBytes + kept * kKeptBytes) * blocks;
}

void refine_depth(const DepthRefiner& refiner, const FramesToRefine& scene, DenseMaps& depth, int64_t room,
                  bool lean, const Events& events) {
  const int frames = static_cast<int>(scene.cameras.size());
  const int64_t pixels = int64_t{scene.frames.width} * scene.frames.height;
  const RefinedAtOnce at_once(pixels, frames, lean ? 1 : working_threads(at::get_num_threads()), room);
  if (at_once.frames == 0) throw NoRoomToRefine();
  const auto most = static_cast<std::size_t>(at_once.frames),
             kept = static_cast<std::size_t>(lean ? kSeen : at_once.kept);
  const Partners partners(scene);
  const double unit = median_depth(scene, partners.views(), depth);
  const Inputs inputs(scene, depth, unit);
  Refinement refinement(refiner, scene, partners, inputs, Looks(refiner, inputs, kept, most), unit);
  PieceStore refined(scene.space, "refined_depth");
  events.progress("refinement", "frames", 0, frames);
  std::vector<Task> left = tasks_of(scene, partners, depth, events);
  while (!left.empty()) {
    events.check_stop();
    events.progress("refinement", "frames", frames - static_cast<int>(left.size()), frames);
    const std::vector<Task> tasks = take_next(left, refinement.known(), kRounds * most, kept);
    refinement.of(tasks, [&](int frame, const at::Tensor& found) {
      refined.put(
          static_cast<std::size_t>(frame),
          std::as_bytes(std::span(found.const_data_ptr<float>(), static_cast<std::size_t>(found.numel()))));
    });
  }
  DenseMaps::Buffer buffer;
  buffer.reserve(static_cast<std::size_t>(pixels) * sizeof(float));
  for (int frame = 0; frame < frames; ++frame) {
    const auto shown = static_cast<std::size_t>(shown_by(scene, frame));
    if (!refined.has(shown) || !depth.has(frame)) continue;
    const std::span<const std::byte> bytes = refined.get(shown, buffer);
    depth.put_values(frame, {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
  }
  events.progress("refinement", "frames", frames, frames);
}

}  // namespace vggt
