"""The prefix doctor: what in an application's prompts keeps them from sharing a prefix, and what mending it gives."""

from tools.traces.doctor.diagnosis import Diagnosis, diagnose
from tools.traces.doctor.finding import Finding

__all__ = ["Diagnosis", "Finding", "diagnose"]
