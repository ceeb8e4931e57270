#include "attention.h"

#include "attention_tile.h"
#include "team.h"

#include <vector>

namespace {

constexpr int64_t MOST_UNIT_ROWS = 48;   // query rows that look at a tile while it is in the L1 cache
constexpr int64_t FEW_ITEMS = 16;        // are stored by the caller: sooner done than shared
constexpr int64_t MOST_SPLIT_ROWS = 16;  // only few rows are worth being split over threads by their context

/// Consecutive tokens of one sequence, with one key head, looking at the tiles first_tile .. end_tile - 1.
struct Unit {
  int64_t sequence, head, token, tokens;  // token: within the sequence's rows of the batch
  int64_t first_tile, end_tile;
  int64_t partial;  // place of its first tile among the partial results, or -1
};

class Attention {
 public:
  Attention(const AttentionCall& call, int threads) : call_(call), group_(call.group()) {
    queries_ = query_memory().get<bf16>(call.tokens * call.heads * call.dim);
    list_units(threads);
    partials_ = partial_memory().get<float>(num_partials_ * partial_size());
  }

  int64_t num_units() const { return (int64_t)units_.size(); }
  int64_t num_whole() const { return (int64_t)whole_.size(); }

  /// Rotated queries of one token and key head into `queries_` [kv_heads, tokens, group, dim]; key and value to the cache.
  void store(int64_t token, int64_t head) const {
    const int64_t dim = call_.dim, block = call_.cache.block, slot = call_.slots[token];
    const bf16* row = call_.qkv + token * (call_.heads + 2 * call_.kv_heads) * dim;
    for (int64_t g = 0; g < group_; ++g) {
      turn(row + (head * group_ + g) * dim, call_.query_norm, token,
           queries_ + ((head * call_.tokens + token) * group_ + g) * dim);
    }
    alignas(64) bf16 key[MOST_HEAD_DIM];
    turn(row + (call_.heads + head) * dim, call_.key_norm, token, key);
    const int64_t start = (head * call_.cache.blocks + slot / block) * block * dim, offset = slot % block;
    pair* keys = (pair*)(call_.cache.keys + start) + offset;
    for (int64_t d = 0; d < dim / 2; ++d) std::memcpy(keys + d * block, key + 2 * d, sizeof(pair));
    const bf16* value = row + (call_.heads + call_.kv_heads + head) * dim;
    bf16* values = call_.cache.values + start + offset / 2 * 2 * dim + offset % 2;
    for (int64_t d = 0; d < dim; ++d) values[2 * d] = value[d];
  }

  /// What others left after a sequence's last token, in the strip it began, becomes 0: a weight of 0 times NaN is NaN.
  void clear(int64_t sequence, int64_t head) const {
    const int64_t dim = call_.dim, block = call_.cache.block, last = call_.query_start[sequence + 1] - 1;
    const int64_t slot = call_.slots[last], offset = slot % block;
    if (last - offset % LANES < call_.query_start[sequence]) return;  // begun by an earlier step, and cleared then
    bf16* values = call_.cache.values + (head * call_.cache.blocks + slot / block) * block * dim;
    for (int64_t o = offset + 1; o % LANES; ++o)
      for (int64_t d = 0; d < dim; ++d) values[o / 2 * 2 * dim + o % 2 + 2 * d] = 0;
  }

  void compute(int64_t index) const {
    const Unit& unit = units_[index];
    const int64_t rows = unit.tokens * group_, dim = call_.dim;
    Room& room = room_of_thread();
    const Seen state{room.m, room.l, room.o};
    std::fill_n(state.m, rows, -__builtin_inff());
    std::fill_n(state.l, rows, 0.f);
    std::fill_n(state.o, rows * dim, 0.f);
    // Groups of nearly equal size, none larger than ROWS.
    const int64_t groups = ceil_div(rows, ROWS);
    const pair* queries = (const pair*)(queries_ + first_row(unit) * dim);
    for (int64_t i = 0; i < groups; ++i) {
      const int64_t from = rows * i / groups, height = rows * (i + 1) / groups - from;
      for (int64_t r = 0; r < height; ++r)
        for (int64_t d = 0; d < dim / 2; ++d)
          room.queries[from * (dim / 2) + d * height + r] = queries[(from + r) * (dim / 2) + d];
    }
    const int64_t first_position = position(unit, 0);
    for (int64_t t = unit.first_tile; t < unit.end_tile; ++t) {
      Tile tile = tile_at(unit, t);
      const Tile next = t + 1 < unit.end_tile      ? tile_at(unit, t + 1)
                        : index + 1 < num_units() ? tile_at(units_[index + 1], units_[index + 1].first_tile)
                                                  : tile;
      for (int64_t i = 0; i < groups; ++i) {
        const int64_t from = rows * i / groups, height = rows * (i + 1) / groups - from;
        int low[ROWS], high[ROWS];
        for (int64_t r = 0; r < height; ++r) {
          const int64_t end = first_position + (from + r) / group_ + 1 - t * KEYS;
          high[r] = (int)std::min<int64_t>(end, KEYS);
          low[r] = call_.window ? (int)std::max<int64_t>(end - call_.window, 0) : 0;
        }
        if (high[height - 1] <= 0 && unit.partial < 0) continue;  // all of it comes after these rows
        tile.strips = (int)std::max<int64_t>(1, ceil_div(high[height - 1], LANES));
        const Seen part = unit.partial < 0 ? Seen{room.tile_m, room.tile_l, room.tile_o}
                                           : partial(unit.partial + t - unit.first_tile, from);
        see_tile(room.queries + from * (dim / 2), (int)height, dim, call_.cache.block, tile, next, low, high,
                 call_.scale * 1.44269504f, part);
        if (unit.partial < 0) merge({state.m + from, state.l + from, state.o + from * dim}, part, (int)height, dim);
      }
    }
    if (unit.partial < 0) finish(unit, state);
  }

  /// Puts the partial results of a split unit together.
  void gather(int64_t index) const {
    const Unit& unit = whole_[index];
    const int64_t rows = unit.tokens * group_;
    Room& room = room_of_thread();
    const Seen state{room.m, room.l, room.o};
    std::fill_n(state.m, rows, -__builtin_inff());
    std::fill_n(state.l, rows, 0.f);
    std::fill_n(state.o, rows * call_.dim, 0.f);
    for (int64_t t = unit.first_tile; t < unit.end_tile; ++t)
      merge(state, partial(unit.partial + t - unit.first_tile, 0), (int)rows, call_.dim);
    finish(unit, state);
  }

 private:
  struct Room {
    alignas(64) pair queries[MOST_UNIT_ROWS * MOST_HEAD_DIM / 2];
    alignas(64) float o[MOST_UNIT_ROWS * MOST_HEAD_DIM], m[MOST_UNIT_ROWS], l[MOST_UNIT_ROWS];
    alignas(64) float tile_o[ROWS * MOST_HEAD_DIM], tile_m[ROWS], tile_l[ROWS];
  };

  static Room& room_of_thread() {
    thread_local Room room;
    return room;
  }
  static Scratch& query_memory() {
    thread_local Scratch memory;
    return memory;
  }
  static Scratch& partial_memory() {
    thread_local Scratch memory;
    return memory;
  }

  void list_units(int threads) {
    const int64_t most_tokens = std::max<int64_t>(1, MOST_UNIT_ROWS / group_);
    for (int64_t s = 0; s < call_.sequences; ++s) {
      const int64_t length = call_.query_start[s + 1] - call_.query_start[s];
      for (int64_t token = 0; token < length; token += most_tokens) {
        for (int64_t head = 0; head < call_.kv_heads; ++head) {
          Unit unit{s, head, token, std::min(most_tokens, length - token), 0, 0, -1};
          if (call_.window) unit.first_tile = std::max<int64_t>(0, position(unit, 0) + 1 - call_.window) / KEYS;
          unit.end_tile = position(unit, unit.tokens - 1) / KEYS + 1;
          units_.push_back(unit);
        }
      }
    }
    const int64_t pieces = ceil_div(4 * threads, std::max<int64_t>(1, num_units()));
    if (threads == 1 || pieces == 1) return;
    std::vector<Unit> all;
    for (const Unit& unit : units_) {
      const int64_t tiles = unit.end_tile - unit.first_tile, n = std::min(pieces, tiles);
      if (n == 1 || unit.tokens * group_ > MOST_SPLIT_ROWS) {
        all.push_back(unit);
        continue;
      }
      whole_.push_back(unit);
      whole_.back().partial = num_partials_;
      for (int64_t i = 0; i < n; ++i) {
        all.push_back(unit);
        all.back().first_tile = unit.first_tile + tiles * i / n;
        all.back().end_tile = unit.first_tile + tiles * (i + 1) / n;
        all.back().partial = num_partials_ + tiles * i / n;
      }
      num_partials_ += tiles;
    }
    units_ = std::move(all);
  }

  int64_t position(const Unit& unit, int64_t token) const {
    const int64_t length = call_.query_start[unit.sequence + 1] - call_.query_start[unit.sequence];
    return call_.context_lens[unit.sequence] - length + unit.token + token;
  }

  int64_t first_row(const Unit& unit) const {
    return (unit.head * call_.tokens + call_.query_start[unit.sequence] + unit.token) * group_;
  }

  /// The keys and values of tile `t`; strips that no row may see repeat the last one.
  Tile tile_at(const Unit& unit, int64_t t) const {
    const int64_t block = call_.cache.block, dim = call_.dim;
    const int64_t last = position(unit, unit.tokens - 1) / LANES * LANES;
    const int32_t* table = call_.tables + unit.sequence * call_.table_width;
    Tile tile;
    for (int s = 0; s < STRIPS; ++s) {
      const int64_t key = std::min(t * KEYS + s * LANES, last);
      const int64_t start = (unit.head * call_.cache.blocks + table[key / block]) * block * dim;
      tile.keys[s] = (const pair*)(call_.cache.keys + start) + key % block;
      tile.values[s] = (const pair*)(call_.cache.values + start + key % block * dim);
    }
    return tile;
  }

  int64_t partial_size() const { return MOST_SPLIT_ROWS * (call_.dim + 2); }

  Seen partial(int64_t index, int64_t row) const {
    float* start = partials_ + index * partial_size();
    return {start + row, start + MOST_SPLIT_ROWS + row, start + 2 * MOST_SPLIT_ROWS + row * call_.dim};
  }

  void finish(const Unit& unit, const Seen& state) const {
    const int64_t dim = call_.dim;
    for (int64_t r = 0; r < unit.tokens * group_; ++r) {
      const int64_t token = call_.query_start[unit.sequence] + unit.token + r / group_;
      bf16* to = call_.to + (token * call_.heads + unit.head * group_ + r % group_) * dim;
      const __m512 factor = _mm512_set1_ps(1.f / state.l[r]);
      for (int64_t d = 0; d < dim; d += LANES)
        store_bf16(to + d, _mm512_mul_ps(_mm512_loadu_ps(state.o + r * dim + d), factor));
    }
  }

  /// `to` = the head normalised, if there is a norm, and rotated to the token's position.
  void turn(const bf16* head, const Weights& norm, int64_t token, bf16* to) const {
    const int64_t dim = call_.dim, half = dim / 2;
    const float *cosines = call_.rotary + call_.positions[token] * dim, *sines = cosines + half;
    __m512 inverse = _mm512_set1_ps(1.f);
    if (norm.data)
      inverse = inverse_rms(dim, call_.eps, [head](int64_t i, __mmask16 mask) { return load_bf16(head + i, mask); });
    for (int64_t d = 0; d < half; d += LANES) {
      const __mmask16 mask = first_lanes(half - d);
      __m512 x1 = load_bf16(head + d, mask), x2 = load_bf16(head + half + d, mask);
      if (norm.data) {
        x1 = _mm512_mul_ps(_mm512_mul_ps(x1, inverse), norm.load(d, mask));
        x2 = _mm512_mul_ps(_mm512_mul_ps(x2, inverse), norm.load(half + d, mask));
      }
      const __m512 c = _mm512_maskz_loadu_ps(mask, cosines + d), s = _mm512_maskz_loadu_ps(mask, sines + d);
      store_bf16(to + d, _mm512_fmsub_ps(x1, c, _mm512_mul_ps(x2, s)), mask);
      store_bf16(to + half + d, _mm512_fmadd_ps(x2, c, _mm512_mul_ps(x1, s)), mask);
    }
  }

  const AttentionCall& call_;
  const int64_t group_;
  bf16* queries_;
  float* partials_;
  int64_t num_partials_ = 0;
  std::vector<Unit> units_, whole_;
};

}  // namespace

void run_attention(const AttentionCall& call, int threads) {
  const Attention attention(call, threads);
  const int64_t items = (call.tokens + call.sequences) * call.kv_heads;
  const int64_t tasks = items < FEW_ITEMS ? 1 : 4 * threads;
  spread(threads, tasks, [&](int64_t task) {
    for (int64_t i = part(items, task, tasks); i < part(items, task + 1, tasks); ++i) {
      const int64_t item = i / call.kv_heads, head = i % call.kv_heads;
      item < call.tokens ? attention.store(item, head) : attention.clear(item - call.tokens, head);
    }
  });
  spread(threads, attention.num_units(), [&](int64_t unit) { attention.compute(unit); });
  spread(threads, attention.num_whole(), [&](int64_t i) { attention.gather(i); });
}
