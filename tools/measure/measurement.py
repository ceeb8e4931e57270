"""Measurement: all that one load on one server yielded, raw. Summaries and verdicts are derived from it, never kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.measure.load import ClientHealth, LoadResult
from tools.measure.records import Outcome, RequestRecord
from tools.measure.workload import Workload
from tools.targets.target import Counters, Identity

__all__ = ["Measurement"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One workload, one seed, one server. What a server doesn't tell is absent: None, or no such counter."""

    workload_digest: str
    spec_digest: str
    seed: int
    config_digest: str
    "Of the config that was asked for; `identity_*` says which one answered."
    offered: int
    "Requests in the workload, whether or not a record of them exists."
    started_at: float
    "Unix seconds."
    window_s: float
    "From the start until the last request ended."
    records: tuple[RequestRecord, ...]
    client: ClientHealth
    extras: tuple[str, ...] = ()
    "The extensions of the API that were in force (see Dialect)."
    identity_before: Identity | None = None
    identity_after: Identity | None = None
    counters_before: Counters | None = None
    counters_after: Counters | None = None
    cut_short: bool = False
    "Its user stopped the load: requests that weren't due yet were never sent, and aren't counted as offered."

    @classmethod
    def of(
        cls,
        workload: Workload,
        load: LoadResult,
        *,
        config_digest: str,
        identity_before: Identity | None = None,
        identity_after: Identity | None = None,
        counters_before: Counters | None = None,
        counters_after: Counters | None = None,
    ) -> Measurement:
        """What `load` yielded when it drove `workload`. Of a load that its user cut short, only what was sent counts as
        offered."""
        return cls(
            workload_digest=workload.digest,
            spec_digest=workload.spec_digest,
            seed=workload.seed,
            config_digest=config_digest,
            offered=len(load.records) if load.cut_short else len(workload.requests),
            started_at=load.started_at,
            window_s=load.window_s,
            records=load.records,
            client=load.client,
            extras=load.extras,
            identity_before=identity_before,
            identity_after=identity_after,
            counters_before=counters_before,
            counters_after=counters_after,
            cut_short=load.cut_short,
        )

    @property
    def completed(self) -> int:
        return self._ended("ok")

    @property
    def failed(self) -> int:
        return self._ended("failed")

    @property
    def timed_out(self) -> int:
        return self._ended("timed_out")

    def counted(self, counter: str) -> float | None:
        """How far `counter` went up during the load. None where it is absent, or fell: the server was restarted."""
        before = (self.counters_before or {}).get(counter)
        after = (self.counters_after or {}).get(counter)
        if before is None or after is None or after < before:
            return None
        return after - before

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal measurement."""
        data: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        data["records"] = [record.to_json() for record in self.records]
        data["client"] = self.client.to_json()
        data["extras"] = list(self.extras)
        for name in ("identity_before", "identity_after"):
            data[name] = data[name].to_json() if data[name] is not None else None
        for name in ("counters_before", "counters_after"):
            data[name] = dict(data[name]) if data[name] is not None else None
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """The measurement that `to_json` wrote.

        Raises:
            KeyError, TypeError: not such data.
        """
        identities = {name: data[name] for name in ("identity_before", "identity_after")}
        return cls(
            **{
                **data,
                **{name: Identity.from_json(raw) if raw is not None else None for name, raw in identities.items()},
                "records": tuple(RequestRecord.from_json(raw) for raw in data["records"]),
                "client": ClientHealth.from_json(data["client"]),
                "extras": tuple(data["extras"]),
            }
        )

    def _ended(self, outcome: Outcome) -> int:
        return sum(record.outcome == outcome for record in self.records)
