// `vggt-recon bench` alone: the page of a machine, and its JSON.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

const std::string kPage = "bench --device cpu --weights '" + kNano + "' ";

void expect_positive(const json& rows, const std::vector<std::string>& names) {
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    EXPECT_FALSE(row.contains("failure")) << row;
    for (const std::string& name : names) {
      ASSERT_TRUE(row.contains(name)) << name << " in " << row;
      EXPECT_GT(row[name], 0) << row;
    }
  }
}

TEST_F(CliTest, ThePageOfAMachineHasAllSections) {
  fs::create_directory(path("tmp"));
  const Outcome outcome = run(kPage + "--seconds 10 --json page.json", "TMPDIR='" + path("tmp") + "'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(names_in("tmp").empty());
  EXPECT_EQ(names_in("."), (std::vector<std::string>{"frames", "page.json", "tmp"}));

  const json page = parse_strictly(path("page.json"));
  EXPECT_EQ(page["schema"], 1);
  EXPECT_EQ(page["device"], "CPU");
  EXPECT_EQ(page["precision"], "fp32");
  for (const char* name : {"threads", "host_memory_bytes", "seconds"}) EXPECT_GT(page[name], 0) << name;
  const std::vector<std::string> both = {"milliseconds", "teraflops_per_second", "libtorch_milliseconds",
                                         "speedup", "rounds"};
  for (const char* section : {"attention", "linear", "blocks"}) expect_positive(page[section], both);
  expect_positive(page["attention"], {"relative_error", "libtorch_relative_error"});
  for (const json& row : page["attention"])
    EXPECT_LT(row["relative_error"], row["type"] == "fp32" ? 1e-6 : 1e-2);
  expect_positive(page["network"], {"frames", "tokens", "seconds", "frames_per_second", "rounds"});
  expect_positive(json::array({page["network"][0]}), {"libtorch_seconds", "speedup"});
  const json& program = page["program"];
  EXPECT_EQ(program["frames"], 12);
  const auto points = program["points"].get<double>();
  EXPECT_NEAR(program["libtorch_points"].get<double>(), points, 1e-2 * points);
  double seconds = 0;
  for (const json& stage : program["stages"]) {
    if (stage["stage"] != "total") seconds += stage["seconds"].get<double>();
  }
  EXPECT_EQ(program["stages"].back()["stage"], "total");
  expect_positive(json::array({program["stages"].back()}), {"libtorch_seconds", "speedup"});
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds, 2 * program["stages"].back()["seconds"].get<double>());  // stages overlap
}

TEST_F(CliTest, ThePageFitsAForum) {
  const Outcome outcome = run(kPage + "--seconds 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::size_t width = 0;  // of the table that a line belongs to
  int tables = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```json") {
      std::getline(lines, line);
      EXPECT_EQ(json::parse(line)["schema"], 1);
      continue;
    }
    EXPECT_LE(line.size(), 80u) << line;
    if (!line.starts_with("|")) {
      width = 0;
      continue;
    }
    if (width == 0)
      ++tables;
    else
      EXPECT_EQ(line.size(), width) << line;
    width = line.size();
  }
  EXPECT_EQ(tables, 5);
  for (const char* words : {"LibTorch", "2.", "threads", "fp32", "Measured in"})
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words;
}

TEST_F(CliTest, ThePageSaysWhatItLeavesOut) {
  const Outcome outcome = run(kPage + "--seconds 1e-3 --json page.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json skipped = parse_strictly(path("page.json"))["skipped"];
  const auto expect_skipped = [&](const char* section, const json& row) {
    const json expected = {{"section", section}, {"row", row}, {"why", "beyond the time"}};
    EXPECT_EQ(std::ranges::count(skipped, expected), 1) << expected << " in " << skipped;
  };
  expect_skipped("attention", {{"tokens", 4164}, {"type", "fp32"}});
  expect_skipped("linear", {{"rows", 4164}, {"type", "fp32"}});
  expect_skipped("blocks", {{"frames", 64}});
  expect_skipped("network", {{"frames", 64}});
  expect_skipped("network", {{"frames", 1}, {"side", "LibTorch"}});
  expect_skipped("program", {{"side", "LibTorch"}});
  for (const char* line :
       {"- left out: tokens 4164, type fp32: beyond the time\n",
        "- left out: rows 4164, type fp32: beyond the time\n", "- left out: frames 64: beyond the time\n",
        "- left out: frames 1, side LibTorch: beyond the time\n",
        "- left out: side LibTorch: beyond the time\n"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << outcome.out;
}

TEST_F(CliTest, APageThatNobodyTakesEndsInItsSection) {
  const std::string log = path("log"), code = path("code");
  const auto page = [&](int seconds) {
    return "'" VGGT_PROGRAM "' " + kPage + "--seconds " + std::to_string(seconds) + " --json '" +
           path("page.json") + "' 2>'" + log + "'";
  };
  const auto expect_end = [&](int got, int expected, const std::string& why) {
    EXPECT_EQ(got, expected) << text_of(log);
    expect_one_error({got, "", text_of(log)}, "cannot write standard output: " + why);
    EXPECT_FALSE(fs::exists(path("page.json")));
  };
  const auto begin = std::chrono::steady_clock::now();
  expect_end(WEXITSTATUS(std::system((page(600) + " >/dev/full").c_str())), 3, "No space left on device");
  for (const auto& [seconds, reader] : {std::pair(600, "true"),
                                        {600, "head -n 3"},
                                        {60, "sed '/^## Linear/q'"},
                                        {2, "sed '/^## Program/q'"}}) {
    const std::string piped = "{ " + page(seconds) + "; echo $? >'" + code + "'; } | " + reader;
    ASSERT_EQ(std::system((piped + " >/dev/null").c_str()), 0);
    expect_end(std::stoi(text_of(code)), 1, "Broken pipe");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(100));
}

TEST_F(CliTest, ThePageStopsCleanly) {
  fs::create_directory(path("tmp"));
  const std::vector<std::string> arguments = {
      VGGT_PROGRAM, "bench",     "--device", "cpu",    "--weights",
      kNano,        "--seconds", "2",        "--json", path("page.json")};
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    setenv("TMPDIR", path("tmp").c_str(), 1);
    if (!freopen(path("log").c_str(), "w", stderr) || !freopen(path("out").c_str(), "w", stdout)) _exit(99);
    execv(argv[0], argv.data());
    _exit(99);
  }
  ASSERT_GT(child, 0);
  // The last section has begun when its folder stands.
  for (int i = 0; i < 6000 && names_in("tmp").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(names_in("tmp").empty());
  ASSERT_EQ(kill(child, SIGINT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 130) << text_of(path("log"));
  EXPECT_NE(text_of(path("log")).find("stopped"), std::string::npos);
  EXPECT_TRUE(names_in("tmp").empty());
  EXPECT_FALSE(fs::exists(path("page.json")));
}

TEST_F(CliTest, BadOptionsOfThePageAreRefusedBeforeMeasuring) {
  const auto expect_nothing_measured = [&](const Outcome& outcome, const std::string& words) {
    expect_refusal(outcome, words);
    EXPECT_EQ(outcome.out, "");
  };
  expect_nothing_measured(run(kPage + "--json nowhere/page.json"), "nowhere");
  expect_nothing_measured(run(kPage + "--json /dev/null"), "/dev/null");
  expect_nothing_measured(run(kPage + "--json ''"), "--json needs a value");
  expect_nothing_measured(run(kPage, "TMPDIR=nowhere"), "TMPDIR");
  expect_nothing_measured(run(kPage, "TMPDIR=/proc"), "TMPDIR");
  expect_nothing_measured(run(kPage + "--json '" + kNano + "'"), "weights.ts");
  expect_nothing_measured(run("bench --device gpu"), "gpu");
  expect_nothing_measured(run("bench --device cuda:99"), "cuda:99");
  expect_nothing_measured(run("bench --seconds 0"), "'0'");
  expect_nothing_measured(run("bench --seconds nan"), "nan");
  expect_nothing_measured(run("bench --weights nowhere.ts"), "nowhere.ts");
  expect_nothing_measured(run("bench --secs 3"), "did you mean '--seconds'");
  expect_nothing_measured(run("bench everything"), "everything");
}

}  // namespace
}  // namespace vggt::test
