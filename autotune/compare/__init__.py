"""Compare: one workload across targets on this machine, with KV caches of the same size. Nothing is tuned or judged."""

from autotune.compare.comparison import Comparison
from autotune.compare.contender import Contender, contenders, equalised, parse_bytes
from autotune.compare.document import document
from autotune.compare.run import Rounds, run_compare
from autotune.compare.show import show

__all__ = [
    "Comparison",
    "Contender",
    "Rounds",
    "contenders",
    "document",
    "equalised",
    "parse_bytes",
    "run_compare",
    "show",
]
