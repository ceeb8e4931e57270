"""Sight: all that a server tells of itself over HTTP at one moment, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.canonical import digest
from tools.targets.external.change import Change, Changed
from tools.targets.knobs import Value

__all__ = ["Sight", "require_same"]

_CLOCK_S = 1.0
"Two readings of one process's start never differ by more."


@dataclass(frozen=True, slots=True)
class Sight:
    """What isn't told is None or empty, and is then never held against anybody."""

    engine: str | None
    version: str
    model: str
    "The name that was asked for."
    listed: Mapping[str, object]
    "What the list of models says of it that stays the same while it is served."
    stated_digest: str | None
    "Of the model's files, where the engine states one."
    config: Mapping[str, Value]
    config_digest: str | None
    "Where the engine states one elsewhere than with the config."
    started_at: float | None
    "Unix seconds, by the server's own word."
    pid: int | None
    answers_as: str | None
    "The name in its answers."
    fingerprint: str | None
    "`system_fingerprint` of its answers."
    prompt_tokens: int | None
    "Of one and the same prompt: another number means another tokenizer or template."

    @property
    def model_digest(self) -> str:
        """The engine's own, or of all that it tells of its model; a longer context makes no other model."""
        if self.stated_digest is not None:
            return self.stated_digest
        listed = {name: value for name, value in self.listed.items() if name != "max_model_len"}
        if isinstance(meta := listed.get("meta"), Mapping):
            listed["meta"] = {name: value for name, value in meta.items() if name != "n_ctx"}
        return digest([self.model, listed, self.answers_as, self.prompt_tokens])

    @property
    def software(self) -> str:
        return f"{self.engine or 'unknown engine'} {self.version}".strip()


def require_same(url: str, then: Sight, now: Sight) -> None:
    """See that the same process serves the same model with the same settings.

    Raises:
        Changed: it doesn't, as far as it tells; a new model is said before a new process.
    """
    restarted = _restarted(then, now)
    for change, what, before, after in _compared(then, now):
        if before is not None and after is not None and before != after:
            anew = "; it was also started anew" if restarted else ""
            raise Changed(change, url, f"{what} was {before}, now it is {after}{anew}")
    if restarted:
        raise Changed("restarted", url, restarted)


def _compared(then: Sight, now: Sight) -> list[tuple[Change, str, object, object]]:
    return [
        ("model", "the digest of its model", then.stated_digest, now.stated_digest),
        ("model", "its entry in the list of models", _some(then.listed), _some(now.listed)),
        ("model", "the model named in its answers", then.answers_as, now.answers_as),
        ("model", "the length in tokens of one prompt", then.prompt_tokens, now.prompt_tokens),
        ("build", "its engine", then.software, now.software),
        ("build", "the fingerprint in its answers", then.fingerprint, now.fingerprint),
        ("config", "its config", _some(then.config), _some(now.config)),
    ]


def _restarted(then: Sight, now: Sight) -> str:
    """Why it is another process than before; empty where it isn't, or nothing is told."""
    if then.started_at is not None and now.started_at is not None:
        later_s = now.started_at - then.started_at
        if abs(later_s) > _CLOCK_S:
            return f"the process that answers began {later_s:+.0f} s from the one before (or several share the address)"
    if then.pid is not None and now.pid is not None and then.pid != now.pid:
        return f"process {then.pid} answered, now process {now.pid} does"
    return ""


def _some(told: Mapping[str, object]) -> dict[str, object] | None:
    return dict(told) or None
