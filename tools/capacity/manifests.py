"""Manifests: the autoscaling policy as Kubernetes objects. The models hold the fields that are used, and no others.

Fields after the published schemas: HorizontalPodAutoscaler autoscaling/v2 (Kubernetes API reference), ScaledObject
keda.sh/v1alpha1 (KEDA 2 reference), and the rules of prometheus-adapter's configuration.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

__all__ = [
    "DNS_NAME",
    "AdapterConfig",
    "AdapterRule",
    "Advanced",
    "Behavior",
    "CronMetadata",
    "CronTrigger",
    "Hpa",
    "HpaConfig",
    "HpaSpec",
    "MetricName",
    "MetricTarget",
    "ObjectMeta",
    "PodsMetric",
    "PodsSource",
    "PrometheusMetadata",
    "PrometheusTrigger",
    "ScaleTarget",
    "ScaledObject",
    "ScaledObjectSpec",
    "ScalingPolicy",
    "ScalingRules",
    "quantity",
    "to_yaml",
]

DNS_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""What Kubernetes takes everywhere: an RFC 1123 label."""

DnsName = Annotated[str, Field(pattern=DNS_NAME)]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+m?$")]
NumberText = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?$")]
CronText = Annotated[str, Field(pattern=r"^\d{1,2} \d{1,2} \* \* \*$")]


class _Kube(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class ObjectMeta(_Kube):
    name: DnsName
    namespace: DnsName | None = None
    annotations: dict[str, str] | None = None


class ScaleTarget(_Kube):
    api_version: str = "apps/v1"
    kind: str = "Deployment"
    name: DnsName


class MetricName(_Kube):
    name: Annotated[str, Field(pattern=r"^[a-z0-9_./-]+$")]
    "Of a custom metric; a path segment of the metrics API, so it has no colon."


class MetricTarget(_Kube):
    type: Literal["AverageValue"] = "AverageValue"
    average_value: Quantity


class PodsSource(_Kube):
    metric: MetricName
    target: MetricTarget


class PodsMetric(_Kube):
    type: Literal["Pods"] = "Pods"
    pods: PodsSource


class ScalingPolicy(_Kube):
    type: Literal["Pods", "Percent"]
    value: int = Field(gt=0)
    period_seconds: int = Field(gt=0, le=1800)


class ScalingRules(_Kube):
    stabilization_window_seconds: int = Field(ge=0, le=3600)
    select_policy: Literal["Max", "Min", "Disabled"] = "Max"
    policies: list[ScalingPolicy] = Field(min_length=1)


class Behavior(_Kube):
    scale_up: ScalingRules
    scale_down: ScalingRules


class HpaSpec(_Kube):
    scale_target_ref: ScaleTarget
    min_replicas: int = Field(ge=1)
    max_replicas: int = Field(ge=1)
    metrics: list[PodsMetric] = Field(min_length=1)
    behavior: Behavior

    @model_validator(mode="after")
    def _ordered(self) -> HpaSpec:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"expected minReplicas <= maxReplicas, found {self.min_replicas} > {self.max_replicas}")
        return self


class Hpa(_Kube):
    api_version: Literal["autoscaling/v2"] = "autoscaling/v2"
    kind: Literal["HorizontalPodAutoscaler"] = "HorizontalPodAutoscaler"
    metadata: ObjectMeta
    spec: HpaSpec


class PrometheusMetadata(_Kube):
    server_address: Annotated[str, Field(pattern=r"^https?://")]
    query: str = Field(min_length=1)
    threshold: NumberText


class PrometheusTrigger(_Kube):
    type: Literal["prometheus"] = "prometheus"
    metric_type: Literal["AverageValue"] = "AverageValue"
    metadata: PrometheusMetadata


class CronMetadata(_Kube):
    """All values are strings, as in every trigger's metadata."""

    timezone: str
    start: CronText
    end: CronText
    desired_replicas: Annotated[str, Field(pattern=r"^[1-9][0-9]*$")]

    @model_validator(mode="after")
    def _not_all_day(self) -> CronMetadata:
        if self.start == self.end:
            raise ValueError("expected different start and end: KEDA refuses a cron trigger of no length")
        return self


class CronTrigger(_Kube):
    type: Literal["cron"] = "cron"
    metadata: CronMetadata


class HpaConfig(_Kube):
    behavior: Behavior


class Advanced(_Kube):
    horizontal_pod_autoscaler_config: HpaConfig


class ScaledObjectSpec(_Kube):
    scale_target_ref: ScaleTarget
    polling_interval: int = Field(ge=1)
    min_replica_count: int = Field(ge=0)
    max_replica_count: int = Field(ge=1)
    advanced: Advanced
    triggers: list[PrometheusTrigger | CronTrigger] = Field(min_length=1)


class ScaledObject(_Kube):
    api_version: Literal["keda.sh/v1alpha1"] = "keda.sh/v1alpha1"
    kind: Literal["ScaledObject"] = "ScaledObject"
    metadata: ObjectMeta
    spec: ScaledObjectSpec


class AdapterRule(_Kube):
    series_query: str
    resources: dict[str, Any]
    name: dict[Literal["as"], str]
    metrics_query: str


class AdapterConfig(_Kube):
    """prometheus-adapter's rule that makes the metric which the HPA reads."""

    rules: list[AdapterRule]


def quantity(value: float) -> str:
    """A Kubernetes quantity, to a thousandth: 12 is `12`, 12.5 is `12500m`."""
    return str(round(value)) if value == round(value) else f"{round(value * 1000)}m"


def to_yaml(document: Hpa | ScaledObject | AdapterConfig, comment: str) -> str:
    """YAML that says where it comes from in its first lines."""
    data = document.model_dump(mode="json", by_alias=True, exclude_none=True)
    head = "".join(f"# {line}\n" for line in re.split(r"\n", comment))
    return head + yaml.safe_dump(data, sort_keys=False, width=120)
