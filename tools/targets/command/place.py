"""Place: where a server tells something of itself: a key in JSON that it answers, or a label of one of its metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tools.targets.control import ControlClient, ControlError

__all__ = ["Place", "read_samples"]

_JSON = re.compile(r"(?P<path>/[^\s#]*)#(?P<key>[^\s{}]*)")
_METRIC = re.compile(r"(?P<path>/[^\s#]*)#(?P<key>[A-Za-z_:][A-Za-z0-9_:]*)\{(?P<label>[A-Za-z_]?[A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Place:
    """`/server_info#config.max_num_seqs`, `/v1/models#data.0.root`, `/metrics#cache_config_info{block_size}`.

    Without a key, or with `{}`, all that stands there, by name: `/server_info#config`, `/metrics#config_info{}`.
    """

    path: str
    "What to GET."
    key: str
    "Names and, within lists, numbers from the top of the JSON, joined by dots; or the metric's name."
    label: str | None = None
    "Of the metric; empty: all of them. None: JSON is read."

    @classmethod
    def parse(cls, text: str) -> Place:
        """
        Raises:
            ValueError: `text` is no place.
        """
        if found := _METRIC.fullmatch(text) or _JSON.fullmatch(text):
            return cls(**found.groupdict())
        raise ValueError(
            f"expected PATH#KEY of JSON as /info#config.max_num_seqs, or PATH#METRIC{{LABEL}}, found {text!r}"
        )

    def __str__(self) -> str:
        return f"{self.path}#{self.key}" + ("" if self.label is None else f"{{{self.label}}}")

    def read(self, client: ControlClient) -> Any:
        """What stands there; a mapping where the place is of all that does.

        Raises:
            ControlError: no answer, or nothing there.
        """
        return self.within(client, client.text(self.path))

    def within(self, client: ControlClient, text: str) -> Any:
        """What stands there in `text`, the answer of `client` to a GET of the path.

        Raises:
            ControlError: nothing there.
        """
        if self.label is not None:
            return self._label(client, read_samples(client, self.path, text))
        try:
            value = json.loads(text)
        except ValueError:
            raise self._missing(client, "JSON", text[:80]) from None
        for step in self.key.split(".") if self.key else ():
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                raise self._missing(client, f"a value at {self.key}", _shown(value))
        return value

    def _label(self, client: ControlClient, samples: list[Sample]) -> Any:
        labels = next((sample.labels for sample in samples if sample.name == self.key), None)
        if labels is None:
            raise self._missing(client, f"the metric {self.key}", "no such metric")
        if not self.label:
            return labels
        if self.label not in labels:
            raise self._missing(client, f"the label {self.label} of {self.key}", _shown(labels))
        return labels[self.label]

    def _missing(self, client: ControlClient, expected: str, found: str) -> ControlError:
        return ControlError(f"{client.base_url}{self.path}: expected {expected}, found {found}")


def read_samples(client: ControlClient, path: str, text: str) -> list[Sample]:
    """Every sample of Prometheus text.

    Raises:
        ControlError: it isn't such text.
    """
    try:
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except (ValueError, KeyError) as error:
        raise ControlError(f"{client.base_url}{path}: expected Prometheus text, found {error}") from error


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "only " + ", ".join(sorted(map(str, value))[:20])
    return f"{str(value)[:80]!r}"
