"""Suite: everything that a server is asked to see whether it still says the same, fixed before anything is launched."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from tools.canonical import digest
from tools.evals.asker import open_asker
from tools.evals.conduct import record_conduct
from tools.evals.declared import LmEval, OwnEval
from tools.evals.defaults import record_defaults
from tools.evals.divergence import MAX_TOKENS, answer_greedily
from tools.evals.item import Asked, TaskSet, answered, ask_items
from tools.evals.lm_eval import Harness, read_harness
from tools.evals.own import OwnSet, read_own
from tools.evals.passages import held_out
from tools.evals.prompts import GREEDY_PROMPTS
from tools.evals.results import EvalResults, TaskResult
from tools.evals.tasks import BUNDLED, CONTEXT_TOKENS, needle
from tools.evals.teacher_forcing import score_passages
from tools.targets.target import Endpoint

__all__ = ["Suite"]


@dataclass(frozen=True)
class Suite:
    """What is asked. Two recordings can be compared where their suites' digests are equal."""

    context_tokens: int = CONTEXT_TOKENS
    "How long the longest prompt is: the context that the deployment declares."
    own: tuple[OwnSet, ...] = ()
    harnesses: tuple[Harness, ...] = ()

    @classmethod
    def of(cls, evals: Sequence[OwnEval], folder: Path, context_tokens: int | None = None) -> Suite:
        """The suite of a deployment that declares `evals`, in `folder`, with `context_tokens` where it says so.

        Raises:
            UserError: one of its own evals can't be read or run.
        """
        return cls(
            context_tokens or CONTEXT_TOKENS,
            tuple(read_own(each, folder) for each in evals if not isinstance(each, LmEval)),
            tuple(read_harness(each, folder) for each in evals if isinstance(each, LmEval)),
        )

    @cached_property
    def tasks(self) -> tuple[TaskSet, ...]:
        return (*BUNDLED, needle(self.context_tokens))

    @cached_property
    def digest(self) -> str:
        """sha256 of all that is asked, of the user's files, and of the code that asks and scores."""
        return digest(
            {
                "context_tokens": self.context_tokens,
                "greedy": [*GREEDY_PROMPTS, MAX_TOKENS],
                "passages": dict(held_out(self.context_tokens)),
                "tasks": [task.to_json() for task in self.tasks],
                "own": [own.to_json() for own in self.own],
                "harnesses": [each.to_json() for each in self.harnesses],
                "code": _code_digest(),
            }
        )

    def run(self, endpoint: Endpoint, *, order_seed: int = 0) -> EvalResults:
        """Ask everything: what is about words all at once, what is about time one by one.

        Raises:
            LaunchFailed: kind `unreachable`; the server refused, or its answers lack what is compared.
        """
        said, asked = asyncio.run(self._ask(endpoint, order_seed))
        own = {each.declared.name: each.score(heard) for each, heard in zip(self.own, asked, strict=True)}
        own |= {each.declared.name: each.run(endpoint) for each in self.harnesses}
        return replace(said, own=own)

    async def _ask(self, endpoint: Endpoint, order_seed: int) -> tuple[EvalResults, list[list[Asked]]]:
        async with open_asker(endpoint) as asker:
            conduct = await record_conduct(endpoint)
            greedy = await answer_greedily(asker, GREEDY_PROMPTS, MAX_TOKENS, order_seed)
            passages = await score_passages(asker, held_out(self.context_tokens))
            defaults = await record_defaults(asker)
            tasks = await asker.all(ask_items(asker, task.items) for task in self.tasks)
            own = await asker.all(each.ask(asker) for each in self.own)
        scored = {
            task.name: TaskResult({each.item.id: answered(each) for each in heard})
            for task, heard in zip(self.tasks, tasks, strict=True)
        }
        return EvalResults(self.digest, greedy, passages, scored, {}, defaults.tokens, defaults.nats, conduct), own


@cache
def _code_digest() -> str:
    room = Path(__file__).parent
    total = hashlib.sha256()
    for path in sorted(room.rglob("*.py")):
        total.update(path.relative_to(room).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
