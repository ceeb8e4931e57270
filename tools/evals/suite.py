"""Suite: everything that a server is asked to see whether it still says the same, fixed before anything is launched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tools.canonical import digest
from tools.evals.divergence import MAX_TOKENS, record_greedy
from tools.evals.prompts import GREEDY_PROMPTS
from tools.evals.results import EvalResults
from tools.targets.target import Endpoint

__all__ = ["Suite"]


@dataclass(frozen=True)
class Suite:
    """What is asked. Two recordings can be compared where their suites' digests are equal."""

    prompts: tuple[str, ...] = GREEDY_PROMPTS

    @cached_property
    def digest(self) -> str:
        """sha256 of all that is asked."""
        return digest({"greedy": list(self.prompts), "max_tokens": MAX_TOKENS})

    def run(self, endpoint: Endpoint, *, order_seed: int = 0) -> EvalResults:
        """Ask everything.

        Raises:
            LaunchFailed: kind `unreachable`; the server refused, or its answers lack what is compared.
        """
        return EvalResults(self.digest, record_greedy(endpoint, self.prompts, order_seed=order_seed))
