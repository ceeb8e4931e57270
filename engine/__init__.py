"""The bundled serving engine: what is tuned. Usable on its own: `python -m engine serve MODEL_DIR`.

This package imports nothing heavy by itself, so that the knob table and the memory formula are cheap to ask for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from engine.errors import RequestRefused, StartRefused
from engine.knobs import EngineKnobs, knob_table
from engine.memory import MemoryPlan, plan_memory
from engine.model_config import ModelConfig
from engine.sampling import SamplingParams

if TYPE_CHECKING:
    from engine.core import Engine
    from engine.offline import LLM, Completion

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "Completion",
    "Engine",
    "EngineKnobs",
    "MemoryPlan",
    "ModelConfig",
    "RequestRefused",
    "SamplingParams",
    "StartRefused",
    "knob_table",
    "plan_memory",
]

HEAVY = {"Completion": "engine.offline", "Engine": "engine.core", "LLM": "engine.offline"}
"""Names that need torch, and where they are."""


def __getattr__(name: str) -> Any:
    """Load torch and all that needs it only when it is asked for."""
    if name in HEAVY:
        return getattr(importlib.import_module(HEAVY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
