"""Did the server send something before its first token, which would fake a short time to first token?"""

from __future__ import annotations

from tools.measure.doubts.doubt import Case, Doubt
from tools.measure.records import RequestRecord

__all__ = ["early_chunk"]

_MANY = 0.1
_AHEAD_SHARE = 0.5
"Of the time to first token."
_AHEAD_S = 0.01


def early_chunk(case: Case) -> Doubt | None:
    """Answers refused as `early_chunk`, or many that opened with blanks long before their first readable token.

    A role-only chunk that comes early is no fault: vLLM and many others send one. Blanks are told from it by the
    record's counts: they stand with the first token, and every other chunk carries one.
    """
    refused = sum(record.error.startswith("early_chunk") for record in case.records)
    blank = sum(_opened_with_blanks(record) for record in case.ok)
    many = len(case.ok) > 0 and blank > _MANY * len(case.ok)
    if not refused and not many:
        return None
    what = [f"{refused} answers had text before their first token"] if refused else []
    what += [f"{blank} answers opened with blank chunks long before their first word"] if many else []
    return Doubt(
        "early_chunk",
        False,
        f"{' and '.join(what)}: a flush that makes a client's clock stop early. Ours doesn't count it, others' do; "
        "find the proxy or the setting that sends it",
        {"refused": refused, "opened_with_blanks": blank},
    )


def _opened_with_blanks(record: RequestRecord) -> bool:
    counts = record.token_counts
    if record.first_chunk_s is None or len(counts) < 3 or counts[0] < 2 or set(counts[1:]) != {1}:
        return False
    ahead_s = record.token_times_s[0] - record.first_chunk_s
    return ahead_s > max(_AHEAD_S, _AHEAD_SHARE * (record.token_times_s[0] - record.sent_s))
