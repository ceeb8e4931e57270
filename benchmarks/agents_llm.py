"""Row `llm`: a real small LLM and a random proposer run the real job, on replay; search alone is what they're held to.

The LLM is served by the bundled engine: SmolLM2-135M, or the model that AGENTS_LLM names (a name for `autotune models
pull`, or a folder).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import geometric_mean

from agents.proposer import Proposer
from autotune.harness.prepare import LlmOptions
from autotune.report_card.contestants import contestants
from autotune.report_card.scenario import Scenario, load_scenarios
from benchmarks.agents_countdown import counted
from benchmarks.agents_graph import PROPOSERS, Played, play
from benchmarks.table import Row
from tools.measure.summary import lower_is_better
from tools.models import pull
from tools.targets.bundled import BundledTarget
from tools.trial import launched

__all__ = ["llm", "served"]

SCENARIOS = ("t01", "t03", "t07", "t14", "t20")
LLM_SEEDS, RANDOM_SEEDS = 2, 4
"Runs of each scenario."
WITHIN = 0.05
TRIALS = 8
MODEL = "smollm2-135m"
ENGINE = {"max_num_seqs": 2, "kv_cache_tokens": 8192, "max_model_len": 8192}


def llm(quick: bool) -> Row:
    """Whether a bad adviser can do harm: nothing worse than before is committed, and search's result is reached."""
    scenarios = [each for each in load_scenarios() if each.id in (SCENARIOS[:1] if quick else SCENARIOS)]
    llm_seeds, random_seeds = (1, 1) if quick else (LLM_SEEDS, RANDOM_SEEDS)
    search = _runs("search", PROPOSERS["search"], scenarios, max(llm_seeds, random_seeds))
    found = {"random": _runs("random", PROPOSERS["random"], scenarios, random_seeds)}
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), os.environ.get("AGENTS_LLM", MODEL)) as options:
        proposer = contestants(("llm",), options)[0].proposer
        found["llm"] = _runs("llm", proposer, scenarios, llm_seeds)
    everyone = [*search.values(), *(run for runs in found.values() for run in runs.values())]
    regressions = [run.told() for run in everyone if run.regression]
    against = {name: _against(runs, search) for name, runs in found.items()}
    return {
        "value": f"{len(regressions)} regressions committed; final config against search alone: "
        + ", ".join(f"{name} {ratio:.3f}x" for name, ratio in against.items()),
        "goal": f"0 in 10 runs of the LLM and 20 of random; both within {WITHIN:.0%} of search alone",
        "ok": None if quick else not regressions and all(ratio >= 1 - WITHIN for ratio in against.values()),
        "model": options.model,
        "regressions": regressions,
        "runs": {name: len(runs) for name, runs in {"search": search, **found}.items()},
        "speed-up": {
            name: {f"{scenario}/{seed}": round(_speedup(run), 3) for (scenario, seed), run in runs.items()}
            for name, runs in {"search": search, **found}.items()
        },
        "llm tokens": sum(run.result.conduct.tokens for run in found["llm"].values()),
        "llm proposals": sum(run.result.conduct.proposals for run in found["llm"].values()),
        "llm failures": [failure for run in found["llm"].values() for failure in run.result.conduct.failures],
    }


_Runs = Mapping[tuple[str, int], Played]
"By scenario and seed."


def _runs(name: str, proposer: Callable[[int], Proposer], scenarios: Sequence[Scenario], seeds: int) -> _Runs:
    jobs = list(product(scenarios, range(seeds)))
    return {
        (scenario.id, seed): play(scenario, name, proposer(seed), seed, TRIALS)
        for scenario, seed in counted(f"llm: {name}", jobs)
    }


def _speedup(run: Played) -> float:
    """True objective of what the run ended with, over the baseline's; higher is better."""
    gain = run.result.gain
    return 1 / (1 - gain) if lower_is_better(run.scenario.objective) else 1 + gain


def _against(runs: _Runs, search: _Runs) -> float:
    """Geometric mean of the ratio to search alone under the same scenario and seed."""
    return geometric_mean([_speedup(run) / _speedup(search[key]) for key, run in runs.items()])


@contextmanager
def served(folder: Path, model: str) -> Iterator[LlmOptions]:
    """The bundled engine with `model`, its log in `folder`."""
    target = BundledTarget(pull(model))
    with launched(target, target.knobs.resolve(ENGINE), log=folder / "llm.log", timeout_s=300) as endpoint:
        yield LlmOptions(f"{endpoint.base_url}/v1", endpoint.model)
