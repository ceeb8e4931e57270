"""Survey: what the machine is, and what no config can get out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.deployment import DeploymentFile
from tools.errors import UserError
from tools.measure.workload import WorkloadSpec
from tools.profile.hardware import Hardware, hardware
from tools.profile.physics import Traffic, ceilings, floor_ms
from tools.profile.probe import measure_roofline
from tools.profile.roofline import Roofline
from tools.targets.knobs import Config
from tools.targets.target import Target

__all__ = ["bounds_of", "survey_of"]


def survey_of(
    file: DeploymentFile,
    target: Target,
    baseline: Config,
    machine: Hardware | None = None,
    roofline: Roofline | None = None,
) -> dict[str, Any]:
    """What the machine is, and what no config can get out of it.

    Args:
        machine, roofline: as they were recorded, in place of this machine's own.

    Raises:
        UserError: the config doesn't fit, or a promise lies below the roofline's floor (exit code 2).
    """
    machine = machine or hardware()
    need = target.memory(baseline).total_bytes
    memory_bytes = machine.gpu_memory_bytes if file.deployment.device == "cuda" else machine.memory_bytes
    if need > memory_bytes:
        raise UserError(
            f"{file.path}: the config needs {need / 2**30:.1f} GiB by the memory formula, the device has "
            f"{memory_bytes / 2**30:.1f} GiB; lower kv_cache_tokens or max_num_batched_tokens"
        )
    if roofline is None:
        facts = target.facts(baseline, free=file.managed)
        roofline = measure_roofline(device=file.deployment.device, step_bytes=facts.step_bytes if facts else 0)
    bounds = bounds_of(file, target, baseline, roofline)
    for metric, bound in sorted(file.deployment.slo.bounds().items()):
        lowest = bounds["floors"].get(metric.partition("_")[2])
        if lowest is not None and bound < lowest:
            raise UserError(
                f"{file.path}: slo: {metric} <= {bound:g} can't be kept by any config: the roofline's floor on this "
                f"machine is {lowest:.2f} ms; promise more than that",
                exit_code=2,
            )
    return {
        "hardware": machine.to_json(),
        "environment": machine.fingerprint,
        "memory_bytes": memory_bytes,
        "model_digest": target.model_digest(),
        "memory_need_bytes": need,
        **bounds,
        "facts": {
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "gpus": len(machine.gpus) if file.deployment.device == "cuda" else 0,
            "gpu_memory_bytes": machine.gpu_memory_bytes,
        },
    }


def bounds_of(file: DeploymentFile, target: Target, baseline: Config, roofline: Roofline) -> dict[str, Any]:
    """What `roofline` says that no config can undercut or exceed: `roofline`, `floors` (ms) and `physics`.

    Of a model that isn't known well enough nothing is said, and `physics` tells that it is `unknown`.
    """
    facts, least = target.facts(baseline, free=file.managed), _least(file.deployment.workload)
    if facts is None:
        why = f"what a token costs isn't known of {file.deployment.model} with the target {target.name}"
        return {"roofline": roofline.to_json(), "floors": {}, "physics": {"unknown": why}}
    floor = floor_ms(
        roofline,
        facts,
        least.new_tokens,
        context_tokens=least.prompt_tokens,
        output_tokens=least.output_tokens,
    )
    return {
        "roofline": roofline.to_json(),
        "floors": {"ttft_ms": floor.ttft_ms, "tpot_ms": floor.tpot_ms, "e2el_ms": floor.e2el_ms},
        "physics": {
            "model": facts.to_json(),
            "ridge_flop_per_byte": roofline.ridge_flop_per_byte,
            "ceilings": {
                "request_throughput": ceilings(roofline, facts, least)["request_throughput"],
                # Prompts may be cached and longer answers cost more a token: with neither it is most.
                "output_throughput": ceilings(roofline, facts, replace(least, new_tokens=0))["output_throughput"],
            },
        },
    }


def _least(spec: WorkloadSpec) -> Traffic:
    """The cheapest request of a workload, and as many at once as it has: what every config is bounded by.

    Lengths are in words, and a word is a token at least.
    """
    if spec.shapes is None:
        assert spec.output_tokens is not None
        output_tokens = spec.output_tokens.min
    else:
        output_tokens = min(output for shape in spec.shapes.conversations for _, output, _ in shape.turns)
    return Traffic(
        prompt_tokens=spec.system_prompt_tokens + spec.least_new_tokens,
        new_tokens=spec.least_new_tokens,
        output_tokens=output_tokens,
        batch=spec.requests,
    )
