"""What of CUDA graphs needs no GPU: which sizes there are, which one a batch takes, and what it then computes."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.cuda_graphs import LARGEST_GRAPH, GraphBuffers, GraphRunner, graph_sizes
from engine.kv_cache import KVLayout
from tests.engine.batches import Pages, make_batch

LAYOUT = KVLayout(num_blocks=200, block_size=16, num_kv_heads=1, head_dim=16)


@given(st.integers(1, 2000))
def test_the_most_sequences_have_a_graph_of_their_own_size(max_num_seqs: int) -> None:
    sizes = graph_sizes(max_num_seqs)
    assert sizes == sorted(set(sizes)) and sizes[0] == 1
    assert sizes[-1] == min(max_num_seqs, LARGEST_GRAPH)
    # Padding stays below the batch itself, or below 8 rows, or below an eighth.
    assert all(high - low <= max(8, low // 8) for low, high in pairwise(sizes))


def test_sizes_of_a_small_engine() -> None:
    assert graph_sizes(1) == [1]
    assert graph_sizes(3) == [1, 2, 3]
    assert graph_sizes(42) == [1, 2, 4, 8, 16, 24, 32, 40, 42]


def runner(max_num_seqs: int) -> GraphRunner:
    """Without a GPU nothing is captured; here a graph is what counts its replays."""
    model = Mock(device=torch.device("cpu"), dtype=torch.float32)
    model.config.vocab_size = 5
    model.forward = Mock(side_effect=lambda batch, plan, cache: torch.full((len(batch.wanted), 5), 7.0))
    graphs = GraphRunner(model, None, max_num_seqs=max_num_seqs, max_model_len=100, block_size=16)
    graphs._captured = {size: Mock(num_bytes=1) for size in graphs._sizes}
    return graphs


def test_a_batch_takes_the_next_larger_graph() -> None:
    graphs = runner(20)
    for rows, size in ((1, 1), (3, 4), (8, 8), (9, 16), (17, 20), (20, 20)):
        batch = make_batch([(10, 1)] * rows, Pages(LAYOUT))
        assert graphs.size_for(batch) == size
        _, replayed = graphs.forward(batch)
        assert replayed
    assert (graphs.num_replays, graphs.num_eager_steps) == (6, 0)
    graphs._captured[16].graph.replay.assert_called_once()


@pytest.mark.parametrize("lengths", [[(10, 1)] * 21, [(10, 1), (10, 2)], [(5, 5)]])
def test_what_no_graph_fits_is_launched(lengths: list[tuple[int, int]]) -> None:
    graphs = runner(20)
    batch = make_batch(lengths, Pages(LAYOUT))
    logits, replayed = graphs.forward(batch)
    assert not replayed and (graphs.num_replays, graphs.num_eager_steps) == (0, 1)
    assert torch.equal(logits, torch.full((len(lengths), 5), 7.0))


def test_a_size_that_was_never_captured_is_launched() -> None:
    graphs = runner(20)
    del graphs._captured[4]
    assert graphs.size_for(make_batch([(10, 1)] * 3, Pages(LAYOUT))) is None


def test_more_wanted_rows_than_sequences_need_a_larger_graph() -> None:
    graphs = runner(4)
    batch = make_batch([(10, 1)] * 2, Pages(LAYOUT), wanted=[0, 1, 0, 1])
    assert graphs.size_for(batch) == 4
    assert graphs.size_for(make_batch([(10, 1)] * 2, Pages(LAYOUT), wanted=[0] * 5)) is None


@given(st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=8), min_size=1, max_size=4), st.data())
def test_a_graph_sees_the_batch_and_nothing_of_the_ones_before(steps: list[list[int]], data: st.DataObject) -> None:
    buffers = GraphBuffers(8, 100, 16, torch.device("cpu"))
    for contexts in steps:
        rows = len(contexts)
        size = data.draw(st.sampled_from([size for size in graph_sizes(8) if size >= rows]))
        wanted = data.draw(st.lists(st.integers(0, rows - 1), max_size=rows))
        batch = make_batch([(context, 1) for context in contexts], Pages(LAYOUT), wanted=wanted)
        buffers.fill(batch, size)
        seen = buffers.batch(size)
        for name in ("token_ids", "positions", "slots", "context_lens"):
            assert torch.equal(getattr(seen, name)[:rows], getattr(batch, name)), name
        for row, context in enumerate(contexts):
            blocks = -(-context // 16)
            assert torch.equal(seen.block_tables[row, :blocks], batch.block_tables[row, :blocks])
        assert (seen.slots[rows:] == -1).all() and not seen.context_lens[rows:].any()
        assert seen.wanted[: len(wanted)].tolist() == wanted and not seen.wanted[len(wanted) :].any()
        assert seen.query_start.tolist() == list(range(size + 1))
        assert (seen.num_decodes, seen.max_query_len, seen.max_context_len) == (size, 1, 100)


def test_every_size_reads_the_same_addresses() -> None:
    buffers = GraphBuffers(8, 100, 16, torch.device("cpu"))
    small = buffers.batch(4)
    buffers.fill(make_batch([(50, 1)] * 3, Pages(LAYOUT)), 8)
    large = buffers.batch(8)
    tensors = [
        field.name for field in dataclasses.fields(small) if isinstance(getattr(small, field.name), torch.Tensor)
    ]
    assert len(tensors) == 7
    for name in tensors:
        assert getattr(small, name).data_ptr() == getattr(large, name).data_ptr(), name


def test_a_prompt_to_warm_up_with_stores_nothing() -> None:
    batch = runner(4).prompt(8)
    assert (batch.slots == -1).all() and batch.positions.tolist() == list(range(8))
    assert (batch.num_decodes, batch.max_query_len, batch.max_context_len) == (0, 8, 8)
    assert batch.query_start.tolist() == [0, 8] and batch.context_lens.tolist() == [8] and batch.wanted.tolist() == [7]
