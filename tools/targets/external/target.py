"""ExternalTarget: a server that somebody else runs, loaded where it stands; changed by the owner's program alone."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from tools.canonical import digest
from tools.errors import UserError
from tools.profile.physics import ModelFacts
from tools.targets.bundled import BundledTarget
from tools.targets.external.change import Changed
from tools.targets.external.hook import ApplyHook
from tools.targets.external.sight import Sight, require_same
from tools.targets.external.spec import ExternalSpec
from tools.targets.external.window import Window
from tools.targets.knobs import Config, KnobError, KnobSpace, Value
from tools.targets.tables import table_for
from tools.targets.target import Counters, Endpoint, Identity, LaunchFailed, MemoryNeed
from tools.targets.trust import Trust

__all__ = ["ExternalTarget", "key_in"]

_POLL_S = 0.2


class ExternalTarget:
    """Attaches to the server at `spec.url` and sees that it stays the one that it was.

    With `spec.apply` each launch has that program start the server anew with the config; see `standing`.
    """

    name = "external"

    def __init__(self, spec: ExternalSpec, model: str | None, config: Mapping[str, Value], folder: Path) -> None:
        """
        Args:
            model: the name that it serves; None: the only one.
            config: the knobs that it is said to run with: the baseline, which `restore` puts back.
            folder: where paths in `spec` begin.

        Raises:
            UserError: no key, certificate or program where the spec says, or a knob that the engine doesn't have.
        """
        self.spec = spec
        self._trust = _trust(spec, folder)
        self._key = None if spec.api_key_env is None else key_in(spec.api_key_env, "target.api_key_env")
        self.knobs = _knobs(spec, config)
        self.baseline = self.knobs.resolve(config)
        self._window = Window(
            spec.url,
            model,
            api_key=self._key,
            trust=self._trust,
            engine=spec.engine,
            metrics_url=spec.metrics_url,
            knobs=self.knobs.knobs.keys(),
        )
        told = {"AUTOTUNE_URL": spec.url, "AUTOTUNE_MODEL": model or ""}
        self._hook = ApplyHook(spec.apply, folder, told) if spec.apply else None
        self._running = self.baseline
        "What was applied last; at first what the owner says."
        self._applied_at = 0.0
        "Unix seconds, by our clock, when that was begun; 0: it wasn't us."
        self._expected: Sight | None = None
        self._counted: Counters = {}

    @property
    def where(self) -> str:
        """Its address, and what weakens whatever was measured there."""
        return self.spec.url + (" (certificate not checked)" if self.spec.insecure else "")

    @property
    def can_apply(self) -> bool:
        """Whether another config than the baseline can be measured at all."""
        return self._hook is not None

    def standing(self) -> ExternalTarget:
        """This target, to be measured as it stands: no launch starts the server anew."""
        there = copy.copy(self)
        there._hook = None
        return there

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        """`space`: what machine it stands on isn't known."""
        return space

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        """Have the owner's program apply `config`, where there is one, and see that the server answers with it.

        Raises:
            LaunchFailed: it doesn't, or `config` isn't the baseline and nothing can apply it.
        """
        began_s = time.monotonic()
        if self._hook is not None:
            self._apply(self._hook, config, log)
        elif config != self.baseline:
            raise LaunchFailed(
                "bad_config", f"{self.where}: no config but its own can be measured: target has no apply:"
            )
        self._look()
        return Endpoint(
            self.spec.url,
            self._window.model,
            ready_s=time.monotonic() - began_s,
            api_key=self._key,
            trust=self._trust,
            external=True,
        )

    def identify(self, endpoint: Endpoint) -> Identity:
        """Who answers, by all that HTTP tells, and whether it is still the one that `launch` found.

        A knob that the server doesn't tell is taken from what it was given, and listed as `unreported`. The process is
        said to have started when the owner's program was called, and where the server doesn't tell its start, so is
        that; without such a program nothing is known of it.

        Raises:
            Changed: it is another, or refuses us.
        """
        now = self._look()
        asked = self._running.values
        given = {
            name: now.config.get(name, value) if self._is_auto(name, value) else value for name, value in asked.items()
        }
        config = {**asked, **now.config}
        return Identity(
            model=now.model,
            model_digest=now.model_digest,
            config=config,
            config_digest=now.config_digest or digest({**now.config, **given}),
            started_at=now.started_at or self._applied_at,
            process_started_at=self._applied_at,
            pid=now.pid or 0,
            engine=now.software + (" (certificate not checked)" if self.spec.insecure else ""),
            unreported=tuple(sorted(asked.keys() - now.config.keys())),
        )

    def counters(self, endpoint: Endpoint) -> Counters:
        """Its counters since its start; none where it exports none.

        Raises:
            Changed: they went backwards, or it refuses us.
        """
        now = self._window.counters()
        for name, before in self._counted.items():
            if now.get(name, before) < before:
                told = f"it had counted {before:g} {name} and now has {now[name]:g}"
                raise Changed("restarted", self.where, f"{told} (or several servers share the address)")
        self._counted = now
        return now

    def reset_cache(self, endpoint: Endpoint) -> None:
        """Empty the prefix cache, where its owner allows that; elsewhere nothing is done.

        Raises:
            LaunchFailed: it can't be emptied.
        """
        if self.spec.reset:
            self._window.reset_cache()

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        """How it changed since the launch; None where it didn't."""
        try:
            self._look()
        except LaunchFailed as changed:
            return changed
        return None

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        """Leave it running: it isn't ours."""

    def restore(self) -> tuple[str, ...]:
        """Have the owner's program apply the baseline, unless that is what was applied last."""
        if self._hook is None or self._running == self.baseline:
            return ()
        try:
            self._apply(self._hook, self.baseline, None)
            self._look()
        except LaunchFailed as failure:
            return (f"{self.where} may still run with a trial's config, for {failure.message}; apply your own",)
        except KeyboardInterrupt:
            return (f"{self.where} may still run with a trial's config: interrupted; apply your own",)
        return (f"{self.where} has its own config again, by {self._hook.name}",)

    def model_digest(self) -> str:
        """The digest of what the server tells of its model: there are no files to read it from.

        Raises:
            UserError: it doesn't answer as it should.
        """
        return self.check().model_digest

    def check(self) -> Sight:
        """The server as it was seen first; looked at now if it hasn't been: before anything is spent on it.

        Raises:
            UserError: it doesn't answer as it should.
        """
        try:
            return self._expected or self._look()
        except LaunchFailed as failure:
            hint = (
                ". Is the server up, is the URL right?"
                if isinstance(failure, Changed) and failure.change == "silent"
                else ""
            )
            raise UserError(failure.message + hint) from failure

    def memory(self, config: Config) -> MemoryNeed:
        """Nothing: what its model needs there isn't known here."""
        return MemoryNeed(0, 0, 0, 0)

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        return None

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        raise KnobError(f"{self.where}: the KV cache of a server that somebody else runs can't be sized")

    def _look(self) -> Sight:
        """The server now, seen to be the one that it was at first."""
        now = self._window.look()
        if self._expected is not None:
            require_same(self.where, self._expected, now)
        for name, value in self._running.values.items():
            told = now.config.get(name, value)
            if told != value and not self._is_auto(name, value):
                raise Changed("config", self.where, f"expected {name} {value}, it tells {told}")
        self._expected = self._expected or now
        return now

    def _apply(self, hook: ApplyHook, config: Config, log: Path | None) -> None:
        """Have `config` applied, and wait until the server answers with it.

        Raises:
            LaunchFailed: it failed, or took longer than the owner allows.
        """
        before = self._seen()
        deadline_s = time.monotonic() + self.spec.apply_timeout_s
        self._applied_at = time.time()
        self._running = config
        self._expected, self._counted = None, {}
        hook.run(config, log=log, timeout_s=self.spec.apply_timeout_s)
        while True:
            waits: LaunchFailed
            try:
                now = self._window.look()
                if not self.spec.restarts or before is None or _is_new(before, now):
                    self._expected = None
                    return
                waits = Changed("not_applied", self.where, "it still runs as it did before apply: was called")
            except LaunchFailed as failure:
                waits = failure
            if time.monotonic() >= deadline_s:
                raise LaunchFailed("timeout", f"apply: {hook.name} ended with 0, but then: {waits.message}") from waits
            time.sleep(_POLL_S)

    def _seen(self) -> Sight | None:
        """The server before it is changed; None where it isn't up."""
        try:
            return self._window.look()
        except LaunchFailed:
            return None

    def _is_auto(self, name: str, value: Value) -> bool:
        auto = self.knobs[name].auto
        return auto is not None and value == auto


def key_in(variable: str, asked_by: str) -> str:
    """The key that the environment variable `variable` holds.

    Raises:
        UserError: it isn't set, or holds what no header can carry.
    """
    if variable not in os.environ:
        raise UserError(f"{asked_by}: expected the variable {variable} to hold the key, found it unset")
    key = os.environ[variable].strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UserError(
            f"{asked_by}: expected {variable} to hold a key of printable ASCII letters, found something else"
        )
    return key


def _is_new(before: Sight, now: Sight) -> bool:
    """Whether another process answers; where neither tells, whoever answers is taken for new."""
    try:
        require_same("", replace(before, config={}, fingerprint=None), replace(now, config={}, fingerprint=None))
    except Changed:
        return True
    return before.started_at is None and before.pid is None


def _trust(spec: ExternalSpec, folder: Path) -> Trust:
    trust = Trust(str(folder / spec.ca_file) if spec.ca_file is not None else None, spec.insecure)
    try:
        trust.context()
    except OSError as error:
        raise UserError(
            f"target.ca_file: expected a PEM file with certificates, found {error}: {spec.ca_file}"
        ) from None
    return trust


def _knobs(spec: ExternalSpec, config: Mapping[str, Value]) -> KnobSpace:
    """The knobs that `config` names, of the engine that the owner says it is."""
    if not config:
        return KnobSpace({})
    if spec.engine is None:
        raise UserError("config: names knobs, but target: doesn't say of which engine; add engine: vllm, sglang, ...")
    space = BundledTarget(Path()).knobs if spec.engine == "bundled" else table_for(spec.engine).space
    for name in config:
        _ = space[name]
    return space.only(frozenset(config))
