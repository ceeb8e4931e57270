"""AssessLlm: asks a model behind an OpenAI-compatible endpoint for one assessment."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from jinja2 import PackageLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents.assessment import Assessed, Assessment, AssessView, BenchmarkView, reasons_for
from agents.complete import Malformed, Refused, Transport, Truncated, Wire, complete
from agents.llm import LlmSettings
from agents.proposer import Message, Usage

__all__ = ["AssessLlm"]

_ATTEMPTS = 2
_WHY_CHARS = 400
_ANSWER_CHARS = 500


class AssessLlm:
    """One question a case; an answer that can't be used is asked for once more."""

    def __init__(self, settings: LlmSettings) -> None:
        """Raises UserError where the key isn't set."""
        self._settings = settings
        self._client = settings.client()
        self._wire = Wire()

    @property
    def name(self) -> str:
        return "llm"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def assess(self, view: AssessView) -> Assessed:
        what = "finished benchmark of a server" if isinstance(view, BenchmarkView) else "alert rule"
        data = json.dumps(asdict(view), ensure_ascii=False).replace("<", "\\u003c")
        messages: list[Message] = [
            {"role": "system", "content": _TEMPLATE.render(what=what, reasons=reasons_for(view))},
            {"role": "user", "content": f"<data>{data}</data>"},
        ]
        usage, problem = Usage(), ""
        for _ in range(_ATTEMPTS):
            try:
                completion = complete(
                    self._client,
                    model=self._settings.model,
                    messages=messages,
                    schema=_schema(view),
                    max_tokens=self._settings.max_tokens,
                    wire=self._wire,
                )
            except (Transport, Refused) as error:
                return Assessed(Assessment.of("none", "no answer"), usage + error.usage, str(error))
            except (Truncated, Malformed) as error:
                self._wire = error.wire or self._wire
                usage, problem, said = usage + error.usage, str(error), error.text
            else:
                self._wire, usage = completion.wire, usage + completion.usage
                told = completion.data.get("reason")
                reason = next((name for name in reasons_for(view) if name == told), None)
                if reason is not None:
                    return Assessed(Assessment.of(reason, str(completion.data.get("why", ""))[:_WHY_CHARS]), usage)
                problem, said = f"reason: expected one of those listed, found {told!r}", completion.text
            messages.append({"role": "assistant", "content": said[:_ANSWER_CHARS] or "(no answer)"})
            messages.append(
                {"role": "user", "content": f"That can't be used: {problem[:_ANSWER_CHARS]}. Answer again."}
            )
        return Assessed(Assessment.of("none", "no valid answer"), usage, problem)


_TEMPLATE = ImmutableSandboxedEnvironment(
    loader=PackageLoader("agents", "prompts"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).get_template("assess.jinja")


def _schema(view: AssessView) -> dict[str, Any]:
    properties = {"why": {"type": "string"}, "reason": {"type": "string", "enum": sorted(reasons_for(view))}}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
