"""Contender: one deployment that takes part, its target and the config that it is launched with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autotune.compare.entry import Entry
from tools.deployment import DeploymentFile, load_deployment
from tools.errors import UserError
from tools.targets.choose import target_of
from tools.targets.knobs import Config, KnobError
from tools.targets.target import Target

__all__ = ["Contender", "contenders", "equalised", "parse_bytes"]

_SEATS = ("max_num_seqs", "max_running_requests", "parallel")
"What the engines call the most sequences that run together."
_UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


@dataclass(frozen=True)
class Contender:
    """A deployment, and what of it is the same in every launch."""

    name: str
    "Of the deployment; with its place where others are called the same."
    file: DeploymentFile
    target: Target
    config: Config
    unsized: str = ""
    "Why its KV cache isn't as large as the others'; empty where it is, or where nobody asked for that."

    @cached_property
    def entry(self) -> Entry:
        """What is to be known of it, as plain data."""
        deployment, values = self.file.deployment, self.config.values
        seats = [int(values[name]) for name in _SEATS if name in values]
        return Entry(
            name=self.name,
            file=self.file.path.name,
            engine=self.target.name,
            target=deployment.target.model_dump(mode="json"),
            model=deployment.model,
            model_digest=self.target.model_digest(),
            config=dict(values),
            lossy={knob.name: values[knob.name] for knob in self.target.knobs if knob.outputs == "lossy"},
            kv_bytes=self.kv_bytes,
            kv_tokens=self._kv_tokens(),
            seats=seats[0] if seats else None,
            unsized=self.unsized,
        )

    @property
    def kv_bytes(self) -> int | None:
        """Of its KV cache by the target's formula; None where that doesn't tell."""
        try:
            return self.target.memory(self.config).kv_cache_bytes or None
        except KnobError:
            return None

    def _kv_tokens(self) -> int | None:
        facts, kv_bytes = self.target.facts(self.config), self.kv_bytes
        layers = sum(layers for _, layers in facts.kv_layers) if facts else 0
        return kv_bytes // (facts.kv_bytes * layers) if facts and facts.kv_bytes and layers and kv_bytes else None


def contenders(paths: Sequence[Path]) -> tuple[Contender, ...]:
    """The deployments at `paths`, with the configs that stand in them.

    Raises:
        UserError: fewer than two, one that isn't valid, or a target that isn't there.
    """
    if len(paths) < 2:
        raise UserError(f"expected two or more deployments to compare, found {len(paths)}")
    files = [load_deployment(path) for path in paths]
    return tuple(_contender(file, name) for file, name in zip(files, _names(files), strict=True))


def _contender(file: DeploymentFile, name: str) -> Contender:
    target = target_of(file.deployment, file.path)
    try:
        config = target.knobs.resolve(file.deployment.config)
    except KnobError as refusal:
        raise KnobError(f"{file.path}: config: {refusal}") from None
    return Contender(name, file, target, config)


def equalised(entered: Sequence[Contender], kv_bytes: int | None) -> tuple[Contender, ...]:
    """All with KV caches of `kv_bytes`, or of the smallest that any of them has; who can't be sized keeps its own.

    Targets round down, to blocks or to whole GiB: the others follow the one that came out smallest, as near as they
    can.
    """
    wanted = kv_bytes or min((own for one in entered if (own := one.kv_bytes)), default=None)
    if wanted is None:
        return tuple(entered)
    sized = tuple(_sized(one, wanted) for one in entered)
    reached = min((own for one in sized if not one.unsized and (own := one.kv_bytes)), default=wanted)
    return tuple(one if one.unsized else _nearer(one, reached) for one in sized)


def _sized(one: Contender, kv_bytes: int) -> Contender:
    try:
        return replace(one, config=one.target.kv_sized(one.config, kv_bytes))
    except KnobError as refusal:
        return replace(one, unsized=str(refusal))


def _nearer(one: Contender, kv_bytes: int) -> Contender:
    """No larger than `kv_bytes`; as it is where its steps are too wide for that."""
    sized = _sized(one, kv_bytes)
    return one if sized.unsized else sized


def parse_bytes(option: str, text: str) -> int:
    """Bytes of `512MiB`, `1.5GiB` or `65536KiB`.

    Raises:
        UserError: not a size, or none at all.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UserError(f"{option}: expected a size like 512MiB or 1.5GiB, found {text!r}")
    return int(float(match[1]) * (1 << _UNITS[match[2]]))


def _names(files: Sequence[DeploymentFile]) -> list[str]:
    """Each deployment's name, with a number where others have the same: a config against itself shows the noise."""
    names = [file.deployment.name for file in files]
    return [f"{name} #{place}" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]
