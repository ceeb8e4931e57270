"""`python -m autotune` is the same as `autotune`."""

from autotune.cli import main

main()
