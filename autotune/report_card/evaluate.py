"""Evaluate: every contestant plays every scenario k times; each result is kept, so a stopped evaluation goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from agents.assessment import AssessView
from autotune.report_card.alert_cases import ALERT_CASES, alert_case
from autotune.report_card.benchmark_cases import BENCHMARK_CASES, benchmark_case
from autotune.report_card.contestants import Contestant
from autotune.report_card.grade import graded_assessment
from autotune.report_card.result import Conduct, Result, Skill
from autotune.report_card.scenario import Scenario, load_scenarios
from autotune.report_card.surface_file import surface_digest
from autotune.report_card.tuning import play_tuning
from tools.canonical import canonical_json, digest
from tools.errors import UserError

__all__ = ["Evaluation", "Job", "Telling", "evaluate", "known_scenarios"]

_PLAYING = ("autotune.report_card", "autotune.harness", "agents", "playbooks", "tools", "verifiers")
_SOURCES = (".py", ".jinja", ".yaml")


class Telling(Protocol):
    """Told what goes on (see autotune.console)."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of one contestant at one scenario."""

    contestant: Contestant
    skill: Skill
    scenario: str
    attempt: int
    seed: int
    "The same for all contestants, so that they meet the same luck."


@dataclass(frozen=True)
class Evaluation:
    """What is asked for."""

    contestants: tuple[Contestant, ...]
    scenarios: tuple[str, ...]
    "Ids."
    k: int
    "Attempts of each contestant at each scenario."
    seed: int
    trials: int
    "Exploration trials of a run."
    llm_tokens: int
    "Of a run."

    def jobs(self) -> Iterator[Job]:
        """All attempts, scenario by scenario: what is done of all contestants can be compared at any moment."""
        for scenario in self.scenarios:
            skill = known_scenarios()[scenario]
            for attempt in range(self.k):
                seed = int(digest([self.seed, scenario, attempt])[:12], 16)
                for contestant in self.contestants:
                    if skill == "tuning" or contestant.assessor is not None:
                        yield Job(contestant, skill, scenario, attempt, seed)


def known_scenarios() -> dict[str, Skill]:
    """Every scenario's id with the skill that it asks for."""
    found: dict[str, Skill] = {scenario.id: "tuning" for scenario in load_scenarios()}
    found |= dict.fromkeys(BENCHMARK_CASES, "benchmarking")
    found |= dict.fromkeys(ALERT_CASES, "monitoring")
    return found


def evaluate(asked: Evaluation, out: Path, progress: Telling) -> list[Result]:
    """The results of all jobs, in their order; those that `out` holds already aren't made again.

    Raises:
        UserError: an unknown scenario.
    """
    if unknown := sorted(set(asked.scenarios) - known_scenarios().keys()):
        raise UserError(f"--scenario: expected ids of {', '.join(known_scenarios())}; found {', '.join(unknown)}")
    jobs = list(asked.jobs())
    tuning = {scenario.id: scenario for scenario in load_scenarios()}
    pace = _Pace(jobs)
    results = []
    for number, job in enumerate(jobs):
        place = out / job.contestant.name / f"{job.scenario}-{job.attempt}.json"
        key = digest(_key(asked, job, tuning.get(job.scenario)))
        known = _known(place, key)
        if known is None:
            told = f"{job.contestant.name} on {job.scenario}, attempt {job.attempt + 1} ({number + 1} of {len(jobs)})"
            progress.phase(job.skill, told, pace.seconds_left(number))
            began = time.monotonic()
            known = _play(asked, job, tuning.get(job.scenario), out)
            pace.took(job, time.monotonic() - began)
            _keep(place, key, known)
        results.append(known)
    return results


def _play(asked: Evaluation, job: Job, scenario: Scenario | None, out: Path) -> Result:
    if scenario is None:
        return _assess(job)
    folder = out / "runs" / f"{job.contestant.name}-{job.scenario}-{job.attempt}"
    proposer = job.contestant.proposer(job.seed)
    with _closed(proposer):
        result = play_tuning(scenario, proposer, job.seed, folder, trials=asked.trials, llm_tokens=asked.llm_tokens)
    if result.success:
        shutil.rmtree(folder)  # what failed stays, to be looked into
    return result


def _assess(job: Job) -> Result:
    assert job.contestant.assessor is not None
    view: AssessView
    if job.skill == "benchmarking":
        view, right = benchmark_case(job.scenario, job.seed)
    else:
        view, right = alert_case(job.scenario, job.seed)
    assessor = job.contestant.assessor(job.seed)
    began = time.monotonic()
    with _closed(assessor):
        given = assessor.assess(view)
    result = Result(
        skill=job.skill,
        scenario=job.scenario,
        proposer=job.contestant.name,
        seed=job.seed,
        right=right,
        answer=given.assessment.reason,
        sentence=given.assessment.why,
        conduct=Conduct(
            tokens=given.usage.total_tokens,
            calls=given.usage.calls,
            answers=int(given.assessment.reason != "none"),
            failures=(given.failure,) if given.failure else (),
        ),
    )
    return graded_assessment(result.timed(time.monotonic() - began, 0.0))


@contextmanager
def _closed(contestant: object) -> Iterator[None]:
    """Whoever holds connections gives them up at the end."""
    try:
        yield
    finally:
        if (close := getattr(contestant, "close", None)) is not None:
            close()


def _key(asked: Evaluation, job: Job, scenario: Scenario | None) -> dict[str, Any]:
    """Everything that a result depends on: with any of it changed, a kept result no longer counts."""
    key: dict[str, Any] = {
        "code": _code_digest(),
        "seed": job.seed,
        "model": job.contestant.model,
        "endpoint": job.contestant.endpoint,
        "surface": surface_digest(scenario.surface if scenario else "chat"),
    }
    if scenario is not None:
        key |= {
            "scenario": scenario.model_dump(mode="json"),
            "trials": asked.trials,
            "llm_tokens": asked.llm_tokens if job.contestant.model else 0,
        }
    return key


@cache
def _code_digest() -> str:
    """sha256 of all that plays and grades: card and harness, proposers and playbooks, what measures and judges."""
    total = hashlib.sha256()
    for package in _PLAYING:
        room = resources.files(package)
        for name, content in sorted(_sources(room)):
            total.update(f"{package}/{name}".encode() + b"\0" + content + b"\0")
    return total.hexdigest()


def _sources(room: Traversable, place: str = "") -> Iterator[tuple[str, bytes]]:
    """Name and content of every source file, prompt and playbook in a package."""
    for entry in room.iterdir():
        name = f"{place}{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, f"{name}/")
        elif entry.name.endswith(_SOURCES):
            yield name, entry.read_bytes()


def _known(place: Path, key: str) -> Result | None:
    if not place.is_file():
        return None
    kept = json.loads(place.read_text())
    return Result.from_json(kept["result"]) if kept["key"] == key else None


def _keep(place: Path, key: str, result: Result) -> None:
    """Whole or not at all: an interrupted write must not look like a result."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".part")
    draft.write_bytes(canonical_json({"key": key, "result": result.to_json()}))
    draft.replace(place)


class _Pace:
    """How long the rest takes, from what each contestant needed for a job of a skill so far."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._took: defaultdict[tuple[str, Skill], list[float]] = defaultdict(list)

    def took(self, job: Job, seconds: float) -> None:
        self._took[(job.contestant.name, job.skill)].append(seconds)

    def seconds_left(self, number: int) -> float | None:
        """For the jobs from `number` on; None before any was measured."""
        if not self._took:
            return None
        return sum(self._usual(job.contestant.name, job.skill) for job in self._jobs[number:])

    def _usual(self, contestant: str, skill: Skill) -> float:
        """Of the contestant at the skill; else of others at it; else of the shortest known: what isn't known yet is
        mostly assessments, which take next to nothing."""
        own = self._took.get((contestant, skill))
        alike = own or [s for (_, other), took in self._took.items() if other == skill for s in took]
        return fmean(alike) if alike else min(min(took) for took in self._took.values())
