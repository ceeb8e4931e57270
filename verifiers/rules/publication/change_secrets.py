"""Would anything that looks like a secret leave with the commit?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from tools.redaction import SECRETS
from verifiers.evidence import Change, Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.secrets"

_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_MOST_BITS = 4.25
"""Of entropy a character: hexadecimal digests have at most 4, English compounds about 3.7; a random base64 key of 32
characters about 4.6."""

_NAME_PART = re.compile(r"(?:\d{1,3}x)?(?:[A-Z]{1,6}|[A-Z]?[a-z]{1,14}){0,3}\d{0,4}[A-Za-z]{0,2}")
"Of a model's name, such as Qwen3-235B-A22B-Instruct: humps of letters, a number at the end."


def verify(evidence: Evidence) -> Verdict:
    """Reads the message, the proposers' texts, and the lines that the commit adds; what stood there before may stay."""
    if evidence.change is None:
        return error(RULE, "it isn't recorded what would be committed")
    for place, text in _leaving(evidence.change):
        for name, pattern in SECRETS.items():
            if pattern.search(text):
                return failed(RULE, f"{place} holds what looks like {name}")
        for word in _LONG_WORD.findall(text):
            if _random(word):
                return failed(RULE, f"{place} holds a random-looking text of {len(word)} characters, as keys are")
    return passed(RULE, "nothing that would leave looks like a token, a key or a password")


def _leaving(change: Change) -> Iterator[tuple[str, str]]:
    yield "the commit's message", change.message
    for number, text in enumerate(change.prose, start=1):
        yield f"text {number} by the proposer", text
    before = set(change.before_text.splitlines())
    yield "the changed file", "\n".join(line for line in change.after_text.splitlines() if line not in before)


def _random(word: str) -> bool:
    """Mixed like a key: letters of both cases and digits, with more entropy than names or digests have."""
    mixed = any(c.islower() for c in word) and any(c.isupper() for c in word) and any(c.isdigit() for c in word)
    if all(_NAME_PART.fullmatch(part) for part in re.split(r"[-_/]", word)):
        return False
    counts = Counter(word).values()
    bits = -sum(n / len(word) * math.log2(n / len(word)) for n in counts)
    return mixed and bits > min(_MOST_BITS, 0.9 * math.log2(len(word)))
