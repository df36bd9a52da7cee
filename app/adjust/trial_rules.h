#pragma once
#include <cstddef>

#include "app/adjust/bundle_adjustment.h"
#include "app/adjust/held_out.h"
#include "io/scene/camera.h"

// What lens and focal length are judged by in trials (bundle_trials.h).
namespace vggt {

// Of a lens: a longer focal length stands in for most of a distortion, and gives way slowly.
// While the focal length is held matches may be far off at first.
inline constexpr BundleSchedule kTrial{2, 30, 1e-4}, kHeldTrial{4, 30, 1e-4};
inline constexpr double kStillBetter = 0.9;        // of an error that clearly falls
inline constexpr double kLeastMove = 1;            // pixels of the original, of a corner
inline constexpr std::size_t kMostAsked = 64;      // lenses, each of which takes a solution of the equations
inline constexpr std::size_t kFewestHeldOut = 20;  // matches, of which these mean something
inline constexpr double kTold = 0.05;              // deviation of a logarithm: of what the matches tell
inline constexpr double kFreeDepth = 10;           // prior of the network's depth that is dropped

/// What `auto` frees of a lens, if the cost of held-out matches clearly falls with it and below kLensPays of
/// what it was. On 96 rendered scenes (8 small frames), whose lenses have square pixels and no distortion, it
/// never falls so far by more than 3.8 standard errors; of videos through a distorted lens it falls to
/// between .945 and .987, by 4.1 to 16.
struct LensTrial {
  CameraModel model;
  bool LensFreedom::*free;
};
inline constexpr LensTrial kRadial{CameraModel::simple_radial, &LensFreedom::k1},
    kAspect{CameraModel::pinhole, &LensFreedom::aspect};
inline constexpr double kLensPays = 0.99, kClearly = 4;  // standard errors

/// How far a lens shows a corner from where a lens of square pixels without distortion does, in pixels.
double moved_corner(const Lens& lens);
double most_moved_corner(const Bundle& bundle);
/// Whether the cost clearly fell, to below that share.
bool pays(const CostChange& cost, double share);

}  // namespace vggt
