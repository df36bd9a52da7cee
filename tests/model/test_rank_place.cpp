// Where a process stands among several, as launchers tell it.
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "model/ranks/rank_place.h"
#include "model/ranks/shares.h"

namespace vggt {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<RankPlace> place_in(const Variables& variables) {
  return rank_place([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "node7"},
                             {"MASTER_PORT", "29500"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},   {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_LOCALID", "1"},  {"SLURM_STEP_NODELIST", "gpu[07-09,12],big1"},
                          {"SLURM_JOB_ID", "712"}, {"SLURM_STEP_ID", "2"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(RankPlace, AProcessOnItsOwnHasNone) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in(with(with(kTorchrun, "WORLD_SIZE", "1"), "RANK", "0")));
  EXPECT_FALSE(place_in({{"WORLD_SIZE", "1"}, {"RANK", "0"}}));
  EXPECT_FALSE(
      place_in({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));  // a batch script
  EXPECT_FALSE(place_in(with(with(kSlurm, "SLURM_STEP_NUM_TASKS", "1"), "SLURM_PROCID", "0")));
}

TEST(RankPlace, IsReadFromTorchrun) {
  const auto place = place_in(kTorchrun);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->host, "node7");
  EXPECT_EQ(place->port, 29500);
  EXPECT_FALSE(place->store_is_there);
  EXPECT_TRUE(place_in(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"))->store_is_there);
}

TEST(RankPlace, IsReadFromSlurm) {
  const auto place = place_in(kSlurm);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->host, "gpu07");
  EXPECT_GE(place->port, 1024);
  EXPECT_NE(place->port, place_in(with(kSlurm, "SLURM_STEP_ID", "3"))->port);
  EXPECT_EQ(place_in(with(kSlurm, "SLURM_STEP_NODELIST", "big1,gpu[1-2]"))->host, "big1");
  EXPECT_EQ(place_in(with(kSlurm, "SLURM_STEP_NODELIST", "alone"))->host, "alone");
  EXPECT_EQ(place_in(with(kSlurm, "SLURM_STEP_NODELIST", "rack[0-1]_blade[2,4],x"))->host, "rack0_blade2");
  EXPECT_EQ(place_in(with(kSlurm, "SLURM_STEP_NODELIST", "rack[3"))->host, "rack3");
  const auto given = place_in(with(with(kSlurm, "MASTER_ADDR", "10.0.0.1"), "MASTER_PORT", "1234"));
  EXPECT_EQ(given->host, "10.0.0.1");
  EXPECT_EQ(given->port, 1234);
}

TEST(RankPlace, ABatchScriptMayNameTheMasterForSlurm) {
  Variables variables = with(kSlurm, "WORLD_SIZE", "8");
  variables["MASTER_ADDR"] = "node7";
  variables["MASTER_PORT"] = "29500";
  const std::optional<RankPlace> place = place_in(variables);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->host, "node7");
  EXPECT_EQ(place->port, 29500);
  EXPECT_THROW(place_in(with(variables, "WORLD_SIZE", "4")), std::invalid_argument);
  EXPECT_FALSE(place_in(with(variables, "WORLD_SIZE", "1")));
}

TEST(RankPlace, WhatIsIncompleteOrNoNumberIsRefused) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = kTorchrun;
    variables.erase(name);
    EXPECT_THROW(place_in(variables), std::invalid_argument) << name;
  }
  for (const char* value : {"8", "-1", "x", "3x", "99999999999999999999"})
    EXPECT_THROW(place_in(with(kTorchrun, "RANK", value)), std::invalid_argument) << value;
  EXPECT_THROW(place_in(with(kTorchrun, "MASTER_PORT", "70000")), std::invalid_argument);
  EXPECT_THROW(place_in(with(kSlurm, "SLURM_PROCID", "8")), std::invalid_argument);
}

TEST(Shares, AreInOrderAndDifferByOneAtMost) {
  for (const int64_t total : {0, 1, 5, 16, 17, 400}) {
    for (const int64_t parts : {1, 2, 3, 5, 8}) {
      const Shares shares{total, parts};
      EXPECT_EQ(shares.begin(0), 0);
      EXPECT_EQ(shares.begin(parts), total);
      int64_t most = 0;
      for (int64_t part = 0; part < parts; ++part) {
        EXPECT_GE(shares.count(part), total / parts);
        most = std::max(most, shares.count(part));
      }
      EXPECT_EQ(shares.most(), most);
    }
  }
}

}  // namespace
}  // namespace vggt
