"""`autotune gauntlet`: attacks and honest runs, in the record and over HTTP, and the matrix that comes of them."""

from autotune.gauntlet.run import run_gauntlet

__all__ = ["run_gauntlet"]
