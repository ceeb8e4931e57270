// The operations as torch sees them: checks, then the kernels. Through torch's stable ABI, whose headers compile fast.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>

#include "attention.h"
#include "draw.h"
#include "linear.h"
#include "team.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Optional = std::optional<Tensor>;

int num_threads() {
  uint32_t n;
  STABLE_TORCH_ERROR_CODE_CHECK(torch_get_num_threads(&n));
  return std::max(1, (int)n);
}

/// Memory of `tensor`, which must be on the CPU, contiguous, of that type and of that many elements.
template <class T>
T* memory(const Tensor& tensor, ScalarType type, int64_t elements, const char* name) {
  STD_TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == type, name,
                  " must be a contiguous CPU tensor of its type");
  STD_TORCH_CHECK(tensor.numel() == elements, name, " must have ", elements, " elements, but has ", tensor.numel());
  return (T*)tensor.data_ptr();
}

Weights norm_weights(const Optional& tensor, int64_t elements, const char* name) {
  if (!tensor) return {};
  const bool is_bf16 = tensor->scalar_type() == ScalarType::BFloat16;
  return {memory<void>(*tensor, is_bf16 ? ScalarType::BFloat16 : ScalarType::Float, elements, name), is_bf16};
}

PackedWeight packed(const Tensor& data, const Optional& scales, const Optional& bias, int64_t bits, int64_t in,
                    int64_t out) {
  STD_TORCH_CHECK((bits == 16 || bits == 8 || bits == 4) && in > 0 && out > 0 && in % (bits == 4 ? 8 : 2) == 0,
                  "no such weight: ", bits, " bits, ", out, " x ", in);
  PackedWeight weight{(int)bits, in, out, nullptr, nullptr, nullptr};
  const int64_t padded = weight.panels() * PANEL, bytes = weight.panels() * weight.panel_bytes();
  weight.data = memory<uint8_t>(data, ScalarType::Byte, bytes, "data");
  STD_TORCH_CHECK(scales.has_value() == (bits != 16), "scales come with fewer than 16 bits");
  if (bits == 8) weight.scales = memory<void>(*scales, ScalarType::Float, padded, "scales");
  if (bits == 4) weight.scales = memory<void>(*scales, ScalarType::Int, padded * weight.groups(), "scales");
  if (bias) weight.bias = memory<float>(*bias, ScalarType::Float, padded, "bias");
  return weight;
}

void linear(Tensor x, Tensor data, Optional scales, Optional bias, int64_t bits, int64_t in, int64_t out, Optional norm,
            int64_t activation, Optional residual, Optional post_norm, double eps, Tensor to) {
  const PackedWeight weight = packed(data, scales, bias, bits, in, out);
  STD_TORCH_CHECK(activation >= 0 && activation <= 2, "no such activation: ", activation);
  const bool is_gated = activation != 0;
  STD_TORCH_CHECK(!is_gated || (out % (2 * PANEL) == 0 && !residual), "a gated product has no residual, and an output ",
                  "of whole panels");
  STD_TORCH_CHECK(!post_norm || residual, "a norm of the product comes with a residual");
  const int64_t rows = x.numel() / in, width = is_gated ? out / 2 : out;
  LinearCall call{weight, memory<bf16>(x, ScalarType::BFloat16, rows * in, "x"), rows, {}, (Activation)activation,
                  nullptr, {}, (float)eps, memory<bf16>(to, ScalarType::BFloat16, rows * width, "to")};
  STD_TORCH_CHECK(!rows || call.x != call.to, "the output can't replace the input");
  call.norm = norm_weights(norm, in, "norm");
  call.post_norm = norm_weights(post_norm, out, "post_norm");
  if (residual) call.residual = memory<bf16>(*residual, ScalarType::BFloat16, rows * out, "residual");
  run_linear(call, num_threads());
}

void norm(Tensor x, Tensor weight, double eps, Tensor to) {
  const int64_t width = weight.numel(), rows = x.numel() / std::max<int64_t>(1, width);
  const bf16* from = memory<bf16>(x, ScalarType::BFloat16, rows * width, "x");
  bf16* target = memory<bf16>(to, ScalarType::BFloat16, rows * width, "to");
  const Weights weights = norm_weights(weight, width, "weight");
  const int64_t tasks = rows <= 8 ? 1 : std::min<int64_t>(rows, 4 * num_threads());
  spread(num_threads(), tasks, [&](int64_t task) {
    for (int64_t row = part(rows, task, tasks); row < part(rows, task + 1, tasks); ++row)
      normalise_row(from + row * width, width, weights, (float)eps, nullptr, target + row * width);
  });
}

/// gate_up [rows, 2 * width]: to = activation(gate) * up, for widths that `linear` can't gate by itself.
void gate(Tensor gate_up, int64_t activation, Tensor to) {
  const int64_t width = to.size(1), rows = to.size(0);
  const bf16* from = memory<bf16>(gate_up, ScalarType::BFloat16, 2 * rows * width, "gate_up");
  bf16* target = memory<bf16>(to, ScalarType::BFloat16, rows * width, "to");
  for (int64_t row = 0; row < rows; ++row, from += 2 * width, target += width) {
    for (int64_t i = 0; i < width; i += LANES) {
      const __mmask16 mask = first_lanes(width - i);
      const __m512 value = load_bf16(from + i, mask), up = load_bf16(from + width + i, mask);
      store_bf16(target + i, _mm512_mul_ps(activation == 1 ? silu(value) : gelu_tanh(value), up), mask);
    }
  }
}

void attend(Tensor qkv, Tensor keys, Tensor values, Tensor rotary, Tensor positions, Tensor slots, Tensor query_start,
            Tensor context_lens, Tensor tables, int64_t kv_heads, double scale, int64_t window, Optional query_norm,
            Optional key_norm, double eps, Tensor to) {
  AttentionCall call{};
  STD_TORCH_CHECK(keys.dim() == 5 && tables.dim() == 2 && kv_heads > 0, "keys has 5 dimensions, tables 2");
  const int64_t dim = 2 * keys.size(2), tokens = positions.numel(), width = dim ? to.numel() / std::max<int64_t>(1, tokens) : 0;
  call.cache.blocks = keys.size(1);
  call.cache.block = keys.size(3);
  call.tokens = tokens;
  call.sequences = context_lens.numel();
  call.dim = dim;
  call.kv_heads = kv_heads;
  if (!tokens) return;
  STD_TORCH_CHECK(dim >= LANES && dim % LANES == 0 && dim <= MOST_HEAD_DIM && call.cache.block % LANES == 0,
                  "heads are multiples of 16 up to ", MOST_HEAD_DIM, ", blocks multiples of 16; not ", dim, " and ",
                  call.cache.block);
  call.heads = width / dim;
  STD_TORCH_CHECK(call.heads >= kv_heads && call.heads % kv_heads == 0 && call.group() <= 48, call.heads,
                  " heads can't share ", kv_heads);
  const int64_t room = kv_heads * call.cache.blocks * call.cache.block * dim;
  call.cache.keys = memory<bf16>(keys, ScalarType::BFloat16, room, "keys");
  call.cache.values = memory<bf16>(values, ScalarType::BFloat16, room, "values");
  call.qkv = memory<bf16>(qkv, ScalarType::BFloat16, tokens * (call.heads + 2 * kv_heads) * dim, "qkv");
  call.to = memory<bf16>(to, ScalarType::BFloat16, tokens * call.heads * dim, "to");
  const int64_t length = rotary.numel() / dim;
  call.rotary = memory<float>(rotary, ScalarType::Float, length * dim, "rotary");
  call.positions = memory<int64_t>(positions, ScalarType::Long, tokens, "positions");
  call.slots = memory<int64_t>(slots, ScalarType::Long, tokens, "slots");
  call.query_start = memory<int32_t>(query_start, ScalarType::Int, call.sequences + 1, "query_start");
  call.context_lens = memory<int32_t>(context_lens, ScalarType::Int, call.sequences, "context_lens");
  call.tables = memory<int32_t>(tables, ScalarType::Int, tables.numel(), "tables");
  call.table_width = tables.size(1);
  for (int64_t t = 0; t < tokens; ++t) {
    STD_TORCH_CHECK(call.positions[t] >= 0 && call.positions[t] < length, "position ", call.positions[t], " of ", length);
    STD_TORCH_CHECK(call.slots[t] >= 0 && call.slots[t] < call.cache.blocks * call.cache.block, "slot ", call.slots[t]);
  }
  STD_TORCH_CHECK(tables.size(0) == call.sequences && call.query_start[0] == 0 &&
                  call.query_start[call.sequences] == tokens, "tables and query_start don't fit the sequences");
  for (int64_t s = 0; s < call.sequences; ++s) {
    const int64_t context = call.context_lens[s], queries = call.query_start[s + 1] - call.query_start[s];
    const int64_t blocks = ceil_div(context, call.cache.block);
    STD_TORCH_CHECK(queries >= 1 && queries <= context && blocks <= call.table_width, "sequence ", s, " has ", queries,
                    " queries, a context of ", context, " and a table of ", call.table_width);
    const int32_t* table = call.tables + s * call.table_width;
    for (int64_t b = 0; b < blocks; ++b)
      STD_TORCH_CHECK(table[b] >= 0 && table[b] < call.cache.blocks, "block ", table[b], " of ", call.cache.blocks);
  }
  STD_TORCH_CHECK(window >= 0, "a window of ", window);
  call.window = window;
  call.scale = (float)scale;
  call.eps = (float)eps;
  call.query_norm = norm_weights(query_norm, dim, "query_norm");
  call.key_norm = norm_weights(key_norm, dim, "key_norm");
  run_attention(call, num_threads());
}

/// Token ids `to` [rows] from logits [rows, vocab_size]; see `draw_row`.
void draw(Tensor logits, Tensor temperatures, Tensor points, Tensor to) {
  const int64_t rows = to.numel(), width = rows ? logits.numel() / rows : 0;
  const bf16* from = memory<bf16>(logits, ScalarType::BFloat16, rows * width, "logits");
  const float* temperature = memory<float>(temperatures, ScalarType::Float, rows, "temperatures");
  const float* point = memory<float>(points, ScalarType::Float, rows, "points");
  int64_t* target = memory<int64_t>(to, ScalarType::Long, rows, "to");
  spread(num_threads(), rows, [&](int64_t row) {
    target[row] = draw_row(from + row * width, width, temperature[row], point[row]);
  });
}

}  // namespace

STABLE_TORCH_LIBRARY(engine_native, m) {
  m.def(
      "linear(Tensor x, Tensor data, Tensor? scales, Tensor? bias, int bits, int in_features, int out_features, "
      "Tensor? norm, int activation, Tensor? residual, Tensor? post_norm, float eps, Tensor(a!) to) -> ()");
  m.def("norm(Tensor x, Tensor weight, float eps, Tensor(a!) to) -> ()");
  m.def("gate(Tensor gate_up, int activation, Tensor(a!) to) -> ()");
  m.def(
      "attend(Tensor qkv, Tensor(a!) keys, Tensor(b!) values, Tensor rotary, Tensor positions, Tensor slots, "
      "Tensor query_start, Tensor context_lens, Tensor tables, int kv_heads, float scale, int window, "
      "Tensor? query_norm, Tensor? key_norm, float eps, Tensor(c!) to) -> ()");
  m.def("draw(Tensor logits, Tensor temperatures, Tensor points, Tensor(a!) to) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(engine_native, CPU, m) {
  m.impl("linear", TORCH_BOX(&linear));
  m.impl("norm", TORCH_BOX(&norm));
  m.impl("gate", TORCH_BOX(&gate));
  m.impl("attend", TORCH_BOX(&attend));
  m.impl("draw", TORCH_BOX(&draw));
}
