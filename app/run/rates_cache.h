#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "app/events/events.h"
#include "app/run/run_plan.h"
#include "model/config.h"
#include "model/model_options.h"
#include "model/rates.h"

// rates.json, beside the measured plans of attention: how long the parts of a network take here.
namespace vggt {

/// vggt-recon/rates.json in the user's folder for caches; nothing where the environment names none.
std::optional<std::filesystem::path> rates_cache_path();

/// What rates hold for: the program's version and kernels, the device (a GPU's name; a CPU's model and its
/// threads), precisions (the trunk's and the dense heads'), attention, the architecture's widths, the heads.
/// Numbers of blocks make no difference.
std::string rates_key(const Config& config, const ModelOptions& options);

/// The rates that a cache's text has for this key; nothing where the text is no cache of this form.
std::optional<Rates> rates_in_cache(const std::string& cache, const std::string& key);
/// The cache's text with these rates put in. Those of other versions of the program go.
std::string cache_with_rates(const std::string& cache, const std::string& key, const Rates& rates);

/// The rates of the user's cache. Where it has none they are measured, if `measure`, and kept; a cache that
/// cannot be read or written costs time alone. Nothing without `measure`, and where a GPU is too full.
std::optional<Rates> rates_for(const ModelPlan& plan, bool measure, const Events& events);

/// Adds the rates of the scratch folder's files where the request's plan, merged or exact, needs any: those
/// of the user's cache for this machine's file system, else, if `measure`, those of a file that goes at once,
/// which are kept. A disk that is nearly full and files that cannot be written or read leave them unknown;
/// without `measure` all rates become so.
void add_scratch_rates(const MemoryRequest& request, bool measure, std::optional<Rates>& rates);

}  // namespace vggt
