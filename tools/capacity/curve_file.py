"""Curve files: the replica that a calibration measured, and the mix of requests it was measured with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from tools.capacity.mix import Mix
from tools.errors import UserError
from tools.measure.workload import WorkloadSpec
from tools.service.calibration import ServiceCalibration
from tools.service.curve import ServiceCurve
from tools.service.replica import Replica

__all__ = ["DEFAULT_CHUNK_TOKENS", "Measured", "read_replica"]

DEFAULT_CHUNK_TOKENS = 2048
"""Most tokens of one step where a bare curve doesn't tell; vLLM's smallest default."""


@dataclass(frozen=True)
class Measured:
    """A replica, and what its calibration tells besides."""

    replica: Replica
    mix: Mix
    corrections: Mapping[str, float]
    "Measured over simulated, per flat metric."


def read_replica(path: Path, chunk_tokens: int | None = None) -> Measured:
    """The replica in `path`.

    Args:
        path: what `autotune calibrate --out` wrote, or the JSON of a bare ServiceCurve.
        chunk_tokens: instead of the file's.

    Raises:
        UserError: no such file, or neither of the two.
    """
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: expected a service curve, but it can't be read: {error.strerror}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a service curve as JSON: {error}") from None
    try:
        found = _of(data)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise UserError(
            f"{path}: expected what `autotune calibrate --out` writes, or a service curve with seats, overhead_s, "
            f"prefill_s_per_token, steps, prompt_tokens and output_tokens; found something else "
            f"({type(error).__name__}: {str(error).splitlines()[0]})"
        ) from None
    if problem := _problem(found.replica.curve):
        raise UserError(f"{path}: not a service curve: {problem}")
    if chunk_tokens is None:
        return found
    return replace(found, replica=replace(found.replica, chunk_tokens=chunk_tokens))


def _of(data: Any) -> Measured:
    if not isinstance(data, Mapping):
        raise TypeError(f"expected an object, found {type(data).__name__}")
    if data.get("kind") == "service-calibration":
        calibration = ServiceCalibration.from_json(data)
        fit = calibration.fit
        mix = Mix.of_workload(WorkloadSpec.model_validate(calibration.workload))
        return Measured(fit.replica, _as_measured(mix, fit.replica.curve), fit.corrections)
    replica = Replica(ServiceCurve.from_json(data), DEFAULT_CHUNK_TOKENS)
    return Measured(replica, Mix.of_curve(replica.curve), {})


def _as_measured(mix: Mix, curve: ServiceCurve) -> Mix:
    """The workload's lengths, stretched to the means that the server counted: its tokens are not our words."""
    prompts = np.maximum(np.rint(mix.prompts * curve.prompt_tokens / mix.mean_prompt), 1).astype(np.int64)
    outputs = np.maximum(np.rint(mix.outputs * curve.output_tokens / mix.mean_output), 1).astype(np.int64)
    return Mix(prompts, outputs, "the calibration's workload, in the server's tokens", mix.turns)


def _problem(curve: ServiceCurve) -> str | None:
    counts = [count for count, _ in curve.steps]
    if not counts or counts != sorted(set(counts)):
        return f"expected steps with ascending numbers of sequences, found {counts}"
    if min(step for _, step in curve.steps) <= 0:
        return "expected every step to take some time, found one that takes none"
    if curve.seats < 1 or curve.overhead_s < 0 or curve.prefill_s_per_token < 0:
        return "expected at least one seat and no negative times"
    if curve.prompt_tokens < 0 or curve.output_tokens < 1:
        return "expected at least one output token a request"
    return None
