"""Mind: what a model that isn't there says. It follows from the prompt alone, so two servers with one mind agree."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

__all__ = ["VOCABULARY", "Mind"]

VOCABULARY = 4096
_TOP_SHARES = (0.42, 0.17, 0.09, 0.06, 0.04, 0.03, 0.02, 0.015, 0.01, 0.008)
"Probabilities of the likeliest tokens anywhere; the rest is spread over all others."
_NEEDLE = re.compile(r"secret number of the archive is (\d+)")


class Mind:
    """Reads words as tokens. Greedy unless told otherwise."""

    def tokens(self, text: str) -> list[int]:
        """One id for each word or full stop."""
        return [self._number(word) % VOCABULARY for word in re.findall(r"\w+|[^\w\s]", text)]

    def answer(self, tokens: Sequence[int], length: int) -> list[int]:
        """The greedy answer to a prompt."""
        random = Random(self._number(repr(list(tokens))))
        return [random.randrange(2, VOCABULARY) for _ in range(length)]

    def sampled(self, tokens: Sequence[int], length: int, random: Random, heat: float) -> tuple[list[int], list[float]]:
        """An answer drawn at temperature `heat` (1 is the model's own), and its log-probabilities by the model."""
        weights = [share ** (1 / heat) for share in _TOP_SHARES]
        found, nats = [], []
        for place in range(length):
            likely = Random(self._number(f"{tokens[-4:]}/{place}"))
            handful = [likely.randrange(2, VOCABULARY) for _ in weights]
            rank = random.choices(range(len(weights)), weights)[0]
            found.append(handful[rank])
            nats.append(math.log(_TOP_SHARES[rank]))
        return found, nats

    def scored(self, tokens: Sequence[int], top: int) -> dict[str, Any]:
        """Log-probabilities of a text's own tokens, in the words of the completions API."""
        names = [f"token_id:{token}" for token in tokens]
        logprobs: list[float | None] = [None]
        likeliest: list[dict[str, float] | None] = [None]
        for place in range(1, len(tokens)):
            random = Random(self._number(f"{tokens[max(0, place - 3) : place]}"))
            likely = {f"token_id:{random.randrange(VOCABULARY)}": math.log(share) for share in _TOP_SHARES[:top]}
            logprobs.append(likely.get(names[place], math.log(1e-4 * (1 + random.random()))))
            likeliest.append(likely)
        return {"tokens": names, "token_logprobs": logprobs, "top_logprobs": likeliest}

    def told(self, text: str, ids: Sequence[int]) -> str:
        """The answer's text: the number that was asked for, where the prompt holds one, or words without a meaning."""
        found = _NEEDLE.search(text)
        return f" {found[1]}." if found else "".join(f" w{token}" for token in ids)

    def instance(self, schema: Mapping[str, Any]) -> Any:
        """The shortest value that a JSON schema allows."""
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type", "object")
        if kind == "object":
            return {name: self.instance(inner) for name, inner in schema.get("properties", {}).items()}
        return {"boolean": True, "string": "word", "array": [], "integer": 1, "number": 1}.get(str(kind))

    def call(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """The call that a request makes necessary; None where it asks for none."""
        choice, tools = asked.get("tool_choice"), asked.get("tools") or []
        if not tools or choice in (None, "none", "auto"):
            return None
        wanted = choice["function"]["name"] if isinstance(choice, dict) else tools[0]["function"]["name"]
        function = next(tool["function"] for tool in tools if tool["function"]["name"] == wanted)
        arguments = json.dumps(self.instance(function["parameters"]))
        return {"id": "call-0", "type": "function", "function": {"name": wanted, "arguments": arguments}}

    def _number(self, text: str) -> int:
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
