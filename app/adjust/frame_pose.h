#pragma once
#include "app/adjust/bundle_adjustment.h"

namespace vggt {

/// Finds the pose of a frame anew from the sightings of other frames' anchors in it, most of which may be
/// wrong (RANSAC): of poses that fit four of them each, chosen at random but always alike, the one with which
/// most agree. Returns whether clearly more agree with it than with the pose before, which changes then
/// alone.
bool find_pose_anew(Bundle& bundle, int frame);

}  // namespace vggt
