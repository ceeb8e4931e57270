"""Do chunks carry several tokens, so that a gap between chunks isn't one between tokens?"""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt

__all__ = ["multi_token_chunks"]

_ONE = 1.05


def multi_token_chunks(case: Case) -> Doubt | None:
    """More than 1.05 tokens a chunk on average."""
    mean = case.summary.get("tokens_per_chunk_mean")
    if mean is None or mean <= _ONE:
        return None
    told = any("_itl_tok_ms" in name for name in case.summary)
    advice = (
        "read itl_tok, which is per token" if told else "read tpot: the server doesn't tell which chunk has how many"
    )
    return Doubt(
        "multi_token_chunks",
        False,
        f"a chunk carries {mean:.3g} tokens on average, so itl is the gap between chunks and not between tokens: "
        f"{advice}",
        {"tokens_per_chunk_mean": mean},
    )
