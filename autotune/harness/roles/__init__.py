"""Who does what in a run: four roles that own the graph's nodes, and the supervisor who says which of them is next."""

from autotune.harness.roles.benchmarker import BENCHMARKER
from autotune.harness.roles.monitor import MONITOR, monitor
from autotune.harness.roles.publisher import PUBLISHER
from autotune.harness.roles.role import Role
from autotune.harness.roles.supervisor import SUPERVISOR, Assignment, supervise, supervisor
from autotune.harness.roles.tuner import TUNER

__all__ = [
    "BENCHMARKER",
    "MONITOR",
    "PUBLISHER",
    "ROLES",
    "SUPERVISOR",
    "TUNER",
    "Assignment",
    "Role",
    "monitor",
    "supervise",
    "supervisor",
]

ROLES: tuple[Role, ...] = (BENCHMARKER, TUNER, PUBLISHER)
"""Those who own nodes. The monitor owns the one between them, and the supervisor the one after that."""
