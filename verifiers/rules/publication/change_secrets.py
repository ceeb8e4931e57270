"""Would anything that looks like a secret leave with the commit?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from verifiers.evidence import Change, Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.secrets"

_KNOWN = {
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY",
    "an access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a forge's token": r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,})",
    "a model hub's token": r"\bhf_[A-Za-z0-9]{16,}",
    "an API key": r"\b(?:sk|pk|rk)-(?:[a-z]+-)*[A-Za-z0-9_-]{16,}|\bAIza[\w-]{30,}",
    "a chat token": r"\bxox[abeprs]-[\w-]{10,}",
    "a signed token": r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}",
    "a bearer token": r"(?i)\bbearer\s+[\w.~+/=-]{16,}",
    "a URL with a password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:[^\s/@]{3,128}@",
    "a password": r"(?i)(?:pass(?:word|wd|phrase)|secret|(?:api|auth|access)[_-]?(?:key|token))[\"']?\s*[:=]\s*[\"']?"
    r"[^\s\"']{6,}",
}  # fmt: skip
_PATTERNS = {name: re.compile(pattern) for name, pattern in _KNOWN.items()}
_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_MOST_BITS = 4.25
"""Of entropy a character: hexadecimal digests have at most 4, English compounds about 3.7; a random base64 key of 32
characters about 4.6."""


def verify(evidence: Evidence) -> Verdict:
    """Reads the message, the proposers' texts, and the lines that the commit adds; what stood there before may stay."""
    if evidence.change is None:
        return error(RULE, "it isn't recorded what would be committed")
    for place, text in _leaving(evidence.change):
        for name, pattern in _PATTERNS.items():
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
    counts = Counter(word).values()
    bits = -sum(n / len(word) * math.log2(n / len(word)) for n in counts)
    return mixed and bits > min(_MOST_BITS, 0.9 * math.log2(len(word)))
