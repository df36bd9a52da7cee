#include "app/adjust/depth_correction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "app/adjust/sighting_error.h"
#include "app/scene/pixel_transfer.h"
#include "io/files/clones.h"
#include "io/scene/radial_distortion.h"

namespace vggt {
namespace {

constexpr int kStep = 4;              // pixels: the correction is smooth
constexpr double kVariance = 0.0002;  // of the logarithm of a map's depth, before sightings tell more
constexpr int kFramesAtOnce = 32;
constexpr float kAgreement = 0.1F, kNeighbourWeight = 0.7F;  // of logarithms of two frames' depths

/// How anchors bend a map.
struct Bending {
  double farthest;              // of the logarithm: an anchor whose depth changed more is not believed
  std::vector<double> reaches;  // pixels: deviations of the Gaussians that spread a change, then what is left
};
const Bending kBesideNetwork{0.7, {24}}, kAgainstNetwork{1.6, {24, 12, 6}};

/// How far the depth that an anchor's sightings gave it is to be trusted, from 0 to 1.
double trust(double information) {
  return information * kVariance / (1 + information * kVariance);
}

/// An anchor in a map: where it lies, its weight, and what the logarithm of its depth changed by.
struct Change {
  int row = 0, column = 0;  // network pixels
  double weight = 0, moved = 0;
};

/// What the changes say of the logarithms of a frame's depth: [H,W] as `size` says, smooth over so many
/// pixels.
cv::Mat smooth_field(const std::vector<Change>& all, double reach, cv::Size size) {
  const int rows = (size.height + kStep - 1) / kStep, columns = (size.width + kStep - 1) / kStep;
  cv::Mat changes(rows, columns, CV_32F, cv::Scalar(0)), weights(rows, columns, CV_32F, cv::Scalar(0));
  for (const Change& change : all) {
    changes.at<float>(change.row / kStep, change.column / kStep) +=
        static_cast<float>(change.weight * change.moved);
    weights.at<float>(change.row / kStep, change.column / kStep) += static_cast<float>(change.weight);
  }
  const double sigma = reach / kStep, peak = 2 * std::numbers::pi * sigma * sigma;
  cv::GaussianBlur(changes, changes, {}, sigma, 0, cv::BORDER_CONSTANT);
  cv::GaussianBlur(weights, weights, {}, sigma, 0, cv::BORDER_CONSTANT);
  cv::Mat field = peak * changes / (peak * weights + 1);
  cv::resize(field, field, size);
  return field;
}

/// The correction of the logarithms of a frame's depth, [H,W], beside what all of them change by. `anchors`:
/// the frame's first one and the end.
cv::Mat correction(const MatchInput& input, const Bundle& bundle, std::pair<std::size_t, std::size_t> anchors,
                   const std::vector<double>& before, double all, const Bending& bending,
                   const std::vector<double>& information) {
  std::vector<Change> changes;
  for (std::size_t i = anchors.first; i < anchors.second; ++i) {
    const Anchor& anchor = bundle.anchors[i];
    const double moved = anchor.log_depth - before[i] - all;
    if (!(std::abs(moved) < bending.farthest)) continue;
    const PixelMap& map = input.frames[static_cast<std::size_t>(anchor.frame)].map;
    changes.push_back({static_cast<int>(std::lround(map.network_y(anchor.pixel.y()))),
                       static_cast<int>(std::lround(map.network_x(anchor.pixel.x()))), trust(information[i]),
                       moved});
  }
  cv::Mat sum(input.height, input.width, CV_32F, cv::Scalar(0));
  for (const double reach : bending.reaches) {
    const cv::Mat field = smooth_field(changes, reach, sum.size());
    sum += field;
    for (Change& change : changes) change.moved -= field.at<float>(change.row, change.column);
  }
  return sum;
}

bool usable(float depth) {
  return depth > 0 && std::isfinite(depth);
}

/// Adds to sums and weights what other depths say of the logarithm of a row's depths: `found` where a frame
/// has some, beside `seen`, what it should have there; both are positive. Depths that differ by more than
/// half say nothing. Plain arithmetic, of which the compiler makes vectors.
VGGT_CLONES void add_differences(const float* found, const float* seen, int count, float* sums,
                                 float* weights) {
  for (int i = 0; i < count; ++i) {
    const float t = (found[i] - seen[i]) / (found[i] + seen[i]), square = t * t;
    // The logarithm of found / seen: 2 artanh(t), whose series is exact to seven digits below 0.2.
    const float difference = 2 * t * (1 + square * (1.F / 3 + square * (1.F / 5 + square * (1.F / 7))));
    const float share = difference / kAgreement;
    // exp(-share²) as the 32nd power of exp(-share² / 32), which is at least 0.6.
    const float part = share * share / 32;
    float power = 1 / (1 + part * (1 + part / 2 * (1 + part / 3 * (1 + part / 4 * (1 + part / 5)))));
    for (int doubling = 0; doubling < 5; ++doubling) power *= power;
    const float weight = square < 0.04F ? kNeighbourWeight * power : 0;
    sums[i] += weight * difference;
    weights[i] += weight;
  }
}

/// Where a frame's pixels look: x and y of the point (x, y, 1) of its camera's space, [H,W] each. Not finite
/// where the distortion shows nothing.
struct Rays {
  Rays(const Camera& camera, int height, int width) {
    const std::size_t pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    x.reserve(pixels);
    y.reserve(pixels);
    for (int row = 0; row < height; ++row) {
      for (int column = 0; column < width; ++column) {
        const Eigen::Vector3d ray = camera.ray({column, row});
        x.push_back(static_cast<float>(ray.x()));
        y.push_back(static_cast<float>(ray.y()));
      }
    }
  }
  std::vector<float> x, y;
};

bool have_same_lens(const Camera& a, const Camera& b) {
  return a.k == b.k && a.distortion == b.distortion;
}

/// From the space of one camera to the pixels of another.
struct Transfer {
  Transfer(const Camera& from, const Camera& to) {
    const Eigen::Isometry3d relative(to.cam_from_world.matrix() * from.cam_from_world.matrix().inverse());
    Eigen::Map<Eigen::Matrix3f>(turn.data()) = relative.linear().cast<float>();
    Eigen::Map<Eigen::Vector3f>(shift.data()) = relative.translation().cast<float>();
    Eigen::Map<Eigen::Matrix<float, 2, 3>>(k.data()) = to.k.topRows<2>().cast<float>();
    Eigen::Map<Eigen::Vector2f>(distortion.data()) = to.distortion.cast<float>();
    most_r2 = static_cast<float>(unfolded_r2(to.distortion));
  }
  std::array<float, 9> turn;  // column after column, as k
  std::array<float, 6> k;
  std::array<float, 3> shift;
  std::array<float, 2> distortion;
  float most_r2;  // of points of the plane z = 1: beyond, the distortion folds back
};

/// Where the other camera sees a row of pixels with these depths, and how far: not above 0 where it sees
/// none.
VGGT_CLONES void see_row(const Transfer& to, const float* ray_x, const float* ray_y, const float* depth,
                         int count, float* __restrict x, float* __restrict y, float* __restrict z) {
  const std::array<float, 9> turn = to.turn;
  const std::array<float, 6> k = to.k;
  const std::array<float, 3> shift = to.shift;
  const std::array<float, 2> distortion = to.distortion;
  const float most_r2 = to.most_r2;
  for (int i = 0; i < count; ++i) {
    const float d = depth[i], a = d * ray_x[i], b = d * ray_y[i];
    const float seen_x = turn[0] * a + turn[3] * b + turn[6] * d + shift[0],
                seen_y = turn[1] * a + turn[4] * b + turn[7] * d + shift[1],
                seen_z = turn[2] * a + turn[5] * b + turn[8] * d + shift[2];
    const float normal_x = seen_x / seen_z, normal_y = seen_y / seen_z,
                r2 = normal_x * normal_x + normal_y * normal_y,
                factor = 1 + r2 * (distortion[0] + r2 * distortion[1]);
    x[i] = factor * (k[0] * normal_x + k[2] * normal_y) + k[4];
    y[i] = factor * (k[1] * normal_x + k[3] * normal_y) + k[5];
    z[i] = d > 0 && d <= std::numeric_limits<float>::max() && r2 <= most_r2 ? seen_z : 0;
  }
}

/// What other frames say of a frame's depths.
class Opinions {
 public:
  /// The depths, [H,W], the camera and its rays outlive the object.
  Opinions(const MatchInput& input, std::span<const float> depth, const Camera& camera, const Rays& rays)
      : input_(input),
        depth_(depth),
        camera_(camera),
        rays_(rays),
        sums_(depth.size(), 0),
        weights_(depth.size(), 1) {}

  void add(const FrameView& there, std::span<const float> depth_there, const Camera& camera_there) {
    const auto low_x = static_cast<float>(there.begin_x), high_x = static_cast<float>(there.end_x - 1),
               low_y = static_cast<float>(there.begin_y), high_y = static_cast<float>(there.end_y - 1);
    const Transfer transfer(camera_, camera_there);
    const auto width = static_cast<std::size_t>(input_.width);
    std::vector<float> x(width), y(width), expected(width), found(width);
    for (std::size_t first = 0; first < depth_.size(); first += width) {
      see_row(transfer, &rays_.x[first], &rays_.y[first], &depth_[first], input_.width, x.data(), y.data(),
              expected.data());
      for (std::size_t i = 0; i < width; ++i) {
        float value = 0;
        if (usable(expected[i]) && x[i] >= low_x && y[i] >= low_y && x[i] < high_x && y[i] < high_y)
          value = interpolated(depth_there.data(), input_.height, input_.width, x[i], y[i]);
        const bool says = usable(value);
        found[i] = says ? value : 3.F;  // three times what is expected: it says nothing
        if (!says) expected[i] = 1.F;
      }
      add_differences(found.data(), expected.data(), input_.width, &sums_[first], &weights_[first]);
    }
  }

  /// The depths, each averaged with what was added. Ends the object's use.
  std::vector<float> averaged() {
    std::vector<float> result = std::move(sums_);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = result[i] != 0 ? depth_[i] * std::exp(result[i] / weights_[i]) : depth_[i];
    return result;
  }

 private:
  const MatchInput& input_;
  const std::span<const float> depth_;
  const Camera& camera_;
  const Rays& rays_;
  std::vector<float> sums_, weights_;
};

/// Calls body(frame) for all frames, a block of them at once on several threads.
template <class Body>
void for_frames(std::size_t count, bool lean, const Events& events, const Body& body) {
  const int frames = static_cast<int>(count), at_once = lean ? 1 : kFramesAtOnce;
  for (int begin = 0; begin < frames; begin += at_once) {
    events.check_stop();
    cv::parallel_for_({begin, std::min(frames, begin + at_once)}, [&](const cv::Range& range) {
      for (int f = range.start; f < range.end; ++f) body(static_cast<std::size_t>(f));
    });
  }
}

/// The frames that each frame has a pair with.
std::vector<std::vector<std::size_t>> partners_of(std::size_t frames,
                                                  const std::vector<std::pair<int, int>>& pairs) {
  std::vector<std::vector<std::size_t>> partners(frames);
  for (const auto& [a, b] : pairs) {
    partners[static_cast<std::size_t>(a)].push_back(static_cast<std::size_t>(b));
    partners[static_cast<std::size_t>(b)].push_back(static_cast<std::size_t>(a));
  }
  return partners;
}

std::span<const float> floats(const PieceStore& store, std::size_t frame, std::vector<std::byte>& buffer) {
  const std::span<const std::byte> bytes = store.get(frame, buffer);
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

CorrectedDepth::CorrectedDepth(const MatchInput& input, const DenseMaps& depth, const Bundle& bundle,
                               const std::vector<double>& before, const std::vector<double>& nearer,
                               bool lean, const Events& events, bool believes_network)
    : input_(input), bent_(input.space, "bent_depth") {
  const std::vector<double> information = depth_information(bundle);
  for_frames(input.frames.size(), lean, events, [&](std::size_t f) {
    const auto own = std::ranges::equal_range(bundle.anchors, static_cast<int>(f), {}, &Anchor::frame);
    const auto first = static_cast<std::size_t>(own.begin() - bundle.anchors.begin());
    const cv::Mat field = correction(input, bundle, {first, first + own.size()}, before, nearer[f],
                                     believes_network ? kBesideNetwork : kAgainstNetwork, information);
    DenseMaps::Buffer buffer;
    const std::span<const float> given = depth.values(static_cast<int>(f), buffer);
    std::vector<float> values(given.begin(), given.end());
    const float* change = field.ptr<float>();
    const auto all = static_cast<float>(nearer[f]);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::exp(change[i] + all);
    bent_.put(f, std::as_bytes(std::span(values)));
  });
}

void CorrectedDepth::write(const std::vector<Camera>& cameras, const std::vector<std::pair<int, int>>& pairs,
                           bool lean, const Events& events, DenseMaps& depth) const {
  const std::vector<std::vector<std::size_t>> partners = partners_of(input_.frames.size(), pairs);
  const auto valid = std::ranges::find(cameras, true, &Camera::valid);
  const Camera& usual = valid == cameras.end() ? cameras.front() : *valid;
  const Rays rays(usual, input_.height, input_.width);  // of most frames, or of all
  for_frames(input_.frames.size(), lean, events, [&](std::size_t f) {
    std::vector<std::byte> buffer, other_buffer;
    const std::span<const float> own = floats(bent_, f, buffer);
    std::optional<Rays> others;
    if (!partners[f].empty() && !have_same_lens(cameras[f], usual))
      others.emplace(cameras[f], input_.height, input_.width);
    Opinions opinions(input_, own, cameras[f], others ? *others : rays);
    for (const std::size_t other : partners[f])
      opinions.add(input_.frames[other].view, floats(bent_, other, other_buffer), cameras[other]);
    depth.put_values(static_cast<int>(f), opinions.averaged());
  });
}

}  // namespace vggt
