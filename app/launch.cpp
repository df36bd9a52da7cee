// The executable: help and version answer at once; for anything else it loads the shared library, which
// stands on LibTorch and OpenCV and takes half a second to load. The GPU's driver, which takes a quarter of a
// second to start, does so meanwhile.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <variant>

#include "app/cli/command_line.h"
#include "app/program.h"
#include "app/run/failure.h"

namespace {

bool asks_for_a_text(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h" || argument == "--version") return true;
  }
  return argc <= 1;
}

/// The exit status; nothing where the program has to do it, or to say what is wrong.
std::optional<vggt::ExitCode> answer(int argc, const char* const* argv) try {
  const vggt::Command command = vggt::parse_command_line(argc, argv);
  const auto* text = std::get_if<vggt::ShowText>(&command);
  if (text == nullptr) return std::nullopt;
  std::FILE* stream = text->is_mistake ? stderr : stdout;
  if (std::fputs(text->text.c_str(), stream) < 0 || std::fflush(stream) != 0) return std::nullopt;
  return text->is_mistake ? vggt::ExitCode::bad_input : vggt::ExitCode::done;
} catch (const std::exception&) {
  return std::nullopt;
}

/// Starts the driver and what it keeps for a process on the first GPU, which LibTorch's runtime then takes.
/// Where that fails, LibTorch says why.
void start_first_gpu(void* driver) {
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto retain = reinterpret_cast<int (*)(void**, int)>(::dlsym(driver, "cuDevicePrimaryCtxRetain"));
  void* context = nullptr;
  if (init != nullptr && retain != nullptr && init(0) == 0) retain(&context, 0);
}

/// Starts the first GPU on a thread; false where there is no thread for it.
bool start_gpu(void* driver) {
  try {
    std::thread(start_first_gpu, driver).detach();
  } catch (const std::system_error&) {
    return false;  // no memory for a thread: the run says so
  }
  return true;
}

/// Loads the largest libraries one after another. All at once, each would look up its symbols in all of them,
/// which takes a seventh longer. LibTorch comes first: its LAPACK is the one that OpenCV takes. Where no
/// GPU is used a stand-in takes the place of libtorch_cuda.so (scripts/cmake/no_gpu.cmake). The driver of a
/// GPU that starts loads some libraries too, and waits while a dlopen() is under way. What is missing the
/// program finds missing again.
void load_large_libraries(bool without_gpu, bool beside_driver) {
  if (without_gpu) ::dlopen(VGGT_NO_GPU, RTLD_NOW | RTLD_GLOBAL);
  for (const char* library : {"libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    if (beside_driver) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the lock is not fair
    ::dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  }
  std::string_view left = VGGT_LARGE_LIBRARIES;
  while (!left.empty()) {
    const std::string library(left.substr(0, left.find(':')));
    left.remove_prefix(std::min(left.size(), library.size() + 1));
    ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

/// Whether an argument, or the value of an option, is a pipe, which can be read once alone.
bool names_a_pipe(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const char* const value = argument.starts_with("--") ? std::strchr(argv[i], '=') : nullptr;
    struct stat status {};
    if (::stat(value ? value + 1 : argv[i], &status) == 0 && S_ISFIFO(status.st_mode)) return true;
  }
  return false;
}

/// What --device says; "cpu" for commands that use no GPU.
std::string device_of(const vggt::Command& command) {
  return std::visit(
      [](const auto& some) -> std::string {
        if constexpr (requires { some.options.device; }) {
          return some.options.device;
        } else if constexpr (requires { some.device; }) {
          return some.device;
        } else if constexpr (requires { some.given; }) {
          const auto given = some.given.find("device");
          return given == some.given.end() || given->second.empty() ? "auto" : given->second.front();
        } else {
          return "cpu";
        }
      },
      command);
}

enum class Wanted { no_gpu, first_gpu, unknown };

/// Whether this uses no GPU, or is a reconstruction that may run on the first one and no rank of a run on
/// several.
Wanted wanted_device(int argc, const char* const* argv) try {
  if (names_a_pipe(argc, argv)) return Wanted::unknown;
  const vggt::Command command = vggt::parse_command_line(argc, argv);
  const std::string device = device_of(command);
  if (device == "cpu") return Wanted::no_gpu;
  for (const char* rank : {"RANK", "SLURM_PROCID"}) {
    if (std::getenv(rank) != nullptr) return Wanted::unknown;
  }
  const auto* run = std::get_if<vggt::Options>(&command);
  const bool is_first = device == "auto" || device == "cuda" || device == "cuda:0";
  return run != nullptr && !run->dry_run && is_first ? Wanted::first_gpu : Wanted::unknown;
} catch (const std::exception&) {
  return Wanted::unknown;  // the program says what is wrong
}

/// Whether the system has no driver of NVIDIA's GPUs (of WSL: a way to that of Windows), not only none that
/// dlopen() finds here.
bool has_no_driver() {
  return ::access("/proc/driver/nvidia", F_OK) != 0 && ::access("/dev/dxg", F_OK) != 0;
}

/// Whether `ulimit -v` bounds the process's memory.
bool has_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// Whether dlopen() had no memory for a library, of which it says little.
bool lacks_memory(std::string_view error) {
  return error.find("Cannot allocate memory") != error.npos || error.find("out of memory") != error.npos ||
         (has_limit() && error.find("failed to map segment") != error.npos);
}

/// Whether there is so little memory that a library may have gone on without what it asked for.
bool memory_is_short() {
  constexpr std::size_t kPlenty = std::size_t{1} << 30;
  void* const room = ::mmap(nullptr, kPlenty, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return true;
  ::munmap(room, kPlenty);
  return false;
}

[[noreturn]] void end_without_memory() {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) ::pause();  // another thread ends the process
  static constexpr std::string_view kLine =
      "vggt-recon: error: out of memory: a library gave up under the limit of `ulimit -v`\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(static_cast<int>(vggt::ExitCode::out_of_resources));
}

void end_by_signal(int signal) {
  if (memory_is_short()) end_without_memory();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// On a stack of their own: the main thread's may be what found no room.
void catch_crashes_of_a_limit() {
  if (!has_limit()) return;
  alignas(16) static std::array<char, 1 << 16> stack;
  stack_t own{};
  own.ss_sp = stack.data();
  own.ss_size = stack.size();
  ::sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_handler = end_by_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT}) ::sigaction(crash, &action, nullptr);
}

/// Before the program runs, which does not end by exit(): a library does, such as OpenMP's without a thread.
void catch_exits_of_a_limit() {
  if (!has_limit()) return;
  ::on_exit(
      [](int, void*) {
        if (memory_is_short()) end_without_memory();
      },
      nullptr);
}

/// A closed standard stream would give its number to the first file that is opened, and messages would go
/// there.
void keep_standard_streams() {
  int file = 0;
  do {
    file = ::open("/dev/null", O_RDWR);
  } while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
  catch_crashes_of_a_limit();
  if (asks_for_a_text(argc, argv)) {
    if (const auto code = answer(argc, argv)) return static_cast<int>(*code);
  }
  // LibTorch's threads that wait for work spin for milliseconds, which decoders, loaders and drivers could
  // use.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  const Wanted wanted = wanted_device(argc, argv);
  void* driver = wanted == Wanted::no_gpu ? nullptr : ::dlopen("libcuda.so.1", RTLD_NOW);
  const bool without_gpu = wanted == Wanted::no_gpu || (driver == nullptr && has_no_driver());
  load_large_libraries(without_gpu, driver != nullptr && wanted == Wanted::first_gpu && start_gpu(driver));
  // Global, as if it were linked: LibTorch's libraries know each other by their symbols.
  void* library = ::dlopen(VGGT_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
  void* run = library ? ::dlsym(library, "vggt_recon_main") : nullptr;
  if (run == nullptr) {
    const char* const error = ::dlerror();
    const char* const why = error != nullptr ? error : "a library cannot be loaded";
    if (lacks_memory(why)) {
      std::fprintf(stderr, "vggt-recon: error: out of memory: %s\n", why);
      return static_cast<int>(vggt::ExitCode::out_of_resources);
    }
    std::fprintf(
        stderr,
        "vggt-recon: error: %s; the libraries of torch %s are needed, and VGGT_TORCH may name the folder "
        "that holds torch/\n",
        why, VGGT_TORCH_VERSION);
    return static_cast<int>(vggt::ExitCode::failed);
  }
#if !defined(__SANITIZE_ADDRESS__)
  catch_exits_of_a_limit();
#endif
  const int code = reinterpret_cast<decltype(&vggt_recon_main)>(run)(argc, argv);
#if !defined(__SANITIZE_ADDRESS__)  // which looks for leaks when a process ends
  // All is written and closed: the system frees the rest faster than LibTorch and CUDA take themselves apart.
  std::fflush(nullptr);
  ::_exit(code);
#endif
  return code;
}
