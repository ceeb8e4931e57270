"""What serves: one small protocol, and an implementation per engine."""

from tools.targets.knobs import Config, Knob, KnobError, KnobSpace, Value
from tools.targets.target import Counters, Endpoint, FailureKind, Identity, LaunchFailed, MemoryNeed, Target

__all__ = [
    "Config",
    "Counters",
    "Endpoint",
    "FailureKind",
    "Identity",
    "Knob",
    "KnobError",
    "KnobSpace",
    "LaunchFailed",
    "MemoryNeed",
    "Target",
    "Value",
]
