#pragma once
#include <cstdint>

// Sizes of the heads that are the same in every VGGT. memory_plan.h counts with the same numbers.
namespace vggt {

/// Channels that a dense head's last convolution takes.
inline constexpr int64_t kDptLastChannels = 32;

/// Pixels of a frame to one pixel of the tracker's feature maps.
inline constexpr int64_t kTrackStride = 2;

/// The tracker compares a point with a window of its feature map: pixels to each side, and all of them.
inline constexpr int64_t kCorrelationRadius = 4;
inline constexpr int64_t kCorrelationWindow = (2 * kCorrelationRadius + 1) * (2 * kCorrelationRadius + 1);

/// Tracks that the tracker's transformer has beside those of the query points.
inline constexpr int64_t kVirtualTracks = 64;

}  // namespace vggt
