#pragma once
// Cyclic quorums: how attention over a sequence is divided into independent attentions over parts of it, so
// that every (query, key) pair belongs to exactly one part (CQS Divide of Stream-CQSA, arXiv 2604.20819).
// Without torch.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vggt {

/// A sequence is cut into `chunks` chunks. Part i has the chunks (i + o) mod chunks for each o of `interest`,
/// in which every difference but 0 occurs once: any two chunks meet in exactly one part.
struct Quorum {
  int chunks = 0;
  std::span<const int> interest;  // ascending; the first is 0
};

/// The interest sets of the paper's Table 3, by number of chunks. There is none for 43 and 111 chunks.
/// The set of 133 is corrected: as printed it is none.
std::span<const Quorum> quorum_table();

/// The part that computes this pair of chunks. A chunk meets itself in several parts; the one of its own
/// number owns that pair.
int owner_of(const Quorum& quorum, int query_chunk, int key_chunk);

/// Neighbouring tokens of a part. groups[t]: the chunk of division t whose pairs with itself another part
/// owns; -1 where this part owns them.
struct QuorumRun {
  int64_t first = 0, count = 0;
  std::vector<int> groups;
};

/// A part: its tokens lie one run after the other. It owns the pairs of all its runs but those of runs that
/// have a group in common.
struct QuorumPart {
  std::vector<int> path;  // its number in each division; the whole sequence has none
  std::vector<QuorumRun> runs;
};

int64_t tokens_of(const QuorumPart& part);

/// The sequence itself, which owns all pairs.
QuorumPart whole_sequence(int64_t tokens);

/// The parts of a part. Chunks differ by one token at most, and may be empty; a part without tokens is left
/// out.
std::vector<QuorumPart> divided(const QuorumPart& part, const Quorum& quorum);

/// Parts divided for as long as `further` holds of them, in the order of their paths. Uniform depth: further
/// compares path.size(); any other rule gives the paper's hybrid depths.
std::vector<QuorumPart> quorum_parts(int64_t tokens, const Quorum& quorum,
                                     const std::function<bool(const QuorumPart&)>& further);

/// The most tokens that a part has after `depth` divisions.
int64_t most_part_tokens(int64_t tokens, const Quorum& quorum, int depth);

/// Rows of a part, counted from its first token.
struct RowRange {
  int64_t first = 0, count = 0;
  bool operator==(const RowRange&) const = default;
};

/// The keys that some queries of a part meet there: what is left of the paper's masks.
struct QuorumTile {
  RowRange queries;
  std::vector<RowRange> keys;  // ascending; neighbours are one range
};

/// The pairs that the part owns, each in one tile. Queries whose keys are the same are one tile; queries
/// without keys have none.
std::vector<QuorumTile> owned_tiles(const QuorumPart& part);

}  // namespace vggt
