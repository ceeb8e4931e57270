"""Doctor: what of this install, of an engine or of an LLM's endpoint will get in the way, and what to do about it."""

from autotune.doctor.check import Check, worst
from autotune.doctor.endpoint import LlmProfile, probe_endpoint
from autotune.doctor.engines import EngineProfile, check_engine
from autotune.doctor.install import check_install

__all__ = ["Check", "EngineProfile", "LlmProfile", "check_engine", "check_install", "probe_endpoint", "worst"]
