#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/run/run_plan.h"
#include "app/run/stage_work.h"

// stages.json, beside the measured plans of attention and rates: how long the stages beside the network took
// in earlier runs, and by that how long they will take.
namespace vggt {

/// What a stage did in a run, and how long it took.
struct StageRun {
  double units = 0, seconds = 0;
};

/// How long so many units take: by the middle rate of those runs whose number of units is the nearest, as
/// what is fixed has another share of small runs. An odd run among three counts for nothing. runs: at least
/// one.
double seconds_by(std::span<const StageRun> runs, double units);

/// The same where only runs of alike units tell: see StageWork. Nothing where there is none. An adjustment's
/// rate is a third less of 12 photographs than of 25 of the same source, and of fewer frames other lenses may
/// pay.
std::optional<double> seconds_by_alike(std::span<const StageRun> runs, double units, double alike);

/// What a stage that nobody knows is likely to take: the middle of what others took, the least and the most.
struct LikelySeconds {
  double middle = 0, least = 0, most = 0;

  LikelySeconds plus(const LikelySeconds& other) const {
    return {middle + other.middle, least + other.least, most + other.most};
  }
  LikelySeconds plus(double seconds) const { return plus({seconds, seconds, seconds}); }
};

/// The same of so many units, by runs of other sources; those of up to four times the units, or a
/// quarter, alone tell where there are such. others: at least one.
LikelySeconds likely_seconds(std::span<const StageRun> others, double units);

/// A factor of decoding's seconds on two threads, as measured on 16 of an Intel Xeon. Less than two count as
/// two, more than 16 as 16.
double frames_by_threads(int64_t threads);

/// The runs that a cache's text has for this key, oldest first; none where the text is no cache of this form.
std::vector<StageRun> runs_in_cache(const std::string& cache, const std::string& key);
/// The cache's text with these runs added. Of each key the last five of about so many units stay, in
/// all the last thirty, of the keys the last two hundred; those of other versions of the program go.
std::string cache_with_runs(const std::string& cache,
                            const std::vector<std::pair<std::string, StageRun>>& runs);

/// Predicted seconds of the stages beside the network.
struct BesideSeconds {
  std::vector<std::pair<std::string, double>> stages;  // that are known
  bool all = false;                                    // they all are
  std::vector<std::string> guessed = {};  // of the stages, those by another machine for want of a run here
  std::vector<std::string> unknown = {};  // the other stages
  /// Of the unknown ones, by other sources' runs, and where there are few by those of another machine.
  std::vector<std::pair<std::string, LikelySeconds>> likely = {};
  std::vector<std::string> left_out = {};  // what the run does beside them all, of which nothing is predicted

  /// With the weights loading while frames are decoded.
  double total() const;
  /// With what is likely of the unknown stages; nothing where there are none, or one of which nothing is.
  std::optional<LikelySeconds> likely_total() const;
};

/// By the user's cache; nothing where the run keeps nothing there: with --no-autotune, and with --resume,
/// where files and earlier runs take a part. first: small stages of which no run is known are predicted as on
/// another machine.
BesideSeconds predict_beside(const RunPlan& plan, const std::vector<StageWork>& works, bool first);

/// Adds to the network's stages, whose seconds their rates tell, what earlier runs took more, and on a GPU
/// what measuring the attention's plans takes, if no run of such a size was kept.
void add_more_than_rates(const RunPlan& plan, const MemoryRequest& request,
                         std::vector<StageSeconds>& stages);

/// Drops from the user's cache what runs took more than by rates of this key, which have been measured anew,
/// and the sizes that there were runs of.
void forget_more_than_rates(const std::string& rates_key);

/// Notes in the user's cache that there was a run with about so many frames of this size, in which a GPU's
/// plans of attention were measured, and whether there was one.
void keep_size(const RunPlan& plan, const MemoryRequest& request);
bool has_size(const RunPlan& plan, const MemoryRequest& request);

/// Adds a run that ended well to the user's cache, where predict_beside() reads it. seconds: of its stages.
void keep_seconds(const RunPlan& plan, const std::vector<StageWork>& works,
                  const std::vector<std::pair<std::string, double>>& seconds);
/// The same of what the network's stages took more than by their rates, in a run that measured no attention:
/// that is done once for a size.
void keep_more_than_rates(const RunPlan& plan, const MemoryRequest& request,
                          const std::vector<StageSeconds>& by_rates,
                          const std::vector<std::pair<std::string, double>>& seconds);

}  // namespace vggt
