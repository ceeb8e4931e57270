"""The capability probe: what an OpenAI-compatible endpoint takes, found out by asking it small questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agents.complete import complete
from agents.completion import Completion
from agents.completion_error import CompletionError, CutPrompt, Refused, Transport
from agents.llm_endpoint import Declined, LlmEndpoint
from agents.llm_settings import LlmSettings
from agents.proposer import Message
from agents.wire import Shape, Wire
from autotune.doctor.check import Check

__all__ = ["LlmProfile", "probe_endpoint"]

_SCHEMA = {
    "type": "object",
    "properties": {"kind": {"type": "string", "enum": ["finish"]}, "trials": {"type": "integer"}},
    "required": ["kind", "trials"],
    "additionalProperties": False,
}
_SYSTEM = "You answer with one JSON object and nothing else."
_QUESTION = 'Say {"kind": "finish", "trials": 3} as one JSON object.'
_NEEDED_TOKENS = 6000
"Prompt and answer of one turn of the llm proposer, with room to spare."
_PROMPT_WORDS = 3000
"Of the long prompt: about 3,000 tokens, as a turn has."


@dataclass(frozen=True, slots=True)
class LlmProfile:
    """What one model behind one endpoint takes. None: not found out."""

    structured: tuple[Shape, ...]
    "How an answer's shape may be asked for, the strictest first; each gave an answer of that shape."
    limit_field: str
    system_role: str
    temperature: bool
    seed: bool | None
    "Whether the field is taken; none promises the same answer twice."
    tools: bool
    parallel_tool_calls: bool | None
    reasoning_field: str
    "Where the model's thoughts came; empty: none came beside the answer."
    usage: bool
    cached_tokens: bool
    "Whether a prompt said twice is told as cached."
    context_tokens: int | None
    "As the endpoint tells it."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def probe_endpoint(settings: LlmSettings) -> tuple[LlmProfile | None, list[Check]]:
    """The profile of the endpoint, and how it stands with what the llm proposer needs. Asks about ten questions.

    Raises:
        UserError: the API key isn't set.
    """
    endpoint = settings.endpoint()
    try:
        return _Probe(endpoint, settings.model, settings.max_tokens).run()
    finally:
        endpoint.close()


class _Probe:
    def __init__(self, endpoint: LlmEndpoint, model: str, max_tokens: int) -> None:
        self._endpoint = endpoint
        self._model = model
        self._max_tokens = max_tokens  # as in a turn: a model that thinks needs the room, and a server may refuse it

    def run(self) -> tuple[LlmProfile | None, list[Check]]:
        first = self._ask(Wire(), temperature=0.0)
        if isinstance(first, CompletionError) and first.wire is None:
            do = "check --llm-url (up to and including /v1), --llm-model and the key; is the server up?"
            return None, [Check("endpoint", "fail", str(first), do)]
        wire = first.wire or Wire()
        shapes: tuple[Shape, ...] = ("json_schema", "tools", "json_object", "none")
        structured = tuple(shape for shape in shapes if self._takes(wire, shape))
        again = self._ask(wire, words=_PROMPT_WORDS)
        repeated = self._ask(wire, words=_PROMPT_WORDS)
        usage = isinstance(first, CompletionError) or not first.usage.estimated
        profile = LlmProfile(
            structured=structured,
            limit_field=wire.limit_field,
            system_role=wire.system_role,
            temperature=wire.temperature,
            seed=self._accepts(wire, seed=7),
            tools="tools" in structured,
            parallel_tool_calls=self._accepts(wire, tools=[_TOOL], parallel_tool_calls=False),
            reasoning_field=first.reasoned if isinstance(first, Completion) else "",
            usage=usage,
            cached_tokens=isinstance(repeated, Completion) and repeated.usage.cached_tokens > 0,
            context_tokens=self._context_tokens(),
        )
        return profile, [
            Check("endpoint", "ok", f"{self._endpoint.base_url} answers as {self._model}"),
            *_judged(profile, again),
        ]

    def _ask(self, wire: Wire, *, words: int = 0, temperature: float | None = None) -> Completion | CompletionError:
        filler = " ".join(f"w{number}" for number in range(words // 2))  # about two tokens a word
        messages: list[Message] = [
            {"role": "system", "content": f"{_SYSTEM} {filler}".strip()},
            {"role": "user", "content": _QUESTION},
        ]
        try:
            return complete(
                self._endpoint,
                model=self._model,
                messages=messages,
                schema=_SCHEMA,
                max_tokens=self._max_tokens,
                wire=wire,
                temperature=temperature,
            )
        except CompletionError as error:
            return error

    def _takes(self, wire: Wire, shape: Shape) -> bool:
        """Whether the shape is taken as it is, and an answer of the right shape comes of it."""
        asked = Wire(shape, wire.limit_field, wire.system_role, wire.temperature)
        answer = self._ask(asked)
        if isinstance(answer, CompletionError) or answer.wire != asked:
            return False
        return set(answer.data) == {"kind", "trials"}

    def _accepts(self, wire: Wire, **fields: Any) -> bool | None:
        """Whether a request with these fields is answered."""
        body = Wire("none", wire.limit_field, wire.system_role, wire.temperature).parameters(
            [{"role": "user", "content": _QUESTION}], _SCHEMA, 16, None
        )
        try:
            self._endpoint.post({"model": self._model, **body, **fields})
        except Declined as error:
            return None if error.passing else False
        except CompletionError:
            return None
        return True

    def _context_tokens(self) -> int | None:
        """What /v1/models says of the model: `max_model_len` (vLLM, SGLang, the bundled engine) or `meta.n_ctx`."""
        try:
            listed = json.loads(self._endpoint.models().body)
        except (CompletionError, Declined, ValueError):
            return None
        entries = listed.get("data") if isinstance(listed, dict) else None
        mine = [e for e in entries or () if isinstance(e, dict) and e.get("id") == self._model]
        return next((told for entry in mine if (told := _told_context(entry)) is not None), None)


_TOOL = {"type": "function", "function": {"name": "answer", "parameters": _SCHEMA}}


def _told_context(entry: Mapping[str, Any]) -> int | None:
    meta = entry.get("meta")
    told = (
        entry.get("max_model_len"),
        entry.get("context_length"),
        meta.get("n_ctx") if isinstance(meta, dict) else None,
    )
    return next((value for value in told if isinstance(value, int) and not isinstance(value, bool)), None)


def _judged(profile: LlmProfile, long: Completion | CompletionError) -> list[Check]:
    return [_shape(profile), _room(profile.context_tokens, long), _usage(profile)]


def _shape(profile: LlmProfile) -> Check:
    name, shapes = "answer's shape", ", ".join(profile.structured)
    if "json_schema" in profile.structured:
        return Check(name, "ok", f"taken: {shapes}")
    if profile.structured:
        do = "a schema makes small models usable: start the server with grammar support, or take a larger model"
        return Check(name, "warn", f"no json_schema; taken: {shapes}", do)
    do = "take a larger model, or a server with json_schema: without either, turns fail and the search goes on alone"
    return Check(name, "fail", "no answer of the shape that was asked for", do)


def _room(context_tokens: int | None, long: Completion | CompletionError) -> Check:
    """Whether a prompt as long as a turn's is read whole and in time. Whether the answer is any good isn't asked."""
    name = "a turn's prompt"
    more = f"give it {_NEEDED_TOKENS} tokens or more (vLLM --max-model-len, Ollama num_ctx, llama.cpp -c)"
    if isinstance(long, Transport):
        return Check(
            name,
            "fail",
            str(long),
            "a turn has about 3,000 tokens: take a faster server, or a larger --timeout (of tune: --llm-timeout)",
        )
    if isinstance(long, Refused | CutPrompt):
        return Check(name, "fail", str(long), more)
    if context_tokens is not None and context_tokens < _NEEDED_TOKENS:
        return Check(name, "warn", f"a context of {context_tokens} tokens", more)
    told = f"{context_tokens} tokens" if context_tokens is not None else "not told by the endpoint"
    return Check(name, "ok", f"{long.usage.prompt_tokens} tokens were read; context: {told}")


def _usage(profile: LlmProfile) -> Check:
    if profile.usage:
        return Check("usage", "ok", "told" + (", cached tokens too" if profile.cached_tokens else ""))
    return Check("usage", "warn", "not told; tokens are estimated", "set --llm-tokens with that in mind")
