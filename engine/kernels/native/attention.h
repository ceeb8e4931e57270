// Attention over the paged cache: rotate and store what is new, then let every query look at what it may see.
#pragma once

#include "simd.h"

constexpr int MOST_HEAD_DIM = 256;

/// The cache of one layer:
///   keys   [kv_heads, blocks, dim / 2, block, 2]: 16 keys meet a pair of dimensions in one register;
///   values [kv_heads, blocks, block / 2, dim, 2]: 16 dimensions meet a pair of tokens.
struct LayerCache {
  bf16 *keys, *values;
  int64_t blocks, block;
};

struct AttentionCall {
  LayerCache cache;
  int64_t tokens, sequences, heads, kv_heads, dim;
  const bf16* qkv;               // [tokens, heads + 2 * kv_heads, dim]
  const float* rotary;           // [positions, 2, dim / 2]: cosines, sines
  const int64_t *positions, *slots;  // [tokens]; slot = block number * block + offset
  const int32_t *query_start, *context_lens, *tables;
  int64_t table_width;
  Weights query_norm, key_norm;  // null data: none
  float eps, scale;
  int64_t window;                // 0: unbounded
  bf16* to;                      // [tokens, heads * dim]

  int64_t group() const { return heads / kv_heads; }
};

void run_attention(const AttentionCall& call, int threads);
