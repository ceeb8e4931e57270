"""Llm: a proposer behind any OpenAI-compatible endpoint. One JSON action a turn, and none is believed unchecked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import PackageLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents.action_schema import action_schema
from agents.actions import Action, ActionError, ActionKind, Inspect, Profile, check_action, parse_action
from agents.advice import advise_all
from agents.complete import complete
from agents.completion import estimated_tokens
from agents.completion_error import CompletionError, CutPrompt, Refused, Transport
from agents.llm_settings import LlmSettings
from agents.playbook import Playbook
from agents.prompt_data import facts, shown_trials, state
from agents.proposer import Message, ProposerFailed, Turn
from agents.reading import read
from agents.untrusted import as_data
from agents.usage import Usage
from agents.view import View
from tools.errors import UserError
from tools.targets.knobs import Knob

__all__ = ["Llm", "LlmSettings"]

_REPAIRS = 2
_READINGS = 2
"Of one turn: looking costs no trial, but tokens."
_ANSWER_CHARS = 2000
_LEAST_ANSWER_TOKENS = 64
_MEASURING: frozenset[ActionKind] = frozenset({"propose", "search", "measure", "weigh"})
_READING: frozenset[ActionKind] = frozenset({"inspect", "profile"})


class Llm:
    """Asks a model for one action. It keeps no memory between turns: the view is all there is to know."""

    def __init__(self, settings: LlmSettings, playbook: Playbook) -> None:
        """Raises UserError where the key isn't set."""
        self._settings = settings
        self._playbook = playbook
        self._endpoint = settings.endpoint()
        self._wire = settings.wire()

    @property
    def name(self) -> str:
        return "llm"

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def turn(self, view: View) -> Turn:
        """One action for `view`. An answer that can't be used is sent back with the reason, at most twice.

        `inspect` and `profile` are answered here, from the view, and the model is asked on; so what is returned tells
        the search something, spends a trial or ends the exploring.

        Raises:
            UserError: the playbook can't be worked out for this deployment.
            ProposerFailed: the endpoint failed or refused, the repairs or the allowance are used up, or an answer led
                to an error that nobody foresaw; it tells what the turn has cost by then.
        """
        messages: list[Message] = [
            {"role": "system", "content": self._system(view)},
            {"role": "user", "content": _render("state", state=as_data(self._state(view)))},
        ]
        allowed = self._allowed(view)  # fixed before any of the view's words are read
        usage, repairs, readings = Usage(), 0, 0
        while True:
            kinds = [kind for kind in allowed if kind not in _READING or readings < _READINGS]
            try:
                answer, spent, text = self._answer(messages, view, kinds, usage)
            except (Transport, Refused, CutPrompt) as error:
                raise ProposerFailed(str(error), usage + self._settings.priced(error.usage), messages) from None
            except (ProposerFailed, UserError):
                raise
            except Exception as error:
                raise _unforeseen(error, usage, messages) from error
            usage += spent
            messages.append({"role": "assistant", "content": text[:_ANSWER_CHARS] or "(no answer)"})
            try:
                action = _checked(answer, view, kinds)
                if not isinstance(action, Inspect | Profile):
                    return Turn(action, usage, tuple(messages))
                reply = _render("state", state=as_data(read(action, view)))
                readings += 1
            except ActionError as error:
                repairs += 1
                if repairs > _REPAIRS:
                    raise ProposerFailed(f"no valid action in {repairs} answers: {error}", usage, messages) from None
                reply = _render("repair", problem=as_data(str(error)[:500]))
            except UserError:
                raise
            except Exception as error:
                raise _unforeseen(error, usage, messages) from error
            messages.append({"role": "user", "content": reply})

    def _answer(
        self, messages: Sequence[Message], view: View, kinds: Sequence[ActionKind], usage: Usage
    ) -> tuple[Mapping[str, Any] | ActionError, Usage, str]:
        """The answer's JSON as it came, or what is wrong with it; its cost; its text."""
        trials = [trial.id for trial in shown_trials(view)]
        try:
            completion = complete(
                self._endpoint,
                model=self._settings.model,
                messages=messages,
                schema=action_schema(kinds, view.space, trials, _metrics(view)),
                max_tokens=self._answer_tokens(messages, view, usage),
                wire=self._wire,
                temperature=self._settings.temperature,
            )
        except (Transport, Refused, CutPrompt):
            raise
        except CompletionError as error:
            self._wire = error.wire or self._wire
            return ActionError(str(error)), self._settings.priced(error.usage), error.text
        self._wire = completion.wire
        return completion.data, self._settings.priced(completion.usage), completion.text

    def _answer_tokens(self, messages: Sequence[Message], view: View, usage: Usage) -> int:
        """Tokens that the next answer may have: what the settings allow, within what is left to spend.

        Raises:
            ProposerFailed: nothing worth asking for is left.
        """
        if view.allowance is None:
            return self._settings.max_tokens
        if view.allowance.usd is not None and self._settings.prices is None:
            raise ProposerFailed("a limit in money needs the prices of the model's tokens", usage, messages)
        left = view.allowance.less(usage)
        prompt_tokens = estimated_tokens(sum(len(message["content"]) for message in messages))
        tokens = min(self._settings.max_tokens, left.tokens - prompt_tokens)
        if left.spent or tokens < _LEAST_ANSWER_TOKENS:
            raise ProposerFailed(left.spent or "the budget's LLM tokens are spent", usage, messages)
        return tokens

    def _allowed(self, view: View) -> list[ActionKind]:
        """The playbook's actions that can be afforded. What the view says in words has no part in it."""
        ruled_out: set[ActionKind] = set(_MEASURING) if view.trials_left <= 0 else set()
        if not view.may_weigh:
            ruled_out.add("weigh")
        if not _worth_repeating(view):
            ruled_out.add("measure")
        return [kind for kind in self._playbook.allowed_actions if kind not in ruled_out]

    def _state(self, view: View) -> dict[str, Any]:
        """What the view shows, and what the playbook comes to for the best config: a model needn't do the sums."""
        best = view.best
        config = {**view.baseline.values, **(best.patch if best is not None else {})}
        advice = advise_all(self._playbook, view, config, best.metrics if best is not None else {})
        worked_out = [{"id": one.hypothesis.id, "patch": dict(one.patch)} for one in advice]
        return {**state(view), "playbook_advice_for_best_config": worked_out}

    def _system(self, view: View) -> str:
        """The same text in every turn of a run, byte for byte, so that a server can keep it cached."""
        return _render(
            "system",
            playbook=self._playbook,
            allowed=self._playbook.allowed_actions,
            knobs=[knob for knob in view.space if knob.tunable],
            range_of=_range,
            facts=as_data(facts(view)),
        )


_TEMPLATES = ImmutableSandboxedEnvironment(
    loader=PackageLoader("agents", "prompts"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


def _render(template: str, **names: Any) -> str:
    return _TEMPLATES.get_template(f"{template}.jinja").render(**names)


def _checked(answer: Mapping[str, Any] | ActionError, view: View, kinds: Sequence[ActionKind]) -> Action:
    """The action that `answer` stands for. Raises ActionError where it is none, or not one that is allowed here."""
    if isinstance(answer, ActionError):
        raise answer
    action = parse_action(answer)
    check_action(action, view, kinds)
    return action


def _unforeseen(error: Exception, usage: Usage, messages: Sequence[Message]) -> ProposerFailed:
    """What an error of our own making comes to: the turn is lost, and its bill isn't."""
    return ProposerFailed(f"it raised {type(error).__name__}: {error}", usage, messages)


def _worth_repeating(view: View) -> bool:
    """Whether a second measurement can tell anything: the noise isn't known, or the best was measured once."""
    best = view.best
    if view.noise is None or best is None:
        return True
    times = sum(trial.measured and view.changes(trial.patch) == view.changes(best.patch) for trial in view.trials)
    return best is not view.baseline_trial and times < 2


def _metrics(view: View) -> list[str]:
    """What an expectation may be stated for: the objective and what is promised."""
    return list(dict.fromkeys((view.objective_metric, *view.slo)))


def _range(knob: Knob) -> str:
    if knob.kind == "bool":
        return "true or false"
    if knob.kind == "choice":
        return "one of " + ", ".join(map(str, knob.choices))
    unit = f" {knob.unit}" if knob.unit else ""
    return f"{'whole number' if knob.kind == 'int' else 'number'}, {knob.low:.15g} to {knob.high:.15g}{unit}"
