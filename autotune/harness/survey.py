"""Survey: what the machine is, and what no config can get out of it."""

from __future__ import annotations

from typing import Any

from tools.deployment import DeploymentFile
from tools.errors import UserError
from tools.profile.hardware import hardware
from tools.profile.roofline import measure_roofline
from tools.targets.bundled import BundledTarget
from tools.targets.knobs import Config

__all__ = ["survey_of"]


def survey_of(file: DeploymentFile, target: BundledTarget, baseline: Config) -> dict[str, Any]:
    """What the machine is, and what no config can get out of it.

    Raises:
        UserError: the config doesn't fit, or a promise lies below the roofline's floor (exit code 2).
    """
    machine = hardware()
    need = target.memory(baseline).total_bytes
    memory_bytes = machine.gpu_memory_bytes if file.deployment.device == "cuda" else machine.memory_bytes
    if need > memory_bytes:
        raise UserError(
            f"{file.path}: the config needs {need / 2**30:.1f} GiB by the memory formula, the device has "
            f"{memory_bytes / 2**30:.1f} GiB; lower kv_cache_tokens or max_num_batched_tokens"
        )
    roofline = measure_roofline(device=file.deployment.device)
    floors = target.floors(roofline, baseline, prompt_tokens=file.deployment.workload.least_new_tokens)
    for metric, bound in sorted(file.deployment.slo.bounds().items()):
        floor = floors.get(metric.partition("_")[2])
        if floor is not None and bound < floor:
            raise UserError(
                f"{file.path}: slo: {metric} <= {bound:g} can't be kept by any config: the roofline's floor on this "
                f"machine is {floor:.2f} ms; promise more than that",
                exit_code=2,
            )
    return {
        "hardware": machine.to_json(),
        "environment": machine.fingerprint,
        "memory_bytes": memory_bytes,
        "model_digest": target.model_digest(),
        "memory_need_bytes": need,
        "roofline": roofline.to_json(),
        "floors": floors,
        "facts": {
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "gpus": len(machine.gpus) if file.deployment.device == "cuda" else 0,
            "gpu_memory_bytes": machine.gpu_memory_bytes,
        },
    }
