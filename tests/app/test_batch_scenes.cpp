// The pure parts of a batch: which scenes a folder or a list means, how they are called, whose share they
// are, what a scene's sum depends on, and when it is done again.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "app/batch/batch_table.h"
#include "app/batch/scene_list.h"
#include "app/batch/scene_options.h"
#include "app/batch/shard.h"
#include "app/batch/work_list.h"
#include "tests/support/refusal.h"

namespace vggt {
namespace {

namespace fs = std::filesystem;

class BatchScenes : public ::testing::Test {
 protected:
  BatchScenes() {
    std::string name = (fs::temp_directory_path() / "vggt_scenes_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~BatchScenes() override { fs::remove_all(dir_); }

  void touch(const std::string& name, const std::string& text = "x") const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  std::map<std::string, std::string> scenes_in(const std::string& where) const {
    std::map<std::string, std::string> scenes;
    for (const BatchScene& scene : find_scenes(dir_ / where, dir_ / "results").scenes)
      scenes[scene.name] = scene.source.lexically_relative(dir_).string();
    return scenes;
  }

  fs::path dir_;
};

using Scenes = std::map<std::string, std::string>;

TEST_F(BatchScenes, OfAFolder) {
  touch("root/b10/1.jpg");
  touch("root/b9/1.PNG");
  touch("root/colmap/images/1.jpg");
  touch("root/walk.mp4");
  touch("root/clip.3GP");
  touch("root/notes.txt");
  touch("root/empty/readme.md");
  touch("root/.hidden/1.jpg");
  touch("root/results/old/scene.png");
  ASSERT_EQ(::mkfifo((dir_ / "root/pipe.mp4").c_str(), 0600), 0);
  const SceneList list = find_scenes(dir_ / "root", dir_ / "root/results");
  std::vector<std::string> names;
  for (const BatchScene& scene : list.scenes) names.push_back(scene.name);
  EXPECT_EQ(names, (std::vector<std::string>{"b9", "b10", "clip.3GP", "colmap", "walk.mp4"}));
  EXPECT_EQ(list.scenes[3].source, dir_ / "root/colmap/images");
  EXPECT_EQ(list.passed_over, std::vector<std::string>{"empty"});
}

// Names that differ only in what a name of a folder cannot keep.
TEST_F(BatchScenes, OfNamesThatWouldBeOneEachGetsItsOwn) {
  const std::string longest(200, 'x');
  for (const std::string& name :
       {std::string("bad\xff"), std::string("bad\xfe"), std::string("bad_"), longest + "1", longest + "2"})
    touch("root/" + name + "/1.jpg");
  Scenes found = scenes_in("root");
  EXPECT_EQ(found.size(), 5u);
  EXPECT_EQ(found["bad_"], "root/bad_");
  EXPECT_TRUE(found.contains("bad_~2") && found.contains("bad_~3"));
  EXPECT_EQ(found[longest], "root/" + longest + "1");
  EXPECT_EQ(found[longest + "~2"], "root/" + longest + "2");
}

TEST_F(BatchScenes, OfAList) {
  touch("lists/all.txt",
        "\xEF\xBB\xBF# scenes\n../a/images\r\n\n  ../b/images/  \nthird\t../a b.mp4\n/nowhere/c\n");
  Scenes expected{{"a", "a/images"}, {"b", "b/images/"}, {"third", "a b.mp4"}};
  Scenes found = scenes_in("lists/all.txt");
  EXPECT_TRUE(found.erase("c") == 1);  // what does not exist is the scene's own fault, in its turn
  EXPECT_EQ(found, expected);

  touch("d/images/1.jpg");  // as a sub-folder of a folder of scenes may keep them
  touch("lists/d.txt", "../d\n");
  EXPECT_EQ(scenes_in("lists/d.txt"), (Scenes{{"d", "d/images"}}));
  touch("far/away/x/1.jpg");
  fs::create_directory_symlink(dir_ / "far/away", dir_ / "lists/link");
  touch("lists/up.txt", "link/../y\n");
  EXPECT_EQ(scenes_in("lists/up.txt"), (Scenes{{"y", "far/y"}}));
}

TEST_F(BatchScenes, WhatIsNoBatchIsRefused) {
  touch("root/1.jpg");
  touch("twice.txt", "x/a\ny/a\n");
  touch("comments.txt", "# nothing\n");
  touch("one.mp4");
  const auto refused = [&](const std::string& where, const std::string& results) {
    return refusal([&] { find_scenes(dir_ / where, dir_ / results); });
  };
  EXPECT_NE(refused("root", "results").find("--frames"), std::string::npos);
  EXPECT_NE(refused("twice.txt", "results").find("two scenes are called 'a'"), std::string::npos);
  EXPECT_NE(refused("comments.txt", "results").find("lists no scenes"), std::string::npos);
  EXPECT_NE(refused("one.mp4", "results").find("--frames"), std::string::npos);
  EXPECT_NE(refused("none", "results").find("no such file"), std::string::npos);
  EXPECT_NE(refused("root", "root").find("among the scenes"), std::string::npos);
  // Results among the frames of a scene; those of an earlier batch may lie beside the scenes.
  touch("scenes/a/1.jpg");
  touch("scenes/b/images/1.jpg");
  touch("one.txt", "scenes/a\n");
  for (const char* results : {"scenes/a", "scenes/b"})
    EXPECT_NE(refused("scenes", results).find("among the frames"), std::string::npos) << results;
  EXPECT_NE(refused("one.txt", "scenes/a").find("among the frames"), std::string::npos);
  touch("scenes/results/manifest.jsonl");
  touch("scenes/results/images/view.png");
  EXPECT_EQ(find_scenes(dir_ / "scenes", dir_ / "scenes/results").scenes.size(), 2u);
}

TEST(SceneName, IsSafeAsAFolder) {
  EXPECT_EQ(safe_scene_name("a b-ü"), "a b-ü");
  EXPECT_EQ(safe_scene_name("../x"), "_._x");
  EXPECT_EQ(safe_scene_name(".."), "_.");
  EXPECT_EQ(safe_scene_name("a/b\\c\nd"), "a_b_c_d");
  EXPECT_EQ(safe_scene_name("a\xc2\x9b"
                            "31m\xc2\xa0z"),
            "a_31m\xc2\xa0z");  // a terminal's, beyond ASCII
  EXPECT_EQ(safe_scene_name(""), "_");
  EXPECT_EQ(safe_scene_name("manifest.jsonl"), "_manifest.jsonl");
  EXPECT_EQ(safe_scene_name("a\xff\xc0\xafz"), "a___z");                 // no UTF-8, and a hidden slash
  EXPECT_EQ(safe_scene_name("\xed\xa0\x80"), "___");                     // half of a pair
  EXPECT_EQ(safe_scene_name(std::string(199, 'a') + "ü").size(), 199u);  // never half a character
}

TEST(Shard, SharesAreDisjointAndComplete) {
  for (const int64_t count : {1, 3, 4, 20}) {
    std::vector<int> times(13, 0);
    for (int64_t i = 1; i <= count; ++i) {
      const Shard shard = parse_shard(std::to_string(i) + "/" + std::to_string(count));
      for (std::size_t scene = 0; scene < times.size(); ++scene) times[scene] += shard.has(scene);
    }
    EXPECT_EQ(times, std::vector<int>(13, 1)) << count;
  }
  for (const char* text : {"0/4", "5/4", "1", "a/b", "1/0", "-1/2", "1/2/3", ""})
    EXPECT_NE(refusal([&] { parse_shard(text); }).find("1/4 to 4/4"), std::string::npos) << text;
}

std::optional<Shard> shard_of(const std::map<std::string, std::string>& variables) {
  return slurm_shard([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Shard, OfASlurmArray) {
  EXPECT_FALSE(shard_of({}));
  EXPECT_FALSE(shard_of({{"SLURM_JOB_ID", "7"}}));
  const auto shard = shard_of({{"SLURM_ARRAY_TASK_ID", "9"},
                               {"SLURM_ARRAY_TASK_COUNT", "4"},
                               {"SLURM_ARRAY_TASK_MIN", "3"},
                               {"SLURM_ARRAY_TASK_STEP", "2"}});
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->index, 3);
  EXPECT_EQ(shard->count, 4);
  // --array=1,5,9
  EXPECT_NE(refusal([] {
              shard_of({{"SLURM_ARRAY_TASK_ID", "9"},
                        {"SLURM_ARRAY_TASK_COUNT", "3"},
                        {"SLURM_ARRAY_TASK_MIN", "1"},
                        {"SLURM_ARRAY_TASK_STEP", "1"}});
            }).find("--shard"),
            std::string::npos);
}

TEST_F(BatchScenes, TheSumChangesWithFramesOptionsAndWeights) {
  touch("a/1.jpg");
  touch("a/2.jpg");
  touch("w.ts");
  Options options;
  options.frames = (dir_ / "a").string();
  const auto sum = [&] { return fingerprint_of(options, dir_ / "w.ts"); };
  const Fingerprint before = sum();
  EXPECT_EQ(sum(), before);

  // Where and how fast makes no difference, nor does where the results lie.
  Options elsewhere = options;
  elsewhere.device = "cpu";
  elsewhere.threads = 3;
  elsewhere.host_memory = "4GB";
  elsewhere.out = "other/";
  elsewhere.scratch = "/tmp";
  elsewhere.verbose = true;
  EXPECT_EQ(fingerprint_of(elsewhere, dir_ / "w.ts"), before);

  elsewhere.conf_percentile = 20;
  EXPECT_EQ(changes(before, fingerprint_of(elsewhere, dir_ / "w.ts")), "options");

  Options masked = options;
  masked.masks = (dir_ / "masks").string();
  touch("masks/inner/1.png");
  const Fingerprint with_masks = fingerprint_of(masked, dir_ / "w.ts");
  touch("masks/inner/2.png");
  EXPECT_EQ(changes(with_masks, fingerprint_of(masked, dir_ / "w.ts")), "frames");
  fs::last_write_time(dir_ / "a/2.jpg", fs::last_write_time(dir_ / "a/2.jpg") + std::chrono::milliseconds(1));
  EXPECT_EQ(changes(before, sum()), "frames");
  const Fingerprint later = sum();
  touch("a/3.jpg");
  EXPECT_EQ(changes(later, sum()), "frames");
  touch("w.ts", "longer");
  EXPECT_EQ(changes(before, sum()), "frames, weights");
  for (const char* config : {"w.config.json", "config.json"}) {
    const Fingerprint without = sum();
    touch(config);
    EXPECT_EQ(changes(without, sum()), "weights") << config;
  }

  // Files that options name count as frames do; a source that is missing has a sum as well.
  touch("poses.txt");
  options.poses = (dir_ / "poses.txt").string();
  const Fingerprint posed = sum();
  touch("poses.txt", "others");
  EXPECT_EQ(changes(posed, sum()), "frames");
  options.frames = (dir_ / "gone").string();
  EXPECT_EQ(sum(), sum());
}

TEST_F(BatchScenes, WhatIsDoneAgain) {
  touch("s/scene.ply", "12345");
  fs::create_directories(dir_ / "s/colmap");
  const Fingerprint now{"f", "o", "w"};
  const auto reason = [&](SceneState state, const Fingerprint& before, bool retry, int64_t bytes = 5) {
    SceneRecord record;
    record.state = state;
    record.fingerprint = before;
    record.files = {{"scene.ply", bytes}, {"colmap", -1}};
    return reason_to_run(record, now, dir_ / "s", retry).value_or("");
  };
  EXPECT_EQ(reason_to_run(std::nullopt, now, dir_ / "s", false), "new");
  EXPECT_EQ(reason(SceneState::done, now, true), "");
  EXPECT_EQ(reason(SceneState::done, {"g", "o", "w"}, false), "changed: frames");
  EXPECT_EQ(reason(SceneState::done, now, false, 6), "files are missing");
  EXPECT_EQ(reason(SceneState::running, now, false), "interrupted");
  EXPECT_EQ(reason(SceneState::stopped, now, false), "interrupted");
  EXPECT_EQ(reason(SceneState::failed, now, false), "");
  EXPECT_EQ(reason(SceneState::failed, now, true), "failed before");
  EXPECT_EQ(reason(SceneState::failed, {"f", "p", "w"}, false), "changed: options");
  fs::remove(dir_ / "s/colmap");
  EXPECT_EQ(reason(SceneState::done, now, false), "files are missing");
}

TEST(SceneOptions, AVideosRateIsNoneOfPhotographs) {
  Options batch;
  batch.out = "results";
  batch.fps = 2;
  batch.stride = 3;
  const Options photos = scene_options(batch, {"room", VGGT_SOURCE_DIR "/examples/room"}),
                video = scene_options(batch, {"a.mp4", VGGT_FIXTURES "/videos/hevc.mp4"});
  EXPECT_FALSE(photos.fps);
  EXPECT_FALSE(photos.stride);
  EXPECT_EQ(video.fps, 2);
  EXPECT_EQ(video.stride, 3);
}

TEST(SceneOptions, HaveTheirOwnFolderAndFiles) {
  Options batch;
  batch.out = "results";
  batch.picture = "view.png";
  batch.masks = "masks/{scene}/{scene}";
  batch.align = "gps.txt";
  const Options options = scene_options(batch, {"a.mp4", "/in/a.mp4"});
  EXPECT_EQ(options.frames, "/in/a.mp4");
  EXPECT_EQ(options.out, "results/a.mp4/");
  EXPECT_EQ(options.picture, "results/a.mp4/view.png");
  EXPECT_EQ(options.masks, "masks/a.mp4/a.mp4");
  EXPECT_EQ(options.align, "gps.txt");
  EXPECT_EQ(common_options(batch).masks, "");
  EXPECT_EQ(common_options(batch).align, "gps.txt");

  for (const char* picture : {"../view.png", "/tmp/view.png", "a/view.png", "."}) {
    batch.picture = picture;
    EXPECT_NE(refusal([&] { check_batch_options(batch); }).find("picture"), std::string::npos) << picture;
  }
  batch.picture.clear();
  batch.frames = "photos";
  EXPECT_NE(refusal([&] { check_batch_options(batch); }).find("--scenes"), std::string::npos);
}

TEST(BatchTable, SaysWhatIsInWhichState) {
  SceneRecord done, failed, killed;
  done.scene = "good";
  done.state = SceneState::done;
  done.frames = 12;
  done.points = 34567;
  done.seconds = 8.25;
  done.warnings = {"w"};
  failed.scene = "bad";
  failed.state = SceneState::failed;
  failed.error = "no images: \x1b[31mevil\nname";  // of a manifest that somebody has written
  killed.scene = "killed";
  const auto rows = scene_rows({"good", "bad", "killed", "new"},
                               {{"good", done}, {"bad", failed}, {"killed", killed}}, "/nowhere");
  const std::vector<std::string> lines = table_lines(rows);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_NE(lines[1].find("12       34567      8.2"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("1 warning"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("no images: ?[31mevil?name"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("interrupted"), std::string::npos) << lines[3];
  EXPECT_NE(lines[4].find("waiting"), std::string::npos) << lines[4];
  EXPECT_EQ(lines[5], "4 scenes: 1 done, 1 failed, 2 to be done; 8.2 s of work");
}

}  // namespace
}  // namespace vggt
