"""Any engine, started by a command of the owner's: what the deployment says of it, and the driver that follows that."""

from tools.targets.command.driver import CommandDriver
from tools.targets.command.spec import CommandSpec

__all__ = ["CommandDriver", "CommandSpec"]
