"""Evaluation: what a deployment's launches say to its evals, written down, and compared with another recording."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from autotune.endpoint import as_deployed
from autotune.harness.context import suite_of
from autotune.harness.progress import Progress
from tools.deployment import Deployment, load_deployment
from tools.errors import UserError
from tools.evals.likelihood import perplexity
from tools.evals.results import EvalResults
from tools.ledger import Ledger
from tools.targets.knobs import Config, KnobSpace
from tools.whole_file import replaced
from verifiers import Evidence, TrialEvidence, gather
from verifiers.rules import quality
from verifiers.verdict import Verdict

__all__ = ["Recording", "compared", "read_recording", "record", "scores_of", "write_recording"]


@dataclass(frozen=True)
class Recording:
    """Launches of one config, each asked the whole suite."""

    config: Config
    launches: tuple[EvalResults, ...]

    def to_json(self) -> dict[str, Any]:
        return {"config": dict(self.config.values), "launches": [said.to_json() for said in self.launches]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Recording:
        return cls(Config(data["config"]), tuple(EvalResults.from_json(said) for said in data["launches"]))


def record(path: Path, launches: int, progress: Progress) -> tuple[Deployment, KnobSpace, Recording]:
    """Launch the deployment at `path` as it stands, `launches` times, and ask it everything; one that somebody else
    runs is asked as often, and never started anew.

    Raises:
        UserError: bad input, or the server doesn't start or answer.
    """
    file = load_deployment(path)
    deployment = file.deployment
    suite = suite_of(file)
    served = as_deployed(file)
    said: list[EvalResults] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(launches):
            progress.phase("evals", f"launch {number + 1} of {launches}", None)
            with served.up(Path(folder) / f"{number}.log") as endpoint:
                said.append(suite.run(endpoint, order_seed=number))
    return deployment, served.target.knobs, Recording(served.config, tuple(said))


def write_recording(path: Path, recording: Recording) -> None:
    """For a later comparison, or for reading."""
    with replaced(path) as file:
        file.write(orjson.dumps(recording.to_json(), option=orjson.OPT_INDENT_2))


def read_recording(path: Path) -> Recording:
    """An earlier recording: a file that `write_recording` wrote, or a run's folder, of which the baseline counts.

    Raises:
        UserError: neither, or a run without evals.
    """
    if path.is_dir():
        return _of_run(path)
    try:
        return Recording.from_json(orjson.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise UserError(
            f"{path}: expected a file that `autotune eval deployment --out` wrote, or a run's folder, found "
            f"{type(fault).__name__}: {fault}"
        ) from None


def _of_run(folder: Path) -> Recording:
    ledger = folder / "ledger.jsonl"
    if not ledger.is_file():
        raise UserError(f"{folder}: expected a run's folder with ledger.jsonl in it, found none")
    evidence = gather(Ledger.read(ledger))
    said = tuple(trial.evals for trial in evidence.confirmation if trial.arm == "A" and trial.evals is not None)
    if not said:
        raise UserError(f"{folder}: expected a run that came to a confirmation with evals, found none")
    return Recording(evidence.baseline, said)


def compared(deployment: Deployment, space: KnobSpace, before: Recording, after: Recording) -> list[Verdict]:
    """What the rules of quality say of `after`, as a change of `before`."""
    trials = [
        _trial(f"{arm}{number}", arm, recording.config, said)
        for arm, recording in (("A", before), ("B", after))
        for number, said in enumerate(recording.launches)
    ]
    evidence = Evidence(
        deployment=deployment,
        managed=frozenset(),
        space=space,
        baseline=before.config,
        workload_spec_digest=deployment.workload.digest,
        memory_bytes=0,
        floors_ms={},
        model_digest="",
        candidate=after.config,
        trials=tuple(trials),
    )
    return [rule.verify(evidence) for rule in quality.RULES]


def _trial(trial_id: str, arm: str, config: Config, said: EvalResults) -> TrialEvidence:
    """A trial of which nothing is known but what was said."""
    return TrialEvidence(
        id=trial_id,
        seq=0,
        role="confirm",
        arm=arm,
        config=config,
        seed=0,
        spec_digest="",
        asked_tokens=(),
        declared_sharing=None,
        environment="",
        evals=said,
        block=0,
    )


def scores_of(launches: Sequence[EvalResults]) -> dict[str, float]:
    """Mean score of each task set and own eval over the launches, and the perplexity."""
    first = launches[0]
    scores = {name: fmean(said.tasks[name].score for said in launches) for name in first.tasks}
    scores |= {f"own: {name}": fmean(said.own[name].score for said in launches) for name in first.own}
    return scores | {"perplexity": fmean(perplexity(said.passages) for said in launches)}
