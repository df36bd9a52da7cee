#include "app/events/stop.h"

#include <csignal>

namespace vggt {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

void request_stop(int) {
  stop_requested = 1;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // what cannot be written is an error of the write
}

void check_stop() {
  if (stop_requested) throw Stopped();
}

}  // namespace vggt
