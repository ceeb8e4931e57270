"""Autoscale: the policy that follows the day's traffic, derived from the plan, as rules and as manifests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from tools.capacity.autoscaler import DOWN, HpaRules, HpaScaler, ScheduledScaler, StepRule
from tools.capacity.manifests import (
    DNS_NAME,
    AdapterConfig,
    AdapterRule,
    Advanced,
    Behavior,
    CronMetadata,
    CronTrigger,
    Hpa,
    HpaConfig,
    HpaSpec,
    MetricName,
    MetricTarget,
    ObjectMeta,
    PodsMetric,
    PodsSource,
    PrometheusMetadata,
    PrometheusTrigger,
    ScaledObject,
    ScaledObjectSpec,
    ScaleTarget,
    ScalingPolicy,
    ScalingRules,
    quantity,
    to_yaml,
)
from tools.capacity.steady import Steady
from tools.capacity.traffic import DAY_S, Traffic
from tools.errors import UserError

__all__ = ["METRIC_NAMES", "MetricNames", "Policy", "Workplace", "derive_policy"]

MetricNames = Literal["engine", "vllm"]
METRIC_NAMES: tuple[MetricNames, ...] = ("engine", "vllm")

_PREFIX: dict[str, str] = {"engine": "engine_", "vllm": "vllm:"}
_KEDA_POLL_S = 15
_HPA_TOLERANCE = 0.1


@dataclass(frozen=True)
class Workplace:
    """Where the manifests are for."""

    deployment: str = "inference"
    namespace: str = "default"
    prometheus: str = "http://prometheus.monitoring:9090"
    metrics: MetricNames = "engine"

    @classmethod
    def checked(cls, deployment: str, namespace: str, prometheus: str, metrics: MetricNames) -> Self:
        """With names that a cluster takes.

        Raises:
            UserError: not such names.
        """
        if not all(re.fullmatch(DNS_NAME, name) for name in (deployment, namespace)):
            raise UserError(
                "--deployment, --namespace: expected Kubernetes names (lower-case letters, digits and -), "
                f"found {deployment!r} and {namespace!r}"
            )
        if not re.match(r"https?://", prometheus):
            raise UserError(f"--prometheus: expected an http address, found {prometheus!r}")
        return cls(deployment, namespace, prometheus, metrics)


@dataclass(frozen=True)
class Policy:
    """Replicas follow the requests in flight; a schedule goes ahead of the day's known ramps."""

    rules: HpaRules
    reaction_s: float
    "From a rise in traffic until the replicas it asks for are ready: scrape, sync and cold start."
    growth: float
    "The largest factor by which the day's traffic grows within that time; the target leaves room for it."
    scheduled: tuple[int, ...]
    "Replicas by interval, failures included."
    interval_s: float
    start_s: float
    clock_known: bool
    "Whether `start_s` is a time of day; a schedule by hours of unknown place would scale at the wrong ones."

    def hpa_scaler(self) -> HpaScaler:
        return HpaScaler(self.rules)

    def scheduled_scaler(self, begin_s: float = 0.0) -> ScheduledScaler:
        """For a simulation that begins so long after the first interval does."""
        return ScheduledScaler(self.scheduled, self.interval_s, self.reaction_s, HpaScaler(self.rules), begin_s)

    def scaled(self, scale: float) -> Policy:
        """The same for a fleet and traffic so many times smaller, counts rounded up."""
        rules = replace(self.rules, least=math.ceil(self.rules.least / scale), most=math.ceil(self.rules.most / scale))
        return replace(self, rules=rules, scheduled=tuple(math.ceil(count / scale) for count in self.scheduled))

    def manifests(self, at: Workplace, title: str) -> dict[str, str]:
        """YAML by file name."""
        crons = self._crons()
        follows = "the same metric and the day's plan" if crons else "the same metric, without a schedule"
        return {
            "hpa.yaml": to_yaml(self._hpa(at), f"{title}\nReads the metric that prometheus-adapter.yaml defines."),
            "prometheus-adapter.yaml": to_yaml(
                _adapter(at), f"{title}\nA rule for prometheus-adapter's configuration: the metric that hpa.yaml reads."
            ),
            "keda.yaml": to_yaml(
                self._keda(at, crons), f"{title}\nFor KEDA, instead of hpa.yaml: it follows {follows}."
            ),
        }

    def to_json(self) -> dict[str, Any]:
        rules = self.rules
        return {
            "min_replicas": rules.least,
            "max_replicas": rules.most,
            "target_in_flight": rules.target,
            "scale_down_window_s": rules.down_window_s,
            "reaction_s": self.reaction_s,
            "growth": self.growth,
            "scheduled": list(self.scheduled),
        }

    def _behavior(self) -> Behavior:
        up, down = self.rules.up, self.rules.down
        return Behavior(
            scale_up=ScalingRules(stabilization_window_seconds=0, policies=_policies(up)),
            scale_down=ScalingRules(stabilization_window_seconds=self.rules.down_window_s, policies=_policies(down)),
        )

    def _hpa(self, at: Workplace) -> Hpa:
        metric = PodsMetric(
            pods=PodsSource(
                metric=MetricName(name=_IN_FLIGHT), target=MetricTarget(average_value=quantity(self.rules.target))
            )
        )
        return Hpa(
            metadata=ObjectMeta(name=at.deployment, namespace=at.namespace),
            spec=HpaSpec(
                scale_target_ref=ScaleTarget(name=at.deployment),
                min_replicas=self.rules.least,
                max_replicas=self.rules.most,
                metrics=[metric],
                behavior=self._behavior(),
            ),
        )

    def _keda(self, at: Workplace, crons: Sequence[CronTrigger]) -> ScaledObject:
        # prometheus labels pods by their deployment's name and a suffix
        where = f'{{namespace="{at.namespace}",pod=~"{at.deployment}-.*"}}'
        prefix = _PREFIX[at.metrics]
        query = f"sum({prefix}num_requests_running{where}) + sum({prefix}num_requests_waiting{where})"
        prometheus = PrometheusTrigger(
            metadata=PrometheusMetadata(
                server_address=at.prometheus, query=query, threshold=f"{self.rules.target:.3f}".rstrip("0").rstrip(".")
            )
        )
        return ScaledObject(
            metadata=ObjectMeta(name=at.deployment, namespace=at.namespace),
            spec=ScaledObjectSpec(
                scale_target_ref=ScaleTarget(name=at.deployment),
                polling_interval=_KEDA_POLL_S,
                min_replica_count=self.rules.least,
                max_replica_count=self.rules.most,
                advanced=Advanced(horizontal_pod_autoscaler_config=HpaConfig(behavior=self._behavior())),
                triggers=[prometheus, *crons],
            ),
        )

    def _crons(self) -> list[CronTrigger]:
        """One trigger for each run of equal counts above the minimum, beginning one reaction time early."""
        counts, day = self.scheduled, len(self.scheduled)
        if not self.clock_known or day * self.interval_s < DAY_S or len(set(counts)) == 1:
            return []  # of a part of a day, nobody knows whether it comes again tomorrow
        first = next(i for i in range(day) if counts[i] != counts[i - 1])
        runs: list[tuple[int, int, int]] = []
        for offset in range(day):
            at = first + offset
            count = counts[at % day]
            if runs and runs[-1][2] == count:
                runs[-1] = (runs[-1][0], at + 1, count)
            else:
                runs.append((at, at + 1, count))
        return [
            CronTrigger(
                metadata=CronMetadata(
                    timezone="Etc/UTC",
                    start=self._cron(begin * self.interval_s - self.reaction_s),
                    end=self._cron(end * self.interval_s),
                    desired_replicas=str(count),
                )
            )
            for begin, end, count in runs
            if count > self.rules.least
        ]

    def _cron(self, seconds: float) -> str:
        minutes = math.floor((self.start_s + seconds) / 60) % 1440
        return f"{minutes % 60} {minutes // 60} * * *"


_IN_FLIGHT = "requests_in_flight"


def derive_policy(
    steady: Steady,
    traffic: Traffic,
    provisioned: Sequence[int],
    each_rps: float,
    *,
    cold_start_s: float,
    scrape_s: float,
) -> Policy:
    """The policy for a day's plan.

    The target is what a replica has in flight at `each_rps`, divided by the growth that may happen before more replicas
    are ready, and by 1.1, since an HPA doesn't move within 10 % of its target.

    Args:
        provisioned: replicas by interval, with the headroom for failures.
        each_rps: the rate that one replica is meant to bear.
    """
    reaction_s = scrape_s + HpaRules(1, 1, 1.0).sync_s + cold_start_s
    growth = traffic.fastest_growth(reaction_s)
    in_flight = steady.decoding(each_rps / growth)
    most = max(provisioned)
    rules = HpaRules(
        least=max(min(provisioned), 1),
        most=most,
        target=max(round(in_flight / (1 + _HPA_TOLERANCE), 3), 0.05),
        up=StepRule(percent=100, pods=max(math.ceil((growth - 1) * most), 4), period_s=15),
        down=DOWN,
        down_window_s=max(300, 2 * math.ceil(cold_start_s)),
    )
    return Policy(
        rules, reaction_s, growth, tuple(provisioned), traffic.interval_s, traffic.start_s, traffic.clock_known
    )


def _policies(rule: StepRule) -> list[ScalingPolicy]:
    return [
        ScalingPolicy(type="Percent", value=rule.percent, period_seconds=rule.period_s),
        ScalingPolicy(type="Pods", value=rule.pods, period_seconds=rule.period_s),
    ]


def _adapter(at: Workplace) -> AdapterConfig:
    prefix = _PREFIX[at.metrics]
    summed = " + ".join(
        f"sum({prefix}num_requests_{state}{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)" for state in ("running", "waiting")
    )
    return AdapterConfig(
        rules=[
            AdapterRule(
                series_query=f'{prefix}num_requests_running{{namespace!="",pod!=""}}',
                resources={"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
                name={"as": _IN_FLIGHT},
                metrics_query=summed,
            )
        ]
    )
