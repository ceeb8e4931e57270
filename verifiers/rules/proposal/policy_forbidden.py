"""Does the proposal stay away from what loads code, reads paths, fetches URLs or sets the environment?"""

from __future__ import annotations

import re

from verifiers.evidence import Evidence
from verifiers.rules.proposal.denied import LOADING
from verifiers.verdict import Verdict, failed, passed

RULE = "policy.forbidden"

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
"An environment variable's name, as every engine writes them."
_PLACE = re.compile(
    r".*[/\\].*"  # a path, a URL, or a model on a hub
    r"|.*\.(py|pyc|so|dll|dylib|sh|jinja2?|json|ya?ml|gguf|bin|pt|pth|safetensors)"  # a file
    r"|[A-Za-z_]\w*([.:][A-Za-z_]\w*)+"  # an import path
)


def verify(evidence: Evidence) -> Verdict:
    """By name and by value, default-deny: that the owner's knob table lists such a knob as tunable doesn't open it."""
    words = {**evidence.changes, **evidence.patch}
    for name, value in sorted(words.items()):
        if why := LOADING.why(name):
            return failed(
                RULE,
                f"{name} can load code or a model, reach a path or a URL, or change what the server says it is "
                f"({why}); no proposal may set it, only the owner by hand",
            )
        if _VARIABLE.fullmatch(name):
            return failed(RULE, f"{name} is an environment variable; no proposal may set one")
        if isinstance(value, str) and _PLACE.fullmatch(value):
            return failed(RULE, f"{name}: {value!r} names a path, a file, a URL or an import; no proposal may name one")
    return passed(RULE, "names nothing that loads code, reads a path, fetches a URL or sets the environment")
