#include "draw.h"

#include <algorithm>
#include <vector>

namespace {

constexpr int64_t STRETCH = 1024;  // logits whose weights are summed at once, and looked through one by one at the end

/// The first index of the largest logit, and that logit. NaN is never the largest.
std::pair<int64_t, float> largest(const bf16* logits, int64_t width) {
  __m512 most = _mm512_set1_ps(-__builtin_inff());
  __m512i where = _mm512_setzero_si512();
  __m512i index = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (int64_t i = 0; i < width; i += LANES) {
    const __mmask16 mask = first_lanes(width - i);
    const __m512 value = load_bf16(logits + i, mask);
    const __mmask16 larger = _mm512_mask_cmp_ps_mask(mask, value, most, _CMP_GT_OQ);
    most = _mm512_mask_mov_ps(most, larger, value);
    where = _mm512_mask_mov_epi32(where, larger, index);
    index = _mm512_add_epi32(index, _mm512_set1_epi32(LANES));
  }
  const float top = _mm512_reduce_max_ps(most);
  const __mmask16 best = _mm512_cmp_ps_mask(most, _mm512_set1_ps(top), _CMP_EQ_OQ);
  return {_mm512_mask_reduce_min_epi32(best, where), top};
}

/// Weights relative to the largest, so that no temperature overflows.
struct Weigher {
  const bf16* logits;
  int64_t width;
  __m512 top, sharpness;

  __m512 operator()(int64_t i) const {
    const __mmask16 mask = first_lanes(width - i);
    const __m512 below = _mm512_sub_ps(load_bf16(logits + i, mask), top);
    return _mm512_maskz_mov_ps(mask, exp2(_mm512_mul_ps(below, sharpness)));
  }
};

}  // namespace

int64_t draw_row(const bf16* logits, int64_t width, float temperature, float point) {
  const auto [best, top] = largest(logits, width);
  if (!(temperature > 0)) return best;
  const float sharpness = std::min(1.44269504f / std::max(temperature, 1e-37f), 1e37f);
  const Weigher weight{logits, width, _mm512_set1_ps(top), _mm512_set1_ps(sharpness)};
  thread_local std::vector<double> sums;
  sums.clear();
  double total = 0;
  for (int64_t start = 0; start < width; start += STRETCH) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = start; i < std::min(start + STRETCH, width); i += LANES) sum = _mm512_add_ps(sum, weight(i));
    total += _mm512_reduce_add_ps(sum);
    sums.push_back(total);
  }
  const double target = point * total;
  // Rounding may leave the target beyond the last stretch: the last one that holds anything is meant then.
  int64_t stretch = std::upper_bound(sums.begin(), sums.end(), target) - sums.begin();
  if (stretch == (int64_t)sums.size()) stretch = std::lower_bound(sums.begin(), sums.end(), total) - sums.begin();
  if (stretch == (int64_t)sums.size()) return best;  // no sum at all: a NaN
  double before = stretch ? sums[stretch - 1] : 0;
  int64_t last = best;
  for (int64_t i = stretch * STRETCH; i < std::min((stretch + 1) * STRETCH, width); i += LANES) {
    alignas(64) float weights[LANES];
    _mm512_store_ps(weights, weight(i));
    for (int64_t lane = 0; lane < LANES; ++lane) {
      if (weights[lane] <= 0) continue;
      before += weights[lane];
      last = i + lane;
      if (before > target) return last;
    }
  }
  return last;
}
