"""Would anything that looks like a secret leave with the commit?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from tools.redaction import NAME_PART, SECRETS
from verifiers.evidence import Change, Evidence, ManifestChange
from verifiers.verdict import Verdict, error, failed, passed

RULE = "change.secrets"

_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_MOST_BITS = 4.25
"""Of entropy a character: hexadecimal digests have at most 4, English compounds about 3.7; a random base64 key of 32
characters about 4.6."""

_LEAST_CHARS = 24
"Of a word that is looked at; a key of fewer has to be recognised by its kind."
_LEAST_STRANGE = 12
"Characters of it that are in no word and no number; of 20,000 random keys of 40 characters 13 pass nevertheless."
_HUMP, _HUMP_CHARS = re.compile(r"[a-z][A-Z]"), 6
"Of a drawn text without a digit, one in four pairs is a hump; English in camel case has words of more than 6 letters."
_WORD_OR_NUMBER = re.compile(rf"{NAME_PART}|\d{{1,12}}")


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
    files: list[Change | ManifestChange] = [change, *([change.manifest] if change.manifest else [])]
    for file in files:
        before = set(file.before_text.splitlines())
        yield "the changed file", "\n".join(line for line in file.after_text.splitlines() if line not in before)


def _random(word: str) -> bool:
    """Whether `word`, or a part of it, looks drawn. Knobs and models are named in long words too, `a=16/b=True`: what
    is a word or a number in them is left out, and no random key has much of that.
    """
    strange = "".join(part for part in re.split(r"[-_/+=]", word) if not _WORD_OR_NUMBER.fullmatch(part))
    parts = (part for part in re.split(r"[=+/]", word) if len(part) >= _LEAST_CHARS)
    return len(strange) >= _LEAST_STRANGE and any(_drawn(each) for each in (word, strange, *parts))


def _drawn(text: str) -> bool:
    """Mixed like a key: letters of both cases, with digits or in quick change, and more entropy than names have."""
    both = any(c.islower() for c in text) and any(c.isupper() for c in text)
    mixed = both and (any(c.isdigit() for c in text) or len(_HUMP.findall(text)) * _HUMP_CHARS > len(text))
    counts = Counter(text).values()
    bits = -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
    return mixed and bits > min(_MOST_BITS, 0.9 * math.log2(len(text)))
