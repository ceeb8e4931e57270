"""The faces: command line, reports and the demo. Thin: what a run does lives in `autotune.harness`."""

from autotune.privacy import keep_private

__version__ = "0.1.0"

keep_private()  # before anything else of this package is imported, and with it the libraries that it quietens
