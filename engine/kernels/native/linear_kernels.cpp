#include "linear_kernels.h"

#include <utility>

namespace {

/// Fetch what is loaded 8 KiB later into the L2 cache, and on into the next panel, which this thread does next. Measured:
/// with more than four rows (two, where a weight has few bits) the processor's own prefetching falls behind; with fewer,
/// ours would only disturb it.
template <bool NEEDED>
inline void fetch_ahead(const void* p) {
  if constexpr (NEEDED) _mm_prefetch((const char*)p + 8192, _MM_HINT_T1);
}

inline __m512i load(const void* p) { return _mm512_loadu_si512(p); }
inline __m512i both(pair value) { return _mm512_set1_epi32((int)value); }

template <int R>
struct Sums {
  __m512 left[R], right[R];

  Sums() {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) left[r] = right[r] = _mm512_setzero_ps();
  }
  void add(const pair* pairs, __m512i w0, __m512i w1) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512i x = both(pairs[r]);
      left[r] = dot(left[r], x, w0);
      right[r] = dot(right[r], x, w1);
    }
  }
  void store(float* to) const {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      _mm512_store_ps(to + r * PANEL, left[r]);
      _mm512_store_ps(to + r * PANEL + LANES, right[r]);
    }
  }
};

template <int R>
void bf16_kernel(const pair* pairs, const float*, const Panel& panel, float* to) {
  Sums<R> sums;
  const uint8_t* data = panel.data;
  for (int64_t k = panel.in / 2; k; --k, data += 128, pairs += R) {
    fetch_ahead<(R > 4)>(data);
    fetch_ahead<(R > 4)>(data + 64);
    sums.add(pairs, load(data), load(data + 64));
  }
  sums.store(to);
}

/// bf16 of the magnitudes 0 .. 127, as tables of low and of high bytes.
struct Magnitudes {
  alignas(64) uint8_t low[128], high[128];

  Magnitudes() {
    for (int i = 0; i < 128; ++i) {
      const float value = (float)i;
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      low[i] = (uint8_t)(bits >> 16);
      high[i] = (uint8_t)(bits >> 24);
    }
  }
};
const Magnitudes MAGNITUDES;

template <int R>
void int8_kernel(const pair* pairs, const float*, const Panel& panel, float* to) {
  Sums<R> sums;
  const uint8_t* data = panel.data;
  const __m512i low0 = load(MAGNITUDES.low), low1 = load(MAGNITUDES.low + 64);
  const __m512i high0 = load(MAGNITUDES.high), high1 = load(MAGNITUDES.high + 64), sign = _mm512_set1_epi8((char)0x80);
  for (int64_t k = panel.in / 2; k; --k, data += 64, pairs += R) {
    fetch_ahead<(R > 2)>(data);
    const __m512i codes = load(data);
    const __m512i low = _mm512_permutex2var_epi8(low0, codes, low1);  // looks at the low 7 bits
    const __m512i high = _mm512_ternarylogic_epi64(_mm512_permutex2var_epi8(high0, codes, high1), codes, sign, 0xf8);
    sums.add(pairs, _mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high));
  }
  sums.store(to);
}

/// A nibble q becomes the bf16 16 + q by placing it in the mantissa; so a group's sum is
/// scale * dot(16 + q, x) + (minimum - 16 * scale) * sum(x).
template <int R>
void int4_kernel(const pair* pairs, const float* group_sums, const Panel& panel, float* to) {
  Sums<R> total;
  const uint8_t* data = panel.data;
  const pair* scales = panel.scales;
  const __m512i field = _mm512_set1_epi16(0x78), sixteen = _mm512_set1_epi16(0x4180);
  const auto value = [&](__m512i shifted) { return _mm512_ternarylogic_epi64(shifted, field, sixteen, 0xea); };
  for (int64_t left = panel.in; left > 0; left -= GROUP, group_sums += R, scales += PANEL) {
    Sums<R> sums;
    for (int64_t k = left < GROUP ? left / 8 : GROUP / 8; k; --k, data += 128, pairs += 4 * R) {
      fetch_ahead<(R > 2)>(data);
      fetch_ahead<(R > 2)>(data + 64);
      const __m512i a = load(data), b = load(data + 64);
      sums.add(pairs, value(_mm512_slli_epi16(a, 3)), value(_mm512_slli_epi16(b, 3)));
      sums.add(pairs + R, value(_mm512_srli_epi16(a, 1)), value(_mm512_srli_epi16(b, 1)));
      sums.add(pairs + 2 * R, value(_mm512_srli_epi16(a, 5)), value(_mm512_srli_epi16(b, 5)));
      sums.add(pairs + 3 * R, value(_mm512_srli_epi16(a, 9)), value(_mm512_srli_epi16(b, 9)));
    }
    const auto apply = [&](__m512* totals, const __m512* parts, __m512i packed) {
      const __m512 scale = _mm512_castsi512_ps(_mm512_and_si512(packed, _mm512_set1_epi32((int)0xffff0000)));
      const __m512 minimum = _mm512_castsi512_ps(_mm512_slli_epi32(packed, 16));
      const __m512 offset = _mm512_fnmadd_ps(_mm512_set1_ps(16.f), scale, minimum);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        totals[r] = _mm512_fmadd_ps(scale, parts[r], totals[r]);
        totals[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(group_sums[r]), totals[r]);
      }
    };
    apply(total.left, sums.left, load(scales));
    apply(total.right, sums.right, load(scales + LANES));
  }
  total.store(to);
}

template <template <int> class Make, int... R>
constexpr auto table(std::integer_sequence<int, R...>) {
  struct {
    Kernel by_rows[sizeof...(R) + 1] = {nullptr, Make<R + 1>::kernel...};
  } kernels;
  return kernels;
}

template <int R>
struct Bf16 {
  static constexpr Kernel kernel = bf16_kernel<R>;
};
template <int R>
struct Int8 {
  static constexpr Kernel kernel = int8_kernel<R>;
};
template <int R>
struct Int4 {
  static constexpr Kernel kernel = int4_kernel<R>;
};

// int8 keeps five registers for its tables, int4 the sums of a group beside those of the whole.
constexpr auto BF16 = table<Bf16>(std::make_integer_sequence<int, MOST_ROWS>{});
constexpr auto INT8 = table<Int8>(std::make_integer_sequence<int, 10>{});
constexpr auto INT4 = table<Int4>(std::make_integer_sequence<int, 6>{});

}  // namespace

const Kernel* kernels_of(int bits) { return bits == 16 ? BF16.by_rows : bits == 8 ? INT8.by_rows : INT4.by_rows; }

int most_rows(int bits) { return bits == 16 ? MOST_ROWS : bits == 8 ? 10 : 6; }
