"""Work: the bytes a step must move and the operations it must do, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.model_config import ModelConfig

__all__ = ["NO_WORK", "ModelWork", "Work"]

Lengths = NDArray[np.int64] | NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Work:
    """What a step needs of the device. Activations are left out: they stay in its caches."""

    read_bytes: float
    write_bytes: float
    flops: float


NO_WORK = Work(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What one token, one context token and one step cost with a model. A multiplication and an addition are 2 FLOP."""

    weight_bytes: int
    "Read once a step, whatever the batch; the embedding is looked up, not read."
    head_bytes: int
    "Of the output head: read where a step wants any logits."
    kv_bytes_per_token: int
    "Keys and values of one token in one layer."
    flops_per_token: int
    "Of all linears but the output head."
    flops_per_logits: int
    flops_per_pair: int
    "Of one query token against one context token in one layer: scores, and the sum over values."
    windows: tuple[tuple[int, int], ...]
    "(most context tokens a query sees, 0 for all; layers of that kind)"

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        *,
        weight_bytes: int,
        head_bytes: int,
        bytes_per_value: float,
        windows: tuple[tuple[int, int], ...] = (),
    ) -> ModelWork:
        """The costs of `config`.

        Args:
            weight_bytes: what the layers' linears hold, as laid out and quantised, without the output head.
            head_bytes: what the output head holds.
            bytes_per_value: of the KV cache.
            windows: see the field; by default every layer sees all.
        """
        embedding = config.vocab_size * config.hidden_size
        layers = config.num_parameters - embedding * (1 if config.tie_word_embeddings else 2)
        return cls(
            weight_bytes=weight_bytes,
            head_bytes=head_bytes,
            kv_bytes_per_token=int(2 * config.num_kv_heads * config.head_dim * bytes_per_value),
            flops_per_token=2 * layers,
            flops_per_logits=2 * embedding,
            flops_per_pair=4 * config.num_heads * config.head_dim,
            windows=windows or ((0, config.num_layers),),
        )

    def step(self, query_lens: Lengths, context_lens: Lengths, num_logits: int) -> Work:
        """The work of a step over sequences with `query_lens` new tokens each.

        Args:
            query_lens: [sequences] tokens computed.
            context_lens: [sequences] tokens that the last of them sees, itself included.
            num_logits: rows whose logits are wanted.
        """
        queries, contexts = query_lens.astype(np.int64), context_lens.astype(np.int64)
        tokens = int(queries.sum())
        kv_layer_tokens = pairs = 0
        for window, layers in self.windows:
            seen, most = contexts, contexts
            if window:
                # A chunk of q tokens reads the windows of all its tokens: q - 1 more than one of them sees.
                seen = np.minimum(contexts, queries - 1 + window)
                most = np.minimum(contexts, window)
            kv_layer_tokens += layers * int(seen.sum())
            # The last token sees `most`, each before it one less, until the window (if any) is what bounds it.
            shorter = np.clip(queries - 1 - (contexts - most), 0, None)
            pairs += layers * int((queries * most - shorter * (shorter + 1) // 2).sum())
        num_layers = sum(layers for _, layers in self.windows)
        return Work(
            read_bytes=self.weight_bytes
            + bool(num_logits) * self.head_bytes
            + kv_layer_tokens * self.kv_bytes_per_token,
            write_bytes=tokens * num_layers * self.kv_bytes_per_token,
            flops=tokens * self.flops_per_token + num_logits * self.flops_per_logits + pairs * self.flops_per_pair,
        )
