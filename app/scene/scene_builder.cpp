#include "app/scene/scene_builder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "app/scene/depth_agreement.h"
#include "app/scene/world_move.h"

namespace vggt {

namespace {

constexpr int kTakers =
    8;  // threads that take maps: more are not faster, and each has half a megabyte of counts

}  // namespace

struct SceneBuilder::Worker {
  FramePoints maker;
  DenseMaps::Buffer values, confidence;
  std::vector<uint8_t> rgb;          // planes [3,H,W]
  std::vector<uint8_t> used;         // [H,W]
  std::vector<std::byte> confirmed;  // [H,W]
  std::vector<float> depth;          // [H,W], of a partner
  std::vector<float> sure;           // confidence of each point
  RankSearch<uint32_t>::Tally depths;
  std::array<int64_t, kDrops> dropped{};
};

SceneBuilder::SceneBuilder(const SceneOptions& options, int width, int height, std::vector<FrameView> frames,
                           ReadRgb read_rgb, const std::shared_ptr<HostSpace>& space, FrameWork work)
    : options_(options),
      width_(width),
      height_(height),
      frames_(std::move(frames)),
      space_(space),
      read_rgb_(std::move(read_rgb)),
      work_(std::move(work)),
      maps_(space, "scene"),
      first_pass_(kTakers, search_.tally()),
      counted_(frames_.size()),
      mean_confidence_(frames_.size()) {}

void SceneBuilder::set_cameras(std::vector<Camera> cameras) {
  if (cameras.size() != frames_.size())
    throw std::logic_error("SceneBuilder: as many cameras as frames are needed");
  cameras_ = std::move(cameras);
}

bool SceneBuilder::usable(int frame) const {
  return cameras_.empty() || cameras_[static_cast<std::size_t>(frame)].valid;
}

template <class Take>
void SceneBuilder::each_confidence(int frame, std::span<const float> confidence, Take&& take) const {
  const FrameView& view = frames_[static_cast<std::size_t>(frame)];
  std::vector<uint8_t> buffer;
  const std::span<const uint8_t> mask = used(frame, buffer);
  for (int y = view.begin_y; y < view.end_y; ++y) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(y) * width_;
    const float* row = confidence.data() + first;
    for (int x = view.begin_x; x < view.end_x; ++x) {
      const bool is_used = mask.empty() || mask[static_cast<std::size_t>(first + x)] != 0;
      if (is_used && std::isfinite(row[x])) take(row[x]);
    }
  }
}

std::span<const uint8_t> SceneBuilder::used(int frame, std::vector<uint8_t>& buffer) const {
  if (!read_mask_) return {};
  buffer.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
  read_mask_(static_cast<std::size_t>(frame), buffer);
  return buffer;
}

void SceneBuilder::add(const DenseChunk& chunk) {
  if ((chunk.depth == nullptr) == (chunk.points == nullptr) || (chunk.depth && cameras_.empty())) {
    throw std::logic_error("SceneBuilder: a chunk needs either depth (after the cameras) or points");
  }
  const std::size_t pixels = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
  const FrameWork takers{std::min(kTakers, threads_for(work_, chunk.count)), work_.check_stop};
  for_each_frame(takers, chunk.count, [&](int index, int thread) {
    const auto i = static_cast<std::size_t>(index);
    const int frame = chunk.first + index;
    const std::span<const float> confidence(chunk.confidence + i * pixels, pixels);
    maps_.put(frame,
              chunk.depth ? std::span(chunk.depth + i * pixels, pixels)
                          : std::span(chunk.points + 3 * i * pixels, 3 * pixels),
              confidence);
    double sum = 0;
    int64_t finite = 0;
    const bool counts = usable(frame) && !options_.conf_threshold;
    Tally& tally = first_pass_[static_cast<std::size_t>(thread)];
    each_confidence(frame, confidence, [&](float value) {
      sum += value;
      ++finite;
      if (counts) search_.count(ordered_key(value), tally);
    });
    mean_confidence_[static_cast<std::size_t>(frame)] = finite ? sum / static_cast<double>(finite) : 0;
    counted_[static_cast<std::size_t>(frame)] = counts ? 1 : 0;
  });
}

double SceneBuilder::confidence_quantile() {
  const int frames = static_cast<int>(frames_.size()), threads = threads_for(work_, frames);
  const auto sum_of = [&](std::vector<Tally> tallies) {
    for (std::size_t t = 1; t < tallies.size(); ++t) search_.merge(tallies[t], tallies[0]);
    return std::move(tallies[0]);
  };
  const auto one_pass = [&] {
    std::vector<Tally> tallies(static_cast<std::size_t>(threads), search_.tally());
    std::vector<DenseMaps::Buffer> buffers(tallies.size());
    for_each_frame(work_, frames, [&](int frame, int thread) {
      if (!usable(frame) || !maps_.has(frame)) return;
      const auto t = static_cast<std::size_t>(thread);
      each_confidence(frame, maps_.confidence(frame, buffers[t]),
                      [&](float value) { search_.count(ordered_key(value), tallies[t]); });
    });
    return sum_of(std::move(tallies));
  };
  bool same = true;  // an adjustment may have changed which cameras are valid
  for (int frame = 0; frame < frames; ++frame)
    same = same && (counted_[static_cast<std::size_t>(frame)] != 0) == (usable(frame) && maps_.has(frame));
  Tally tally = same ? sum_of(first_pass_) : one_pass();
  const int64_t count = search_.total(tally);
  if (count == 0) return 0;
  const QuantilePlace place(options_.conf_percentile / 100, count);
  search_.want(place.rank, place.next_too);
  search_.end_pass(tally);
  while (!search_.done()) {
    tally = one_pass();
    search_.end_pass(tally);
  }
  const double limit = place.between(number_of(search_.low()), number_of(search_.high()));
  // Of these the network says nothing, as of the sky: they go, unless nothing would be left.
  constexpr float kLeastConfidence = 1;
  if (options_.conf_percentile > 0 && limit == kLeastConfidence && is_above_somewhere(kLeastConfidence))
    return std::nextafter(kLeastConfidence, 2.0f);
  return limit;
}

bool SceneBuilder::is_above_somewhere(float limit) const {
  std::atomic<bool> is_above = false;
  const int frames = static_cast<int>(frames_.size());
  std::vector<DenseMaps::Buffer> buffers(static_cast<std::size_t>(threads_for(work_, frames)));
  for_each_frame(work_, frames, [&](int frame, int thread) {
    if (is_above || !usable(frame) || !maps_.has(frame)) return;
    each_confidence(frame, maps_.confidence(frame, buffers[static_cast<std::size_t>(thread)]),
                    [&](float value) {
                      if (value > limit) is_above = true;
                    });
  });
  return is_above;
}

std::vector<SceneBuilder::Worker> SceneBuilder::workers(double conf_threshold) const {
  std::vector<Worker> workers;
  for (int i = threads_for(work_, static_cast<int>(frames_.size())); i > 0; --i) {
    workers.push_back(
        {FramePoints(options_, width_, height_, conf_threshold), {}, {}, {}, {}, {}, {}, {}, {}});
    workers.back().rgb.resize(3 * static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
  }
  return workers;
}

void SceneBuilder::make_points(std::vector<Worker>& workers, bool colored,
                               const std::function<void(Worker&, int)>& take) const {
  for_each_frame(work_, static_cast<int>(frames_.size()), [&](int frame, int thread) {
    if (!maps_.has(frame)) return;
    const auto f = static_cast<std::size_t>(frame);
    Worker& worker = workers[static_cast<std::size_t>(thread)];
    FrameMaps maps{frames_[f], cameras_.empty() ? nullptr : &cameras_[f], {}, {}, {}, worker.rgb, {}, {}};
    if (usable(frame)) {
      maps.used = used(frame, worker.used);
      if (confirmed_ && confirmed_->has(f)) {
        const std::span<const std::byte> bytes = confirmed_->get(f, worker.confirmed);
        maps.confirmed = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
      }
      maps.confidence = maps_.confidence(frame, worker.confidence);
      const std::span<const float> values = maps_.values(frame, worker.values);
      (values.size() == maps.confidence.size() ? maps.depth : maps.points) = values;
      if (colored || options_.mask_black || options_.mask_white) read_rgb_(f, worker.rgb);
    }
    worker.maker.make(maps, colored && options_.normals);
    take(worker, frame);
  });
}

void SceneBuilder::count_points(BuiltScene& scene, const std::optional<FilterCount>& confirmed) {
  std::vector<Worker> threads = workers(conf_threshold_);
  RankSearch<uint32_t> search;
  for (Worker& worker : threads) worker.depths = search.tally();
  std::vector<int64_t> counts(frames_.size());
  make_points(threads, false, [&](Worker& worker, int frame) {
    const FramePoints& made = worker.maker;
    counts[static_cast<std::size_t>(frame)] = static_cast<int64_t>(made.points().size());
    for (std::size_t i = 0; i < kDrops; ++i) worker.dropped[i] += made.dropped()[i];
    for (const Eigen::Vector3f& point : made.points())
      search.count(ordered_key(static_cast<float>(made.depth_of(point))), worker.depths);
  });
  first_points_.assign(1, 0);
  for (const int64_t count : counts) first_points_.push_back(first_points_.back() + count);
  scene.points = first_points_.back();
  scene.median_depth = scene.points > 0 ? median_depth(search, threads, scene.points) : 0;

  static constexpr std::array<const char*, kDrops> kNames = {
      "frames without a camera", "padding", "masks", "not finite", "background", "depth edges"};
  int64_t left = 0;
  for (int frame = 0; frame < static_cast<int>(frames_.size()); ++frame)
    left += maps_.has(frame) ? static_cast<int64_t>(width_) * height_ : 0;
  for (std::size_t i = 0; i < kDrops; ++i) {
    int64_t dropped = 0;
    for (const Worker& worker : threads) dropped += worker.dropped[i];
    if (i != static_cast<std::size_t>(Drop::mask) || read_mask_)
      scene.filters.push_back({kNames[i], left, left - dropped});
    left -= dropped;
  }
  scene.filters.push_back({"confidence", left, confirmed ? confirmed->before : scene.points});
  if (confirmed) scene.filters.push_back(*confirmed);
}

double SceneBuilder::median_depth(RankSearch<uint32_t>& search, std::vector<Worker>& threads,
                                  int64_t points) const {
  search.want((points - 1) / 2, points % 2 == 0);
  while (true) {
    auto tally = search.tally();
    for (Worker& worker : threads) search.merge(worker.depths, tally);
    search.end_pass(tally);
    if (search.done()) break;
    for (Worker& worker : threads) worker.depths = search.tally();
    make_points(threads, false, [&](Worker& worker, int) {
      for (const Eigen::Vector3f& point : worker.maker.points())
        search.count(ordered_key(static_cast<float>(worker.maker.depth_of(point))), worker.depths);
    });
  }
  const double low = number_of(search.low());
  return points % 2 == 1 ? low : (number_of(search.high()) + low) / 2;
}

void SceneBuilder::read_depth(int frame, std::span<float> depth) const {
  std::ranges::fill(depth, std::numeric_limits<float>::quiet_NaN());
  if (!usable(frame) || !maps_.has(frame)) return;
  DenseMaps::Buffer buffer;
  std::vector<uint8_t> mask_buffer;
  const std::span<const float> values = maps_.values(frame, buffer);
  const std::span<const uint8_t> mask = used(frame, mask_buffer);
  const FrameView& view = frames_[static_cast<std::size_t>(frame)];
  const Eigen::RowVector4d axis = cameras_[static_cast<std::size_t>(frame)].cam_from_world.matrix().row(2);
  for (int y = view.begin_y; y < view.end_y; ++y) {
    for (int x = view.begin_x; x < view.end_x; ++x) {
      const std::size_t pixel =
          static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
      if (!mask.empty() && mask[pixel] == 0) continue;
      if (values.size() == depth.size()) {
        depth[pixel] = values[pixel];
      } else {
        const Eigen::Map<const Eigen::Vector3f> point(&values[3 * pixel]);
        depth[pixel] = static_cast<float>(axis.head<3>().dot(point.cast<double>()) + axis[3]);
      }
    }
  }
}

void SceneBuilder::read_confidence(int frame, std::span<float> confidence) const {
  std::ranges::fill(confidence, std::numeric_limits<float>::quiet_NaN());
  DenseMaps::Buffer buffer;
  if (maps_.has(frame)) std::ranges::copy(maps_.confidence(frame, buffer), confidence.begin());
}

FilterCount SceneBuilder::confirm() {
  constexpr int kLeastPartners = 10, kAskedForEach = 3;
  if (cameras_.empty()) throw std::logic_error("SceneBuilder: other frames confirm nothing without cameras");
  const ReadDepth read = [this](int frame, std::span<float> depth) { read_depth(frame, depth); };
  const DepthAgreement agreement(cameras_, width_, height_, read,
                                 std::max(kLeastPartners, kAskedForEach * options_.consistent), work_);
  std::vector<Worker> threads = workers(conf_threshold_);
  const auto pieces = std::make_shared<PieceStore>(space_, "confirmed");
  std::atomic<int64_t> before = 0, after = 0;
  const auto pixels = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
  make_points(threads, false, [&](Worker& worker, int frame) {
    const std::vector<Eigen::Vector3f>& points = worker.maker.points();
    const std::vector<uint8_t> counts = agreement.agreeing(frame, points, worker.depth);
    std::vector<uint8_t> confirmed(pixels);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool enough = counts[i] >= options_.consistent;
      confirmed[static_cast<std::size_t>(worker.maker.pixels()[i])] = enough ? 1 : 0;
      after += enough ? 1 : 0;
    }
    before += static_cast<int64_t>(points.size());
    pieces->put(static_cast<std::size_t>(frame), std::as_bytes(std::span(confirmed)));
  });
  confirmed_ = pieces;
  return {"consistency", before, after};
}

void SceneBuilder::move(const Eigen::Affine3d& similarity) {
  move_cameras(similarity, cameras_);
  const auto scale = static_cast<float>(scale_of(similarity));
  const int frames = static_cast<int>(frames_.size());
  const std::size_t pixels = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
  for_each_frame(work_, frames, [&](int frame, int) {
    if (!maps_.has(frame)) return;
    DenseMaps::Buffer buffer;
    const std::span<const float> old = maps_.values(frame, buffer);
    std::vector<float> values(old.begin(), old.end());
    if (values.size() == pixels) {
      for (float& depth : values) depth *= scale;
    } else {
      for (std::size_t i = 0; i < pixels; ++i) {
        Eigen::Map<Eigen::Vector3f> point(&values[3 * i]);
        point = (similarity * point.cast<double>()).cast<float>();
      }
    }
    maps_.put_values(frame, values);
  });
}

BuiltScene SceneBuilder::finish() {
  BuiltScene scene;
  conf_threshold_ = options_.conf_threshold ? *options_.conf_threshold : confidence_quantile();
  scene.conf_threshold = conf_threshold_;
  scene.mean_confidence = mean_confidence_;
  std::optional<FilterCount> confirmed;
  if (options_.consistent > 0) confirmed = confirm();
  count_points(scene, confirmed);
  return scene;
}

void SceneBuilder::for_each_frame_points(
    const std::function<void(int frame, const PointCloud& points)>& take) const {
  std::vector<Worker> threads = workers(conf_threshold_);
  const std::size_t plane = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
  make_points(threads, true, [&](Worker& worker, int frame) {
    PointCloud cloud;
    cloud.points = worker.maker.points();
    cloud.normals = worker.maker.normals();
    for (const int at : worker.maker.pixels()) {
      const uint8_t* rgb = worker.rgb.data() + at;
      cloud.colors.emplace_back(rgb[0], rgb[plane], rgb[2 * plane]);
    }
    take(frame, cloud);
  });
}

void SceneBuilder::for_each_frame_positions(
    const std::function<void(int frame, std::span<const Eigen::Vector3f> points,
                             std::span<const float> confidence)>& take) const {
  std::vector<Worker> threads = workers(conf_threshold_);
  make_points(threads, false, [&](Worker& worker, int frame) {
    const std::span<const float> all = maps_.confidence(frame, worker.confidence);
    worker.sure.clear();
    for (const int pixel : worker.maker.pixels()) worker.sure.push_back(all[static_cast<std::size_t>(pixel)]);
    take(frame, worker.maker.points(), worker.sure);
  });
}

}  // namespace vggt
