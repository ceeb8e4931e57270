// What the kernels share: bf16 <-> fp32, the pairwise bf16 product, an exponential, sums of a register.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

using bf16 = uint16_t;
using pair = uint32_t;  // two bf16 that follow each other along the summed dimension

constexpr int LANES = 16;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The first `n` lanes; all of them where n >= 16.
inline __mmask16 first_lanes(int64_t n) { return n >= LANES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

inline __m512 load_bf16(const bf16* p, __mmask16 mask = 0xffff) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16));
}

inline void store_bf16(bf16* p, __m512 value, __mmask16 mask = 0xffff) {
  _mm256_mask_storeu_epi16(p, mask, (__m256i)_mm512_cvtneps_pbh(value));
}

/// sum + a0 * b0 + a1 * b1 in every lane, whose 32 bits hold two bf16.
inline __m512 dot(__m512 sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }

/// 2^x within 3e-6, exact for whole x; 0 for x below -200, also for -inf and NaN.
inline __m512 exp2(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-200.f));
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(x, whole);  // in [-0.5, 0.5]: the Taylor series in rest * ln 2
  __m512 value = _mm512_set1_ps(1.33335581e-3f);
  for (float c : {9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.f})
    value = _mm512_fmadd_ps(value, rest, _mm512_set1_ps(c));
  return _mm512_scalef_ps(value, whole);
}

/// x / (1 + e^-slope), of which SiLU (slope x) and tanh-GELU are made.
inline __m512 gated(__m512 x, __m512 slope) {
  const __m512 one = _mm512_set1_ps(1.f);
  return _mm512_div_ps(x, _mm512_add_ps(one, exp2(_mm512_mul_ps(slope, _mm512_set1_ps(-1.44269504f)))));
}

inline __m512 silu(__m512 x) { return gated(x, x); }

inline __m512 gelu_tanh(__m512 x) {
  const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.044715f), _mm512_set1_ps(1.f));
  return gated(x, _mm512_mul_ps(_mm512_mul_ps(x, cubic), _mm512_set1_ps(1.59576912f)));  // 2 * sqrt(2 / pi)
}

/// A vector of weights that may be fp32 or bf16.
struct Weights {
  const void* data = nullptr;
  bool is_bf16 = false;

  __m512 load(int64_t i, __mmask16 mask) const {
    return is_bf16 ? load_bf16((const bf16*)data + i, mask) : _mm512_maskz_loadu_ps(mask, (const float*)data + i);
  }
};

/// 1 / sqrt(mean(x^2) + eps) over `n` values of bf16 or fp32.
template <class Load>
inline __m512 inverse_rms(int64_t n, float eps, Load load) {
  __m512 even = _mm512_setzero_ps(), odd = even;
  for (int64_t i = 0; i < n; i += 2 * LANES) {
    const __m512 a = load(i, first_lanes(n - i)), b = load(i + LANES, first_lanes(n - i - LANES));
    even = _mm512_fmadd_ps(a, a, even);
    odd = _mm512_fmadd_ps(b, b, odd);
  }
  const float mean = _mm512_reduce_add_ps(_mm512_add_ps(even, odd)) / (float)n;
  return _mm512_set1_ps(1.f / __builtin_sqrtf(mean + eps));
}

/// to = x * weight / rms(x), and + `residual` where that isn't null. `to` may be `x` or `residual`.
inline void normalise_row(const bf16* x, int64_t n, const Weights& weight, float eps, const bf16* residual, bf16* to) {
  const __m512 inverse = inverse_rms(n, eps, [x](int64_t i, __mmask16 mask) { return load_bf16(x + i, mask); });
  for (int64_t i = 0; i < n; i += LANES) {
    const __mmask16 mask = first_lanes(n - i);
    __m512 value = _mm512_mul_ps(_mm512_mul_ps(load_bf16(x + i, mask), inverse), weight.load(i, mask));
    if (residual) value = _mm512_add_ps(value, load_bf16(residual + i, mask));
    store_bf16(to + i, value, mask);
  }
}
