#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "app/export/export_plan.h"
#include "app/scene/for_each_frame.h"
#include "io/frames/frames.h"
#include "io/frames/original_images.h"
#include "io/scene/camera.h"
#include "io/scene/image_view.h"

namespace vggt {

/// The images that exports name, one for each frame: the originals as their files store them, or copies of
/// them. Programs that read exports look at the pixels as they are stored and pass over EXIF's orientation,
/// so an original that is stored turned has a camera that is turned with it; copies are upright.
class ExportedImages {
 public:
  /// Settles names and views; reads the headers of the originals. Both arguments outlive the object. Throws
  /// std::invalid_argument where originals cannot be referred to, as they are frames of a video, stored
  /// mirrored or named twice; where an original lies in a folder that would be replaced.
  ExportedImages(const ExportPlan& plan, const std::filesystem::path& source, const FrameSet& frames);

  bool are_copies() const { return as_ != ExportedAs::originals; }
  /// The image's name, relative to the folder of the originals or of the copies.
  const std::string& name(std::size_t frame) const { return names_[frame]; }
  /// Whether a name holds a space, at which readers of COLMAP's text end it.
  bool names_hold_spaces() const;
  /// The innermost folder in which all originals lie, absolute.
  const std::filesystem::path& originals() const { return originals_; }
  ImageView view(std::size_t frame) const { return {turns_[frame], as_ == ExportedAs::undistorted}; }

  /// Writes copies of the frames with valid cameras, by their names, into a folder that exists. Images that
  /// are copied at once take image_bytes, or are one. Throws std::system_error and std::invalid_argument
  /// naming the file, the latter for an image file that is gone.
  void write_copies(const std::filesystem::path& folder, const std::vector<FrameCamera>& cameras,
                    const FrameWork& work, std::size_t image_bytes = SIZE_MAX) const;
  /// The names of image files that have changed or gone since the object was made.
  std::vector<std::string> changed() const;
  /// The memory that writing a frame's copy takes, in bytes; none where its file is copied as it is.
  std::size_t copy_bytes(std::size_t frame) const;

 private:
  void settle_originals(const ExportPlan& plan);
  void name_copies();
  bool goes_as_it_is(std::size_t frame) const;
  std::string why_not_originals() const;

  OriginalImages images_;
  const FrameSet& frames_;
  std::filesystem::path source_, originals_;
  ExportedAs as_;
  std::vector<int> orientations_;                                                   // of image files
  std::vector<std::pair<std::uintmax_t, std::filesystem::file_time_type>> stamps_;  // size and time, likewise
  std::vector<bool> heif_, turned_tiff_;                                            // likewise
  std::vector<std::string> names_;                                                  // of the exported images
  std::vector<int> turns_;  // clockwise quarters from the exported image to the upright one
};

}  // namespace vggt
