"""Row `tune`: the main job end to end on real vLLM, llama.cpp's server and an engine known only by its command.

A target takes a quarter of an hour or more of two quiet cores. TARGETS_OUT names a folder in which each run is kept.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from benchmarks.agents_countdown import counted
from benchmarks.peers import ROOT, Unmeasurable, executable, gguf, model_dir, peers
from benchmarks.table import Row
from benchmarks.tuned_run import MARK, tuned_run

__all__ = ["tune"]

DATA = ROOT / "benchmarks" / "data" / "tune"
ENDS = {"tuned": 0, "unchanged": 0, "refused": 2, "inconclusive": 3}
"Decisions that are a verified change or an argued no-change, and their exit codes."
BUDGET, TRIALS = "40m", 4


def tune(quick: bool) -> Row:
    """What `autotune tune` comes to on each target.

    Raises:
        Unmeasurable: `quick`, or none of the engines is here.
    """
    if quick:
        raise Unmeasurable("each target takes a quarter of an hour; run it without --quick")
    results = {name: _result(name, make) for name, make in counted("tune", list(_TARGETS.items()))}
    ran = [result for result in results.values() if "ok" in result]
    good = sum(result["ok"] for result in ran)
    return {
        "value": f"{good} of {len(_TARGETS)} targets",
        "goal": "a verified change or an argued no-change on each, verify agrees, everything reaped",
        "ok": good == len(_TARGETS) if len(ran) == len(_TARGETS) else None,
        "targets": results,
    }


def _result(name: str, make: Callable[[str], str]) -> dict[str, Any]:
    mark = uuid4().hex
    try:
        deployment = make(mark)
    except Unmeasurable as error:
        return {"why": str(error)}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("TARGETS_OUT", folder)) / "tune" / name
        if name == "command":
            kept.mkdir(parents=True, exist_ok=True)
            (kept / "knobs.yaml").write_text((ROOT / "configs" / "command" / "knobs.yaml").read_text())
        facts = tuned_run(kept, deployment, mark=mark, budget=BUDGET, trials=TRIALS)
    if "decision" not in facts:
        return {"ok": False, "why": str(facts.get("error"))}
    ratio = next((row["ratio"] for row in facts["comparisons"] if row["metric"] == facts["objective"]), None)
    ends = ENDS.get(facts["decision"]) == facts["exit_code"]
    return {
        "ok": ends and not facts["left"] and facts["verify_exit"] == 0,
        "decision": facts["decision"],
        "sentence": facts["sentence"],
        "changes": {change["knob"]: [change["old"], change["new"]] for change in facts["changes"]},
        "objective": facts["objective"],
        "objective_ratio": ratio,
        "launches": facts["launches"],
        "minutes": round(facts["wall_s"] / 60, 1),
        "left": facts["left"],
        "verify_exit": facts["verify_exit"],
    }


def _vllm(mark: str) -> str:
    executable("venvs", "vllm", "bin", "vllm")
    return _filled("vllm", mark, model=str(model_dir()))


def _llamacpp(mark: str) -> str:
    executable("build-llama", "bin", "llama-server")
    return _filled("llamacpp", mark, gguf=str(gguf()))


def _filled(name: str, mark: str, **places: str) -> str:
    text = (DATA / f"{name}.yaml").read_text()
    for place, value in {**places, "peers": str(peers()), "mark": f"{MARK}: {mark}"}.items():
        text = text.replace("{" + place + "}", value)
    return text


def _command(mark: str) -> str:
    """The example that ships, which knows the bundled engine by nothing but its command."""
    text = (ROOT / "configs" / "command" / "deployment.yaml").read_text()
    environment: dict[str, str] = yaml.safe_load(text)["target"]["environment"]
    before = "environment: {"
    if not environment or text.count(before) != 1:
        raise Unmeasurable("configs/command/deployment.yaml: expected one `environment: {...}` to mark its servers by")
    return text.replace(before, f"{before}{MARK}: {mark}, ")


_TARGETS: dict[str, Callable[[str], str]] = {"llamacpp": _llamacpp, "command": _command, "vllm": _vllm}
