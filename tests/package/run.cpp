// The whole run without the command line: run FRAMES WEIGHTS OUT
#include <cstdio>

#include "app/run/reconstruct.h"

int main(int, char** argv) {
  vggt::Options options;
  options.frames = argv[1];
  options.weights = argv[2];
  options.out = argv[3];
  options.max_frames = 2;
  options.device = "cpu";
  vggt::Events events;
  int calls = 0;
  events.on_progress = [&](const std::string&, const std::string&, int64_t, int64_t) { ++calls; };
  const vggt::Reconstruction result = vggt::reconstruct(vggt::plan_run(options), events);
  std::printf("%zu cameras, %lld points\n", result.cameras.size(),
              static_cast<long long>(result.report.points));
  return result.cameras.size() == 2 && result.report.points > 0 && result.written.size() == 4 && calls > 0
             ? 0
             : 1;
}
