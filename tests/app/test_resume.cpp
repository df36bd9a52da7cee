// --resume: a run that was killed leaves its folder in the scratch folder and no output; the same command
// goes on from there and writes, byte for byte, what a run that was not killed writes. Another run is
// refused.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <map>

#include "app/run/reconstruct.h"
#include "app/run/resume.h"
#include "tests/support/cli.h"

namespace vggt::test {
namespace {

using Files = std::map<std::string, std::string>;  // by name

class Resumed : public CliTest {
 protected:
  Resumed() {
    for (int i = 0; i < 5; ++i) {
      const std::string name = "0" + std::to_string(i) + ".jpg";
      fs::copy(fs::path(VGGT_SOURCE_DIR) / "examples/room" / name, dir_ / "frames" / name);
    }
    for (int i = 0; i < 3; ++i) fs::remove(dir_ / "frames" / (std::to_string(i) + ".png"));
    fs::copy(fs::path(VGGT_SOURCE_DIR) / "weights/vggt-small.ts", dir_ / "weights.ts");
    fs::create_directory(dir_ / "scratch");
  }

  Options options() const {
    Options options;
    options.device = "cpu";
    options.weights = path("weights.ts");
    options.frames = path("frames");
    options.width = 196;
    options.max_frames = max_frames_;
    options.no_autotune = true;
    options.out = path("out/");
    options.save_predictions = path("out/p.safetensors");
    options.scratch = path("scratch");
    options.resume = true;
    return options;
  }
  Outcome resume(const std::string& more = "") {
    return run(
        "--device cpu --weights weights.ts --frames frames --no-autotune --out out/ "
        "--save-predictions out/p.safetensors --scratch scratch --resume " +
        (more.find("--width") == std::string::npos ? "--width 196 " + more : more));
  }

  /// Runs in a process of its own, with a checkpoint after every layer; act() sees the progress. Returns how
  /// the process ended. This process must not compute before: threads do not come along.
  int status_of(const std::function<void(const std::string& stage, int64_t done)>& act,
                const std::function<bool()>& stop = {}, double checkpoint_seconds = 0) const {
    const pid_t child = ::fork();
    if (child == 0) {
      bool told = false;
      try {
        RunPlan plan = plan_run(options());
        plan.checkpoint_seconds = checkpoint_seconds;
        Events events;
        events.on_progress = [&](const std::string& stage, const std::string&, int64_t done, int64_t) {
          act(stage, done);
        };
        events.stop = stop;
        events.on_message = [&](Message kind, const std::string& text) {
          told |= kind == Message::warning && text.find("goes on from") != std::string::npos;
        };
        vggt::reconstruct(plan, events);
      } catch (const Stopped&) {
        ::_exit(told ? 11 : 10);
      } catch (...) {
        ::_exit(12);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }
  void kill_at(const std::string& stage, int64_t done) const {
    const int status = status_of([&](const std::string& now, int64_t count) {
      if (now == stage && count == done) ::kill(::getpid(), SIGKILL);
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  /// The exit code of a run that is asked to stop when a stage has done so much.
  int stop_at(const std::string& stage, int64_t done, double checkpoint_seconds) const {
    bool stop = false;
    const int status =
        status_of([&](const std::string& now, int64_t count) { stop |= now == stage && count == done; },
                  [&] { return stop; }, checkpoint_seconds);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// What lies in the folder of outputs, but the report: that holds seconds.
  Files outputs() const {
    Files files;
    for (const std::string& name : names_in("out")) {
      if (!name.ends_with("report.json")) files[name] = text_of(path("out/" + name));
    }
    return files;
  }
  Files uninterrupted() {
    EXPECT_EQ(resume().code, 0);
    Files files = outputs();
    EXPECT_EQ(files.size(), 4u);
    fs::remove_all(dir_ / "out");
    return files;
  }
  /// Whether the outputs' file system has files without names.
  bool has_unnamed_files() const {
    const int file = ::open(dir_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (file >= 0) ::close(file);
    return file >= 0;
  }
  fs::path folder() const { return dir_ / "scratch" / names_in("scratch").at(0); }

  std::optional<int64_t> max_frames_;
};

TEST_F(Resumed, AFolderOfSomebodyElseIsLeftAlone) {
  const fs::path folder = Resume(plan_run(options()), {}).folder();
  ASSERT_FALSE(fs::exists(folder));
  fs::create_directory(dir_ / "precious");
  std::ofstream(dir_ / "precious/notes.txt") << "notes";
  fs::create_symlink(dir_ / "precious", folder);
  expect_refusal(resume(), folder.filename().string());
  EXPECT_TRUE(fs::exists(dir_ / "precious/notes.txt"));
  EXPECT_FALSE(fs::exists(dir_ / "precious/lock"));
}

TEST_F(Resumed, StopsWhileFilesAreSummed) {
  Events events;
  events.stop = [] { return true; };
  EXPECT_THROW(Resume(plan_run(options()), events), Stopped);
  EXPECT_TRUE(fs::is_empty(dir_ / "scratch"));
}

TEST_F(Resumed, AKilledRunGoesOnByteForByte) {
  const Files expected = uninterrupted();
  EXPECT_TRUE(fs::is_empty(dir_ / "scratch"));
  for (const auto& [stage, done] : std::vector<std::pair<std::string, int64_t>>{
           {"patch_embed", 0}, {"aggregator", 3}, {"depth_head", 0}}) {
    kill_at(stage, done);
    if (fs::exists(dir_ / "out")) {
      EXPECT_FALSE(has_unnamed_files());
      for (const std::string& name : names_in("out")) EXPECT_TRUE(name.starts_with(".vggt-recon-")) << name;
    }
    ASSERT_EQ(names_in("scratch").size(), 1u);
    const Outcome outcome = resume();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("going on from") != std::string::npos, stage != "patch_embed") << outcome.err;
    EXPECT_TRUE(outputs() == expected) << stage;
    EXPECT_TRUE(fs::is_empty(dir_ / "scratch")) << stage;
    fs::remove_all(dir_ / "out");
  }
}

TEST_F(Resumed, AnotherRunIsRefused) {
  kill_at("aggregator", 3);
  expect_refusal(resume("--width 182"), "--width");
  expect_refusal(resume("--precision tf32"), "precision");
  expect_refusal(resume("--head-precision bf16"), "--head-precision");
  expect_refusal(resume("--max-frames 4"), "--max-frames");
  expect_refusal(resume("--merge on"), "--merge (auto then, on now)");
  expect_refusal(resume("--merge off"), "changed are --merge (auto then, off now); ");
  expect_refusal(resume("--merge-seed 34 --dry-run"), "--merge-seed");
  EXPECT_EQ(resume("--dry-run").code, 0);

  const fs::path weights = dir_ / "weights.ts", frame = dir_ / "frames/02.jpg";
  const auto of_weights = fs::last_write_time(weights), of_frame = fs::last_write_time(frame);
  // A byte between tensors, of which neither the archive's sums nor the file's size and time tell.
  const std::string archive = text_of(weights);
  const std::size_t padding = archive.find("ZZZZZZZZ", archive.size() / 2);
  ASSERT_NE(padding, std::string::npos);
  for (const char other : {'Y', 'Z'}) {
    std::fstream(weights, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(padding))
        .put(other);
    fs::last_write_time(weights, of_weights);
    if (other == 'Y') expect_refusal(resume(), "--weights");
  }
  fs::copy(frame, dir_ / "kept.jpg");
  fs::copy(dir_ / "frames/03.jpg", frame, fs::copy_options::overwrite_existing);
  expect_refusal(resume(), "--frames (02.jpg)");
  // Neither its size nor its time tells.
  fs::copy(dir_ / "kept.jpg", frame, fs::copy_options::overwrite_existing);
  std::fstream(frame, std::ios::in | std::ios::out | std::ios::binary).seekp(200).put('\x55');
  fs::last_write_time(frame, of_frame);
  expect_refusal(resume(), "--frames (02.jpg)");
  fs::remove(frame);
  expect_refusal(resume(), "--frames (5 files then, 4 now)");
  fs::copy(dir_ / "kept.jpg", frame);
  fs::last_write_time(frame, of_frame);
  ASSERT_EQ(names_in("scratch").size(), 1u);

  // What does not concern the network may change.
  const Outcome outcome = resume("--conf-percentile 20 --threads 1 --report --picture picture.png");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("going on from"), std::string::npos) << outcome.err;
}

TEST_F(Resumed, FramesThatAreNotChosenMayChange) {
  max_frames_ = 3;  // the first, the third, the fifth
  kill_at("aggregator", 3);
  write(dir_ / "frames/01.jpg", "another picture");
  const Outcome outcome = resume("--max-frames 3");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("going on from"), std::string::npos) << outcome.err;
}

TEST_F(Resumed, DamageIsRefused) {
  kill_at("aggregator", 3);
  fs::resize_file(folder() / "residual-3", 1000);
  expect_refusal(resume(), "residual-3");
  write(folder() / "manifest.json", "{");
  expect_refusal(resume(), "the manifest");
  fs::remove_all(folder());
  EXPECT_EQ(resume().code, 0);
}

TEST_F(Resumed, AUsersFolderOfThatNameIsLeftAlone) {
  kill_at("aggregator", 3);
  const fs::path own = folder(), photo = own / "photo.jpg";
  fs::remove_all(own);
  fs::create_directory(own);
  write(photo, "pixels");
  expect_refusal(resume(), "something else");
  EXPECT_TRUE(fs::exists(photo));
  EXPECT_FALSE(fs::exists(own / "lock"));
  fs::remove(photo);
  EXPECT_EQ(resume().code, 0);
}

TEST_F(Resumed, AFolderIsOneProcesss) {
  kill_at("aggregator", 3);
  const int lock = ::open((folder() / "lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  expect_refusal(resume(), "another process");
  ::close(lock);
  EXPECT_EQ(resume().code, 0);
}

TEST_F(Resumed, AStoppedRunStaysOnlyWithFinishedStages) {
  EXPECT_EQ(stop_at("aggregator", 3, 3600), 10);
  EXPECT_TRUE(fs::is_empty(dir_ / "scratch"));
  EXPECT_EQ(stop_at("depth_head", 0, 3600), 11);  // which says how to go on
  // Of data in files nothing stays.
  for (const auto& entry : fs::directory_iterator(folder()))
    EXPECT_FALSE(entry.is_directory()) << entry.path();
  expect_no_outputs();
  EXPECT_EQ(resume().code, 0);
  EXPECT_TRUE(fs::is_empty(dir_ / "scratch"));
}

TEST_F(Resumed, ItNeedsAPlaceAndFramesThatStay) {
  expect_refusal(reconstruct("--frames frames --out out/ --resume"), "--scratch");
  ASSERT_EQ(::mkfifo(path("list.txt").c_str(), 0600), 0);
  expect_refusal(reconstruct("--frames list.txt --out out/ --scratch scratch --resume"), "pipe");
  EXPECT_TRUE(fs::is_empty(dir_ / "scratch"));
  // Without the option the folder is the run's own.
  kill_at("aggregator", 3);
  const Outcome outcome = reconstruct("--frames frames --width 196 --out out/ --scratch scratch");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(names_in("scratch").size(), 1u);
}

}  // namespace
}  // namespace vggt::test
