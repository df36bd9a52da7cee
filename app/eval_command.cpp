#include "app/eval_command.h"

#include <cstdio>
#include <ostream>

#include "app/trajectory_error.h"

namespace vggt {

void run_eval_command(const EvalCommand& command) {
  const TrajectoryError error = trajectory_error(read_tum(command.poses), read_tum(command.truth));
  std::fputs(to_text(error).c_str(), stdout);
  if (!command.json.empty()) {
    write_atomically(command.json, [&](std::ostream& out) { out << to_json(error); });
  }
}

}  // namespace vggt
