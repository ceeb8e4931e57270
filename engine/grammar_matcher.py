"""GrammarMatchers: which tokens the grammars of running requests allow next."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as ReadOnlyList
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import RequestRefused
from engine.grammar import Grammar

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["GrammarMatchers"]

KEPT_COMPILED = 64
"""Compiled grammars that are kept for the next request with the same one."""


class GrammarMatchers:
    """One matcher per request that has a grammar; lives where the sampler does.

    A finished grammar allows only the end of text, and so does one that outgrew the library's limits while matching.
    Rows are `vocab_size` wide, the model's own, which may exceed the tokenizer's: padding is never allowed.
    """

    def __init__(self, directory: Path, vocab_size: int, eos_token_ids: Iterable[int]) -> None:
        self._directory = directory
        self._vocab_size = vocab_size
        self._eos = sorted(eos_token_ids)
        self._tokenizer: LLTokenizer | None = None
        self._compiled: dict[Grammar, LLMatcher] = {}
        self._matchers: dict[str, LLMatcher] = {}

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._matchers

    def start(self, request_id: str, grammar: Grammar) -> None:
        """Follow `grammar` from the first token of the answer on.

        Raises:
            RequestRefused: the grammar can't be compiled for this vocabulary.
        """
        compiled = self._compiled.pop(grammar, None) or self._compile(grammar)
        self._compiled[grammar] = compiled
        if len(self._compiled) > KEPT_COMPILED:
            del self._compiled[next(iter(self._compiled))]
        self._matchers[request_id] = compiled.deep_copy()

    def accept(self, request_id: str, token_id: int) -> None:
        """`token_id` was chosen. Requests without a grammar, and the end of text, need nothing."""
        matcher = self._matchers.get(request_id)
        if matcher is not None and token_id not in self._eos and not matcher.is_stopped():
            matcher.consume_token(token_id)

    def forget(self, request_id: str) -> None:
        self._matchers.pop(request_id, None)

    def mask(self, request_ids: ReadOnlyList[str]) -> NDArray[np.int32]:
        """Bits of allowed tokens, lowest first: [requests, ceil(vocab_size / 32)]; all ones without a grammar."""
        rows = np.full((len(request_ids), -(-self._vocab_size // 32)), -1, dtype=np.int32)
        for row, request_id in zip(rows, request_ids, strict=True):
            matcher = self._matchers.get(request_id)
            if matcher is not None:
                row[:] = 0
                if not matcher.is_stopped():
                    matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
                if not row.any():
                    for token_id in self._eos:
                        row[token_id // 32] |= np.int32(np.uint32(1 << token_id % 32).view(np.int32))
        return rows

    def apply(self, logits: Tensor, request_ids: ReadOnlyList[str]) -> None:
        """Set to -inf, in place, what is not allowed in `logits` [requests, vocab_size]."""
        bits = np.unpackbits(self.mask(request_ids).view(np.uint8), axis=-1, count=self._vocab_size, bitorder="little")
        logits.masked_fill_(torch.from_numpy(bits == 0).to(logits.device), -torch.inf)

    def _compile(self, grammar: Grammar) -> LLMatcher:
        from llguidance import LLMatcher, LLTokenizer  # takes 0.1 s, and most engines never follow a grammar

        if self._tokenizer is None:
            text = (self._directory / "tokenizer.json").read_text(encoding="utf-8")
            self._tokenizer = LLTokenizer(text, n_vocab=self._vocab_size, eos_token=self._eos)
        grammar.check()
        matcher = LLMatcher(self._tokenizer, grammar.compiled(), log_level=0)
        if matcher.is_error():
            raise RequestRefused(f"the grammar can't be used: {matcher.get_error()}", code="invalid_grammar")
        return matcher
