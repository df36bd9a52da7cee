// Reads a trajectory and a folder of frames: media TUM FOLDER
#include <cstdio>

#include "io/frames/frames.h"
#include "io/scene/scene_files.h"

int main(int, char** argv) {
  const auto poses = vggt::read_tum(argv[1]);
  vggt::FrameOptions options;
  options.source = argv[2];
  options.width = 56;
  const vggt::FrameSet set = vggt::load_frames(options);
  std::printf("%zu poses, %zu frames of %dx%d\n", poses.size(), set.frames.size(), set.width, set.height);
  return poses.size() == set.frames.size() && set.warnings.empty() ? 0 : 1;
}
