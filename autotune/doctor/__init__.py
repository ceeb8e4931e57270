"""Doctor: what of this install or of an LLM's endpoint will get in the way, and what to do about it."""

from autotune.doctor.check import Check, worst
from autotune.doctor.endpoint import LlmProfile, probe_endpoint
from autotune.doctor.install import check_install

__all__ = ["Check", "LlmProfile", "check_install", "probe_endpoint", "worst"]
