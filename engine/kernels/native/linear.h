// y = x W^T over weights packed for this kernel, with what surrounds it in a decoder layer.
#pragma once

#include "simd.h"

constexpr int PANEL = 32;  // output columns that are computed together
constexpr int GROUP = 32;  // inputs that share a scale in int4

/// The layouts, which `native_kernels.py` makes; `panels` = ceil(out / 32), outputs beyond `out` are zeros:
///   16: data bf16 [panels, in / 2, 32, 2]
///    8: data sign and magnitude, uint8 [panels, in / 2, 64]; scales fp32 [panels * 32]
///    4: data uint16 [panels, in / 8, 32, 2], nibble i of a word is input 8 * j + 2 * i (+ 1);
///       scales uint32 [panels, ceil(in / 32), 32]: bf16 scale in the high half, bf16 minimum in the low half
struct PackedWeight {
  int bits;
  int64_t in, out;
  const uint8_t* data;
  const void* scales;
  const float* bias;  // [panels * 32] or null

  int64_t panels() const { return ceil_div(out, PANEL); }
  int64_t groups() const { return ceil_div(in, GROUP); }
  int64_t panel_bytes() const { return in * PANEL * bits / 8; }
};

enum class Activation : int64_t { none, silu, gelu_tanh };

struct LinearCall {
  PackedWeight weight;
  const bf16* x;  // [rows, in]
  int64_t rows;
  Weights norm;              // null data: x is taken as it is
  Activation activation;     // not none: the first half of the outputs gates the second
  const bf16* residual;      // [rows, out] that is added, or null
  Weights post_norm;         // RMSNorm of the product before it is added
  float eps;
  bf16* to;  // [rows, out], or half as wide where gated; may be `residual`
};

void run_linear(const LinearCall& call, int threads);
