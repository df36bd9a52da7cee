#include "io/frames/masks.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "io/files/machine_share.h"
#include "io/files/piece_store.h"
#include "io/frames/decoding_budget.h"
#include "io/frames/frame_sources.h"
#include "io/frames/image_files.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr int kBlackBelowSum = 16;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("masks: " + what);
}

/// The names of a folder's images; none where only folders in it hold some.
std::vector<std::string> images_in(const fs::path& folder) try {
  return find_images(folder, SourceKind::folder).names;
} catch (const std::invalid_argument&) {
  return {};
}

/// The mask files of a folder, by their names without the last extension.
class MaskFolder {
 public:
  explicit MaskFolder(fs::path folder) : folder_(std::move(folder)) {
    for (const std::string& name : images_in(folder_)) files_[fs::path(name).stem().string()].push_back(name);
  }

  /// The mask of a frame; empty if there is none.
  fs::path find(const std::string& frame) const {
    const fs::path name = fs::path(frame).filename();
    std::vector<std::string> masks;
    for (const std::string& key : {name.string(), name.stem().string()}) {
      const auto found = files_.find(key);
      // The stem of walk.mp4#12 is that of all frames.
      const bool of_one_frame = key == name || name.extension().string().find('#') == std::string::npos;
      if (found == files_.end() || !of_one_frame) continue;
      masks.insert(masks.end(), found->second.begin(), found->second.end());
      if (!name.has_extension()) break;  // then both keys are one
    }
    if (masks.size() > 1) {
      fail(folder_.string() + " has two masks for the frame " + frame + ": " + masks[0] + " and " + masks[1]);
    }
    return masks.empty() ? fs::path() : folder_ / masks.front();
  }

 private:
  fs::path folder_;
  std::map<std::string, std::vector<std::string>> files_;
};

/// Finds masks in a folder, and in folders in it.
class MaskFinder {
 public:
  explicit MaskFinder(fs::path folder) : root_(std::move(folder)) {
    if (!fs::is_directory(root_)) fail(root_.string() + " is no folder");
  }

  fs::path find(const std::string& frame) {
    // The mask of a/b/name.png lies in a/b, in b, or in the root.
    const fs::path parent = fs::path(frame).parent_path();
    for (auto begin = parent.begin(); begin != parent.end(); ++begin) {
      fs::path inner;
      for (auto part = begin; part != parent.end(); ++part) inner /= *part;
      const bool inside = inner.is_relative() && *begin != ".." && *begin != ".";
      if (!inside || !fs::is_directory(root_ / inner)) continue;
      if (fs::path found = folder(root_ / inner).find(frame); !found.empty())
        return only_of(frame, found, begin == parent.begin());
    }
    const fs::path found = folder(root_).find(frame);
    if (found.empty()) fail(root_.string() + " holds no mask for the frame " + frame);
    return found;
  }

 private:
  /// The mask, unless it is another frame's: a/0.png is one of a/0.jpg and of b/a/0.jpg.
  fs::path only_of(const std::string& frame, const fs::path& mask, bool whole_path) {
    const auto [first, is_new] = inner_.try_emplace(mask, frame, whole_path);
    if (!is_new && first->second.first != frame && !(first->second.second && whole_path))
      fail(mask.string() + " is the mask of two frames: " + first->second.first + " and " + frame);
    return mask;
  }

  const MaskFolder& folder(const fs::path& path) {
    const auto found = folders_.find(path);
    return found != folders_.end() ? found->second : folders_.emplace(path, path).first->second;
  }

  fs::path root_;
  std::map<fs::path, MaskFolder> folders_;
  /// Of each mask in an inner folder the frame that it was found for, and whether by the frame's whole path.
  std::map<fs::path, std::pair<std::string, bool>> inner_;
};

/// Whether a pixel of an image with four channels is wholly transparent.
bool is_clear(const cv::Mat& pixels, int y, std::size_t x) {
  const int column = static_cast<int>(x);
  return pixels.depth() == CV_8U ? pixels.at<cv::Vec4b>(y, column)[3] == 0
                                 : pixels.at<cv::Vec4w>(y, column)[3] == 0;
}

/// Which pixels of a mask are neither black nor wholly transparent: [h,w].
std::vector<uint8_t> bright_pixels(const DecodedImage& image) {
  const auto width = static_cast<std::size_t>(image.pixels.cols);
  std::vector<uint8_t> rgb(3 * width), bright(width * static_cast<std::size_t>(image.pixels.rows));
  const bool has_alpha = image.pixels.channels() == 4;
  int most = 0;
  for (int y = 0; y < image.pixels.rows; ++y) {
    rgb_row(image, y, rgb.data());
    uint8_t* row = &bright[width * static_cast<std::size_t>(y)];
    for (std::size_t x = 0; x < width; ++x) {
      const int sum = rgb[3 * x] + rgb[3 * x + 1] + rgb[3 * x + 2];
      most = std::max(most, sum);
      const bool used = sum >= kBlackBelowSum && !(has_alpha && is_clear(image.pixels, y, x));
      row[x] = used ? 1 : 0;
    }
  }
  if (most > 0 && most < kBlackBelowSum)
    throw std::invalid_argument("is nearly black all over; black is 0, and 255 is used");
  return bright;
}

/// The original pixels [begin, end) of one axis that a network pixel shows; none for padding.
struct Shown {
  int begin = 0, end = 0;
};

std::vector<Shown> shown_by(int network_size, double scale, double pad, int original_size) {
  constexpr double kSlack = 1e-6;  // of a pixel, from rounding
  std::vector<Shown> shown(static_cast<std::size_t>(network_size));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const double begin = (static_cast<double>(i) - pad) / scale, end = begin + 1 / scale;
    if (end <= kSlack || begin >= original_size - kSlack) continue;
    shown[i].begin = std::max(0, static_cast<int>(std::floor(begin + kSlack)));
    shown[i].end = std::min(original_size, static_cast<int>(std::ceil(end - kSlack)));
  }
  return shown;
}

/// The network pixels [H,W] that show bright ones only.
std::vector<uint8_t> used_pixels(const std::vector<uint8_t>& bright, const Frame& frame, int width,
                                 int height) {
  const std::vector<Shown> across = shown_by(width, frame.map.scale_x, frame.map.pad_x, frame.original_width);
  const std::vector<Shown> down = shown_by(height, frame.map.scale_y, frame.map.pad_y, frame.original_height);
  std::vector<uint8_t> used(across.size() * down.size());
  for (std::size_t y = 0; y < down.size(); ++y) {
    for (std::size_t x = 0; x < across.size(); ++x) {
      bool all = down[y].begin < down[y].end && across[x].begin < across[x].end;
      for (int row = down[y].begin; all && row < down[y].end; ++row) {
        const uint8_t* line =
            &bright[static_cast<std::size_t>(row) * static_cast<std::size_t>(frame.original_width)];
        all = std::all_of(line + across[x].begin, line + across[x].end,
                          [](uint8_t value) { return value != 0; });
      }
      used[y * across.size() + x] = all ? 1 : 0;
    }
  }
  return used;
}

/// What reading a mask takes: the decoder, and a byte a pixel.
std::size_t reading_bytes(const ImageFile& file) {
  const ImageHeader& header = file.header();
  return file.decoding_bytes() +
         static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.height);
}

std::vector<uint8_t> read_mask(const fs::path& path, const Frame& frame, int width, int height,
                               DecodingBudget& budget) try {
  const ImageFile file(path);
  const auto check_size = [&](int64_t w, int64_t h) {
    if (w == frame.original_width && h == frame.original_height) return;
    const auto size = [](int64_t a, int64_t b) { return std::to_string(a) + "x" + std::to_string(b); };
    throw std::invalid_argument("has " + size(w, h) + " pixels, but the upright frame " + frame.file + " " +
                                size(frame.original_width, frame.original_height));
  };
  const auto [width_of_file, height_of_file] = file.upright_size();
  check_size(width_of_file, height_of_file);  // before all of it is in memory
  const DecodingBudget::Lease lease(budget, reading_bytes(file));
  const DecodedImage image = file.decode();
  check_size(image.pixels.cols, image.pixels.rows);
  return used_pixels(bright_pixels(image), frame, width, height);
} catch (const std::invalid_argument& error) {
  fail(path.string() + ": " + error.what());
}

/// Does work(i) for i in [0, count) on several threads, and calls progress(done) from this one. The first
/// exception, of the smallest i, ends the work and passes through.
void in_parallel(int threads, std::size_t count, const std::function<void(std::size_t)>& work,
                 const std::function<void(std::size_t)>& progress) {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::size_t> next = 0;
  std::size_t done = 0, failed = count;
  int running = threads;
  std::exception_ptr error;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
        const std::lock_guard lock(mutex);
        ++done;
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
      }
      changed.notify_all();
    }
    const std::lock_guard lock(mutex);
    --running;
    changed.notify_all();
  };
  struct Stop {
    std::atomic<std::size_t>& next;
    std::size_t count;
    ~Stop() { next = count; }
  };
  std::vector<std::jthread> workers;
  const Stop stop{next, count};  // before the threads are joined, also where progress() throws
  for (int i = 0; i < threads; ++i) workers.emplace_back(run);
  std::unique_lock lock(mutex);
  for (std::size_t seen = 0; running > 0;) {
    changed.wait(lock, [&] { return done > seen || running == 0; });
    seen = done;
    lock.unlock();
    if (progress) progress(seen);
    lock.lock();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

void refuse_frames_as_masks(const FrameOptions& options) {
  std::error_code ignored;  // reading them says what is wrong
  const bool is_folder = fs::is_directory(options.source, ignored);
  const fs::path folder = is_folder ? options.source : options.source.parent_path();
  const bool holds_frames = is_folder || kind_of_source(options) == SourceKind::image;
  if (holds_frames && fs::equivalent(options.masks, folder.empty() ? "." : folder, ignored))
    fail(options.masks.string() + " is the frames' own folder");
}

ReadMask load_masks(const FrameOptions& options, const FrameSet& frames,
                    const std::function<void(int done, int total)>& progress) {
  MaskFinder finder(options.masks);
  std::vector<fs::path> paths;
  for (const Frame& frame : frames.frames) paths.push_back(finder.find(frame.file));
  const auto store =
      std::make_shared<PieceStore>(options.space ? options.space : std::make_shared<HostSpace>(), "masks");
  DecodingBudget budget(options.memory_budget_bytes);
  const int cores = static_cast<int>(usable_cores());
  std::atomic<bool> any = false;
  const auto read = [&](std::size_t i) {
    const std::vector<uint8_t> used =
        read_mask(paths[i], frames.frames[i], frames.width, frames.height, budget);
    if (std::ranges::find(used, 1) != used.end()) any = true;
    store->put(i, std::as_bytes(std::span(used)));
  };
  in_parallel(options.threads > 0 ? options.threads : cores, paths.size(), read, [&](std::size_t done) {
    if (progress) progress(static_cast<int>(done), static_cast<int>(paths.size()));
  });
  if (!any) fail(options.masks.string() + ": all masks are black or transparent; white is used");
  return [store](std::size_t frame, std::span<uint8_t> used) {
    std::vector<std::byte> buffer;
    const std::span<const std::byte> stored = store->get(frame, buffer);
    std::ranges::copy(stored, std::as_writable_bytes(used).begin());
  };
}

std::size_t most_mask_bytes(const FrameOptions& options, const FrameSet& frames) {
  if (options.masks.empty()) return 0;
  MaskFinder finder(options.masks);
  std::size_t most = 0;
  for (const Frame& frame : frames.frames) {
    try {
      const ImageFile file(finder.find(frame.file));
      const std::pair<int64_t, int64_t> size{frame.original_width, frame.original_height};
      if (file.upright_size() == size) most = std::max(most, reading_bytes(file));
    } catch (const std::invalid_argument&) {  // load_masks() says so
    } catch (const std::system_error&) {
    }
  }
  return most;
}

}  // namespace vggt
