#pragma once
// Rows whose columns lie in several matrices side by side, as the ranks of a group send each other their
// heads.

namespace vggt {

inline constexpr int kMostJoined = 16;  // matrices

struct JoinedRows {
  const void* data[kMostJoined] = {};  // each [rows, its columns], contiguous, aligned to 16 bytes
  int begins[kMostJoined + 1] = {};    // the first column of each, and the number of all
  int parts = 0, rows = 0;
};

}  // namespace vggt
