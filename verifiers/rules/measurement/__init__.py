"""Rules about the numbers: are they the server's, whole, possible, and of what was asked for?"""

from verifiers.rule import Rule, asked
from verifiers.rules.measurement import (
    accounting_balance,
    answers_counted,
    answers_valid,
    cache_prefix_hits,
    clock_agrees,
    data_complete,
    delivery_gaps,
    environment_same,
    identity_config,
    identity_model,
    identity_process,
    identity_sources,
    outputs_lengths,
    physics_ceiling,
    physics_floor,
    service_failures,
    soundness_doubts,
    units_consistent,
    workload_same,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = tuple(
    asked(module, "trial", "confirm")
    for module in (
        data_complete,
        units_consistent,
        environment_same,
        workload_same,
        identity_process,
        identity_config,
        identity_sources,
        identity_model,
        accounting_balance,
        answers_counted,
        answers_valid,
        outputs_lengths,
        cache_prefix_hits,
        delivery_gaps,
        service_failures,
        clock_agrees,
        physics_floor,
        physics_ceiling,
        soundness_doubts,
    )
)
"""What is missing is asked first: the others then have something to say."""
