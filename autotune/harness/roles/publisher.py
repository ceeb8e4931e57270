"""The publisher: what was confirmed is judged, shown to a person where one has to agree, and committed."""

from __future__ import annotations

from autotune.harness.nodes.approve import answered, approve
from autotune.harness.nodes.confirm import verdict
from autotune.harness.nodes.publish import finish, publish
from autotune.harness.roles.role import Role

__all__ = ["PUBLISHER"]

PUBLISHER = Role(
    "publisher",
    "asks the gate, then whoever has to approve, and commits what passed; nobody else may write",
    (verdict, publish, approve, answered, finish),
)
