"""Profile: what this machine is, and what no config can get out of it."""

from tools.profile.checkpoint import Checkpoint
from tools.profile.hardware import Hardware, hardware
from tools.profile.physics import SAFETY, Floor, ModelFacts, Traffic, ceilings, floor_ms
from tools.profile.roofline import Roofline

__all__ = [
    "SAFETY",
    "Checkpoint",
    "Floor",
    "Hardware",
    "ModelFacts",
    "Roofline",
    "Traffic",
    "ceilings",
    "floor_ms",
    "hardware",
]
