#include "attention_tile.h"

#include <utility>

namespace {

const __m512 NOTHING = _mm512_set1_ps(-__builtin_inff());

/// scores [R, KEYS] = queries times the first S strips.
template <int R, int S>
void score(const pair* queries, const Tile& tile, const Tile& next, int64_t pairs, int64_t block, float* scores) {
  __m512 sums[R][S];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) sums[r][s] = _mm512_setzero_ps();
  for (int64_t d = 0; d < pairs; ++d) {
    __m512i keys[S];
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) {
      keys[s] = _mm512_loadu_si512(tile.keys[s] + d * block);
      _mm_prefetch(next.keys[s] + d * block, _MM_HINT_T1);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i query = _mm512_set1_epi32((int)queries[d * R + r]);
#pragma GCC unroll 4
      for (int s = 0; s < S; ++s) sums[r][s] = dot(sums[r][s], query, keys[s]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) _mm512_store_ps(scores + r * KEYS + s * LANES, sums[r][s]);
}

/// o [R, dim] at the dimensions first .. first + 16 * C - 1 = weights [R, KEYS] times the values.
template <int R, int C>
void weigh(const bf16* weights, const Tile& tile, const Tile& next, int64_t dim, int64_t first, float* o) {
  __m512 sums[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[r][c] = _mm512_setzero_ps();
  const pair* weight = (const pair*)weights;
  for (int s = 0; s < tile.strips; ++s) {
    const pair *values = tile.values[s] + first, *ahead = next.values[s] + first;
    for (int t = 0; t < LANES / 2; ++t, ++weight, values += dim, ahead += dim) {
      __m512i value[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        value[c] = _mm512_loadu_si512(values + c * LANES);
        _mm_prefetch(ahead + c * LANES, _MM_HINT_T1);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512i both = _mm512_set1_epi32((int)weight[r * KEYS / 2]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sums[r][c] = dot(sums[r][c], both, value[c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) _mm512_storeu_ps(o + r * dim + first + c * LANES, sums[r][c]);
}

using Score = void (*)(const pair*, const Tile&, const Tile&, int64_t, int64_t, float*);
using Weigh = void (*)(const bf16*, const Tile&, const Tile&, int64_t, int64_t, float*);

struct Table {
  Score score[ROWS][STRIPS];
  Weigh weigh[ROWS][4];
};

template <int... I>
constexpr Table make_table(std::integer_sequence<int, I...>) {
  Table table{};
  ((table.score[I / 4][I % 4] = score<I / 4 + 1, I % 4 + 1>, table.weigh[I / 4][I % 4] = weigh<I / 4 + 1, I % 4 + 1>),
   ...);
  return table;
}
constexpr Table TABLE = make_table(std::make_integer_sequence<int, ROWS * 4>{});

/// weights = 2^(score * scale - m) of the keys low .. high - 1, else 0, where m is their largest exponent; l is their sum.
void soften(float* scores, int strips, int low, int high, float scale, bf16* weights, float& m, float& l) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __mmask16 seen[STRIPS];
  __m512 most = NOTHING;
  for (int s = 0; s < strips; ++s) {
    seen[s] = _mm512_cmp_epi32_mask(lane, _mm512_set1_epi32(low - s * LANES), _MM_CMPINT_NLT) &
              _mm512_cmp_epi32_mask(lane, _mm512_set1_epi32(high - s * LANES), _MM_CMPINT_LT);
    const __m512 score = _mm512_mul_ps(_mm512_load_ps(scores + s * LANES), _mm512_set1_ps(scale));
    _mm512_store_ps(scores + s * LANES, score);
    most = _mm512_mask_max_ps(most, seen[s], most, score);
  }
  m = _mm512_reduce_max_ps(most);
  __m512 sum = _mm512_setzero_ps();
  for (int s = 0; s < strips; ++s) {
    const __m512 score = _mm512_load_ps(scores + s * LANES);
    const __m512 weight = _mm512_maskz_mov_ps(seen[s], exp2(_mm512_sub_ps(score, _mm512_set1_ps(m))));
    sum = _mm512_add_ps(sum, weight);
    store_bf16(weights + s * LANES, weight);
  }
  l = _mm512_reduce_add_ps(sum);
}

}  // namespace

void see_tile(const pair* queries, int rows, int64_t dim, int64_t block, const Tile& tile, const Tile& next,
              const int* low, const int* high, float scale, Seen to) {
  alignas(64) float scores[ROWS * KEYS];
  alignas(64) bf16 weights[ROWS * KEYS];
  TABLE.score[rows - 1][tile.strips - 1](queries, tile, next, dim / 2, block, scores);
  for (int r = 0; r < rows; ++r) {
    soften(scores + r * KEYS, tile.strips, low[r], high[r], scale, weights + r * KEYS, to.m[r], to.l[r]);
  }
  for (int64_t d = 0; d < dim; d += 4 * LANES) {
    const int64_t chunks = dim - d < 4 * LANES ? (dim - d) / LANES : 4;
    TABLE.weigh[rows - 1][chunks - 1](weights, tile, next, dim, d, to.o);
  }
}

void merge(Seen into, Seen tile, int rows, int64_t dim) {
  for (int r = 0; r < rows; ++r) {
    const __m512 before = _mm512_set1_ps(into.m[r]), after = _mm512_set1_ps(tile.m[r]);
    const __m512 m = _mm512_max_ps(before, after);
    // Where nothing was seen m is -inf and the difference may be NaN; both count as 0.
    const __m512 keep = exp2(_mm512_sub_ps(before, m)), take = exp2(_mm512_sub_ps(after, m));
    into.m[r] = _mm512_cvtss_f32(m);
    into.l[r] = _mm512_cvtss_f32(_mm512_fmadd_ps(_mm512_set1_ps(into.l[r]), keep,
                                                 _mm512_mul_ps(_mm512_set1_ps(tile.l[r]), take)));
    for (int64_t d = r * dim; d < (r + 1) * dim; d += LANES) {
      const __m512 taken = _mm512_mul_ps(_mm512_loadu_ps(tile.o + d), take);
      _mm512_storeu_ps(into.o + d, _mm512_fmadd_ps(_mm512_loadu_ps(into.o + d), keep, taken));
    }
  }
}
