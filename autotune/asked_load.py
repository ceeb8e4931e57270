"""AskedLoad: what a command should send, from a preset, a YAML file, a concrete workload's file, or flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tools.errors import UserError
from tools.measure.slo import Slo
from tools.measure.workload import Workload, WorkloadClass, WorkloadSpec, materialise
from tools.measure.workload_file import read_workload
from tools.traces.presets import PRESETS, preset
from tools.traces.spec_file import read_spec

__all__ = ["AskedLoad", "asked_load", "judged_by"]

_JUDGED_BY: Mapping[WorkloadClass, str] = {
    "chat": "p95_ttft_ms",
    "chat-plus": "p95_ttft_ms",
    "background-agent": "p95_e2el_ms",
    "data-processor": "total_token_throughput",
}


@dataclass(frozen=True)
class AskedLoad:
    """A distribution, and the promise that came with it."""

    spec: WorkloadSpec
    slo: Slo = field(default_factory=Slo)
    objective: str | None = None
    "The metric that it is judged by, where it names one."
    fixed: Workload | None = None
    "Where the very requests were given, there is nothing to draw."

    def of(self, requests: int) -> AskedLoad:
        """The same, with another number of requests.

        Raises:
            UserError: the very requests were given, or a replay hasn't so many moments.
        """
        if self.fixed is not None:
            raise UserError("expected no --requests: the workload's file holds the very requests")
        fields = {**self.spec.model_dump(by_alias=True, exclude_unset=True), "requests": requests}
        return replace(self, spec=_valid(WorkloadSpec, fields, "--requests"))

    def arriving(self, arrivals: Mapping[str, Any]) -> AskedLoad:
        """The same requests at other moments.

        Raises:
            UserError: the very requests were given.
        """
        if self.fixed is not None:
            raise UserError("expected no other arrivals: the workload's file holds the very requests and their moments")
        fields = {**self.spec.model_dump(by_alias=True, exclude_unset=True), "arrivals": dict(arrivals)}
        return replace(self, spec=_valid(WorkloadSpec, fields, "the arrivals"))

    def workload(self, seed: int | None = None) -> Workload:
        """The requests to send; `seed` draws others of the same distribution.

        Raises:
            UserError: other requests were asked of a file that holds the requests themselves.
        """
        if self.fixed is None:
            return materialise(self.spec, seed)
        if seed not in (None, self.fixed.seed):
            raise UserError(
                f"expected the seed {self.fixed.seed} of the workload's file, found {seed}: it holds the very requests."
                " Leave --seed out, and for several trials give the spec that the file was made from"
            )
        return self.fixed


def judged_by(load: AskedLoad) -> str:
    """The metric that it is judged by before all others: its own word, else what work of this class is about."""
    return load.objective or _JUDGED_BY[load.spec.workload_class]


def asked_load(source: str | None, flags: Mapping[str, Any]) -> AskedLoad:
    """What `source` names: a preset, a YAML file with a `workload:` section, or a file that `workload materialise`
    wrote. Without one, what the flags say.

    Raises:
        UserError: no such thing, or not a valid workload.
    """
    if source is None:
        return AskedLoad(_valid(WorkloadSpec, flags, "the workload flags"))
    if source in PRESETS:
        found = preset(source)
        return AskedLoad(found.spec, found.slo, found.objective)
    path = Path(source)
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        workload = read_workload(path)
        return AskedLoad(workload.spec, fixed=workload)
    return AskedLoad(*read_spec(path))


def _valid(model: Any, data: Any, where: str) -> Any:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise UserError(f"{where}: not valid: {problems}") from None
