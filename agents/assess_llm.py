"""AssessLlm: asks a model behind an OpenAI-compatible endpoint for one assessment."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from jinja2 import PackageLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents.assessment import Assessed, Assessment, AssessView, BenchmarkView, reasons_for
from agents.complete import complete
from agents.completion_error import CompletionError, CutPrompt, Refused, Transport
from agents.llm_settings import LlmSettings
from agents.proposer import Message
from agents.untrusted import as_data
from agents.usage import Usage

__all__ = ["AssessLlm"]

_ATTEMPTS = 2
_WHY_CHARS = 400
_ANSWER_CHARS = 500


class AssessLlm:
    """One question a case; an answer that can't be used is asked for once more."""

    def __init__(self, settings: LlmSettings) -> None:
        """Raises UserError where the key isn't set."""
        self._settings = settings
        self._endpoint = settings.endpoint()
        self._wire = settings.wire()

    @property
    def name(self) -> str:
        return "llm"

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def assess(self, view: AssessView) -> Assessed:
        what = "finished benchmark of a server" if isinstance(view, BenchmarkView) else "alert rule"
        data = as_data(asdict(view))
        messages: list[Message] = [
            {"role": "system", "content": _TEMPLATE.render(what=what, reasons=reasons_for(view))},
            {"role": "user", "content": f"<data>{data}</data>"},
        ]
        usage, problem = Usage(), ""
        for _ in range(_ATTEMPTS):
            try:
                completion = complete(
                    self._endpoint,
                    model=self._settings.model,
                    messages=messages,
                    schema=_schema(view),
                    max_tokens=self._settings.max_tokens,
                    wire=self._wire,
                    temperature=self._settings.temperature,
                )
            except (Transport, Refused, CutPrompt) as error:
                spent = usage + self._settings.priced(error.usage)
                return Assessed(Assessment.of("none", "no answer"), spent, str(error))
            except CompletionError as error:
                self._wire = error.wire or self._wire
                usage, problem, said = usage + self._settings.priced(error.usage), str(error), error.text
            else:
                self._wire, usage = completion.wire, usage + self._settings.priced(completion.usage)
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
