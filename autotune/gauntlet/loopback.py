"""Loopback: the gauntlet's servers as a target, so that the harness's own trial drives and reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.evals.results import EvalResults
from tools.evals.suite import Suite
from tools.measure.workload import Workload
from tools.profile.physics import ModelFacts
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Config, KnobError, KnobSpace
from tools.targets.target import Counters, Endpoint, Identity, LaunchFailed, MemoryNeed
from tools.trial import run_trial
from verifiers.gauntlet.said import said
from verifiers.gauntlet.servers import Engine, Host, Setup
from verifiers.gauntlet.story import KNOBS, MODEL_DIGEST, Launched

__all__ = ["LoopbackBench", "LoopbackTarget", "Make"]

Make = Callable[[Setup], Engine]
_MODEL = "tiny"


class LoopbackTarget:
    """Starts what `make` makes. It is read as the bundled engine is: /server_info, /metrics, /reset_prefix_cache."""

    name = "loopback"
    can_apply = True

    def __init__(self, host: Host, make: Callable[[Config], Engine]) -> None:
        self._host = host
        self._make = make
        self._reader = BundledTarget(Path(_MODEL))
        self._started: dict[str, float] = {}

    @property
    def knobs(self) -> KnobSpace:
        return KnobSpace({knob.name: knob for knob in KNOBS})

    def check(self) -> None:
        """It is made when it is launched."""

    def narrowed(self, space: KnobSpace, around: Config, *, cores: int, memory_bytes: int) -> KnobSpace:
        return space

    def launch(self, config: Config, *, log: Path, timeout_s: float = 120.0) -> Endpoint:
        """Nothing to wait for: the server listens when this returns."""
        began = time.time()
        base_url = self._host.start(self._make(config))
        self._started[base_url] = began
        return Endpoint(base_url, _MODEL, ready_s=time.time() - began)

    def identify(self, endpoint: Endpoint) -> Identity:
        """The server's word, and when we started it: that is what the operating system would say of a process."""
        return replace(self._reader.identify(endpoint), process_started_at=self._started[endpoint.base_url])

    def counters(self, endpoint: Endpoint) -> Counters:
        return self._reader.counters(endpoint)

    def reset_cache(self, endpoint: Endpoint) -> None:
        self._reader.reset_cache(endpoint)

    def postmortem(self, endpoint: Endpoint) -> LaunchFailed | None:
        return None

    def stop(self, endpoint: Endpoint, grace_s: float = 10.0) -> None:
        self._host.stop(endpoint.base_url)

    def model_digest(self) -> str:
        return MODEL_DIGEST

    def memory(self, config: Config) -> MemoryNeed:
        return MemoryNeed(1 << 29, 1 << 29, 0, 0)

    def facts(self, config: Config, free: Collection[str] = ()) -> ModelFacts | None:
        return None

    def kv_sized(self, config: Config, kv_bytes: int) -> Config:
        raise KnobError("a loopback server has no KV cache to size")

    def restore(self) -> tuple[str, ...]:
        return ()


@dataclass
class LoopbackBench:
    """A story's launches, measured over HTTP: the baseline is honest, the candidate is what `candidate` makes."""

    host: Host
    baseline: Make
    candidate: Make
    questioned: bool = False
    "Whether the servers are asked the evaluation suite; if not, what they would have said is made up."
    kept: dict[str, Launched] = field(default_factory=dict)
    "The baseline's launches by name; several benches may share them, so that each is measured once."
    shared: dict[str, Any] = field(default_factory=dict)
    pids: int = 0

    def launch(
        self, name: str, role: str, arm: str, config: Config, workload: Workload, *, with_evals: bool
    ) -> Launched:
        """Start, warm up, load, read, ask, stop; as `tools.trial` does it.

        Raises:
            LaunchFailed: a server that could not be read at all.
        """
        key = f"{name}/{self.questioned and with_evals}"
        if arm == "A" and key in self.kept:
            return self.kept[key]
        launched = self._measured(name, arm, config, workload, with_evals)
        if arm == "A":
            self.kept[key] = launched
        return launched

    def _measured(self, name: str, arm: str, config: Config, workload: Workload, with_evals: bool) -> Launched:
        self.pids += 1
        make = self.baseline if arm == "A" else self.candidate
        autos = {"num_threads": config.values["num_threads"] or 2}
        setup = Setup(
            model=_MODEL,
            model_digest=MODEL_DIGEST,
            config={**config.values, **autos},
            pid=100_000 * (1 + (arm == "B")) + self.pids,
            noise=name,
            shared=self.shared,
        )
        target = LoopbackTarget(self.host, lambda _: make(setup))
        began_at = time.time()
        asked = Suite() if self.questioned and with_evals else None
        result = run_trial(target, config, workload, log=Path("/dev/null"), ready_timeout_s=10.0, evals=asked)
        if result.failure is not None or result.measurement is None:
            why = result.failure.message if result.failure else "nothing was measured"
            raise LaunchFailed("unreachable", f"{name}: {why}")
        evals: EvalResults | None = result.evals
        if with_evals and evals is None:
            evals = said(name)
        return Launched(result.measurement, evals, result.ready_s, time.time() - began_at, began_at)
