"""Deployment: the YAML file a user owns. Everything autotune may assume about a deployment stands in it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tools.errors import UserError
from tools.evals.declared import Loss, OwnEval
from tools.manifest_ref import ManifestRef
from tools.manifests.yaml_file import YamlFile
from tools.measure.slo import Slo
from tools.measure.summary import METRICS, MIN_SAMPLES_P99, lower_is_better
from tools.measure.workload import WorkloadSpec
from tools.redaction import redacted
from tools.targets.knobs import Value
from tools.targets.spec import SPECS, BundledSpec, TargetSpec

__all__ = [
    "Acceptance",
    "Deployment",
    "DeploymentFile",
    "Guardrail",
    "Objective",
    "load_deployment",
    "parse_deployment",
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _known_metric(name: str) -> str:
    if name in METRICS:
        return name
    near = difflib.get_close_matches(name, METRICS, n=2)
    raise ValueError(f"unknown metric {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))


_BEST_AT_ZERO = ("failed", "timed_out", "stutter_share")


class Objective(_Strict):
    """What better means: one metric, declared before anything is measured."""

    metric: str = "p95_ttft_ms"
    min_effect: float = Field(default=0.05, gt=0, lt=1)
    "Least relative improvement worth a commit; 0.05 is 5 %."

    _metric = field_validator("metric")(_known_metric)

    @field_validator("metric")
    @classmethod
    def _has_ratios(cls, metric: str) -> str:
        if metric in _BEST_AT_ZERO:
            raise ValueError(
                f"{metric} is best at zero, where no gain is so many percent; make it a guardrail, and a latency such "
                "as p99_itl_ms the objective"
            )
        return metric

    @property
    def lower_is_better(self) -> bool:
        return lower_is_better(self.metric)


class Guardrail(_Strict):
    """A metric that may not get worse by more than a stated share."""

    metric: str
    max_regression: float = Field(ge=0, lt=10)
    "Largest relative worsening that is still accepted; 0.1 is 10 %."

    _metric = field_validator("metric")(_known_metric)


class Acceptance(_Strict):
    """The confirmation's design: it goes on, ABBA block by block, until the answer is clear."""

    trials_per_arm: int = Field(default=28, ge=4, le=40, multiple_of=2)
    "Most launches of each arm, in whole blocks of two; a clear answer takes fewer. At least as many as alpha needs."
    alpha: float = Field(default=0.006, gt=0, lt=0.5)
    """Most probability of accepting what is no better, over all looks; a second confirmation of the same change within
    a day has half of it, a third a third."""


_SHOWN = 120
"Characters of a wrong value that an error repeats."


class Deployment(_Strict):
    """One served model and the promise made about it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    model: str
    """A name for `autotune models pull`, a Hugging Face directory, or a .gguf file for llama.cpp; of an external target
    the name that it serves."""
    target: TargetSpec = BundledSpec()
    device: Literal["cpu", "cuda"] = "cpu"
    config: dict[str, Value]
    "Knob values. Only those whose line is marked `# autotune: managed` may ever be changed by a commit."
    manifest: ManifestRef | None = None
    "Where the config stands besides; None: here alone. A commit changes both files."
    workload: WorkloadSpec
    slo: Slo = Slo()
    objective: Objective = Objective()
    guardrails: tuple[Guardrail, ...] = ()
    quality: Literal["lossless"] | Loss = "lossless"
    "What a lossy knob may lose; `lossless`: such knobs stay as they are."
    evals: tuple[OwnEval, ...] = ()
    "The user's own: asked before and after every change, beside the bundled ones."
    acceptance: Acceptance = Acceptance()
    playbook: str = "interactive-latency"
    ready_timeout_s: float = Field(default=120.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _time_to_start(cls, data: Any) -> Any:
        """Engines that compile at their start take minutes for it."""
        if isinstance(data, dict) and "ready_timeout_s" not in data:
            target = data.get("target")
            kind = target.get("kind") if isinstance(target, dict) else target
            return {**data, "ready_timeout_s": 600.0} if kind in ("vllm", "sglang") else data
        return data

    @field_validator("evals")
    @classmethod
    def _names_differ(cls, evals: tuple[OwnEval, ...]) -> tuple[OwnEval, ...]:
        names = [each.name for each in evals]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two evals are called {', '.join(sorted(twice))}; give each a name of its own")
        return evals

    @model_validator(mode="after")
    def _measurable(self) -> Deployment:
        """A promise that this workload can never show would cost the whole budget before it is found out."""
        named = [*self.slo.bounds(), self.objective.metric, *(rail.metric for rail in self.guardrails)]
        for metric in named:
            if metric.startswith("p99_") and "_itl" not in metric and self.workload.requests < MIN_SAMPLES_P99:
                raise ValueError(
                    f"{metric} needs at least {MIN_SAMPLES_P99} requests in the workload, "
                    f"found {self.workload.requests}; promise a p95, or raise workload.requests"
                )
            if metric in ("request_goodput", "slo_attainment") and not self.slo.bounds():
                raise ValueError(f"{metric} counts requests that keep a promise, and slo: holds none")
            if metric == "stutter_share" and self.slo.stutter is None:
                raise ValueError(
                    "stutter_share counts gaps over a bound, and slo: names none; add stutter: {gap_ms: ...}"
                )
            if metric.endswith("_task_ms") and not self.workload.has_turns:
                raise ValueError(f"{metric} is of whole conversations, and every one of this workload has one turn")
        return self


@dataclass(frozen=True, slots=True)
class DeploymentFile:
    """A deployment and the file it stands in."""

    path: Path
    deployment: Deployment
    managed: frozenset[str]
    "Names of the knobs under `config:` that a commit may change."


def load_deployment(path: Path) -> DeploymentFile:
    """Read, check and return the deployment at `path`.

    Raises:
        UserError: no such file, not YAML, a duplicate or unknown key, a wrong type; the message names the place.
    """
    return parse_deployment(YamlFile.read(path))


def parse_deployment(file: YamlFile) -> DeploymentFile:
    """The deployment that `file` holds.

    Raises:
        UserError: as `load_deployment`, but for a missing file.
    """
    path = file.path
    try:
        deployment = Deployment.model_validate(file.data)
    except ValidationError as error:
        raise UserError(_explain(path, error)) from None
    managed = frozenset(key[1] for key in file.managed if len(key) == 2 and key[0] == "config")
    foreign = sorted(".".join(key) for key in file.managed if not (len(key) == 2 and key[0] == "config"))
    if foreign:
        raise UserError(
            f"{path}: only knobs under config: can be managed, found the mark on {', '.join(foreign)}; "
            "remove `# autotune: managed` there"
        )
    return DeploymentFile(path.resolve(), deployment, managed)


def _explain(path: Path, error: ValidationError) -> str:
    lines = [f"{path}: not a valid deployment"]
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"]) or "(top level)"
        lines.append(f"  {place}: {_sentence(problem)}")
    return "\n".join(lines)


def _sentence(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        key = str(problem["loc"][-1])
        names = [*_all_field_names(Deployment), *(name for spec in SPECS for name in spec.model_fields)]
        near = difflib.get_close_matches(key, names, n=1)
        return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "; remove it")
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "missing" or not problem["loc"] or "environment" in problem["loc"]:
        return message  # a variable's value may be a secret
    found = redacted(repr(problem.get("input")))
    return f"{message}; found {found if len(found) <= _SHOWN else found[:_SHOWN] + ' ...'}"


def _all_field_names(model: type[BaseModel]) -> list[str]:
    names = list(model.model_fields)
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names += _all_field_names(field.annotation)
    return names
