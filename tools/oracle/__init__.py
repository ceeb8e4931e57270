"""The crash oracle: will a config start and live, and keep its promises, without launching it?

Certain is only what the closed memory formula and the target's own checks say. What a run has learned moves the chance
and never masks; how fast a config will be is a hint.
"""

from tools.oracle.crash_oracle import CrashOracle
from tools.oracle.lessons import Lesson, lessons_of
from tools.oracle.room import Room
from tools.oracle.step_time import Load, Pace, StepTime

__all__ = ["CrashOracle", "Lesson", "Load", "Pace", "Room", "StepTime", "lessons_of"]
