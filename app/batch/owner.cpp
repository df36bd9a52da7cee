#include "app/batch/owner.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <stdexcept>

#include "app/batch/whole_number.h"

namespace vggt {
namespace {

using Json = nlohmann::ordered_json;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string machine_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> space{};
  const bool known = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) > 0;
  return host_name() + " " + boot + " " + (known ? space.data() : "");
}

/// State and start of a process; nothing if there is none.
struct ProcessState {
  char state = 0;
  uint64_t start = 0;
};

std::optional<ProcessState> process_state(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The name, in brackets, may hold blanks and brackets.
  const std::size_t end = text.rfind(')');
  if (end == text.npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  ProcessState process;
  fields >> process.state;
  constexpr int kFieldsBetween = 18;  // the start is field 22
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  return fields >> process.start ? std::optional(process) : std::nullopt;
}

std::string random_token() {
  std::random_device random;
  std::ostringstream text;
  text << std::hex << random() << random() << "-" << ::getpid();
  return text.str();
}

}  // namespace

Owner this_process() {
  Owner owner{host_name(), machine_name(), ::getpid(), 0, random_token()};
  if (const auto process = process_state(owner.pid)) owner.start = process->start;
  return owner;
}

std::optional<bool> is_alive(const Owner& owner) {
  if (owner.machine != machine_name()) return std::nullopt;
  const std::optional<ProcessState> process = process_state(owner.pid);
  if (!process && ::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == EPERM)
    return std::nullopt;  // another user's, of which /proc says nothing
  return process && process->state != 'Z' && process->state != 'X' && process->start == owner.start;
}

std::string to_text(const Owner& owner) {
  return Json{{"host", owner.host},
              {"machine", owner.machine},
              {"pid", owner.pid},
              {"start", owner.start},
              {"token", owner.token}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::optional<Owner> owner_of(const std::string& text) try {
  const Json json = Json::parse(text);
  return Owner{json.at("host").get<std::string>(), json.at("machine").get<std::string>(),
               whole_number(json.at("pid")), static_cast<uint64_t>(whole_number(json.at("start"))),
               json.at("token").get<std::string>()};
} catch (const Json::exception&) {
  return std::nullopt;
} catch (const std::out_of_range&) {
  return std::nullopt;
}

}  // namespace vggt
