#include "app/run/run_plan.h"

#include <ATen/Parallel.h>

#include "app/run/device.h"
#include "app/run/model_loader.h"
#include "app/run/weights_path.h"

namespace vggt {

Setup set_up(const Options& options) {
  OutputPaths outputs = plan_outputs(options.out, options.picture, options.save_predictions);
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  const at::Device device = choose_device(options.device);
  const AttentionVariant attention = choose_attention(options.attention, device);
  const Precision precision = choose_precision(options.precision, options.attention, device);
  WeightFile weights =
      WeightFile::open(options.weights.empty() ? default_weights().string() : options.weights);
  Config config = config_of(weights);
  HeadChoice heads = choose_heads(options, heads_in(shapes_of(weights)), outputs.names_cloud);
  const bool bundle_adjust = choose_adjustment(options, heads, config.bundle_adjust);
  check_model_options(config,
                      {.device = device, .precision = precision, .heads = heads.run, .attention = attention});
  QueryPoints queries =
      options.query_points.empty() ? QueryPoints{} : read_query_points(options.query_points);
  return {std::move(outputs), device,           attention,     precision,         std::move(weights),
          std::move(config),  std::move(heads), bundle_adjust, std::move(queries)};
}

}  // namespace vggt
