// The innermost loops: one tile of rows times one panel of 32 columns.
#pragma once

#include "linear.h"

constexpr int MOST_ROWS = 12;  // 2 x 12 sums, 2 weights and an input fill the 32 registers

/// Where one panel's weights lie.
struct Panel {
  const uint8_t* data;
  const pair* scales;  // int4 only
  int64_t in;

  Panel(const PackedWeight& weight, int64_t panel)
      : data(weight.data + panel * weight.panel_bytes()),
        scales(weight.bits == 4 ? (const pair*)weight.scales + panel * weight.groups() * PANEL : nullptr),
        in(weight.in) {}
};

/// to [rows, 32] = inputs (pairs [in / 2, rows], see `Inputs`) times the panel.
using Kernel = void (*)(const pair* pairs, const float* sums, const Panel& panel, float* to);

/// Kernels by number of rows, from 1 to `most_rows(bits)`.
const Kernel* kernels_of(int bits);
int most_rows(int bits);
