// The next token of a row of logits.
#pragma once

#include "simd.h"

/// Where the share `point` of the sum of e^(logit / temperature) is reached; the first index of the largest where
/// `temperature` is 0. Always an index of the row, whatever it holds.
int64_t draw_row(const bf16* logits, int64_t width, float temperature, float point);
