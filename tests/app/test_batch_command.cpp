// `vggt-recon batch` as a person meets it: good and bad scenes, what a second command does, changes, shares,
// a full disk, refusals.
#include <map>
#include <set>

#include "tests/support/batch.h"

namespace vggt::test {
namespace {

TEST_F(BatchTest, EachSceneIsWhatARunOfItsOwnGives) {
  make_scene("a", 2);
  make_scene("b c", 3);
  fs::create_directory(dir_ / "scenes/notes");
  const Outcome outcome = batch("--picture view.png --export colmap");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("a sub-folder holds no images: notes"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("[2/2] b c: 3 frames, "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("2 scenes: 2 done"), std::string::npos) << outcome.out;
  for (const std::string name : {"a", "b c"}) {
    const Outcome alone = reconstruct("--no-autotune --frames 'scenes/" + name +
                                      "' --out alone/ --picture alone/view.png --export colmap");
    ASSERT_EQ(alone.code, 0) << alone.err;
    const Files expected = files_in("alone");
    EXPECT_EQ(expected.size(), 11u);
    EXPECT_TRUE(files_in("results/" + name) == expected) << name;
    fs::remove_all(dir_ / "alone");
  }
  EXPECT_FALSE(fs::exists(dir_ / "results/.claims"));
  const json record = last_records().at("b c");
  EXPECT_EQ(record["state"], "done");
  EXPECT_EQ(record["frames"], 3);
  EXPECT_GT(record["points"], 0);
  EXPECT_GT(record["seconds"], 0);
  EXPECT_GT(record["peak_host_bytes"], 0);
  EXPECT_EQ(record["exit_code"], 0);
  EXPECT_EQ(record["device"], "cpu");
  EXPECT_EQ(record["files"].size(), 6u);
}

// What a scene leaves in memory counts in the peaks of the next ones, predicted and measured.
TEST_F(BatchTest, PredictedPeaksHoldForEachScene) {
  for (const char* name : {"a", "b", "c"}) {
    fs::create_directories(dir_ / "scenes" / name);
    for (int i = 0; i < 6; ++i)
      make_image("scenes/" + std::string(name) + "/" + std::to_string(i) + ".jpg",
                 std::string(name) == "b" ? 4500 : 3000, 2000, i);
  }
  const Outcome outcome = batch("--threads 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<double> predicted;
  for (const char* name : {"a", "b", "c"}) {
    const json report = parse_strictly(path("results/" + std::string(name) + "/scene.report.json"));
    const double measured = report["peak_host_bytes"];
    EXPECT_NEAR(report["predicted_peak_host_bytes"], measured, .25 * measured) << name;
    predicted.push_back(report["predicted_peak_host_bytes"]);
  }
  EXPECT_GT(predicted[2], predicted[0]);  // the same frames
}

// The peak is the process's, in which others count that run at once, but not their program and weights again.
TEST_F(BatchTest, PredictedPeaksHoldForScenesAtOnce) {
  for (const char* name : {"a", "b"}) {
    fs::create_directories(dir_ / "scenes" / name);
    for (int i = 0; i < 6; ++i)
      make_image("scenes/" + std::string(name) + "/" + std::to_string(i) + ".jpg", 3000, 2000, i);
  }
  const auto predicted = [&](const std::string& jobs) {
    const Outcome outcome = batch("--threads 2 --jobs " + jobs);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const json report = parse_strictly(path("results/a/scene.report.json"));
    const double measured = report["peak_host_bytes"], bytes = report["predicted_peak_host_bytes"];
    EXPECT_NEAR(bytes, measured, .25 * measured) << jobs;
    fs::remove_all(dir_ / "results");
    return bytes;
  };
  const double alone = predicted("1"), with_another = predicted("2"), with_no_third = predicted("3");
  EXPECT_GT(with_another, alone);
  EXPECT_LT(with_another, 2 * alone);
  EXPECT_NEAR(with_no_third, with_another, .02 * with_another);
}

TEST_F(BatchTest, ABadSceneDoesNotStopTheRest) {
  make_scene("a", 2);
  make_scene("bad", 1);
  make_scene("c", 2);
  write(dir_ / "scenes/bad/0.png", "no image");
  const Outcome outcome = batch();
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  expect_one_error(outcome, "1 of 3 scenes failed: bad; --retry-failed");
  EXPECT_NE(outcome.err.find("warning: bad: "), std::string::npos) << outcome.err;
  auto records = last_records();
  EXPECT_EQ(records.at("a")["state"], "done");
  EXPECT_EQ(records.at("c")["state"], "done");
  EXPECT_EQ(records.at("bad")["state"], "failed");
  EXPECT_EQ(records.at("bad")["exit_code"], 2);
  EXPECT_FALSE(records.at("bad")["error"].get<std::string>().empty());
  EXPECT_FALSE(fs::exists(dir_ / "results/bad"));

  // Again: nothing is missing, and what failed stays so unless it is asked for.
  EXPECT_EQ(batch().code, 2);
  EXPECT_EQ(runs_of("a"), 1);
  EXPECT_EQ(runs_of("bad"), 1);
  EXPECT_EQ(batch("--retry-failed").code, 2);
  EXPECT_EQ(runs_of("bad"), 2);
  EXPECT_EQ(runs_of("a"), 1);
  // Mended frames are other frames.
  make_image("scenes/bad/0.png", 64, 48, 5);
  EXPECT_EQ(batch().code, 0);
  EXPECT_EQ(runs_of("bad"), 3);
  EXPECT_EQ(runs_of("c"), 1);
}

TEST_F(BatchTest, WhatChangedIsDoneAgain) {
  make_scene("a", 2);
  make_scene("b", 2);
  ASSERT_EQ(batch("--export kitti,depth").code, 0);
  ASSERT_TRUE(fs::exists(dir_ / "results/a/kitti.txt") && fs::exists(dir_ / "results/a/depth"));
  EXPECT_NE(batch("--export kitti,depth --dry-run").out.find("a: done\nb: done\n"), std::string::npos);

  make_image("scenes/a/9.png", 64, 48, 9);
  EXPECT_NE(batch("--export kitti,depth --dry-run").out.find("a: to do (changed: frames)\nb: done\n"),
            std::string::npos);
  ASSERT_EQ(batch("--export kitti,depth").code, 0);
  EXPECT_EQ(runs_of("a"), 2);
  EXPECT_EQ(runs_of("b"), 1);
  EXPECT_EQ(last_records().at("a")["frames"], 3);

  // Other options; what they no longer ask for goes, and what somebody else put there stays.
  write(dir_ / "results/b/notes.txt", "mine");
  ASSERT_EQ(batch("--conf-percentile 20").code, 0);
  EXPECT_EQ(runs_of("b"), 2);
  EXPECT_FALSE(fs::exists(dir_ / "results/b/kitti.txt") || fs::exists(dir_ / "results/b/depth"));
  EXPECT_TRUE(fs::exists(dir_ / "results/b/notes.txt"));

  // So does what is gone.
  fs::remove(dir_ / "results/b/scene.tum");
  ASSERT_EQ(batch("--conf-percentile 20").code, 0);
  EXPECT_EQ(runs_of("a"), 3);
  EXPECT_EQ(runs_of("b"), 3);
}

// What an older result has and the new one has not goes with the first run that ends well, not with one that
// fails.
TEST_F(BatchTest, ASceneThatFailsKeepsItsEarlierResultAndSaysSo) {
  make_scene("a", 1);
  ASSERT_EQ(batch("--export kitti,depth").code, 0);
  const Files before = files_in("results/a");
  const std::string image = text_of(path("scenes/a/0.png"));
  write(dir_ / "scenes/a/0.png", "no image");
  const Outcome failed = batch();
  EXPECT_EQ(failed.code, 2);
  EXPECT_NE(failed.err.find("; its folder still holds an earlier result"), std::string::npos) << failed.err;
  EXPECT_TRUE(files_in("results/a") == before);
  write(dir_ / "scenes/a/0.png", image);
  ASSERT_EQ(batch().code, 0);
  EXPECT_FALSE(fs::exists(dir_ / "results/a/kitti.txt") || fs::exists(dir_ / "results/a/depth"));
}

TEST_F(BatchTest, SharesAndTheTasksOfASlurmArrayAreDisjoint) {
  for (const char* name : {"a", "b", "c", "d"}) make_scene(name, 2);
  ASSERT_EQ(batch("--shard 2/2").code, 0);
  const auto names = [&] {
    std::set<std::string> names;
    for (const auto& [name, record] : last_records()) names.insert(name);
    return names;
  };
  EXPECT_EQ(names(), (std::set<std::string>{"b", "d"}));
  const std::string task = "SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=2";
  ASSERT_EQ(batch("", "env " + task).code, 0);
  EXPECT_EQ(names(), (std::set<std::string>{"b", "c", "d"}));
  ASSERT_EQ(batch("--shard 1/1", "env " + task).code, 0);  // what is given counts
  EXPECT_EQ(names(), (std::set<std::string>{"a", "b", "c", "d"}));
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(runs_of(name), 1) << name;
}

TEST_F(BatchTest, SeveralJobsShareAModel) {
  for (const char* name : {"a", "b", "c", "d", "e"}) make_scene(name, 2);
  ASSERT_EQ(batch("--threads 1").code, 0);
  const Files expected = files_in("results");
  fs::remove_all(dir_ / "results");
  ASSERT_EQ(batch("--threads 1 --jobs 3").code, 0);
  EXPECT_TRUE(files_in("results") == expected);
  for (const char* name : {"a", "b", "c", "d", "e"}) EXPECT_EQ(runs_of(name), 1) << name;
}

TEST_F(BatchTest, AFullDiskStopsTheBatch) {
  make_scene("a", 2);
  make_scene("b", 2);
  make_scene("c", 2);
  // The limit counts the shell's own files as well, which are empty.
  const Outcome outcome = batch("--save-predictions p.safetensors", "ulimit -f 8;");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  expect_one_error(outcome, "results/a");
  EXPECT_EQ(last_records().at("a")["state"], "stopped");
  EXPECT_FALSE(last_records().contains("c"));
  EXPECT_TRUE(files_in("results").empty());
  EXPECT_EQ(batch("--save-predictions p.safetensors").code, 0);
  EXPECT_EQ(last_records().at("c")["state"], "done");
}

TEST_F(BatchTest, TheStatusTellsAtAnyTime) {
  make_scene("a", 2);
  make_scene("b", 1);
  write(dir_ / "scenes/b/0.png", "no image");
  expect_refusal(run("batch --status --out results"), "no manifest.jsonl");
  ASSERT_EQ(batch().code, 2);
  make_scene("c", 2);
  write(dir_ / "results/manifest.jsonl",
        text_of(path("results/manifest.jsonl")) +
            "{\"scene\":\"c\",\"state\":\"running\"}\n{\"scene\":\"a\",\"sta");
  const Outcome outcome = run("batch --status --out results");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("3 scenes: 1 done, 1 failed, 1 to be done"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("interrupted"), std::string::npos) << outcome.out;
  make_scene("d", 2);
  EXPECT_NE(
      run("batch --status --scenes scenes --out results").out.find("4 scenes: 1 done, 1 failed, 2 to be"),
      std::string::npos);
}

// It may have been what ended the process.
TEST_F(BatchTest, AnInterruptedSceneComesLast) {
  for (const char* name : {"a", "b", "c"}) make_scene(name, 2);
  fs::create_directory(dir_ / "results");
  write(dir_ / "results/manifest.jsonl", "{\"scene\":\"a\",\"state\":\"running\"}\n");
  ASSERT_EQ(batch().code, 0);
  std::string order;
  for (const json& record : records()) {
    if (record["state"] == "done") order += record["scene"].get<std::string>();
  }
  EXPECT_EQ(order, "bca");
}

TEST_F(BatchTest, WhatIsWrongWithTheBatchIsSaidBeforeAnyWork) {
  make_scene("a", 1);
  expect_refusal(run("batch --out results"), "--scenes is missing");
  expect_refusal(run("batch --scenes scenes"), "--out is missing");
  expect_refusal(run("batch --scenes none --out results"), "no such file");
  expect_refusal(batch("--frames scenes/a"), "--scenes");
  expect_refusal(batch("--width 15"), "multiple of 14");
  expect_refusal(batch("--shard 3/2"), "shard");
  expect_refusal(batch("--jobs 0"), "--jobs");
  expect_refusal(batch("--width 112 --width 224"), "--width: ");
  expect_refusal(run("batch --scenes --out results"), "--scenes needs a value, found --out");
  expect_refusal(batch("--picture /tmp/view.png"), "without folders");
  expect_refusal(batch("--align none.txt"), "none.txt");
  expect_refusal(batch("--open"), "--report");
  expect_refusal(batch("--job 2"), "did you mean '--jobs'");
  expect_refusal(run("batch --scenes scenes --out results --weights none.ts"), "none.ts");
  expect_refusal(run("batch --scenes scenes --out results --device all,cpu"), "device");
  expect_refusal(run("batch --scenes scenes --out scenes"), "among the scenes");
  write(dir_ / "weights.ts", "no weights");
  expect_refusal(run("batch --scenes scenes --out results --device cpu --weights weights.ts"), "weights.ts");
  EXPECT_FALSE(fs::exists(dir_ / "results"));
  // A file of each scene's own that is missing is that scene's fault.
  const Outcome outcome = batch("--align 'poses/{scene}.tum'");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(last_records().at("a")["state"], "failed");
  EXPECT_NE(last_records().at("a")["error"].get<std::string>().find("poses/a.tum"), std::string::npos);
}

}  // namespace
}  // namespace vggt::test
