// Reads a trajectory and a folder of frames: media TUM FOLDER
#include <cstdio>

#include "io/frames/frames.h"
#include "io/scene/tum.h"

int main(int, char** argv) {
  const auto cameras = vggt::read_tum(argv[1]);
  vggt::FrameOptions options;
  options.source = argv[2];
  options.width = 56;
  const vggt::FrameSet set = vggt::load_frames(options);
  std::printf("%zu cameras, %zu frames of %dx%d\n", cameras.size(), set.frames.size(), set.width, set.height);
  return cameras.size() == set.frames.size() && set.warnings.empty() ? 0 : 1;
}
