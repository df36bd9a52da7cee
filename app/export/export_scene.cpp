#include "app/export/export_scene.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "app/export/depth_tracks.h"
#include "app/export/export_maps.h"
#include "app/report/picture.h"
#include "app/report/picture_view.h"
#include "app/scene/linked_frames.h"
#include "io/scene/colmap_model.h"
#include "io/scene/glb.h"
#include "io/scene/kitti.h"
#include "io/scene/ply.h"
#include "io/scene/transforms_json.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSparsePoints = 200'000;  // to begin splatting with
constexpr int64_t kGlbPoints = 2'000'000;   // 48 MB, which browsers show
constexpr std::size_t kFewestObservations = 2;
// Observations that hold an image's pose in a bundle adjustment, and of an image of a group apart, on
// average.
constexpr int kFewestOfImage = 10, kFewestOfGroup = 30;

/// Gives images of one camera, stored in one way, one number and one set of intrinsics.
void share_intrinsics(std::vector<FrameCamera>& images, const std::vector<int>& turns) {
  std::map<std::pair<int, int>, std::size_t> first;  // image of each camera and turn
  for (std::size_t i = 0; i < images.size(); ++i) {
    Camera& camera = images[i].camera;
    if (camera.camera_id < 0) continue;
    const std::size_t known = first.try_emplace({camera.camera_id, turns[i]}, i).first->second;
    const Camera& shared = images[known].camera;
    const bool same_size = camera.width == shared.width && camera.height == shared.height;
    camera.camera_id = same_size ? static_cast<int>(known) : -1;
    if (!same_size) continue;
    camera.k = shared.k;
    camera.distortion = shared.distortion;
  }
}

/// A track as the exported images show it, with its error in their pixels; nothing where too few of them do.
std::optional<Track> exported_track(Track track, const std::vector<int>& image_of,
                                    const std::vector<std::optional<ViewedImage>>& views) {
  std::size_t shown = 0;  // observations in exported images, the first ones of the track from here on
  double error = 0;
  for (const Observation& seen : track.observations) {
    const auto frame = static_cast<std::size_t>(seen.frame);
    if (image_of[frame] < 0) continue;
    const Eigen::Vector2d pixel = views[frame]->from_original(seen.pixel);
    const Camera& camera = views[frame]->camera();
    if (!is_on_image(pixel, camera.width, camera.height))
      continue;  // beyond what the exported image shows, or nowhere
    track.observations[shown++] = {image_of[frame], pixel};
    error += (camera.project(camera.cam_from_world * track.point_in_world) - pixel).norm();
  }
  if (shown < kFewestObservations) return std::nullopt;
  track.observations.resize(shown);
  track.error_px = error / static_cast<double>(shown);
  return track;
}

/// For a JSON file in `folder`: an original's path, relative to it where that can be.
std::string path_from(const fs::path& folder, const fs::path& original) {
  std::error_code ignored;
  const fs::path from = fs::weakly_canonical(fs::absolute(folder), ignored);
  const fs::path to = fs::weakly_canonical(original.parent_path(), ignored) / original.filename();
  const fs::path relative = to.lexically_relative(from);
  return (relative.empty() ? to : relative).generic_string();
}

/// Fills a folder's images/ with copies, or with links to those that another export has.
void place_copies(const fs::path& folder, const ExportedImages& images, const ExportInput& input,
                  std::optional<fs::path>& placed) {
  const fs::path here = folder / "images";
  fs::create_directory(here);
  if (!placed) {
    images.write_copies(here, input.cameras, input.work, input.image_bytes);
    placed = here;
    return;
  }
  std::error_code no_links;  // as of exFAT
  fs::copy(*placed, here, fs::copy_options::recursive | fs::copy_options::create_hard_links, no_links);
  if (!no_links) return;
  fs::remove_all(here);
  fs::copy(*placed, here, fs::copy_options::recursive);
}

void export_colmap(const fs::path& folder, const ExportedImages& images, const ExportInput& input,
                   const ExportedScene& scene, std::optional<fs::path>& placed) {
  fs::create_directories(folder / "sparse/0");
  write_colmap_model(folder / "sparse/0", scene);
  if (images.are_copies()) return place_copies(folder, images, input, placed);
  std::error_code ignored;  // where the file system has no links, the model is whole without
  fs::create_directory_symlink(images.originals(), folder / "images", ignored);
}

/// place: where `folder` is made.
void export_nerfstudio(const fs::path& place, const fs::path& folder, const ExportPlan& plan,
                       const ExportedImages& images, const ExportInput& input, const ExportedScene& scene,
                       std::optional<fs::path>& placed) {
  std::vector<std::string> maps;
  if (plan.depth && !plan.network_size && plan.map_format != MapFormat::exr)
    maps = map_names(images, input.cameras.size(), plan.map_format);
  std::vector<NerfFrame> frames;
  std::size_t image = 0;
  for (std::size_t i = 0; i < input.cameras.size(); ++i) {
    if (!input.cameras[i].camera.valid) continue;
    NerfFrame frame{scene.images[image++], {}};
    frame.image.file = images.are_copies() ? "images/" + images.name(i)
                                           : path_from(folder, images.originals() / images.name(i));
    if (!maps.empty() && input.depth && input.depth->has(static_cast<int>(i)))
      frame.depth_file = "../" + plan.depth->filename().string() + "/" + maps[i];
    frames.push_back(std::move(frame));
  }
  PointCloud points = scene.points;
  for (const Track& track : scene.tracks) {
    points.points.push_back(track.point_in_world.cast<float>());
    points.colors.emplace_back(track.rgb[0], track.rgb[1], track.rgb[2]);
  }
  write_ply(place / "points.ply", points);
  write_transforms_json(place / "transforms.json", frames, "points.ply");
  if (images.are_copies()) place_copies(place, images, input, placed);
}

/// Drops the tracks that any image sees which sees fewer than ten, and those of images that then see fewer;
/// false, and drops none, where none would be left.
bool drop_loose_images(ExportedScene& scene) {
  std::vector<const Track*> tracks;
  for (const Track& track : scene.tracks) tracks.push_back(&track);
  for (std::size_t before = tracks.size() + 1; tracks.size() < before;) {
    before = tracks.size();
    std::vector<int> observations(scene.images.size(), 0);
    for (const Track* track : tracks) {
      for (const Observation& seen : track->observations)
        ++observations[static_cast<std::size_t>(seen.frame)];
    }
    std::erase_if(tracks, [&](const Track* track) {
      return std::ranges::any_of(track->observations, [&](const Observation& seen) {
        return observations[static_cast<std::size_t>(seen.frame)] < kFewestOfImage;
      });
    });
  }
  if (tracks.empty()) return false;
  auto next = tracks.begin();  // they are in the same order
  std::erase_if(scene.tracks, [&](const Track& track) {
    const bool stays = next != tracks.end() && *next == &track;
    if (stays) ++next;
    return !stays;
  });
  return true;
}

/// Drops the tracks of images that no track links to those most observed, where they are few: where such a
/// group lies among the others is a guess.
void drop_groups_apart(ExportedScene& scene) {
  std::vector<std::pair<int, int>> links;
  for (const Track& track : scene.tracks) {
    for (const Observation& seen : track.observations)
      links.emplace_back(track.observations.front().frame, seen.frame);
  }
  const std::vector<int> group_of = first_linked(scene.images.size(), links);
  std::vector<int64_t> images(group_of.size(), 0), observations(group_of.size(), 0);
  const auto group_of_track = [&](const Track& track) {
    return static_cast<std::size_t>(group_of[static_cast<std::size_t>(track.observations.front().frame)]);
  };
  for (const int group : group_of) ++images[static_cast<std::size_t>(group)];
  for (const Track& track : scene.tracks)
    observations[group_of_track(track)] += static_cast<int64_t>(track.observations.size());
  const auto largest =
      static_cast<std::size_t>(std::ranges::max_element(observations) - observations.begin());
  std::erase_if(scene.tracks, [&](const Track& track) {
    const std::size_t group = group_of_track(track);
    return group != largest && observations[group] < kFewestOfGroup * images[group];
  });
}

/// The edges of the cameras' frusta, in the colours of the picture.
std::vector<ColoredLine> frustum_lines(const std::vector<FrameCamera>& cameras, const PointCloud& cloud) {
  std::vector<Camera> drawn;
  for (const FrameCamera& frame : cameras) {
    if (frame.camera.valid) drawn.push_back(frame.camera);
  }
  std::vector<ColoredLine> lines;
  const std::vector<Frustum> frusta = frustums_of(drawn, cloud.points);
  for (std::size_t i = 0; i < frusta.size(); ++i) {
    const Canvas::Color rgb = camera_color(i, frusta.size());
    const auto& corners = frusta[i].corners;
    for (std::size_t c = 0; c < corners.size(); ++c) {
      const Eigen::Vector3f corner = corners[c].cast<float>();
      lines.push_back({frusta[i].centre.cast<float>(), corner, rgb});
      lines.push_back({corner, corners[(c + 1) % corners.size()].cast<float>(), rgb});
    }
  }
  return lines;
}

}  // namespace

ExportedScene exported_scene(const ExportInput& input, const ExportedImages& images) {
  ExportedScene scene;
  std::vector<int> image_of(input.cameras.size(), -1), turns;
  std::vector<std::optional<ViewedImage>> views(input.cameras.size());
  for (std::size_t i = 0; i < input.cameras.size(); ++i) {
    const FrameCamera& frame = input.cameras[i];
    if (!frame.camera.valid) continue;
    image_of[i] = static_cast<int>(scene.images.size());
    views[i].emplace(frame.camera, images.view(i));
    scene.images.push_back({images.name(i), frame.time_s, views[i]->camera(), frame.mean_confidence});
    turns.push_back(images.view(i).quarter_turns);
  }
  share_intrinsics(scene.images, turns);
  const auto add = [&](Track track) {
    if (auto exported = exported_track(std::move(track), image_of, views))
      scene.tracks.push_back(std::move(*exported));
  };
  std::ranges::for_each(input.tracks, add);
  for (Track& track : tracks_beside(input)) add(std::move(track));
  // A bundle adjustment would move these images by the errors of a few pixels; images that see no track stay
  // where they are.
  if (!drop_loose_images(scene) && input.cloud) {
    scene.points = sample_ply(*input.cloud, kSparsePoints);
    if (!scene.points.points.empty()) scene.tracks.clear();
  }
  drop_groups_apart(scene);
  return scene;
}

std::size_t most_export_bytes(const ExportPlan& plan, const ExportedImages& images, const FrameSet& frames) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < frames.frames.size(); ++i) {
    const Frame& frame = frames.frames[i];
    if (plan.colmap || plan.nerfstudio) most = std::max(most, images.copy_bytes(i));
    if (plan.needs_depth())
      most = std::max(most, map_bytes(plan, frame.original_width, frame.original_height));
  }
  return most;
}

double most_black_share(const ExportedImages& images, const std::vector<FrameCamera>& cameras) {
  constexpr int kSide = 400;  // points of a grid: rims may be thin
  std::set<std::tuple<int, int, int>> seen;
  double most = 0;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    const Camera& camera = cameras[i].camera;
    if (!camera.valid || !camera.is_distorted() || !images.view(i).undistorted) continue;
    const bool is_new = seen.insert({camera.camera_id, camera.original_width, camera.original_height}).second;
    if (camera.camera_id >= 0 && !is_new) continue;
    const ViewedImage view(camera, images.view(i));
    const int width = camera.original_width, height = camera.original_height;
    int black = 0;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const Eigen::Vector2d at =
            view.to_original({(x + .5) * width / kSide - .5, (y + .5) * height / kSide - .5});
        black += is_on_image(at, width, height) ? 0 : 1;
      }
    }
    most = std::max(most, static_cast<double>(black) / (kSide * kSide));
  }
  return most;
}

int64_t glb_bytes(int64_t points) {
  constexpr int64_t kOfPoint = 15 + 24;  // its place and colour in the cloud, and as floats
  return kOfPoint * std::min(points, kGlbPoints);
}

void export_scene(const ExportPlan& plan, const ExportedImages& images, const ExportInput& input,
                  StagedFiles& files) {
  if (plan.kitti) files.write(*plan.kitti, [&](const auto& place) { write_kitti(place, input.cameras); });
  if (plan.glb) {
    const PointCloud cloud = input.cloud ? sample_ply(*input.cloud, kGlbPoints) : PointCloud();
    files.write(*plan.glb,
                [&](const auto& place) { write_glb(place, cloud, frustum_lines(input.cameras, cloud)); });
  }
  if (plan.colmap || plan.nerfstudio) {
    const ExportedScene scene = exported_scene(input, images);
    std::optional<fs::path> placed;
    if (plan.colmap) {
      files.write_folder(*plan.colmap,
                         [&](const auto& place) { export_colmap(place, images, input, scene, placed); });
    }
    if (plan.nerfstudio) {
      files.write_folder(*plan.nerfstudio, [&](const auto& place) {
        export_nerfstudio(place, *plan.nerfstudio, plan, images, input, scene, placed);
      });
    }
  }
  for (const auto& [folder, kind] :
       {std::pair(&plan.depth, MapKind::depth), {&plan.confidence, MapKind::confidence}}) {
    if (!*folder || !input.depth) continue;
    files.write_folder(**folder, [&](const auto& place) { export_maps(place, kind, plan, input, images); });
  }
}

}  // namespace vggt
