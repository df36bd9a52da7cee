// Files appear whole or not at all, and none that is needed is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/support/cli.h"

namespace vggt::test {
namespace {

TEST_F(CliTest, PlacesThatCannotBeWrittenAreNamedBeforeTheWork) {
  write(dir_ / "file", "x");
  expect_refusal(reconstruct("--frames frames --out file/x.ply"), "file: Not a directory");
  fs::create_directory(dir_ / "x.ply");
  fs::create_directory(dir_ / "taken");
  fs::create_directory(dir_ / "taken/scene.ply");
  expect_refusal(reconstruct("--frames frames --out taken"), "scene.ply");
  expect_refusal(reconstruct("--frames frames --out /proc/vggt/x.ply"), "/proc");
  expect_refusal(reconstruct("--frames frames --save-predictions /proc/p.safetensors"), "/proc");
  EXPECT_EQ(names_in("taken"), std::vector<std::string>{"scene.ply"});
}

TEST_F(CliTest, AFullDiskLeavesNothing) {
  // The shell counts file size limits in KiB or in blocks of 512 bytes: both are too small for the outputs.
  fs::create_directory(dir_ / "kept");
  write(dir_ / "kept/scene.tum", "old\n");
  for (const char* more : {"--out kept", "--save-predictions kept/p.safetensors", "--out fresh/deep/"}) {
    const Outcome outcome =
        reconstruct(std::string("--frames frames --conf-percentile 0 ") + more, "ulimit -f 16;");
    EXPECT_EQ(outcome.code, 3) << outcome.err;  // out of resources: the input is not to blame
    expect_one_error(outcome, "cannot");
    EXPECT_EQ(outcome.err.find(".vggt"), std::string::npos) << outcome.err;  // the file's name, not its place
  }
  EXPECT_EQ(names_in("kept"), std::vector<std::string>{"scene.tum"});
  EXPECT_EQ(text_of(path("kept/scene.tum")), "old\n");
  EXPECT_FALSE(fs::exists(path("fresh")));
}

TEST_F(CliTest, InputsAreNeverReplaced) {
  ASSERT_EQ(reconstruct("--frames frames --save-predictions p.safetensors").code, 0);
  const std::string old = text_of(path("p.safetensors"));
  fs::create_symlink("p.safetensors", dir_ / "link.safetensors");
  for (const char* out : {"p.safetensors", "./link.safetensors"}) {
    const Outcome outcome =
        reconstruct(std::string("--frames p.safetensors --max-frames 1 --save-predictions ") + out);
    expect_refusal(outcome, "would replace an input");
  }
  EXPECT_EQ(text_of(path("p.safetensors")), old);
}

TEST_F(CliTest, OldFilesStayUntilTheNewOnesAreWhole) {
  ASSERT_EQ(reconstruct("--frames frames --out out/").code, 0);
  const std::string old = text_of(path("out/scene.ply"));
  write(dir_ / "frames/0.png", "spoilt");
  expect_refusal(reconstruct("--strict --frames frames --out out/"), "0.png");
  EXPECT_EQ(text_of(path("out/scene.ply")), old);
  EXPECT_EQ(names_in("out").size(), 4u);
}

TEST_F(CliTest, CtrlCStopsCleanly) {
  fs::create_directory(dir_ / "many");
  for (int i = 0; i < 12; ++i) make_image("many/" + std::to_string(i) + ".png", 640, 480, i);
  const std::vector<std::string> arguments = {VGGT_PROGRAM,
                                              "--device",
                                              "cpu",
                                              "--weights",
                                              kNano,
                                              "--frames",
                                              path("many"),
                                              "--width",
                                              "518",
                                              "--out",
                                              path("out/x.ply"),
                                              "--save-predictions",
                                              path("out/p.safetensors")};
  for (const auto& [signal, is_ignored] :
       {std::pair(SIGINT, false), {SIGTERM, false}, {SIGHUP, false}, {SIGHUP, true}}) {
    const pid_t child = fork();
    if (child == 0) {
      if (is_ignored) ::signal(SIGHUP, SIG_IGN);  // as nohup does
      std::vector<char*> argv;
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      if (!freopen(path("log").c_str(), "w", stderr)) _exit(99);
      execv(argv[0], argv.data());
      _exit(99);
    }
    ASSERT_GT(child, 0);
    // As soon as it tells of its frames, the network is next.
    for (int i = 0; i < 1000 && text_of(path("log")).find("12 frames") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_NE(text_of(path("log")).find("12 frames"), std::string::npos);
    if (is_ignored) {  // it still is: another signal has to stop the run
      const std::string status = text_of("/proc/" + std::to_string(child) + "/status");
      const std::size_t mask = status.find("SigIgn:");
      ASSERT_NE(mask, std::string::npos);
      EXPECT_EQ(std::stoull(status.substr(mask + 7), nullptr, 16) & (1U << (SIGHUP - 1)), 1U << (SIGHUP - 1));
    }
    ASSERT_EQ(kill(child, is_ignored ? SIGTERM : signal), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "killed by " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 130) << text_of(path("log"));
    EXPECT_NE(text_of(path("log")).find("stopped"), std::string::npos);
    EXPECT_FALSE(fs::exists(path("out")));
    fs::remove(path("log"));
  }
}

}  // namespace
}  // namespace vggt::test
