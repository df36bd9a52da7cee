#include "attention/bench/pace.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "attention/bench/timing.h"

namespace vggt {
namespace {

// Of a case: warming up, a round by which Turns learns how long one takes, and two that count.
constexpr double kLeastRounds = 4;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Pace::Pace(double seconds, std::function<void()> check_stop)
    : end_(now() + seconds), check_stop_(std::move(check_stop)) {}

Pace Pace::part(double share) const {
  return Pace(share * left(), check_stop_);
}

double Pace::left() const {
  return end_ - now();
}

void Pace::check_stop() const {
  if (check_stop_) check_stop_();
}

std::function<void()> Pace::checked(std::function<void()> call) const {
  return [this, call = std::move(call)] {
    check_stop();
    call();
  };
}

bool Pace::fits(double operations) const {
  return kLeastRounds * operations * seconds_per_operation_ <= left() || seconds_per_operation_ == 0;
}

std::string Pace::why_not() const {
  return std::isinf(seconds_per_operation_) ? "a shorter one could not run" : kBeyondTime;
}

void Pace::took(double operations, const std::vector<std::vector<double>>& seconds) {
  double round = 0;
  for (const std::vector<double>& of_one : seconds) {
    if (!of_one.empty()) round += median(of_one);
  }
  // Where nothing could run, nothing longer can.
  seconds_per_operation_ = round > 0 ? round / operations : INFINITY;
}

}  // namespace vggt
