"""Profile: what this machine is, and what no config can get out of it."""

from tools.profile.hardware import Hardware, hardware
from tools.profile.roofline import Floor, ModelFacts, Roofline, floor_ms, measure_roofline

__all__ = ["Floor", "Hardware", "ModelFacts", "Roofline", "floor_ms", "hardware", "measure_roofline"]
