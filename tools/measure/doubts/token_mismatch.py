"""Do the server's token counts agree with each other?"""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt

__all__ = ["token_mismatch"]


def token_mismatch(case: Case) -> Doubt | None:
    """Any answer refused as `token_count_mismatch`: one is one too many, for every throughput is a sum of counts."""
    wrong = [record.error for record in case.records if record.error.startswith("token_count_mismatch")]
    if not wrong:
        return None
    return Doubt(
        "token_mismatch",
        True,
        f"{len(wrong)} answers contradict their own token counts, so no throughput here can be trusted; the first: "
        f"{wrong[0]}",
        {"mismatches": len(wrong)},
    )
