"""The faces: command line, reports and the demo. Thin: what a run does lives in `autotune.harness`."""

__version__ = "0.1.0"
