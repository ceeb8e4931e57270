"""The Triton attention kernels against plain PyTorch; see `triton_cases.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.batch import Batch
from engine.kernels.protocol import Attention
from engine.kernels.triton.decode import DecodeTile, decode, decode_tile
from engine.kernels.triton.paged import PagedCache
from engine.kernels.triton.prefill import prefill_tile
from engine.kernels.triton.splits import Splits, choose_splits
from engine.kernels.triton_kernels import TritonKernels
from engine.kv_cache import KVLayout
from tests.engine.batches import Pages, make_batch
from tests.engine.triton_interpreter import FP8, Lengths, near


@dataclass
class Case:
    """One layer's attention over a batch, with all that went before in the cache."""

    lengths: Lengths
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    block_size: int = 16
    window: int = 0
    dtype: torch.dtype = torch.float32
    cache_dtype: torch.dtype | None = None
    normed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)

        def values(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        longest = max(context for context, _ in self.lengths)
        blocks = 1 + sum(-(-context // self.block_size) for context, _ in self.lengths)
        self.layout = KVLayout(blocks, self.block_size, self.num_kv_heads, self.head_dim)
        self.pages = Pages(self.layout)
        self.batch: Batch = make_batch(self.lengths, self.pages)
        heads = self.num_heads + 2 * self.num_kv_heads
        self.past = [values(2, context - new, self.num_kv_heads, self.head_dim) for context, new in self.lengths]
        self.qkv = values(sum(new for _, new in self.lengths), heads, self.head_dim).to(self.dtype)
        angles = torch.outer(torch.arange(longest).float(), 1e4 ** -torch.linspace(0, 1, self.head_dim // 2))
        self.attention = Attention(
            layer=1,
            rotary=torch.stack((angles.cos(), angles.sin()), 1),
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            scale=self.head_dim**-0.5,
            window=self.window,
            query_norm=1 + values(self.head_dim) / 4 if self.normed else None,
            key_norm=1 + values(self.head_dim) / 4 if self.normed else None,
        )

    def cache(self) -> PagedCache:
        """What went before, in its blocks; what lies in no sequence's blocks is poison."""
        kernels = TritonKernels(torch.device("cpu"))
        cache = kernels.cache(self.layout, 2, self.cache_dtype or self.dtype, torch.device("cpu"))
        layer = cache.layers[1].view(2, self.num_kv_heads, -1, self.head_dim)
        layer.copy_(torch.full(layer.shape, 300.0))
        for index, past in enumerate(self.past):
            context, new = self.lengths[index]
            table = torch.tensor(self.pages.table(index, context))
            where = torch.arange(context - new)
            slots = table[where // self.block_size] * self.block_size + where % self.block_size
            stored = past.transpose(1, 2)
            if cache.scales is not None:
                scale = stored.abs().amax(-1) / 448
                cache.scales[1].index_copy_(2, slots, scale)
                stored = stored / scale[..., None]
            if len(slots):
                layer[:, :, slots] = stored.to(layer.dtype)
        return cache

    def run(self) -> tuple[Tensor, PagedCache]:
        kernels, cache = TritonKernels(torch.device("cpu")), self.cache()
        return kernels.attend(self.attention, kernels.plan(self.batch), cache, self.qkv.flatten(1)), cache

    def expected(self) -> Tensor:
        """[tokens, num_heads · head_dim], one token and one head at a time."""
        rows, first = [], 0
        for (context, new), past in zip(self.lengths, self.past, strict=True):
            fresh = self.qkv[first : first + new].float()
            first += new
            queries, keys, values = fresh.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), 1)
            where = torch.arange(context - new, context)
            queries = self.turn(self.normalise(queries, self.attention.query_norm), where)
            keys = torch.cat((past[0], self.turn(self.normalise(keys, self.attention.key_norm), where)))
            values = torch.cat((past[1], values))
            for row in range(new):
                last = context - new + row
                begin = max(0, last - self.window + 1) if self.window else 0
                seen = slice(begin, last + 1)
                heads = []
                for head in range(self.num_heads):
                    kv_head = head // (self.num_heads // self.num_kv_heads)
                    weights = (keys[seen, kv_head] @ queries[row, head] * self.attention.scale).softmax(0)
                    heads.append(weights @ values[seen, kv_head])
                rows.append(torch.cat(heads))
        return torch.stack(rows)

    def normalise(self, heads: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return heads
        return F.rms_norm(heads, (self.head_dim,), weight, self.attention.eps)

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        cosines, sines = self.attention.rotary[positions][:, :, None].unbind(1)
        low, high = heads.chunk(2, -1)
        return torch.cat((low * cosines - high * sines, high * cosines + low * sines), -1)

    def check(self) -> None:
        found, _ = self.run()
        near(found, self.expected(), self.cache_dtype or self.dtype)


MIXED: Lengths = [(1, 1), (16, 1), (33, 1), (7, 7), (40, 9), (17, 2)]


class TestAttention:
    @pytest.mark.parametrize("group", [1, 2, 3, 4, 8])
    def test_query_heads_share_a_key_head(self, group: int) -> None:
        Case([(17, 1), (20, 5)], num_heads=2 * group, num_kv_heads=2).check()

    @pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
    def test_any_head_size(self, head_dim: int) -> None:
        Case([(18, 1), (20, 3)], head_dim=head_dim, normed=True).check()

    @pytest.mark.parametrize("block_size", [16, 32, 64])
    def test_ragged_lengths_across_blocks(self, block_size: int) -> None:
        Case([(length, min(new, length)) for length, new in MIXED], block_size=block_size).check()

    @pytest.mark.parametrize("window", [1, 5, 16, 31])
    def test_a_window_hides_what_lies_before_it(self, window: int) -> None:
        Case([(1, 1), (30, 1), (64, 1), (45, 20), (3, 3)], window=window).check()

    def test_a_long_run_is_cut_into_chunks_of_rows(self) -> None:
        Case([(70, 1), (300, 150), (90, 90)], head_dim=32, num_heads=2, num_kv_heads=1).check()

    def test_half_precision(self) -> None:
        Case(MIXED, dtype=torch.float16, normed=True).check()

    def test_an_fp8_cache_comes_near(self) -> None:
        Case([(50, 1), (40, 7)], dtype=torch.float16, cache_dtype=FP8, head_dim=64).check()

    def test_one_norm_alone(self) -> None:
        case = Case([(9, 1), (6, 4)], normed=True)
        case.attention = replace_norms(case.attention, query_norm=None)
        case.check()

    @settings(max_examples=12, deadline=None, derandomize=True)
    @given(
        decodes=st.lists(st.integers(1, 90), max_size=3),
        prompts=st.lists(st.tuples(st.integers(0, 40), st.integers(2, 40)), max_size=2),
        group=st.sampled_from([1, 2, 3]),
        window=st.sampled_from([0, 0, 7, 33]),
        seed=st.integers(0, 99),
    )
    def test_any_batch(
        self, decodes: list[int], prompts: list[tuple[int, int]], group: int, window: int, seed: int
    ) -> None:
        lengths = [(context, 1) for context in decodes] + [(before + new, new) for before, new in prompts]
        if lengths:
            Case(lengths, num_heads=group, num_kv_heads=1, head_dim=32, window=window, seed=seed).check()


def replace_norms(attention: Attention, query_norm: Tensor | None) -> Attention:
    return replace(attention, query_norm=query_norm)


class TestStore:
    def test_keys_and_values_lie_where_the_slots_say_and_nowhere_else(self) -> None:
        case = Case([(20, 1), (33, 30)], normed=True)
        before = case.cache().layers[1].clone().view(2, 2, -1, 64)
        _, cache = case.run()
        after = cache.layers[1].view(2, 2, -1, 64)
        fresh = case.qkv[:, 4:].float()
        keys = case.turn(case.normalise(fresh[:, :2], case.attention.key_norm), case.batch.positions)
        slots = case.batch.slots
        near(after[0, :, slots].transpose(0, 1), keys, torch.float32)
        near(after[1, :, slots].transpose(0, 1), fresh[:, 2:], torch.float32)
        untouched = torch.ones(after.shape[2], dtype=torch.bool)
        untouched[slots] = False
        assert torch.equal(after[:, :, untouched], before[:, :, untouched])
        assert not cache.layers[0].any()

    def test_a_row_without_a_slot_is_not_stored_and_sees_nothing(self) -> None:
        case = Case([(20, 1), (5, 1)])
        case.batch.slots[1] = -1
        case.batch.context_lens[1] = 0
        before = case.cache().layers[1].clone()
        found, cache = case.run()
        changed = (cache.layers[1] != before).any(-1).flatten(2).any(0).any(0).nonzero().flatten()
        assert changed.tolist() == case.batch.slots[:1].tolist()
        assert not found[1].any()
        near(found[:1], case.expected()[:1], torch.float32)

    def test_fp8_keeps_the_largest_value_of_each_head(self) -> None:
        case = Case([(3, 3)], cache_dtype=FP8)
        case.qkv[:, -1] *= 1000
        _, cache = case.run()
        assert cache.scales is not None
        stored = cache.layers[1].view(2, 2, -1, 64).float() * cache.scales[1][..., None]
        values, expected = stored[1][:, case.batch.slots].transpose(0, 1), case.qkv[:, -2:].float()
        torch.testing.assert_close(values.abs().amax(-1), expected.abs().amax(-1))
        near(values[:, 0], expected[:, 0], FP8)
        near(values[:, 1] / 1000, expected[:, 1] / 1000, FP8)


class TestSplits:
    @pytest.mark.parametrize("count", [1, 2, 5, 20])
    def test_parts_are_merged_whatever_their_number(self, count: int) -> None:
        case = Case([(1, 1), (32, 1), (33, 1), (200, 1)], num_heads=2, num_kv_heads=1, head_dim=32)
        found = self.run(case, Splits(count, 16))
        near(found, case.expected(), torch.float32)

    def test_parts_of_a_window(self) -> None:
        case = Case([(1, 1), (99, 1), (130, 1)], head_dim=32, window=70)
        near(self.run(case, Splits(3, 16)), case.expected(), torch.float32)

    @staticmethod
    def run(case: Case, splits: Splits) -> Tensor:
        _, cache = case.run()
        queries, _ = case.qkv.float().split((case.num_heads, 2 * case.num_kv_heads), 1)
        queries = case.turn(queries, case.batch.positions)
        out = torch.full((len(case.lengths), case.num_heads * case.head_dim), float("nan"))
        decode(
            queries.flatten(1).contiguous(),
            cache,
            1,
            case.batch.block_tables,
            case.batch.context_lens,
            out,
            num_heads=case.num_heads,
            scale=case.attention.scale,
            window=case.window,
            splits=splits,
            tile=DecodeTile(16),
        )
        return out

    @given(st.integers(1, 1024), st.sampled_from([1, 2, 4, 8, 32]), st.integers(1, 200_000))
    def test_the_choice_fills_the_gpu_and_no_more(self, sequences: int, num_kv_heads: int, context: int) -> None:
        splits = choose_splits(sequences, num_kv_heads, context, 132)
        programs = sequences * num_kv_heads * splits.count
        assert 1 <= splits.count <= 64 and 128 <= splits.shortest <= 512
        assert splits.count == 1 or programs <= 16384
        # One part is no longer than it must be, unless the GPU has enough to do.
        assert splits.count in (64, max(1, 16384 // (sequences * num_kv_heads))) or (
            splits.count * splits.shortest >= context
        )

    def test_few_sequences_are_cut_finely(self) -> None:
        assert choose_splits(1, 8, 4096, 132) == Splits(32, 128)
        assert choose_splits(256, 8, 2048, 132) == Splits(4, 512)

    @pytest.mark.parametrize("element_bytes", [1, 2, 4])
    @pytest.mark.parametrize("head_dim", [64, 80, 128, 256])
    def test_tiles_fit_any_gpu(self, head_dim: int, element_bytes: int) -> None:
        tile = decode_tile(head_dim, element_bytes)
        assert tile.tokens & (tile.tokens - 1) == 0 and 16 <= tile.tokens <= 128
        for group in (1, 3, 8, 48):
            for queries in (2, 20, 5000):
                wide = prefill_tile(head_dim, max(2, element_bytes), group, queries, queries, 8, 132)
                assert wide.rows >= group and wide.rows in (16, 32, 64, 128)
