#include "app/api/vggt_recon.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "app/api/context.h"
#include "app/api/image_layout.h"
#include "app/api/scene.h"
#include "app/api/settings.h"
#include "app/cli/process.h"
#include "app/run/failure.h"

struct vggt_recon_context {
  explicit vggt_recon_context(const char* weights) : context(weights ? weights : "") {}
  vggt::Context context;
};

struct vggt_recon_scene {
  vggt_recon_scene(vggt::Reconstruction result, bool has_points) : scene(std::move(result), has_points) {}
  vggt::Scene scene;
};

namespace {

using namespace vggt;

int number_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    const auto& category = e.code().category();
    const bool is_number = category == std::generic_category() || category == std::system_category();
    return is_number ? e.code().value() : 0;
  } catch (...) {
    return 0;
  }
}

/// Of this thread's calls that have no context.
CallError& own_error() {
  thread_local CallError error;
  return error;
}

void keep_error(vggt_recon_context* context, CallError error) {
  if (context) {
    context->context.errors.set(std::move(error));
  } else {
    own_error() = std::move(error);
  }
}

/// Does the work of a call. What it throws becomes the call's error.
template <class Work>
int call(vggt_recon_context* context, Work&& work) noexcept {
  try {
    work();
    return VGGT_RECON_DONE;
  } catch (...) {
    try {
      const Failure failure = explain(std::current_exception());
      keep_error(context, {failure.message, number_of(std::current_exception())});
      return static_cast<int>(failure.code);
    } catch (...) {
      return VGGT_RECON_OUT_OF_RESOURCES;  // not even for the message there is memory
    }
  }
}

[[noreturn]] void refuse(const char* what) {
  throw std::invalid_argument(what);
}

InMemory memory_of(const vggt_recon_run_input& input) {
  const int ways = (input.frames != nullptr) + (input.paths != nullptr) + (input.images != nullptr);
  if (ways != 1) refuse("frames: give one of frames, paths and images");
  if (input.frames && !*input.frames) refuse("frames: the path is empty");
  if (!input.frames && input.count == 0) refuse("frames: no frames were given");
  InMemory memory;
  memory.scene = true;
  memory.maps = (input.results & VGGT_RECON_MAPS) != 0;
  memory.points = (input.results & VGGT_RECON_POINTS) != 0;
  for (std::size_t i = 0; i < input.count && input.paths; ++i) {
    if (!input.paths[i]) refuse("paths: one of them is null");
    memory.paths.emplace_back(input.paths[i]);
  }
  for (std::size_t i = 0; i < input.count && input.images; ++i)
    memory.images.push_back(image_of(input.images[i], i));
  return memory;
}

Options options_of(const Context& context, const vggt_recon_run_input& input) {
  Options options = context.options();
  if (input.option_count > 0 && !input.options) refuse("options: there are none where some were announced");
  for (std::size_t i = 0; i < input.option_count; ++i)
    set_by_name(options, input.options[i].name, input.options[i].value);
  options.frames = input.frames ? input.frames : "";
  // As the run says it of export, without the dashes of the command line.
  if (options.out.empty() && options.report) refuse("report: it goes beside the result, which needs out");
  if (options.out.empty() && !options.picture.empty())
    refuse("picture: it goes beside the result, which needs out");
  return options;
}

Events events_of(const vggt_recon_run_input& input) {
  Events events;
  if (input.progress) {
    // Some stages go through their work several times: what was told stays true, and no bar jumps back.
    events.on_progress = [&input, told = std::make_shared<std::map<std::string, double>>()](
                             const std::string& stage, const std::string& unit, int64_t done, int64_t total) {
      const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
      double& most = (*told)[stage];
      if (share < most) return;
      most = share;
      input.progress(input.user, stage.c_str(), unit.c_str(), done, total);
    };
  }
  if (input.message) {
    events.on_message = [&input](Message kind, const std::string& text) {
      input.message(input.user, static_cast<int>(kind), text.c_str());
    };
  }
  if (input.cancel) events.stop = [&input] { return input.cancel(input.user) != 0; };
  return events;
}

/// The threads of OpenMP and of LibTorch are not there in a process that was forked after they had started: a
/// run would wait for them for ever.
void check_not_forked() {
  static std::atomic<pid_t> first{0};
  pid_t expected = 0;
  if (first.compare_exchange_strong(expected, ::getpid()) || expected == ::getpid()) return;
  throw std::runtime_error(
      "this process was forked from one that had run something already; start it anew instead (in Python: "
      "multiprocessing's \"spawn\")");
}

/// The input as this library knows it: a host that was built with an older header gives less.
vggt_recon_run_input complete(const vggt_recon_run_input* given) {
  if (!given) refuse("input: is null");
  if (given->size == 0 || given->size > sizeof *given)
    refuse("input: its size must be sizeof(vggt_recon_run_input)");
  vggt_recon_run_input input = {};
  std::memcpy(&input, given, given->size);
  return input;
}

template <class Row>
const Row* rows_of(const std::vector<Row>* rows, std::size_t* count) {
  if (count) *count = rows ? rows->size() : 0;
  return rows && !rows->empty() ? rows->data() : nullptr;
}

const float* maps_of(const vggt_recon_scene* scene, std::vector<float> SceneArrays::*values,
                     std::size_t* shape) {
  const bool is_there = scene && !(scene->scene.arrays().*values).empty();
  if (shape) {
    const SceneArrays none, &arrays = is_there ? scene->scene.arrays() : none;
    shape[0] = is_there ? scene->scene.frames() : 0;
    shape[1] = static_cast<std::size_t>(is_there ? arrays.height : 0);
    shape[2] = static_cast<std::size_t>(is_there ? arrays.width : 0);
  }
  return is_there ? (scene->scene.arrays().*values).data() : nullptr;
}

}  // namespace

const char* vggt_recon_version(void) {
  return VGGT_VERSION;
}

const char* vggt_recon_torch_version(void) {
  return VGGT_TORCH_VERSION;
}

int vggt_recon_open(const char* weights, vggt_recon_context** context) {
  if (context) *context = nullptr;
  return call(nullptr, [&] {
    if (!context) refuse("context: is null");
    if (weights && !*weights) refuse("weights: the path is empty; null opens the small model");
    *context = new vggt_recon_context(weights);
  });
}

void vggt_recon_close(vggt_recon_context* context) {
  delete context;
}

int vggt_recon_set_option(vggt_recon_context* context, const char* name, const char* value) {
  return call(context, [&] {
    if (!context) refuse("context: is null");
    context->context.set(name, value);
  });
}

const char* vggt_recon_error(const vggt_recon_context* context) {
  return (context ? context->context.errors.get() : own_error()).message.c_str();
}

int vggt_recon_error_number(const vggt_recon_context* context) {
  return (context ? context->context.errors.get() : own_error()).number;
}

const vggt_recon_option_info* vggt_recon_options(size_t* count) {
  if (count) *count = 0;
  const vggt_recon_option_info* rows = nullptr;
  call(nullptr, [&] { rows = rows_of(&option_table(), count); });
  return rows;
}

int vggt_recon_run(vggt_recon_context* context, const vggt_recon_run_input* given, vggt_recon_scene** scene) {
  if (scene) *scene = nullptr;
  return call(context, [&] {
    if (!context) refuse("context: is null");
    const vggt_recon_run_input input = complete(given);
    check_not_forked();
    const InMemory memory = memory_of(input);
    const Events events = events_of(input);
    Reconstruction result = context->context.run(options_of(context->context, input), memory, events);
    if (scene) *scene = new vggt_recon_scene(std::move(result), memory.points);
  });
}

void vggt_recon_free(vggt_recon_scene* scene) {
  delete scene;
}

const vggt_recon_camera* vggt_recon_cameras(const vggt_recon_scene* scene, size_t* count) {
  return rows_of(scene ? &scene->scene.cameras() : nullptr, count);
}

const float* vggt_recon_depth(const vggt_recon_scene* scene, size_t shape[3]) {
  return maps_of(scene, &SceneArrays::depth, shape);
}

const float* vggt_recon_confidence(const vggt_recon_scene* scene, size_t shape[3]) {
  return maps_of(scene, &SceneArrays::confidence, shape);
}

const float* vggt_recon_points(const vggt_recon_scene* scene, size_t* count) {
  const auto* points = rows_of(scene ? &scene->scene.arrays().cloud.points : nullptr, count);
  return points ? points->data() : nullptr;
}

const uint8_t* vggt_recon_colors(const vggt_recon_scene* scene, size_t* count) {
  const auto* colors = rows_of(scene ? &scene->scene.arrays().cloud.colors : nullptr, count);
  return colors ? colors->data() : nullptr;
}

const float* vggt_recon_normals(const vggt_recon_scene* scene, size_t* count) {
  const auto* normals = rows_of(scene ? &scene->scene.arrays().cloud.normals : nullptr, count);
  return normals ? normals->data() : nullptr;
}

const vggt_recon_track* vggt_recon_tracks(const vggt_recon_scene* scene, size_t* count) {
  return rows_of(scene ? &scene->scene.tracks() : nullptr, count);
}

const vggt_recon_observation* vggt_recon_observations(const vggt_recon_scene* scene, size_t* count) {
  return rows_of(scene ? &scene->scene.observations() : nullptr, count);
}

const char* vggt_recon_report(const vggt_recon_scene* scene) {
  return scene ? scene->scene.report().c_str() : nullptr;
}

const char* const* vggt_recon_written(const vggt_recon_scene* scene, size_t* count) {
  return rows_of(scene ? &scene->scene.written() : nullptr, count);
}

int vggt_recon_save(const vggt_recon_scene* scene, const char* out) {
  return call(nullptr, [&] {
    if (!scene) refuse("scene: is null");
    if (!out || !*out) refuse("out: is null or empty");
    scene->scene.save(out);
  });
}

int vggt_recon_process_threads(int threads) {
  return call(nullptr, [&] {
    if (threads < 1 || threads > 4096) refuse("threads: must be from 1 to 4096");
    set_process_threads(threads);
  });
}

int vggt_recon_process_tf32(int allowed) {
  return call(nullptr, [&] { set_process_precision(allowed ? Precision::tf32 : Precision::fp32); });
}
