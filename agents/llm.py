"""Llm: a proposer behind any OpenAI-compatible endpoint. One JSON action a turn, and none is believed unchecked."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import openai
from jinja2 import PackageLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field

from agents.actions import Action, ActionError, ActionKind, Inspect, action_schema, check_action, parse_action
from agents.advice import advise_all
from agents.complete import Malformed, Refused, Transport, Truncated, Wire, complete
from agents.playbook import Playbook
from agents.proposer import Message, ProposerFailed, Turn, Usage
from agents.view import View
from tools.errors import UserError
from tools.targets.knobs import Knob

__all__ = ["Llm", "LlmSettings"]

_RETRIES = 2
"Of one HTTP call, by the client; nobody else tries again."
_REPAIRS = 2
_INSPECTIONS = 2
_ANSWER_CHARS = 2000


class LlmSettings(BaseModel):
    """Where the model answers, and how much it may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    base_url: str | None = None
    "Up to and including /v1. None: OpenAI's own."
    api_key_env: str | None = None
    "Environment variable with the key. None: OPENAI_API_KEY for OpenAI's own endpoint, and no key for any other."
    max_tokens: int = Field(default=2048, ge=64)
    "Of one answer, thoughts included."
    timeout_s: float = Field(default=90.0, gt=0)

    def api_key(self) -> str:
        """The key to send; a placeholder where the endpoint needs none.

        Raises:
            UserError: the environment variable isn't set.
        """
        if self.api_key_env is None and self.base_url is not None:
            return "none"
        name = self.api_key_env or "OPENAI_API_KEY"
        if not (key := os.environ.get(name)):
            raise UserError(f"LLM: expected the API key in the environment variable {name}, found it unset; set it")
        return key

    def client(self) -> openai.OpenAI:
        """A client of the endpoint, to be closed by whoever asked for it. Raises UserError where the key isn't set."""
        return openai.OpenAI(
            api_key=self.api_key(), base_url=self.base_url, timeout=self.timeout_s, max_retries=_RETRIES
        )


class Llm:
    """Asks a model for one action. It keeps no memory between turns: the view is all there is to know."""

    def __init__(self, settings: LlmSettings, playbook: Playbook) -> None:
        """Raises UserError where the key isn't set."""
        self._settings = settings
        self._playbook = playbook
        self._client = settings.client()
        self._wire = Wire()

    @property
    def name(self) -> str:
        return "llm"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def turn(self, view: View) -> Turn:
        """One action for `view`. An answer that can't be used is sent back with the reason, at most twice.

        An `inspect` is answered here, from the view, and the model is asked on; so what is returned spends a trial or
        ends the exploring.

        Raises:
            UserError: the playbook can't be worked out for this deployment.
            ProposerFailed: the endpoint failed or refused, or the repairs are used up.
        """
        messages: list[Message] = [
            {"role": "system", "content": self._system(view)},
            {"role": "user", "content": _render("state", state=_data(self._state(view)))},
        ]
        usage, repairs, inspections = Usage(), 0, 0
        while True:
            kinds = self._allowed(view, inspect=inspections < _INSPECTIONS)
            try:
                answer, spent, text = self._answer(messages, view, kinds)
            except (Transport, Refused) as error:
                raise ProposerFailed(str(error), usage + error.usage, messages) from None
            usage += spent
            messages.append({"role": "assistant", "content": text[:_ANSWER_CHARS] or "(no answer)"})
            if isinstance(answer, Inspect):
                inspections += 1
                messages.append({"role": "user", "content": _render("state", state=_data(_inspected(view, answer)))})
            elif isinstance(answer, ActionError):
                repairs += 1
                if repairs > _REPAIRS:
                    raise ProposerFailed(f"no valid action in {repairs} answers: {answer}", usage, messages)
                messages.append({"role": "user", "content": _render("repair", problem=_data(str(answer)[:500]))})
            else:
                return Turn(answer, usage, tuple(messages))

    def _answer(
        self, messages: Sequence[Message], view: View, kinds: Sequence[ActionKind]
    ) -> tuple[Action | ActionError, Usage, str]:
        """The action, or what is wrong with it; its cost; the answer's text."""
        schema = action_schema(kinds, view.space, [trial.id for trial in view.trials])
        try:
            completion = complete(
                self._client,
                model=self._settings.model,
                messages=messages,
                schema=schema,
                max_tokens=self._settings.max_tokens,
                wire=self._wire,
            )
        except (Truncated, Malformed) as error:
            self._wire = error.wire or self._wire
            return ActionError(str(error)), error.usage, error.text
        self._wire = completion.wire
        try:
            action = parse_action(completion.data)
            check_action(action, view, kinds)
        except ActionError as error:
            return error, completion.usage, completion.text
        return action, completion.usage, completion.text

    def _allowed(self, view: View, *, inspect: bool) -> list[ActionKind]:
        """The playbook's actions that can be afforded. What the view says in words has no part in it."""
        costly = {"propose", "search", "measure"} if view.trials_left <= 0 else set()
        ruled_out = costly | (set() if inspect else {"inspect"})
        return [kind for kind in self._playbook.allowed_actions if kind not in ruled_out]

    def _state(self, view: View) -> dict[str, Any]:
        """What the view shows, and what the playbook comes to for the best config: a model needn't do the sums."""
        best = view.best
        config = {**view.baseline.values, **(best.patch if best is not None else {})}
        advice = advise_all(self._playbook, view, config, best.metrics if best is not None else {})
        worked_out = [{"id": one.hypothesis.id, "patch": dict(one.patch)} for one in advice]
        return {**view.to_prompt_data(), "playbook_advice_for_best_config": worked_out}

    def _system(self, view: View) -> str:
        return _render(
            "system",
            playbook=self._playbook,
            allowed=self._playbook.allowed_actions,
            knobs=[knob for knob in view.space if knob.tunable],
            range_of=_range,
        )


_TEMPLATES = ImmutableSandboxedEnvironment(
    loader=PackageLoader("agents", "prompts"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def _render(template: str, **names: Any) -> str:
    return _TEMPLATES.get_template(f"{template}.jinja").render(**names)


def _data(value: object) -> str:
    """JSON in which no text can close the <data> that it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _inspected(view: View, action: Inspect) -> dict[str, Any]:
    trial = view.trial(action.trial)
    assert trial is not None, "check_action has seen to it"
    metrics = {name: float(f"{value:.4g}") for name, value in trial.metrics.items()}
    return {"trial": trial.id, "patch": dict(trial.patch), "outcome": trial.outcome, "metrics": metrics}


def _range(knob: Knob) -> str:
    if knob.kind == "bool":
        return "true or false"
    if knob.kind == "choice":
        return "one of " + ", ".join(map(str, knob.choices))
    unit = f" {knob.unit}" if knob.unit else ""
    return f"{'whole number' if knob.kind == 'int' else 'number'}, {knob.low:.15g} to {knob.high:.15g}{unit}"
