#include "app/cli/rank_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "app/cli/console.h"
#include "app/cli/stop.h"
#include "app/run/device.h"
#include "io/files/text_file.h"

namespace vggt {
namespace {

constexpr const char* kStartedBy = "VGGT_RECON_STARTED_BY";  // the process that start_ranks() ran in

std::system_error system_error(const char* what) {
  return {errno, std::generic_category(), what};
}

/// A port of this machine that nobody listens at.
uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool found = socket >= 0 && ::bind(socket, any, size) == 0 && ::getsockname(socket, any, &size) == 0;
  const std::system_error error = system_error("device: no free port for the ranks to meet at");
  if (socket >= 0) ::close(socket);
  if (!found) throw error;
  return ntohs(address.sin_port);
}

/// The arguments that this process was started with.
std::vector<std::string> own_arguments() {
  const std::string text = read_text_file("/proc/self/cmdline", 4 << 20, "a command line");
  std::vector<std::string> arguments;
  for (std::size_t first = 0; first < text.size(); first = text.find('\0', first) + 1)
    arguments.emplace_back(text.c_str() + first);
  return arguments;
}

bool is_started_here() {
  const char* parent = std::getenv(kStartedBy);
  return parent && std::to_string(::getppid()) == parent;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

pid_t start_rank(std::vector<std::string>& arguments, const std::vector<std::string>& place) {
  std::vector<std::string> environment = place;
  for (char** variable = environ; *variable; ++variable) environment.emplace_back(*variable);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
  if (error != 0) throw std::system_error(error, std::generic_category(), "device: cannot start a rank");
  return process;
}

ExitCode code_of(int status) {
  if (WIFEXITED(status)) return static_cast<ExitCode>(WEXITSTATUS(status));
  return ExitCode::failed;
}

}  // namespace

std::optional<RankPlace> place_of_process() {
  if (is_started_here()) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  return rank_place([](const char* name) { return std::getenv(name); });
}

std::string device_of_rank(const RankPlace& place, const std::string& asked) {
  if (asked == "cpu") throw std::invalid_argument("device: 'cpu' cannot be shared by several ranks");
  const int gpus = gpu_count();
  int64_t index = place.local_rank;
  if (gpus == 1) {
    index = 0;  // Slurm may show each rank its own GPU alone
  } else if (!is_started_here()) {
    const std::vector<int> listed = listed_gpus(asked);
    const bool has_one = index < std::ssize(listed);
    if (has_one) index = listed[static_cast<std::size_t>(index)];
    const bool names_another = asked.starts_with("cuda:") && asked != "cuda:" + std::to_string(index);
    if (!has_one && (!listed.empty() || names_another)) {
      throw std::invalid_argument(
          "device: '" + asked + "' has no GPU for rank " + std::to_string(place.rank) + ", number " +
          std::to_string(index) +
          " of its machine: a launcher needs 'cuda', or as many as it has ranks there");
    }
  }
  if (index >= gpus) {
    throw std::invalid_argument("device: rank " + std::to_string(place.rank) + " needs GPU " +
                                std::to_string(index) + " of its machine, which has " + std::to_string(gpus));
  }
  return "cuda:" + std::to_string(index);
}

std::unique_ptr<NcclGroup> join_ranks(const RankPlace& place, const std::string& device,
                                      NcclBuffers buffers) {
  auto group = std::make_unique<NcclGroup>(place, at::Device(device), buffers, [] {
    if (stop_requested()) throw Stopped();
  });
  group->meeting().on_stuck([](const std::string& why) {
    Console(Verbosity::quiet).error(why);
    std::_Exit(static_cast<int>(ExitCode::out_of_resources));
  });
  return group;
}

ExitCode start_ranks(const std::vector<int>& gpus) {
  std::vector<std::string> arguments = own_arguments();
  const std::string port = std::to_string(free_port());
  std::vector<pid_t> processes;
  const auto end_all = [&] {
    for (const pid_t each : processes) {
      if (each > 0) ::kill(each, kStopByStarter);
    }
  };
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    try {
      processes.push_back(start_rank(
          arguments,
          {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(gpus.size()),
           "LOCAL_RANK=" + std::to_string(gpus[rank]), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
           "TORCHELASTIC_USE_AGENT_STORE=False", kStartedBy + ("=" + std::to_string(::getpid()))}));
    } catch (...) {
      end_all();
      throw;
    }
  }
  ExitCode code = ExitCode::done;
  bool told = false, told_by_a_rank = false;
  for (pid_t& process : processes) {
    int status = 0;
    for (pid_t ended = 0; ended == 0;) {
      ended = ::waitpid(process, &status, WNOHANG);
      if (ended < 0 && errno != EINTR) throw system_error("device: waiting for a rank");
      if (stop_requested() && !std::exchange(told, true)) end_all();
      if (ended > 0) break;
      ended = 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    process = -1;  // its number may be another's now
    // Of a rank that was killed the others tell.
    const bool tells = WIFEXITED(status) && code_of(status) != ExitCode::done;
    if (code == ExitCode::done || (tells && !told_by_a_rank)) code = code_of(status);
    told_by_a_rank |= tells;
  }
  if (told) return ExitCode::stopped;
  if (code == ExitCode::done || told_by_a_rank) return code;
  Console(Verbosity::quiet).error("every rank was killed");
  return ExitCode::out_of_resources;
}

}  // namespace vggt
