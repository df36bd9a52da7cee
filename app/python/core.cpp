// The module vggt_recon._core: the C interface with Python's objects, errors and signals. Texts of the
// operating system pass as bytes, arrays without copies.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/api/vggt_recon.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// A name of a file or frame: any bytes.
nb::object name_from(const char* text) {
  return nb::steal(PyUnicode_DecodeFSDefault(text));
}

nb::object text_from(const char* text) {
  return nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
}

/// Throws what a failing call is in Python: OSError where the operating system refused something.
[[noreturn]] void raise(int code, const vggt_recon_context* context) {
  const int number = vggt_recon_error_number(context);
  const nb::object text =
      nb::module_::import_("vggt_recon").attr("_with_keywords")(text_from(vggt_recon_error(context)));
  if (number != 0 && number != ENOMEM) {
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(number, text).ptr());
  } else {
    PyErr_SetObject(code == VGGT_RECON_BAD_INPUT          ? PyExc_ValueError
                    : code == VGGT_RECON_OUT_OF_RESOURCES ? PyExc_MemoryError
                    : code == VGGT_RECON_STOPPED          ? PyExc_KeyboardInterrupt
                                                          : PyExc_RuntimeError,
                    text.ptr());
  }
  throw nb::python_error();
}

/// Runs that go on, and whether the interpreter ends: then they stop, as no thread may come back to Python.
std::atomic<int> running_count = 0;
std::atomic<bool> is_ending = false;

class Running {
 public:
  Running() { ++running_count; }
  Running(const Running&) = delete;
  ~Running() { --running_count; }
};

/// For atexit.
void end_runs() {
  constexpr std::chrono::milliseconds kPeriod(5);
  is_ending = true;
  while (running_count > 0) {
    const nb::gil_scoped_release unlocked;
    std::this_thread::sleep_for(kPeriod);
  }
}

/// What a run calls back, on the thread that called it and without the interpreter's lock. The first
/// exception of Python, a signal handler's too, is kept and ends the run.
class Host {
 public:
  Host(nb::object progress, nb::object message)
      : progress_(std::move(progress)), message_(std::move(message)) {}

  void listen(vggt_recon_run_input& input) {
    input.user = this;
    if (!progress_.is_none()) {
      input.progress = [](void* host, const char* stage, const char* unit, int64_t done, int64_t total) {
        self(host).tell([&] { self(host).progress_(text_from(stage), done, total, text_from(unit)); });
      };
    }
    if (!message_.is_none()) {
      input.message = [](void* host, int kind, const char* text) {
        self(host).tell([&] { self(host).message_(kind, text_from(text)); });
      };
    }
    input.cancel = [](void* host) { return self(host).is_stopped() ? 1 : 0; };
  }
  /// With the interpreter's lock.
  void rethrow() {
    if (error_) throw std::move(*error_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Host& self(void* host) { return *static_cast<Host*>(host); }

  template <class Call>
  void tell(Call&& call) noexcept {
    if (stopped_) return;
    const nb::gil_scoped_acquire lock;
    try {
      call();
    } catch (nb::python_error& error) {
      stop(std::move(error));
    }
  }

  bool is_stopped() noexcept {
    constexpr std::chrono::milliseconds kPeriod(20);
    if (stopped_ || is_ending) return true;
    // Other threads have no say, and Python runs the handlers of signals on its main thread alone.
    if (std::this_thread::get_id() != thread_ || Clock::now() < next_look_) return false;
    next_look_ = Clock::now() + kPeriod;
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() == 0) return false;
    stop(nb::python_error());
    return true;
  }

  void stop(nb::python_error&& error) {
    if (!error_) error_.emplace(std::move(error));
    stopped_ = true;
  }

  const nb::object progress_, message_;
  const std::thread::id thread_ = std::this_thread::get_id();
  Clock::time_point next_look_;
  std::optional<nb::python_error> error_;
  std::atomic<bool> stopped_ = false;
};

class Scene {
 public:
  explicit Scene(vggt_recon_scene* handle) : handle_(handle) {}
  Scene(const Scene&) = delete;
  ~Scene() { vggt_recon_free(handle_); }
  const vggt_recon_scene* get() const { return handle_; }

 private:
  vggt_recon_scene* handle_;
};

const vggt_recon_scene* handle_of(nb::handle scene) {
  return nb::cast<Scene&>(scene).get();
}

/// An array of the scene's own memory, which keeps the scene alive. It may be written to, as torch takes no
/// array by DLPack that may not. Strides count values; none: densely packed.
template <class Value>
nb::object view(nb::handle scene, const Value* data, std::vector<std::size_t> shape,
                std::vector<int64_t> strides = {}) {
  static Value nothing;  // an empty array needs a place too
  auto* const place = data ? const_cast<Value*>(data) : &nothing;
  return nb::cast(nb::ndarray<nb::numpy, Value>(place, shape.size(), shape.data(), scene,
                                                strides.empty() ? nullptr : strides.data()));
}

nb::object maps(nb::handle scene, const float* (*read)(const vggt_recon_scene*, std::size_t*)) {
  std::size_t shape[3];
  const float* const data = read(handle_of(scene), shape);
  return data ? view(scene, data, {shape[0], shape[1], shape[2]}) : nb::none();
}

template <class Value>
nb::object rows(nb::handle scene, const Value* (*read)(const vggt_recon_scene*, std::size_t*)) {
  std::size_t count = 0;
  const Value* const data = read(handle_of(scene), &count);
  return view(scene, data, {count, 3});
}

nb::list cameras(nb::handle scene) {
  std::size_t count = 0;
  const vggt_recon_camera* const all = vggt_recon_cameras(handle_of(scene), &count);
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) {
    const vggt_recon_camera& camera = all[i];
    nb::dict fields;
    fields["name"] = name_from(camera.name);
    fields["model"] = camera.model;
    fields["time"] = camera.time_s;
    fields["valid"] = camera.valid != 0;
    fields["width"] = camera.width;
    fields["height"] = camera.height;
    fields["intrinsics"] = view(scene, camera.intrinsics, {3, 3});
    fields["distortion"] = view(scene, camera.distortion, {2});
    fields["cam_from_world"] = view(scene, camera.cam_from_world, {4, 4});
    fields["network_width"] = camera.network_width;
    fields["network_height"] = camera.network_height;
    fields["network_intrinsics"] = view(scene, camera.network_intrinsics, {3, 3});
    fields["mean_confidence"] = camera.mean_confidence;
    list.append(fields);
  }
  return list;
}

/// Columns of the rows of C: their strides are the rows' size.
nb::dict tracks(nb::handle scene) {
  constexpr int64_t kTrack = sizeof(vggt_recon_track), kSeen = sizeof(vggt_recon_observation), kWord = 8;
  std::size_t count = 0, seen_count = 0;
  const vggt_recon_track none = {}, *track = vggt_recon_tracks(handle_of(scene), &count);
  const vggt_recon_observation unseen = {}, *seen = vggt_recon_observations(handle_of(scene), &seen_count);
  if (!track) track = &none;
  if (!seen) seen = &unseen;
  nb::dict columns;
  columns["points"] = view(scene, track->point, {count, 3}, {kTrack / kWord, 1});
  columns["errors"] = view(scene, &track->error, {count}, {kTrack / kWord});
  columns["first"] = view(scene, &track->first_observation, {count}, {kTrack / kWord});
  columns["counts"] = view(scene, &track->observation_count, {count}, {kTrack / kWord});
  columns["colors"] = view(scene, track->rgb, {count, 3}, {kTrack, 1});
  columns["pixels"] = view(scene, &seen->x, {seen_count, 2}, {kSeen / kWord, 1});
  columns["frames"] = view(scene, &seen->frame, {seen_count}, {kSeen / kWord});
  return columns;
}

nb::list written(nb::handle scene) {
  std::size_t count = 0;
  const char* const* const paths = vggt_recon_written(handle_of(scene), &count);
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(name_from(paths[i]));
  return list;
}

void save(nb::handle scene, const nb::bytes& out) {
  const vggt_recon_scene* const handle = handle_of(scene);
  int code = 0;
  {
    const nb::gil_scoped_release unlocked;
    code = vggt_recon_save(handle, out.c_str());
  }
  if (code != VGGT_RECON_DONE) raise(code, nullptr);
}

using Option = std::pair<std::string, std::optional<nb::bytes>>;
using Image = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::device::cpu>;

vggt_recon_image image_from(const Image& image, const nb::bytes& name) {
  return {image.data(),
          static_cast<int32_t>(image.shape(1)),
          static_cast<int32_t>(image.shape(0)),
          image.stride(0),
          image.stride(1),
          image.stride(2),
          name.size() > 0 ? name.c_str() : nullptr};
}

class Context {
 public:
  explicit Context(const std::optional<nb::bytes>& weights) {
    const int code = vggt_recon_open(weights ? weights->c_str() : nullptr, &handle_);
    if (code != VGGT_RECON_DONE) raise(code, nullptr);
  }
  Context(const Context&) = delete;
  ~Context() { vggt_recon_close(handle_); }

  void set_option(const std::string& name, const std::optional<nb::bytes>& value) {
    const int code = vggt_recon_set_option(handle_, name.c_str(), value ? value->c_str() : nullptr);
    if (code != VGGT_RECON_DONE) raise(code, handle_);
  }

  /// Frames are a source, paths, or images with their names.
  Scene* run(const std::optional<nb::bytes>& source, const std::vector<nb::bytes>& paths,
             const std::vector<Image>& images, const std::vector<nb::bytes>& names,
             const std::vector<Option>& options, unsigned results, nb::object progress, nb::object message) {
    std::vector<const char*> path_texts;
    for (const nb::bytes& path : paths) path_texts.push_back(path.c_str());
    std::vector<vggt_recon_image> rows;
    for (std::size_t i = 0; i < images.size(); ++i) rows.push_back(image_from(images[i], names.at(i)));
    std::vector<vggt_recon_option> settings;
    for (const auto& [name, value] : options)
      settings.push_back({name.c_str(), value ? value->c_str() : nullptr});

    vggt_recon_run_input input = {};
    input.size = sizeof input;
    input.frames = source ? source->c_str() : nullptr;
    if (!paths.empty()) input.paths = path_texts.data();
    if (!images.empty()) input.images = rows.data();
    input.count = paths.empty() ? images.size() : paths.size();
    input.options = settings.data();
    input.option_count = settings.size();
    input.results = results;
    const Running running;
    Host host(std::move(progress), std::move(message));
    host.listen(input);
    vggt_recon_scene* scene = nullptr;
    int code = 0;
    {
      const nb::gil_scoped_release unlocked;
      code = vggt_recon_run(handle_, &input, &scene);
    }
    auto result = scene ? std::make_unique<Scene>(scene) : nullptr;
    host.rethrow();
    if (code != VGGT_RECON_DONE) raise(code, handle_);
    return result.release();
  }

 private:
  vggt_recon_context* handle_ = nullptr;
};

nb::list options() {
  std::size_t count = 0;
  const vggt_recon_option_info* const all = vggt_recon_options(&count);
  nb::list list;
  for (std::size_t i = 0; i < count; ++i)
    list.append(nb::make_tuple(all[i].name, all[i].kind, all[i].choices, all[i].value, all[i].help));
  return list;
}

}  // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // of arrays that other libraries hold when the interpreter ends
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_runs));
  module.attr("version") = vggt_recon_version();
  module.attr("torch_version") = vggt_recon_torch_version();
  module.attr("MAPS") = static_cast<int>(VGGT_RECON_MAPS);
  module.attr("POINTS") = static_cast<int>(VGGT_RECON_POINTS);
  module.def("options", &options);
  nb::class_<Scene>(module, "Scene")
      .def_prop_ro("cameras", [](nb::handle scene) { return cameras(scene); })
      .def_prop_ro("depth", [](nb::handle scene) { return maps(scene, vggt_recon_depth); })
      .def_prop_ro("confidence", [](nb::handle scene) { return maps(scene, vggt_recon_confidence); })
      .def_prop_ro("points", [](nb::handle scene) { return rows(scene, vggt_recon_points); })
      .def_prop_ro("colors", [](nb::handle scene) { return rows(scene, vggt_recon_colors); })
      .def_prop_ro("normals", [](nb::handle scene) { return rows(scene, vggt_recon_normals); })
      .def_prop_ro("tracks", [](nb::handle scene) { return tracks(scene); })
      .def_prop_ro("report", [](nb::handle scene) { return text_from(vggt_recon_report(handle_of(scene))); })
      .def_prop_ro("written", [](nb::handle scene) { return written(scene); })
      .def(
          "save", [](nb::handle scene, const nb::bytes& out) { save(scene, out); }, "out"_a);
  nb::class_<Context>(module, "Context")
      .def(nb::init<const std::optional<nb::bytes>&>(), "weights"_a.none())
      .def("set_option", &Context::set_option, "name"_a, "value"_a.none())
      .def("run", &Context::run, "source"_a.none(), "paths"_a, "images"_a, "names"_a, "options"_a,
           "results"_a, "progress"_a.none(), "message"_a.none(), nb::rv_policy::take_ownership);
}
