#include "attention/stream/quorum.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace vggt {
namespace {

constexpr std::array k7{0, 1, 3};
constexpr std::array k13{0, 1, 3, 9};
constexpr std::array k21{0, 1, 4, 14, 16};
constexpr std::array k31{0, 1, 3, 8, 12, 18};
constexpr std::array k57{0, 1, 3, 13, 32, 36, 43, 52};
constexpr std::array k73{0, 1, 3, 7, 15, 31, 36, 54, 63};
constexpr std::array k91{0, 1, 3, 9, 27, 49, 56, 61, 77, 81};
// The paper prints 96, 98 and 126, with which 36 differences occur twice.
constexpr std::array k133{0, 1, 4, 12, 21, 26, 45, 68, 84, 97, 99, 127};
constexpr std::array<Quorum, 8> kTable{
    {{7, k7}, {13, k13}, {21, k21}, {31, k31}, {57, k57}, {73, k73}, {91, k91}, {133, k133}}};

int wrapped(int value, int chunks) {
  return (value % chunks + chunks) % chunks;
}

bool owned(const QuorumRun& query, const QuorumRun& key) {
  for (std::size_t t = 0; t < query.groups.size(); ++t) {
    if (query.groups[t] >= 0 && query.groups[t] == key.groups[t]) return false;
  }
  return true;
}

/// Appends the rows [first, end) of a part, as runs of the chunk `group` of one more division.
void append_rows(std::vector<QuorumRun>& to, const QuorumPart& part, int64_t first, int64_t end, int group) {
  int64_t row = 0;
  for (const QuorumRun& run : part.runs) {
    const int64_t begin = std::max(first, row), stop = std::min(end, row + run.count);
    if (begin < stop) {
      to.push_back({run.first + begin - row, stop - begin, run.groups});
      to.back().groups.push_back(group);
    }
    row += run.count;
  }
}

void append_range(std::vector<RowRange>& to, RowRange range) {
  if (!to.empty() && to.back().first + to.back().count == range.first) {
    to.back().count += range.count;
  } else {
    to.push_back(range);
  }
}

}  // namespace

std::span<const Quorum> quorum_table() {
  return kTable;
}

int owner_of(const Quorum& quorum, int query_chunk, int key_chunk) {
  if (query_chunk == key_chunk) return query_chunk;
  for (int a : quorum.interest) {
    for (int b : quorum.interest) {
      if (wrapped(a - b - query_chunk + key_chunk, quorum.chunks) == 0)
        return wrapped(query_chunk - a, quorum.chunks);
    }
  }
  throw std::logic_error("quorum: no part of " + std::to_string(quorum.chunks) + " has the chunks " +
                         std::to_string(query_chunk) + " and " + std::to_string(key_chunk));
}

int64_t tokens_of(const QuorumPart& part) {
  return std::accumulate(part.runs.begin(), part.runs.end(), int64_t{0},
                         [](int64_t sum, const QuorumRun& run) { return sum + run.count; });
}

QuorumPart whole_sequence(int64_t tokens) {
  QuorumPart whole;
  if (tokens > 0) whole.runs.push_back({0, tokens, {}});
  return whole;
}

std::vector<QuorumPart> divided(const QuorumPart& part, const Quorum& quorum) {
  const int64_t tokens = tokens_of(part);
  std::vector<QuorumPart> parts;
  for (int i = 0; i < quorum.chunks; ++i) {
    std::vector<int> chunks;
    for (int o : quorum.interest) chunks.push_back((i + o) % quorum.chunks);
    std::ranges::sort(chunks);  // neighbours in memory stay neighbours
    QuorumPart one{part.path, {}};
    one.path.push_back(i);
    for (int chunk : chunks) {
      append_rows(one.runs, part, tokens * chunk / quorum.chunks, tokens * (chunk + 1) / quorum.chunks,
                  chunk == i ? -1 : chunk);
    }
    if (!one.runs.empty()) parts.push_back(std::move(one));
  }
  return parts;
}

std::vector<QuorumPart> quorum_parts(int64_t tokens, const Quorum& quorum,
                                     const std::function<bool(const QuorumPart&)>& further) {
  std::vector<QuorumPart> open{whole_sequence(tokens)}, done;
  while (!open.empty()) {
    const QuorumPart part = std::move(open.back());
    open.pop_back();
    if (!further(part)) {
      done.push_back(part);
      continue;
    }
    std::vector<QuorumPart> parts = divided(part, quorum);
    std::move(parts.rbegin(), parts.rend(), std::back_inserter(open));
  }
  return done;
}

int64_t most_part_tokens(int64_t tokens, const Quorum& quorum, int depth) {
  const auto size = static_cast<int64_t>(quorum.interest.size());
  for (int i = 0; i < depth; ++i)
    tokens = std::min(tokens, size * ((tokens + quorum.chunks - 1) / quorum.chunks));
  return tokens;
}

std::vector<QuorumTile> owned_tiles(const QuorumPart& part) {
  std::vector<QuorumTile> tiles;
  int64_t query = 0;
  for (const QuorumRun& queries : part.runs) {
    QuorumTile tile{{query, queries.count}, {}};
    int64_t key = 0;
    for (const QuorumRun& keys : part.runs) {
      if (owned(queries, keys)) append_range(tile.keys, {key, keys.count});
      key += keys.count;
    }
    query += queries.count;
    if (tile.keys.empty()) continue;
    const bool same = !tiles.empty() && tiles.back().keys == tile.keys &&
                      tiles.back().queries.first + tiles.back().queries.count == tile.queries.first;
    if (same) {
      tiles.back().queries.count += tile.queries.count;
    } else {
      tiles.push_back(std::move(tile));
    }
  }
  return tiles;
}

}  // namespace vggt
