"""Rows about quality: what loses something is caught by name, and what loses nothing passes."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.evaluation import Recording, compared
from benchmarks.lossy_flips import FLIPS, LOSSLESS, Flip, altered_copy
from benchmarks.rewriting_proxy import RewritingProxy
from benchmarks.table import Row
from tools.deployment import Deployment
from tools.evals.results import EvalResults
from tools.evals.suite import Suite
from tools.models import pull
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Value
from tools.targets.target import Endpoint, LaunchFailed
from tools.trial import launched
from verifiers.verdict import Verdict

__all__ = ["lossless", "lossy"]

MODEL = "smollm2-135m"
CONTEXT_TOKENS = 2048
BASELINE: Mapping[str, Value] = {
    "dtype": "bf16",
    "max_model_len": CONTEXT_TOKENS,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 1024,
    "kv_cache_tokens": 16384,
}
WORKLOAD = {"requests": 1, "prompt_tokens": 16, "output_tokens": 1, "arrivals": {"kind": "burst"}}
"Nothing is loaded here; a deployment has one."
READY_S = 120.0
MOST_S = 180.0
"For one flip: both its launches and the verdicts."
_NOT_RUN = "not run"


def lossy(quick: bool) -> Row:
    """Every flip, offered as lossless: two launches of it against two of the baseline, by the gate's own rules."""
    names = list(FLIPS)[:2] if quick else list(FLIPS)
    bench = _Bench()
    flips: dict[str, Any] = {}
    for name in names:
        began = time.monotonic()
        told = _told(bench, FLIPS[name], "FAIL")
        flips[name] = {"rules": list(told), "seconds": round(time.monotonic() - began, 1)}
        _say(f"{name}: {flips[name]}")
    missed = [name for name, found in flips.items() if not set(found["rules"]) - {_NOT_RUN}]
    slowest = max(found["seconds"] for found in flips.values())
    row: Row = {
        "value": f"{len(names) - len(missed)} of {len(names)} caught, the slowest in {slowest:.0f} s",
        "goal": f"all, at least 12 kinds, each in < {MOST_S:.0f} s",
        "ok": not missed and slowest < MOST_S if not quick else None,
        "missed": missed,
        "flips": flips,
    }
    return row | ({"why": "two flips only; run it without --quick"} if quick else {})


def lossless(quick: bool) -> Row:
    """Twenty changes that lose nothing: every rule passes."""
    names = list(LOSSLESS)[:2] if quick else list(LOSSLESS)
    bench = _Bench()
    refused: dict[str, Any] = {}
    for name in names:
        if told := _told(bench, Flip(LOSSLESS[name]), "FAIL", "ERROR", "INCONCLUSIVE"):
            refused[name] = told
        _say(f"{name}: {told or 'passes'}")
    row: Row = {
        "value": f"{len(names) - len(refused)} of {len(names)} pass",
        "goal": "20 of 20",
        "ok": not refused if not quick else None,
        "refused": refused,
    }
    return row | ({"why": "two changes only; run it without --quick"} if quick else {})


def _told(bench: _Bench, flip: Flip, *statuses: str) -> dict[str, str]:
    """Rules that gave one of `statuses`, with their sentences; `not run` where the server didn't start or answer."""
    try:
        verdicts = bench.judge(flip)
    except LaunchFailed as failure:
        return {_NOT_RUN: f"{failure.kind}: {failure.message}"}
    return {verdict.rule: verdict.sentence for verdict in verdicts if verdict.status in statuses}


def _say(line: str) -> None:
    """On stderr, since a row takes minutes."""
    print(line, file=sys.stderr, flush=True)


class _Bench:
    """The baseline, recorded twice, and what is compared with it."""

    def __init__(self) -> None:
        self._model = pull(MODEL)
        self._target = BundledTarget(self._model)
        self._config = self._target.knobs.resolve(dict(BASELINE))
        self._suite = Suite(CONTEXT_TOKENS)
        self._baseline = Recording(self._config, tuple(self._record(Flip(), number) for number in range(2)))
        self._deployment = Deployment.model_validate(
            {"name": "flips", "model": MODEL, "config": dict(BASELINE), "workload": WORKLOAD}
        )

    def judge(self, flip: Flip) -> list[Verdict]:
        """What every rule of quality says of two launches with the change."""
        config = self._config.patched(dict(flip.knobs))
        candidate = Recording(config, tuple(self._record(flip, 2 + number) for number in range(2)))
        return compared(self._deployment, self._target.knobs, self._baseline, candidate)

    def _record(self, flip: Flip, order_seed: int) -> EvalResults:
        """What a launch with the change says to everything."""
        with tempfile.TemporaryDirectory() as folder:
            model = altered_copy(self._model, Path(folder) / "model", flip.alter) if flip.alter else self._model
            target = BundledTarget(model)
            config = self._config.patched(dict(flip.knobs))
            with (
                launched(target, config, log=Path(folder) / "log", timeout_s=READY_S) as endpoint,
                _in_front(endpoint, flip) as asked,
            ):
                return self._suite.run(asked, order_seed=order_seed)


@contextmanager
def _in_front(endpoint: Endpoint, flip: Flip) -> Iterator[Endpoint]:
    """Where requests go: to the flip's proxy if it has one."""
    if flip.rewrite is None:
        yield endpoint
        return
    with RewritingProxy(endpoint.base_url, flip.rewrite) as proxy:
        yield replace(endpoint, base_url=proxy.url)
