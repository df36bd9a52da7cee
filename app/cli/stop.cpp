#include "app/cli/stop.h"

#include <atomic>
#include <csignal>

namespace vggt {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void request_stop(int) {
  requested = true;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup ignores SIGHUP
  }
  action.sa_flags = 0;
  sigaction(kStopByStarter, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // what cannot be written is an error of the write
}

bool stop_requested() {
  return requested;
}

}  // namespace vggt
