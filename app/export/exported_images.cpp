#include "app/export/exported_images.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "io/files/file_place.h"
#include "io/files/input_file.h"
#include "io/files/staged_files.h"
#include "io/files/text.h"
#include "io/files/utf8.h"
#include "io/files/write_at.h"
#include "io/frames/decoding_budget.h"
#include "io/frames/image_files.h"
#include "io/frames/image_writer.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr int kJpegQuality = 95;

bool is_jpeg(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  return extension == ".jpg" || extension == ".jpeg";
}

/// A file whose path goes through a folder that this run replaces, by its real folder: `colmap/images` there
/// is a link, which would come to link to itself. replaced: plain paths.
fs::path outside(const std::vector<fs::path>& replaced, const fs::path& file) {
  const fs::path plain = plain_path(file);
  const auto holds_it = [&](const fs::path& folder) { return is_within(plain, folder); };
  if (std::ranges::none_of(replaced, holds_it)) return plain;
  std::error_code error;
  const fs::path real = fs::canonical(plain.parent_path(), error);
  return error ? plain : real / plain.filename();
}

fs::path common_folder(const fs::path& a, const fs::path& b) {
  fs::path common;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end() && *i == *j; ++i, ++j) common /= *i;
  return common;
}

/// Names that differ: of those that are the same all but the first get _2, _3, ... before their extension.
void make_different(std::vector<std::string>& names) {
  std::set<std::string> taken;
  for (std::string& name : names) {
    const fs::path path(name);
    for (int number = 2; !taken.insert(name).second; ++number) {
      name = (path.parent_path() / (path.stem().string() + "_" + std::to_string(number))).string() +
             path.extension().string();
    }
  }
}

/// Of a name that somebody gave an image in memory, what a file can be called by; empty if nothing.
std::string file_stem(const std::string& name) {
  constexpr std::size_t kMost = 100;
  const std::string stem = fs::path(name).filename().stem().string();
  const bool is_plain =
      std::ranges::none_of(stem, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\\'; });
  return is_plain && stem.size() <= kMost && stem != "." && stem != ".." ? stem : "";
}

/// The name as the readers of exports give it back: '?' for each byte that is no UTF-8 and for control
/// characters, '_' for blanks at its ends, which readers of text take off.
std::string readable_name(const std::string& name) {
  std::string readable;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(std::string_view(name).substr(i));
    readable += length > 0 ? name.substr(i, length) : "?";
    i += std::max<std::size_t>(1, length);
  }
  if (readable.starts_with(' ')) readable.front() = '_';
  if (readable.ends_with(' ')) readable.back() = '_';
  return one_line(readable);
}

std::array<double, 3> interpolated_rgb(const RgbImage& image, double x, double y) {
  const double left = std::clamp(x, 0.0, image.width - 1.0), top = std::clamp(y, 0.0, image.height - 1.0);
  const int column = std::min(static_cast<int>(left), std::max(0, image.width - 2));
  const int row = std::min(static_cast<int>(top), std::max(0, image.height - 2));
  const double right = left - column, down = top - row;
  const int next_column = std::min(column + 1, image.width - 1),
            next_row = std::min(row + 1, image.height - 1);
  const auto at = [&](int r, int c, std::size_t channel) {
    const auto pixel =
        static_cast<std::size_t>(r) * static_cast<std::size_t>(image.width) + static_cast<std::size_t>(c);
    return static_cast<double>(image.rgb[3 * pixel + channel]);
  };
  std::array<double, 3> rgb{};
  for (std::size_t c = 0; c < 3; ++c) {
    rgb[c] = (1 - down) * ((1 - right) * at(row, column, c) + right * at(row, next_column, c)) +
             down * ((1 - right) * at(next_row, column, c) + right * at(next_row, next_column, c));
  }
  return rgb;
}

/// The image without its camera's distortion; black where the original shows nothing.
RgbImage undistorted(const RgbImage& image, const ViewedImage& view) {
  RgbImage result{image.width, image.height, std::vector<uint8_t>(image.rgb.size())};
  uint8_t* to = result.rgb.data();
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x, to += 3) {
      const Eigen::Vector2d from = view.to_original({x, y});
      if (!is_on_image(from, image.width, image.height)) continue;
      const std::array<double, 3> rgb = interpolated_rgb(image, from.x(), from.y());
      for (std::size_t c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(std::lround(rgb[c]));
    }
  }
  return result;
}

/// Size and time of a file; zeros where it cannot be told.
std::pair<std::uintmax_t, fs::file_time_type> stamp_of(const fs::path& file) {
  std::error_code size_error, time_error;
  const std::pair stamp(fs::file_size(file, size_error), fs::last_write_time(file, time_error));
  return size_error || time_error ? std::pair<std::uintmax_t, fs::file_time_type>() : stamp;
}

/// An open file that goes with its scope.
struct Descriptor {
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int number = -1;
};

/// As fs::copy_file(), which of a full disk says no more than that writing failed.
void copy_image(const fs::path& from, const fs::path& to) {
  constexpr uint64_t kAtOnce = 1 << 20;
  const InputFile file(from);
  const Descriptor copy{::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  int error = copy.number < 0 ? errno : 0;
  std::vector<std::byte> bytes;
  for (uint64_t at = 0; error == 0 && at < file.size(); at += bytes.size()) {
    bytes.resize(std::min(kAtOnce, file.size() - at));
    file.read(at, bytes);
    error = write_at(copy.number, at, bytes);
  }
  if (error != 0)
    throw std::system_error(error, std::generic_category(), to.string() + ": cannot be written");
}

}  // namespace

ExportedImages::ExportedImages(const ExportPlan& plan, const fs::path& source, const FrameSet& frames)
    : images_(source, frames), frames_(frames), source_(source), as_(plan.images) {
  const std::size_t count = frames.frames.size();
  if (images_.are_files()) settle_originals(plan);
  check_apart({}, {source}, plan.folders());
  if (!plan.needs_images()) return;
  const std::string why_not = why_not_originals();
  // A link to / would have other programs walk through all of the disk.
  const bool refers = why_not.empty() && originals_ != originals_.root_path();
  if (as_ == ExportedAs::automatic) as_ = refers ? ExportedAs::originals : ExportedAs::copies;
  if (as_ == ExportedAs::originals && !why_not.empty())
    throw std::invalid_argument("export-images: refer cannot be, as " + why_not + "; give copy");
  turns_.assign(count, 0);
  if (as_ == ExportedAs::originals) {
    for (std::size_t i = 0; i < count; ++i) turns_[i] = *quarter_turns(orientations_[i]);
  } else {
    name_copies();
  }
}

void ExportedImages::settle_originals(const ExportPlan& plan) {
  std::vector<fs::path> paths, replaced;
  for (const fs::path& folder : plan.folders()) replaced.push_back(plain_path(folder));
  for (std::size_t i = 0; i < frames_.frames.size(); ++i) {
    paths.push_back(outside(replaced, images_.file(i)));
    const fs::path folder = paths.back().parent_path();
    originals_ = i == 0 ? folder : common_folder(originals_, folder);
    if (!plan.needs_images()) continue;
    stamps_.push_back(stamp_of(paths.back()));
    const ImageHeader header = images_.header(i);
    orientations_.push_back(header.orientation);
    heif_.push_back(header.format == ImageFormat::heif);
    turned_tiff_.push_back(header.format == ImageFormat::tiff && header.orientation != 1);
  }
  check_apart({}, paths, plan.folders());
  for (const fs::path& path : paths) names_.push_back(path.lexically_relative(originals_).generic_string());
}

/// Why exports cannot name the originals; empty if they can.
std::string ExportedImages::why_not_originals() const {
  if (!images_.are_files()) return "the frames are no image files of their own";
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!seen.insert(names_[i]).second) return names_[i] + " is two frames";
    const std::string readable = readable_name(names_[i]);
    if (readable != names_[i]) return readable + " has a name that readers of exports would change";
    if (!quarter_turns(orientations_[i])) return names_[i] + " is stored mirrored";
    if (turned_tiff_[i]) return names_[i] + " is a TIFF that EXIF turns, which not all programs do";
    if (heif_[i]) return names_[i] + " is HEIF or AVIF, which few programs read";
  }
  return {};
}

/// Whether a copy has the bytes of its file.
bool ExportedImages::goes_as_it_is(std::size_t frame) const {
  return as_ == ExportedAs::copies && orientations_[frame] == 1 && !heif_[frame];
}

void ExportedImages::name_copies() {
  if (!images_.are_files()) {
    const char* extension = images_.are_video() ? ".jpg" : ".png";
    for (std::size_t i = 0; i < frames_.frames.size(); ++i) {
      char number[24];
      std::snprintf(number, sizeof number, "_%06lld", static_cast<long long>(images_.number(i)));
      std::string stem = source_.empty() ? file_stem(frames_.frames[i].file) : "";
      if (stem.empty()) stem = (source_.empty() ? "image" : source_.stem().string()) + number;
      names_.push_back(readable_name(stem + extension));
    }
    return make_different(names_);
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!goes_as_it_is(i) && !is_jpeg(names_[i]))
      names_[i] = fs::path(names_[i]).replace_extension(heif_[i] ? ".jpg" : ".png").string();
    names_[i] = readable_name(names_[i]);
  }
  make_different(names_);
}

bool ExportedImages::names_hold_spaces() const {
  return std::ranges::any_of(names_, [](const std::string& name) { return name.find(' ') != name.npos; });
}

std::vector<std::string> ExportedImages::changed() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < stamps_.size(); ++i) {
    if (stamp_of(images_.file(i)) != stamps_[i]) names.push_back(frames_.frames[i].file);
  }
  return names;
}

std::size_t ExportedImages::copy_bytes(std::size_t frame) const {
  if (!are_copies() || (images_.are_files() && goes_as_it_is(frame))) return 0;
  return images_.reading_bytes(frame);
}

void ExportedImages::write_copies(const fs::path& folder, const std::vector<FrameCamera>& cameras,
                                  const FrameWork& work, std::size_t image_bytes) const {
  for (const std::string& name : names_) fs::create_directories((folder / name).parent_path());
  const auto is_wanted = [&](std::size_t frame) { return cameras[frame].camera.valid; };
  const auto write = [&](std::size_t frame, RgbImage image) {
    const Camera& camera = cameras[frame].camera;
    if (view(frame).undistorted && camera.is_distorted())
      image = undistorted(image, ViewedImage(camera, view(frame)));
    write_image(folder / names_[frame], image.width, image.height, std::move(image.rgb), kJpegQuality);
  };
  if (!images_.are_files()) {
    return images_.read_all([&](std::size_t frame, RgbImage image) {
      if (work.check_stop) work.check_stop();
      if (is_wanted(frame)) write(frame, std::move(image));
    });
  }
  std::vector<std::size_t> bytes(names_.size(), 0);  // known before, as reading a header maps its file
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!is_wanted(i)) continue;
    if (!fs::exists(images_.file(i)))
      throw std::invalid_argument(images_.file(i).string() + ": is gone since its frame was read");
    bytes[i] = copy_bytes(i);
  }
  DecodingBudget budget(image_bytes);
  for_each_frame(work, static_cast<int>(names_.size()), [&](int number, int) {
    const auto frame = static_cast<std::size_t>(number);
    if (!is_wanted(frame)) return;
    if (goes_as_it_is(frame)) {
      copy_image(images_.file(frame), folder / names_[frame]);
    } else {
      const DecodingBudget::Lease lease(budget, bytes[frame]);
      write(frame, images_.read_file(frame));
    }
  });
}

}  // namespace vggt
