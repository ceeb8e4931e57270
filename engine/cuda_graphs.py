"""GraphRunner: steps in which every sequence has one token, captured as CUDA graphs, so that a step is one launch."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.batch import Batch

if TYPE_CHECKING:
    from engine.model import Model

__all__ = ["GraphBuffers", "GraphRunner", "graph_sizes"]

LARGEST_GRAPH = 512
"""Sequences. With more, a step is long enough to launch its kernels one by one behind it."""

PROMPTS_TO_WARM_UP = (2, 4, 8, 16, 32, 64, 128, 512)
"""Tokens; each length may take another shape of the attention kernel."""


def graph_sizes(max_num_seqs: int) -> list[int]:
    """Batch sizes worth a graph, ascending: a step takes the next larger one and pads. The last is `max_num_seqs`
    exactly (if that is within LARGEST_GRAPH), for that is where a busy engine stays."""
    most = min(max_num_seqs, LARGEST_GRAPH)
    usual = (1, 2, 4, *range(8, 257, 8), *range(272, LARGEST_GRAPH + 1, 16))
    return sorted({most, *(size for size in usual if size < most)})


class GraphBuffers:
    """The tensors a graph reads, at addresses that never change; a graph of some size reads the first rows of each.

    Rows beyond a batch stand for nothing: their slot is -1 (nothing is stored) and their context is empty.
    """

    def __init__(self, rows: int, max_model_len: int, block_size: int, device: torch.device) -> None:
        self._max_model_len = max_model_len
        longs = torch.zeros((4, rows), dtype=torch.int64, device=device)
        self._token_ids, self._positions, self._slots, self._wanted = longs
        self._slots.fill_(-1)
        self._context_lens = torch.zeros(rows, dtype=torch.int32, device=device)
        self._query_start = torch.arange(rows + 1, dtype=torch.int32, device=device)
        self._block_tables = torch.zeros((rows, -(-max_model_len // block_size)), dtype=torch.int32, device=device)

    def batch(self, size: int) -> Batch:
        """The first `size` rows, as a batch: what a graph of that size is captured with."""
        return Batch(
            token_ids=self._token_ids[:size],
            positions=self._positions[:size],
            slots=self._slots[:size],
            query_start=self._query_start[: size + 1],
            context_lens=self._context_lens[:size],
            block_tables=self._block_tables[:size],
            num_decodes=size,
            max_query_len=1,
            max_context_len=self._max_model_len,
            wanted=self._wanted[:size],
        )

    def fill(self, batch: Batch, size: int) -> None:
        """Copy `batch` in, and make the rows up to `size` stand for nothing."""
        rows, wanted = len(batch.token_ids), len(batch.wanted)
        self._token_ids[:rows].copy_(batch.token_ids)
        self._positions[:rows].copy_(batch.positions)
        self._slots[:rows].copy_(batch.slots)
        self._context_lens[:rows].copy_(batch.context_lens)
        # Wider tables of earlier steps may remain behind; the context ends before them.
        self._block_tables[:rows, : batch.block_tables.shape[1]].copy_(batch.block_tables)
        self._wanted[:wanted].copy_(batch.wanted)
        if rows < size:
            self._slots[rows:size].fill_(-1)
            self._context_lens[rows:size].zero_()
        if wanted < size:
            self._wanted[wanted:size].zero_()


@dataclass(frozen=True, slots=True)
class Captured:
    graph: torch.cuda.CUDAGraph
    num_bytes: int
    "Device memory its capture took."


class GraphRunner:
    """The model's forward pass: replayed where a graph fits the batch, else launched kernel by kernel.

    What a replay returns is overwritten by the next: whoever reads it must do so on the same stream.
    """

    def __init__(self, model: Model, cache: Any, *, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        """`model.kernels` must be ones that can be captured: TritonKernels."""
        self._model = model
        self._cache = cache
        self._max_model_len = max_model_len
        self._sizes = graph_sizes(max_num_seqs)
        self._buffers = GraphBuffers(self._sizes[-1], max_model_len, block_size, model.device)
        shape = (self._sizes[-1], model.config.vocab_size)
        self._logits = torch.empty(shape, dtype=model.dtype, device=model.device)
        self._captured: dict[int, Captured] = {}
        self.num_replays = 0
        self.num_eager_steps = 0

    @property
    def num_bytes(self) -> int:
        """Device memory that all captures took, the logits included."""
        logits = self._logits.numel() * self._logits.element_size()
        return logits + sum(captured.num_bytes for captured in self._captured.values())

    def size_for(self, batch: Batch) -> int | None:
        """Size of the graph that computes `batch`; None where there is none."""
        rows = max(len(batch.token_ids), len(batch.wanted))
        if batch.max_query_len != 1 or rows > self._sizes[-1]:
            return None
        size = self._sizes[bisect.bisect_left(self._sizes, rows)]
        return size if size in self._captured else None

    @torch.inference_mode()
    def capture(self) -> None:
        """Capture every size, the largest first: the smaller ones find its memory free and share it.

        Prompts are computed first: no graph holds them, but no request should wait until their kernels are compiled.
        """
        for length in PROMPTS_TO_WARM_UP:
            if length <= self._max_model_len:
                self._compute(self.prompt(length))
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        for size in reversed(self._sizes):
            free = torch.cuda.mem_get_info()[0]
            batch = self._buffers.batch(size)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                # Compiles what isn't yet, and lets cuBLAS allocate its workspace: neither can be captured.
                self._compute(batch)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                # A copy: the result itself would stay allocated, once for each size.
                self._logits[:size].copy_(self._compute(batch))
            self._captured[size] = Captured(graph, max(0, free - torch.cuda.mem_get_info()[0]))
        torch.cuda.synchronize()

    def prompt(self, length: int) -> Batch:
        """A prompt of `length` tokens that stand for nothing: none is stored, and what is seen was never written."""
        device = self._model.device
        return Batch(
            token_ids=torch.zeros(length, dtype=torch.int64, device=device),
            positions=torch.arange(length, device=device),
            slots=torch.full((length,), -1, device=device),
            query_start=torch.tensor([0, length], dtype=torch.int32, device=device),
            context_lens=torch.tensor([length], dtype=torch.int32, device=device),
            block_tables=torch.zeros((1, length), dtype=torch.int32, device=device),
            num_decodes=0,
            max_query_len=length,
            max_context_len=length,
            wanted=torch.tensor([length - 1], device=device),
        )

    def forward(self, batch: Batch) -> tuple[Tensor, bool]:
        """Logits of the rows `batch.wanted` [wanted, vocab_size], and whether a graph computed them."""
        size = self.size_for(batch)
        if size is None:
            self.num_eager_steps += 1
            return self._compute(batch), False
        self._buffers.fill(batch, size)
        self._captured[size].graph.replay()
        self.num_replays += 1
        return self._logits[: len(batch.wanted)], True

    def _compute(self, batch: Batch) -> Tensor:
        return self._model.forward(batch, self._model.kernels.plan(batch), self._cache)
