// Ranks that are processes meet, talk, and find out when one of them is gone.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "model/ranks/meeting.h"

namespace vggt {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr MeetingTimes kShort{milliseconds(4'000), milliseconds(2'000), milliseconds(500)};

/// A socket with a port of this machine.
struct Socket {
  Socket() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(file, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  }
  ~Socket() { ::close(file); }
  uint16_t port() const { return ntohs(address.sin_port); }

  int file = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
};

uint16_t free_port() {
  return Socket().port();
}

RankPlace place_of(int64_t rank, int64_t ranks, uint16_t port) {
  RankPlace place;
  place.rank = rank;
  place.ranks = ranks;
  place.host = "127.0.0.1";
  place.port = port;
  return place;
}

/// The store that a launcher serves, at a port of its own.
c10::intrusive_ptr<c10d::TCPStore> launchers_store() {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = 0;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

/// A process that is one of two ranks, and does nothing.
pid_t process_of(int64_t rank, uint16_t port) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const Meeting meeting(place_of(rank, 2, port), kShort);
  ::pause();
  ::_exit(0);
}

/// work(meeting) of every rank, each on a thread; what each threw, or nothing.
std::vector<std::string> on_threads(int64_t ranks, const std::function<void(Meeting&)>& work) {
  const uint16_t port = free_port();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Meeting meeting(place_of(rank, ranks, port), kShort);
        work(meeting);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Waits until the group is lost, as work that waits for another rank does.
std::string loss(Meeting& meeting) {
  try {
    while (true) meeting.texts("");
  } catch (const RankLost& error) {
    return error.what();
  }
}

TEST(Meeting, TextsGoToAllInTheirOrder) {
  const auto errors = on_threads(4, [](Meeting& meeting) {
    for (int round = 0; round < 3; ++round) {
      const std::string own = std::to_string(meeting.place().rank * 10 + round);
      const std::vector<std::string> all = meeting.texts(round == 1 ? "" : own);
      for (int64_t rank = 0; rank < 4; ++rank)
        EXPECT_EQ(all[static_cast<std::size_t>(rank)], round == 1 ? "" : std::to_string(rank * 10 + round));
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

TEST(Meeting, AFailedRankEndsTheOthersWithItsWords) {
  std::atomic<int> ended = 0;
  const auto errors = on_threads(3, [&](Meeting& meeting) {
    if (meeting.place().rank == 2) {
      meeting.fail("weights.pt: no such file");
      return;
    }
    meeting.on_lost([&] { ++ended; });
    EXPECT_EQ(loss(meeting), "rank 2: weights.pt: no such file");
    EXPECT_EQ(meeting.lost(), "rank 2: weights.pt: no such file");
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
  EXPECT_EQ(ended, 2);
}

TEST(Meeting, ARankThatLeavesIsNotMissed) {
  const auto errors = on_threads(2, [](Meeting& meeting) {
    meeting.texts("");
    if (meeting.place().rank == 1) return;
    std::this_thread::sleep_for(kShort.silence + milliseconds(1'500));
    EXPECT_NO_THROW(meeting.check());
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Meeting, AKilledRankIsFoundOut) {
  const uint16_t port = free_port();
  const pid_t child = process_of(1, port);
  Meeting meeting(place_of(0, 2, port), kShort);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto begin = Clock::now();
  EXPECT_EQ(loss(meeting), "rank 1 gives no sign of life");
  EXPECT_LT(Clock::now() - begin, kShort.silence + milliseconds(3'000));
}

TEST(Meeting, WithRank0TheMeetingPlaceIsGone) {
  const uint16_t port = free_port();
  const pid_t child = process_of(0, port);
  Meeting meeting(place_of(1, 2, port), kShort);
  std::atomic<bool> stuck = false;
  meeting.on_stuck([&](const std::string& why) {
    EXPECT_NE(why.find("is gone"), std::string::npos) << why;
    stuck = true;
  });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NE(loss(meeting).find("meeting place at 127.0.0.1:"), std::string::npos);
  for (int i = 0; i < 500 && !stuck; ++i) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(stuck);
}

TEST(Meeting, AFrozenRank0IsFoundOut) {
  const uint16_t port = free_port();
  const pid_t child = process_of(0, port);
  Meeting meeting(place_of(1, 2, port), kShort);
  std::atomic<bool> stuck = false;
  meeting.on_stuck([&](const std::string& why) {
    EXPECT_NE(why.find("does not answer"), std::string::npos) << why;
    stuck = true;
  });
  ::kill(child, SIGSTOP);
  const auto begin = Clock::now();
  while (!stuck && Clock::now() - begin < milliseconds(20'000)) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(stuck);
  EXPECT_LT(Clock::now() - begin, kShort.silence + kShort.stuck + milliseconds(3'000));
  EXPECT_THROW(meeting.check(), RankLost);
  ::kill(child, SIGKILL);  // which answers the threads that wait
  ::waitpid(child, nullptr, 0);
}

// As Ctrl-Z and fg do.
TEST(Meeting, RanksThatArePausedTogetherGoOn) {
  const uint16_t port = free_port();
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < 2; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    try {
      Meeting meeting(place_of(rank, 2, port), kShort);
      for (int round = 0; round < 50; ++round) {
        meeting.texts("");
        std::this_thread::sleep_for(milliseconds(100));
      }
    } catch (const RankLost&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  std::this_thread::sleep_for(milliseconds(1'000));
  for (const pid_t child : children) ::kill(child, SIGSTOP);
  std::this_thread::sleep_for(kShort.silence + milliseconds(1'000));
  for (const pid_t child : children) ::kill(child, SIGCONT);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST(Meeting, WhoListensAndNeverAnswersIsNoMeetingPlace) {
  const Socket silent;
  ASSERT_EQ(::listen(silent.file, 8), 0);
  const auto begin = Clock::now();
  try {
    const Meeting meeting(place_of(1, 2, silent.port()), kShort);
    ADD_FAILURE();
  } catch (const RankLost& error) {
    EXPECT_NE(std::string(error.what()).find("cannot be met at 127.0.0.1:"), std::string::npos)
        << error.what();
  }
  EXPECT_LT(Clock::now() - begin, kShort.meeting + milliseconds(4'000));
}

TEST(Meeting, RanksThatDoNotComeAreMissed) {
  const auto begin = Clock::now();
  try {
    Meeting(place_of(0, 3, free_port()), kShort);
    ADD_FAILURE();
  } catch (const RankLost& error) {
    EXPECT_NE(std::string(error.what()).find("2 of 3 ranks did not come to 127.0.0.1:"), std::string::npos)
        << error.what();
  }
  EXPECT_LT(Clock::now() - begin, 2 * kShort.meeting);
}

TEST(Meeting, AllWhoCameMissTheSame) {
  const uint16_t port = free_port();
  const auto come = [port](int64_t rank) -> std::string {
    try {
      Meeting(place_of(rank, 3, port), kShort);
      return "(met)";
    } catch (const RankLost& error) {
      return error.what();
    }
  };
  std::future<std::string> first = std::async(std::launch::async, come, 0);
  const std::string second = come(1);
  for (const std::string& message : {first.get(), second})
    EXPECT_NE(message.find("1 of 3 ranks did not come"), std::string::npos) << message;
}

TEST(Meeting, AWrongAddressIsSaid) {
  RankPlace place = place_of(1, 2, free_port());
  for (const auto& [rank, host] :
       {std::pair(1, "127.0.0.1"), {1, "no-such-host.invalid"}, {0, "no-such-host.invalid"}}) {
    place.rank = rank;
    place.host = host;
    const auto begin = Clock::now();
    try {
      const Meeting meeting(place, kShort);
      ADD_FAILURE();
    } catch (const RankLost& error) {
      EXPECT_NE(std::string(error.what()).find("cannot be met at " + place.host), std::string::npos)
          << error.what();
    }
    EXPECT_LT(Clock::now() - begin, milliseconds(20'000));
  }
}

TEST(Meeting, RanksOfAnotherNumberDoNotMeet) {
  const uint16_t port = free_port();
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Meeting meeting(place_of(rank, 2 + rank, port), kShort);
      } catch (const RankLost& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(errors[0].empty());
  EXPECT_FALSE(errors[1].empty());
  EXPECT_NE((errors[0] + errors[1]).find("(WORLD_SIZE)"), std::string::npos)
      << errors[0] << ", " << errors[1];
}

TEST(Meeting, APortThatIsTakenIsSaid) {
  const Socket taken;
  ASSERT_EQ(::listen(taken.file, 8), 0);
  try {
    const Meeting meeting(place_of(0, 2, taken.port()), kShort);
    ADD_FAILURE();
  } catch (const RankLost& error) {
    EXPECT_NE(std::string(error.what()).find("is it taken?"), std::string::npos) << error.what();
  }
}

TEST(Meeting, AMeetingCanBeStoppedWhileItWaits) {
  const auto begin = Clock::now();
  const auto stop = [] { throw std::logic_error("stopped"); };
  EXPECT_THROW(Meeting(place_of(1, 2, free_port()), kShort, stop), std::logic_error);
  EXPECT_LT(Clock::now() - begin, milliseconds(1'000));
}

// As of two commands, one after the other, that one torchrun starts.
TEST(Meeting, ALaunchersStoreServesOneRunAfterAnother) {
  const auto store = launchers_store();
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      RankPlace place = place_of(rank, 2, store->getPort());
      place.store_is_there = true;
      for (int run = 0; run < 3; ++run) {
        Meeting meeting(place, kShort);
        const std::string own = std::to_string(rank) + " " + std::to_string(run);
        EXPECT_EQ(meeting.texts(own).front(), "0 " + std::to_string(run));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Meeting, ALaunchersStoreServesARunAfterOneThatFailed) {
  const auto store = launchers_store();
  const auto meet = [&](int64_t rank, int64_t ranks) {
    RankPlace place = place_of(rank, ranks, store->getPort());
    place.store_is_there = true;
    Meeting meeting(place, kShort);
    EXPECT_EQ(meeting.texts("").size(), 2u);
  };
  std::thread first([&] { EXPECT_THROW(meet(0, 2), RankLost); }),
      other([&] { EXPECT_THROW(meet(1, 3), RankLost); });
  first.join();
  other.join();
  std::thread second([&] { EXPECT_NO_THROW(meet(0, 2)); });
  EXPECT_NO_THROW(meet(1, 2));
  second.join();
}

TEST(Meeting, TwoOfOneRankAreRefused) {
  const uint16_t port = free_port();
  std::optional<Meeting> first, second;
  std::thread other([&] { second.emplace(place_of(1, 2, port), kShort); });
  first.emplace(place_of(0, 2, port), kShort);
  other.join();
  EXPECT_THROW(Meeting(place_of(1, 2, port), kShort), RankLost);
  std::thread leaves([&] { second.reset(); });
  first.reset();
  leaves.join();
}

}  // namespace
}  // namespace vggt
