"""Row `misconfigured`: `tune` on deployments of real vLLM that somebody got wrong, one knob each.

A case takes a quarter of an hour of two quiet cores. TARGETS_OUT names a folder in which each case's run and result are
kept, so that a stopped row goes on where it was; CASES names some of them, as `vllm/one-seat`,
with commas between.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.agents_countdown import counted
from benchmarks.peers import ROOT, Unmeasurable, executable, model_dir
from benchmarks.planted_fault import PlantedFault, load_planted
from benchmarks.table import Row
from benchmarks.tuned_run import MARK, tuned_run
from tools.targets.knobs import Value

__all__ = ["misconfigured"]

DATA = ROOT / "benchmarks" / "data" / "misconfigured"
NEEDED, KINDS = 9, 10
BUDGET, TRIALS = "40m", 5


def misconfigured(quick: bool) -> Row:
    """How many planted faults of vLLM deployments are named and mended; the same faults of the bundled engine beside.

    Raises:
        Unmeasurable: `quick`.
    """
    if quick:
        raise Unmeasurable("each case takes a quarter of an hour; run it without --quick")
    asked = set(filter(None, os.environ.get("CASES", "").split(",")))
    cases = [
        (engine, case)
        for engine in _MAKE
        for case in load_planted(DATA / f"{engine}.yaml")
        if not asked or f"{engine}/{case.id}" in asked
    ]
    results = {f"{engine}/{case.id}": _result(engine, case) for engine, case in counted("misconfigured", cases)}
    theirs = [result for name, result in results.items() if name.startswith("vllm/") and "named" in result]
    right = sum(result["named"] and result["mended"] for result in theirs)
    return {
        "value": f"{right} of {len(theirs)} named and mended",
        "goal": f">= {NEEDED} of {KINDS}: the planted knob is changed for a stated reason, verified, and mended",
        "ok": right >= NEEDED if len(theirs) >= KINDS else None,
        "cases": results,
    }


def _result(engine: str, case: PlantedFault) -> dict[str, Any]:
    """What a run came to: kept where TARGETS_OUT names a folder."""
    mark = uuid4().hex
    try:
        target = _MAKE[engine](case, mark)
    except Unmeasurable as error:
        return {"why": str(error)}
    deployment = case.deployment(model_dir(), target, _FIXED[engine])
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("TARGETS_OUT", folder)) / "misconfigured" / engine / case.id
        return _graded(case, tuned_run(kept, deployment, mark=mark, budget=BUDGET, trials=TRIALS))


def _vllm(case: PlantedFault, mark: str) -> dict[str, Any]:
    return {
        "kind": "vllm",
        "command": [executable("venvs", "vllm", "bin", "vllm")],
        "arguments": ["--dtype", "bfloat16", *case.arguments],
        "environment": {"VLLM_CPU_KVCACHE_SPACE": "1", MARK: mark},
    }


def _bundled(case: PlantedFault, mark: str) -> dict[str, Any]:
    return {"kind": "bundled"}


_FIXED: dict[str, dict[str, Value]] = {"bundled": {}, "vllm": {"enforce_eager": True}}
_MAKE: dict[str, Callable[[PlantedFault, str], dict[str, Any]]] = {"bundled": _bundled, "vllm": _vllm}


def _graded(case: PlantedFault, facts: dict[str, Any]) -> dict[str, Any]:
    if "decision" not in facts:
        return {"named": False, "mended": False, "decision": "error", "why": str(facts.get("error"))}
    changes = {change["knob"]: change["new"] for change in facts["changes"]}
    reason = _reason(case, facts)
    ratio = next((row["ratio"] for row in facts["comparisons"] if row["metric"] == case.objective), None)
    return {
        "named": bool(reason) and bool(case.mends.keys() & changes.keys()),
        "mended": facts["decision"] == "tuned" and case.mended(changes),
        "decision": facts["decision"],
        "changes": changes,
        "reason": reason,
        "objective_ratio": ratio,
        "minutes": round(facts["wall_s"] / 60, 1),
        **({} if facts["decision"] == "tuned" else {"why": facts["sentence"]}),
    }


def _reason(case: PlantedFault, facts: dict[str, Any]) -> str:
    """Why the planted knob was to be changed, as the report says it beside a trial that did so and gained by it.

    What the search came upon has no reason; it names no cause.
    """
    trials = {trial["id"]: trial["patch"] for trial in facts["trials"]}
    for one in facts["judged"]:
        gained = facts["gains"].get(one["trial"], 0.0) >= facts["min_effect"]
        if one["text"].startswith("[") and gained and case.mended(trials[one["trial"]]):
            return str(one["text"])
    return ""
