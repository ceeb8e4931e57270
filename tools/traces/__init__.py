"""Traces: other people's request logs, made into workloads. Read, described, doctored; never kept as text."""

from tools.traces.logged import LoggedRequest, TraceLog
from tools.traces.read import read_log

__all__ = ["LoggedRequest", "TraceLog", "read_log"]
