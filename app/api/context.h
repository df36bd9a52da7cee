#pragma once
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "app/events/events.h"
#include "app/options/options.h"
#include "app/run/loaded_model.h"
#include "app/run/reconstruct.h"

namespace vggt {

/// How a call failed: in one line, and the operating system's error number or 0.
struct CallError {
  std::string message;
  int number = 0;
};

/// What the threads' last failing calls failed of. Members may be called from any thread.
class CallErrors {
 public:
  void set(CallError error);
  /// Of this thread; stays until it sets another or ends.
  const CallError& get() const;

 private:
  mutable std::mutex mutex_;
  // By what lives as long as its thread: the system gives a thread's id to another one after its end.
  std::map<std::weak_ptr<const int>, CallError, std::owner_less<>> of_threads_;
};

/// Options, and a model that runs share. Members may be called from any thread.
class Context {
 public:
  /// Throws as WeightFile::open(), and where the file holds no network. weights: empty for those that come
  /// with the library.
  explicit Context(const std::string& weights);

  void set(const char* name, const char* value);
  Options options() const;
  /// Throws as plan_run() and reconstruct().
  Reconstruction run(const Options& options, const InMemory& memory, const Events& events);

  CallErrors errors;

 private:
  std::shared_ptr<const LoadedModel> loaded() const;
  /// The model that the plan needs: the one that is loaded, or one that takes its place.
  std::shared_ptr<const LoadedModel> model_for(const RunPlan& plan, const Events& events);

  mutable std::mutex mutex_;  // of options_ and model_, held for an instant
  Options options_;
  std::shared_ptr<const LoadedModel> model_;
  std::timed_mutex loading_;  // held while a model is loaded
};

}  // namespace vggt
