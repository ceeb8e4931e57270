#include "linear.h"

#include "linear_kernels.h"
#include "team.h"

namespace {

constexpr int64_t FEW_ROWS = 4;  // are prepared by the caller: sooner done than shared

/// Rows are computed in tiles of nearly equal size, none larger than the registers allow. How rows fall into tiles never
/// changes a result: each output is one sum in the order of the inputs.
struct Tiles {
  int64_t rows, count;

  Tiles(int64_t rows, int most) : rows(rows), count(ceil_div(rows, most)) {}
  int64_t start(int64_t tile) const { return rows * tile / count; }
  int64_t of(int64_t row) const { return ((row + 1) * count - 1) / rows; }
};

/// The inputs as the kernels read them: tile by tile [in / 2, rows of the tile] pairs, and for int4 the sum of each
/// group of inputs, [groups, rows of the tile].
struct Inputs {
  const pair* pairs;
  float* sums;
};

void prepare_row(const LinearCall& call, const Tiles& tiles, int64_t row, pair* pairs, float* sums, bf16* buffer) {
  const int64_t in = call.weight.in, groups = call.weight.groups();
  const bf16* x = call.x + row * in;
  if (call.norm.data) {
    normalise_row(x, in, call.norm, call.eps, nullptr, buffer);
    x = buffer;
  }
  const int64_t tile = tiles.of(row), first = tiles.start(tile), height = tiles.start(tile + 1) - first;
  pair* to = pairs + first * (in / 2) + (row - first);
  for (int64_t k = 0; k < in / 2; ++k) std::memcpy(to + k * height, x + 2 * k, sizeof(pair));
  if (!sums) return;
  for (int64_t g = 0; g < groups; ++g) {
    const bf16* part = x + g * GROUP;
    const int64_t n = std::min<int64_t>(GROUP, in - g * GROUP);
    const __m512 a = load_bf16(part, first_lanes(n)), b = load_bf16(part + LANES, first_lanes(n - LANES));
    sums[first * groups + g * height + (row - first)] = _mm512_reduce_add_ps(_mm512_add_ps(a, b));
  }
}

/// Turns sums of one tile and panel into outputs: scale, bias, gate, residual.
class Finisher {
 public:
  Finisher(const LinearCall& call, bf16* to, const bf16* residual) : call_(call), to_(to), residual_(residual) {
    width_ = call.weight.out / (call.activation == Activation::none ? 1 : 2);
  }

  void operator()(const float* sums, const float* up, int64_t panel, int64_t row, int64_t height) const {
    for (int64_t column = panel * PANEL; column < std::min(width_, (panel + 1) * PANEL); column += LANES) {
      const __mmask16 mask = first_lanes(width_ - column);
      for (int64_t r = 0; r < height; ++r) {
        const int64_t at = r * PANEL + column % PANEL, target = (row + r) * width_ + column;
        __m512 value = output(sums + at, column);
        if (up) {
          value = call_.activation == Activation::silu ? silu(value) : gelu_tanh(value);
          value = _mm512_mul_ps(value, output(up + at, width_ + column));
        }
        if (residual_) value = _mm512_add_ps(value, load_bf16(residual_ + target, mask));
        store_bf16(to_ + target, value, mask);
      }
    }
  }

 private:
  __m512 output(const float* sums, int64_t column) const {
    __m512 value = _mm512_loadu_ps(sums);
    if (call_.weight.bits == 8) {
      value = _mm512_mul_ps(value, _mm512_loadu_ps((const float*)call_.weight.scales + column));
    }
    return call_.weight.bias ? _mm512_add_ps(value, _mm512_loadu_ps(call_.weight.bias + column)) : value;
  }

  const LinearCall& call_;
  bf16* to_;
  const bf16* residual_;
  int64_t width_;
};

}  // namespace

void run_linear(const LinearCall& call, int threads) {
  if (!call.rows) return;
  thread_local Scratch pair_memory, sum_memory, product_memory;
  const PackedWeight& weight = call.weight;
  const Kernel* kernels = kernels_of(weight.bits);
  const Tiles tiles(call.rows, most_rows(weight.bits));
  const bool gated = call.activation != Activation::none, as_is = call.rows == 1 && !call.norm.data && weight.bits != 4;
  pair* prepared = as_is ? nullptr : pair_memory.get<pair>(call.rows * weight.in / 2);
  float* sums = weight.bits == 4 ? sum_memory.get<float>(call.rows * weight.groups()) : nullptr;
  bf16* product = call.post_norm.data ? product_memory.get<bf16>(call.rows * weight.out) : nullptr;

  const int64_t panels = weight.panels() / (gated ? 2 : 1), up = gated ? panels : 0;
  // A wide machine and a narrow matrix: panels alone would leave threads idle, so the rows are split as well.
  const int64_t parts = std::min(tiles.count, ceil_div(4 * threads, panels));
  const Finisher finish(call, product ? product : call.to, product ? nullptr : call.residual);
  const pair* pairs = as_is ? (const pair*)call.x : prepared;

  if (!as_is) {
    const int64_t tasks = call.rows < FEW_ROWS ? 1 : std::min<int64_t>(call.rows, 4 * threads);
    spread(threads, tasks, [&](int64_t task) {
      thread_local Scratch row_memory;
      bf16* buffer = row_memory.get<bf16>(weight.in);
      for (int64_t row = part(call.rows, task, tasks); row < part(call.rows, task + 1, tasks); ++row)
        prepare_row(call, tiles, row, prepared, sums, buffer);
    });
  }
  spread(threads, panels * parts, [&](int64_t task) {
    alignas(64) float result[2][MOST_ROWS * PANEL];
    const int64_t panel = task / parts, piece = task % parts;
    for (int64_t tile = part(tiles.count, piece, parts); tile < part(tiles.count, piece + 1, parts); ++tile) {
      const int64_t row = tiles.start(tile), height = tiles.start(tile + 1) - row;
      for (int64_t half = 0; half <= (gated ? 1 : 0); ++half) {
        const Panel source(weight, panel + half * up);
        kernels[height](pairs + row * (weight.in / 2), sums ? sums + row * weight.groups() : nullptr, source,
                        result[half]);
      }
      finish(result[0], gated ? result[1] : nullptr, panel, row, height);
    }
  });
  if (product) {
    const int64_t tasks = call.rows < FEW_ROWS ? 1 : std::min<int64_t>(call.rows, 4 * threads);
    spread(threads, tasks, [&](int64_t task) {
      for (int64_t row = part(call.rows, task, tasks); row < part(call.rows, task + 1, tasks); ++row) {
        const int64_t at = row * weight.out;
        normalise_row(product + at, weight.out, call.post_norm, call.eps, call.residual + at, call.to + at);
      }
    });
  }
}
