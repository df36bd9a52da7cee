#include "app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

#include "app/cli/first_contact.h"
#include "app/options/options_yaml.h"
#include "app/options/spelling.h"
#include "attention/bench/options.h"
#include "io/files/numbers.h"

namespace vggt {
namespace {

/// A number above 0. CLI11's own takes NaN for one, and names its limits in 300 digits.
CLI::Validator positive() {
  const auto check = [](const std::string& text) -> std::string {
    return parse_finite<double>(text).value_or(0) > 0 ? "" : "expected a number above 0, got '" + text + "'";
  };
  return CLI::Validator(check, "POSITIVE");
}

/// The options as CLI11 sees them: raw text by name; what it means is set_option()'s business.
struct RawOptions {
  std::map<std::string, std::string> text;
  std::map<std::string, CLI::Option*> given;
  std::vector<CLI::Option*> unlisted;  // in the help
  std::string config;
  std::string positional;  // an argument that no option takes: the frames
  bool help = false, version = false, print_config = false;
};

template <class Field>
void add_option(CLI::App& app, RawOptions& raw, const OptionInfo& info, const Field&,
                const std::string& help) {
  const std::string name = std::string("--") + info.name;
  std::string& text = raw.text[info.name];
  constexpr bool is_flag = std::is_same_v<Field, bool>;
  raw.given[info.name] = is_flag ? app.add_flag(name, text, help) : app.add_option(name, text, help);
}

void add_options(CLI::App& app, RawOptions& raw) {
  const Options defaults;
  visit_options(defaults, [&](const OptionInfo& info, const auto& field) {
    add_option(app, raw, info, field, info.help);
  });
  app.add_option("--config", raw.config);
  app.add_flag("--print-config", raw.print_config);
  app.add_flag("--version", raw.version);
  app.add_flag("-h,--help", raw.help);
}

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& extra, bool is_main) {
  std::vector<std::string> known;
  const bool is_option = extra.starts_with("-");
  if (is_option) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(sub->get_name());
    }
  }
  const std::string name = extra.substr(0, std::min<std::size_t>(extra.find('='), 80));
  std::string message = (is_option ? "unknown option '" : "unexpected argument '") + name + "'";
  const std::string nearest = nearest_name(name, known);
  // An argument out of place need not be a mistyped command: `--frames` may just be missing before it.
  const bool worth_saying = is_option || edit_distance(name, nearest) <= 2;
  if (!nearest.empty() && worth_saying)
    message += "; did you mean '" + nearest + "'?";
  else if (is_main)
    message =
        (is_option ? message : "'" + name + "' is no file, folder or command") + " (see vggt-recon --help)";
  throw std::invalid_argument(message);
}

/// `--frames --out x`: CLI11 takes the second option for the first one's value.
void refuse_option_as_value(const RawOptions& raw, const std::string& name, const std::string& text) {
  if (text.starts_with("--") && raw.given.contains(text.substr(2)))
    throw std::invalid_argument("--" + name + " needs a value, found " + text);
}

void refuse_options_as_values(const RawOptions& raw) {
  for (const auto& [name, option] : raw.given) {
    if (option->count() > 0) refuse_option_as_value(raw, name, raw.text.at(name));
  }
}

/// CLI11 says "At Most 1 required" of them.
void refuse_repeated(const CLI::App& named) {
  for (const CLI::Option* option : named.get_options()) {
    if (option->get_items_expected_max() == 1 && option->count() > 1)
      throw std::invalid_argument(option->get_name() + ": given " + std::to_string(option->count()) +
                                  " times; give it once");
  }
}

/// `--masks "$MASKS"`, where the shell's variable is not set. Only after a parse without errors: an error
/// leaves values of other options unread.
void refuse_empty_values(const RawOptions& raw) {
  for (const auto& [name, option] : raw.given) {
    if (option->count() > 0 && raw.text.at(name).empty())
      throw std::invalid_argument("--" + name + " needs a value, found an empty one");
  }
}

Options options_of(const RawOptions& raw) {
  Options options;
  if (!raw.config.empty()) read_options_yaml(raw.config, options);
  for (const auto& [name, option] : raw.given) {
    if (option->count() > 0) set_option(options, name, raw.text.at(name), "--" + name);
  }
  if (!raw.positional.empty()) {
    const auto frames = raw.given.find("frames");
    if (frames != raw.given.end() && frames->second->count() > 0)
      throw std::invalid_argument("frames: given as --frames and as '" + raw.positional + "'; give one");
    options.frames = raw.positional;
  }
  return options;
}

/// `vggt-recon photos/`: the frames, without their option.
void take_positional(RawOptions& raw, std::vector<std::string>& extras) {
  if (extras.empty() || extras.front().starts_with("-") || !looks_like_frames(extras.front())) return;
  std::error_code ignored;
  const bool several = extras.size() > 1 && std::filesystem::exists(extras[1], ignored);
  if (several)
    throw std::invalid_argument(std::to_string(extras.size()) + " paths are given (" + extras[0] + ", " +
                                extras[1] + (extras.size() > 2 ? ", ..." : "") +
                                "): name one folder, or a text file that lists the images");
  raw.positional = extras.front();
  extras.erase(extras.begin());
}

Options main_options(const RawOptions& raw) {
  Options options = options_of(raw);
  const bool has_place = !options.out.empty() || !options.save_predictions.empty();
  if (!raw.positional.empty() && !has_place) {
    options.frames = named_frames(raw.positional);  // a later run elsewhere asks whose result this is
    options.out = out_beside(raw.positional);
    options.out_is_beside = true;
    options.report = true;  // a page, which everybody can look at
  }
  return options;
}

struct Weights {
  CLI::App* app;
  CLI::App *inspect, *convert, *verify, *random;
};

Weights add_weights(CLI::App& app, WeightsCommand& command) {
  const CLI::IsMember types({"fp32", "fp16", "bf16"});
  Weights w{};
  w.app = app.add_subcommand("weights", "Look at, convert, check and make weight files");
  w.app->require_subcommand(1);
  w.inspect = w.app->add_subcommand("inspect", "Print architecture, heads and tensors of a weight file");
  w.inspect->add_option("FILE", command.input, "TorchScript .ts, or official .safetensors or .pt")
      ->required();
  w.convert = w.app->add_subcommand("convert", "Write weights in another format or type");
  w.convert->add_option("IN", command.input, "weight file to read")->required();
  w.convert->add_option("OUT", command.output, "file to write: .ts, .pt or .safetensors")->required();
  w.convert->add_option("--type", command.type, "type of the numbers: fp32, fp16 or bf16 [as in the input]")
      ->check(types);
  w.verify = w.app->add_subcommand("verify", "Read and check every tensor of a weight file");
  w.verify->add_option("FILE", command.input, "weight file to check")->required();
  w.random = w.app->add_subcommand("random", "Write seeded random weights of an architecture");
  w.random->add_option("--config", command.input, "config.json with the architecture [VGGT-1B]");
  w.random->add_option("OUT", command.output, "file to write: .ts, .pt or .safetensors")->required();
  w.random->add_option("--type", command.type, "fp32, fp16 or bf16 [fp32]")->check(types);
  w.random->add_option("--seed", command.seed, "seed of the random numbers [0]");
  return w;
}

CLI::App* add_eval(CLI::App& app, EvalCommand& command) {
  CLI::App* eval = app.add_subcommand("eval", "Compare cameras, depth and clouds with true ones");
  eval->add_option("--result,--poses", command.result, "cameras, depth, clouds to judge, as files or folders")
      ->required();
  eval->add_option("--truth", command.truth, "the true ones; several files of a kind are several scenes")
      ->required();
  eval->add_option("--depth-unit", command.depth_unit,
                   "length of one step of 16-bit PNG depth [by their maps.json, else 0.001]")
      ->check(positive());
  eval->add_option("--max-depth", command.max_depth, "ignore true depths above this [60]")->check(positive());
  eval->add_option("--threshold", command.threshold,
                   "distance within which a point is found, for the F-score [1 % of the diagonal]")
      ->check(positive());
  eval->add_option("--json", command.json, "also write the numbers to this file");
  return eval;
}

/// The options of a run that `bench merge` takes, where the main page's help is not enough.
const std::map<std::string, std::string> kMergeBenchHelp = {
    {"frames", ""},
    {"fps", "of a video: so many frames a second [1]"},
    {"stride", "of a video: every Nth frame"},
    {"max-frames", ""},
    {"fit", ""},
    {"width", ""},
    {"strict", ""},
    {"weights", ""},
    {"precision", ""},
    {"attention", ""},
    {"no-autotune", ""},
    {"merge-start", "the first global block that merges [0]"},
    {"merge-ratio", "share of the tokens that merge into others [0.9]"},
    {"merge-protect", "share of the tokens that are attended as themselves besides [0.1]"},
    {"merge-seed", "of the draw of tokens that others merge into [33]"},
    {"merge-metric", "numbers that tokens are compared by; 0: all channels [0]"},
    {"merge-refresh", "blocks that one matching serves [1]"},
    {"device", "auto, cpu or cuda:N [auto]"},
    {"gpu-memory", ""},
    {"threads", "of the CPU [all]"},
};

struct MergeBench {
  CLI::App* app;
  RawOptions raw;
  MergeBenchCommand command;
};

void add_merge_bench(CLI::App& bench, MergeBench& merge) {
  merge.app = bench.add_subcommand("merge", "Compare merged attention with exact attention on frames");
  const Options defaults;
  HelpLines help;
  visit_options(defaults, [&](const OptionInfo& info, const auto& field) {
    const auto found = kMergeBenchHelp.find(info.name);
    if (found == kMergeBenchHelp.end()) return;
    const std::string usual = help(info);
    add_option(*merge.app, merge.raw, info, field, found->second.empty() ? usual : found->second);
  });
  merge.app->add_option("--repeat", merge.command.repeat, "runs of each, the fastest counts [2]")
      ->check(CLI::Range(1, 1000));
  merge.app->add_option("--json", merge.command.json, "also write the numbers to this file");
}

struct Plan {
  CLI::App* app;
  RawOptions raw;
  PlanCommand command;
};

/// Takes every option of a run, so that its command line can stay as it is; its help shows those that matter.
void add_plan(CLI::App& app, Plan& plan) {
  plan.app = app.add_subcommand("plan", "Say what a run would take: memory, copies, seconds; write nothing");
  plan.app
      ->add_option("--frame-count", plan.command.frame_count, "plan for N frames without reading --frames")
      ->check(CLI::Range(1, 10'000'000));
  plan.app->add_option("--frame-size", plan.command.frame_size, "their size as the network sees it: WxH");
  plan.app->add_option("--json", plan.command.json, "also write the plan to this file");
  const Options defaults;
  HelpLines help;
  visit_options(defaults, [&](const OptionInfo& info, const auto& field) {
    add_option(*plan.app, plan.raw, info, field, help(info));
    const std::string group = info.group;
    if (group != "Frames" && group != "Model") plan.raw.unlisted.push_back(plan.raw.given.at(info.name));
  });
  plan.app->add_option("--config", plan.raw.config, "read options from a YAML file");
  plan.app->footer("and the other options of a run, which make no difference (see vggt-recon --help)");
}

struct Batch {
  CLI::App* app;
  RawOptions raw;
  BatchCommand command;
};

/// The options of a run that mean something else for a batch; its help shows them alone.
const std::map<std::string, std::string> kBatchHelp = {
    {"out", "folder of results: a folder for each scene, manifest.jsonl"},
    {"device", "auto, all (all GPUs), cpu, or some GPUs: cuda:0,1 [auto: all GPUs, else the CPU]"},
    {"picture", "draw each scene: a file's name in its folder"},
    {"dry-run", "say which scenes would be done, and why"},
};

void add_batch(CLI::App& app, Batch& batch) {
  BatchCommand& command = batch.command;
  batch.app = app.add_subcommand("batch", "Reconstruct many scenes; given again, do what is missing");
  batch.app->add_option(
      "--scenes", command.scenes,
      "folder: each sub-folder of images and each video is a scene; or a list of such, one a line");
  batch.app->add_option("--jobs", command.jobs, "scenes at once on a device, which share its memory [1]")
      ->check(CLI::Range(1, 64));
  batch.app->add_flag("--retry-failed", command.retry_failed, "do scenes again that failed before");
  batch.app->add_option("--shard", command.shard,
                        "i/n: do the i-th of n shares [in a Slurm array: the task's; else all]");
  batch.app->add_flag("--status", command.status, "print the table of what is done in --out, do nothing");
  const Options defaults;
  visit_options(defaults, [&](const OptionInfo& info, const auto& field) {
    const auto found = kBatchHelp.find(info.name);
    add_option(*batch.app, batch.raw, info, field, found == kBatchHelp.end() ? info.help : found->second);
    if (found == kBatchHelp.end()) batch.raw.unlisted.push_back(batch.raw.given.at(info.name));
  });
  batch.app->add_option("--config", batch.raw.config, "read options from a YAML file");
  batch.app->add_flag("--print-config", batch.raw.print_config, "print all options of a run as such a file");
  batch.app->footer(
      "and the other options of a run but --frames (see vggt-recon --help). In --masks, --intrinsics,\n"
      "--poses and --align {scene} stands for the scene's name. Exit status: 0 all scenes of the share are\n"
      "done, 2 some failed, 1 or 3 the machine failed, 130 stopped.");
}

BatchCommand batch_command(Batch& batch) {
  batch.command.options = options_of(batch.raw);
  if (!batch.raw.positional.empty()) {
    if (!batch.command.scenes.empty())
      throw std::invalid_argument("scenes: given as --scenes and as '" + batch.raw.positional +
                                  "'; give one");
    batch.command.scenes = batch.raw.positional;
    batch.command.options.frames.clear();
  }
  if (batch.command.scenes.empty() && !batch.command.status && !batch.raw.print_config)
    throw std::invalid_argument("--scenes is missing (see vggt-recon batch --help)");
  return batch.command;
}

PlanCommand plan_command(Plan& plan) {
  plan.command.options = options_of(plan.raw);
  const bool counted = plan.command.frame_count > 0;
  if (counted != !plan.command.frame_size.empty())
    throw std::invalid_argument("plan: --frame-count and --frame-size go together");
  if (counted && !plan.command.options.frames.empty())
    throw std::invalid_argument("plan: give --frames or --frame-count, not both");
  return plan.command;
}

struct Bench {
  /// One that measures attention: `bench attention`, `bench stream`.
  struct Table {
    CLI::App* app;
    std::span<const AttentionBenchOption> options;
    std::map<std::string, std::vector<std::string>> values;
  };

  CLI::App* app;
  Table attention, stream;
  BenchPageCommand page;
};

/// CLI11 only collects; what the values mean is the business of attention/bench/options.h.
void add_bench_table(Bench& bench, Bench::Table& table, const char* name, const char* help,
                     std::span<const AttentionBenchOption> options) {
  table.app = bench.app->add_subcommand(name, help);
  table.options = options;
  for (const AttentionBenchOption& option : options) {
    const std::string flag = std::string("--") + option.name;
    if (option.values == AttentionBenchOption::none) {
      table.app->add_flag(flag, option.help);
      continue;
    }
    CLI::Option* added = table.app->add_option(flag, table.values[option.name], option.help);
    if (option.values == AttentionBenchOption::one)
      added->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  }
}

void add_bench(CLI::App& app, Bench& bench) {
  bench.app = app.add_subcommand("bench", "Measure this machine: a page to compare and to post");
  bench.app->add_option("--device", bench.page.device, "auto, cpu or cuda:N [auto]");
  bench.app->add_option("--seconds", bench.page.seconds, "about how long [60]")->check(positive());
  bench.app->add_option("--weights", bench.page.weights,
                        "model of the whole program, and of a CPU's network [the small model]");
  bench.app->add_option("--json", bench.page.json, "write the numbers to this file, not below the page");
  add_bench_table(bench, bench.attention, "attention", "Time attention beside LibTorch's, or verify it",
                  kAttentionBenchOptions);
  add_bench_table(bench, bench.stream, "stream", "Time attention beyond the memory of a device",
                  kStreamBenchOptions);
}

BenchCommand bench_command(const Bench::Table& table) {
  BenchCommand command;
  command.name = table.app->get_name();
  for (const AttentionBenchOption& option : table.options) {
    if (table.app->count(std::string("--") + option.name) == 0) continue;
    const auto values = table.values.find(option.name);
    command.given[option.name] = values == table.values.end() ? std::vector<std::string>() : values->second;
  }
  return command;
}

MergeBenchCommand merge_bench_command(MergeBench& merge) {
  merge.command.options = options_of(merge.raw);
  merge.command.options.merge = "on";
  check_options_but_outputs(merge.command.options);
  return merge.command;
}

void prepare(CLI::App& app) {
  app.allow_extras();
  app.get_formatter()->column_width(24);
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) prepare(*sub);
}

/// The deepest command that was named, for its extra arguments and its help.
const CLI::App* named_command(const CLI::App* app) {
  const std::vector<CLI::App*> subs = app->get_subcommands();
  return subs.empty() ? app : named_command(subs.back());
}

/// Options that stand before a command would be lost.
void refuse_options_before(const CLI::App& named) {
  for (const CLI::App* parent = named.get_parent(); parent; parent = parent->get_parent()) {
    for (const CLI::Option* option : parent->get_options()) {
      if (option->count() == 0) continue;
      throw std::invalid_argument(option->get_name() + " stands before " + named.get_name() +
                                  "; a command's options follow it");
    }
  }
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  if (argc <= 1) return ShowText{short_help_text(), true};
  CLI::App app("Frames in, a 3D scene out", "vggt-recon");
  app.set_help_flag();
  RawOptions raw;
  WeightsCommand weights_command;
  EvalCommand eval_command;
  add_options(app, raw);
  const Weights weights = add_weights(app, weights_command);
  CLI::App* eval = add_eval(app, eval_command);
  Bench bench{};
  add_bench(app, bench);
  MergeBench merge{};
  add_merge_bench(*bench.app, merge);
  Plan plan{};
  add_plan(app, plan);
  Batch batch{};
  add_batch(app, batch);
  for (CLI::App* sub : {weights.app, weights.inspect, weights.convert, weights.verify, weights.random, eval,
                        bench.app, bench.attention.app, bench.stream.app, merge.app, plan.app, batch.app}) {
    sub->set_help_flag("-h,--help", "Print this");
  }
  prepare(app);
  std::optional<std::string> failure;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    // Not before: messages would not name them.
    for (const RawOptions* options : {&plan.raw, &batch.raw}) {
      for (CLI::Option* option : options->unlisted) option->group("");
    }
    return ShowText{named_command(&app)->help()};
  } catch (const CLI::ParseError& error) {
    failure = error.what();
  }
  const CLI::App* named = named_command(&app);
  const bool is_main = named == &app;
  // A mistyped option also makes a required one missing: the mistyping is what to say.
  std::vector<std::string> extras = named->remaining();
  refuse_options_as_values(raw);
  refuse_options_as_values(merge.raw);
  refuse_options_as_values(plan.raw);
  refuse_options_as_values(batch.raw);
  refuse_option_as_value(batch.raw, "scenes", batch.command.scenes);
  for (const auto& [command, taker] : {std::pair<const CLI::App*, RawOptions*>{&app, &raw},
                                       {plan.app, &plan.raw},
                                       {merge.app, &merge.raw},
                                       {batch.app, &batch.raw}}) {
    if (named == command) take_positional(*taker, extras);
  }
  if (!extras.empty()) refuse_extra(*named, extras.front(), is_main);
  if (failure) {
    refuse_repeated(*named);
    throw std::invalid_argument(*failure);
  }
  for (const RawOptions* options : {&raw, &merge.raw, &plan.raw, &batch.raw}) refuse_empty_values(*options);
  for (const CLI::App* writes_json : {eval, merge.app, plan.app, bench.app}) {
    if (writes_json->count("--json") > 0 && writes_json->get_option("--json")->as<std::string>().empty())
      throw std::invalid_argument("--json needs a value, found an empty one");
  }

  if (raw.help) return ShowText{help_text()};
  if (raw.version) return ShowText{"vggt-recon " VGGT_VERSION "\n"};
  refuse_options_before(*named);
  if (named == eval) return eval_command;
  for (const Bench::Table* table : {&bench.attention, &bench.stream}) {
    if (named == table->app) return bench_command(*table);
  }
  if (named == bench.app) return bench.page;
  if (named == merge.app) return merge_bench_command(merge);
  if (named == plan.app) return plan_command(plan);
  if (named == batch.app) {
    BatchCommand command = batch_command(batch);
    if (batch.raw.print_config) return ShowText{options_to_yaml(command.options)};
    return command;
  }
  if (!is_main) {
    weights_command.action = named->get_name();
    return weights_command;
  }
  const Options options = main_options(raw);
  if (raw.print_config) return ShowText{options_to_yaml(options)};
  check_options(options);
  return options;
}

}  // namespace vggt
