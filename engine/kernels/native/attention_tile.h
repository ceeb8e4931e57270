// The arithmetic of attention: some query rows against one tile of 64 keys, and how tiles are put together.
#pragma once

#include "attention.h"

constexpr int KEYS = 64;                // of a tile; tiles start at multiples of it
constexpr int STRIPS = KEYS / LANES;    // 16 keys each, which lie in one block
constexpr int ROWS = 6;                 // 6 x 4 sums fill the registers

/// Where the keys and values of a tile lie.
struct Tile {
  const pair *keys[STRIPS], *values[STRIPS];
  int strips;  // that any row may see
};

/// What rows saw: o / l are the weighted values, relative to e^m (in powers of two). A row's result is always made by
/// merging its tiles from first to last, each computed by itself. So it doesn't depend on who computed them, nor on the
/// other rows. Room for rows [row], o is [row, dim].
struct Seen {
  float *m, *l, *o;
};

/// `rows` <= ROWS query rows, packed [dim / 2, rows], against a tile of which row r may see keys low[r] .. high[r] - 1.
/// `next` is what will be looked at afterwards: it is fetched meanwhile.
void see_tile(const pair* queries, int rows, int64_t dim, int64_t block, const Tile& tile, const Tile& next,
              const int* low, const int* high, float scale, Seen to);

/// into = into and then `tile`, row by row.
void merge(Seen into, Seen tile, int rows, int64_t dim);
