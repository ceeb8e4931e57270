"""Contestants: the proposers that a card is about, by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.assess_expert import AssessExpert
from agents.assess_llm import AssessLlm
from agents.assess_random import AssessRandom
from agents.assessment import Assessor
from agents.expert import Expert
from agents.llm import Llm, LlmSettings
from agents.playbook import load_playbook
from agents.proposer import Proposer
from agents.random_proposer import RandomProposer
from agents.search_proposer import SearchProposer
from autotune.harness.prepare import LlmOptions
from tools.errors import UserError

__all__ = ["NAMES", "Contestant", "contestants"]

NAMES = ("expert", "random", "search", "llm")
PLAYBOOK = "interactive-latency"
"Of every scenario: the deployments' default."
_LLM_ANSWER_TOKENS = 512
"A small model that rambles is to be cut short: one action needs about 100."
_LLM_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Contestant:
    """One proposer: who tunes, and who assesses; search knows nothing to assess with."""

    name: str
    model: str
    "Of the LLM; empty for the others."
    proposer: Callable[[int], Proposer]
    "Made anew for each run, from its seed."
    assessor: Callable[[int], Assessor] | None
    endpoint: str = ""
    "Where the LLM answers; empty for the others, and for a provider's own."


def contestants(names: tuple[str, ...], llm: LlmOptions | None) -> tuple[Contestant, ...]:
    """Those called `names`.

    Raises:
        UserError: an unknown name, or the llm without an endpoint.
    """
    if unknown := [name for name in names if name not in NAMES]:
        raise UserError(f"--proposer: expected one of {', '.join(NAMES)}, found {', '.join(unknown)}")
    return tuple(_contestant(name, llm) for name in dict.fromkeys(names))


def _contestant(name: str, llm: LlmOptions | None) -> Contestant:
    if name == "random":
        return Contestant(name, "", RandomProposer, AssessRandom)
    if name == "search":
        return Contestant(name, "", lambda seed: SearchProposer(), None)
    playbook = load_playbook(PLAYBOOK)
    if name == "expert":
        return Contestant(name, "", lambda seed: Expert(playbook), lambda seed: AssessExpert())
    if llm is None:
        raise UserError("--proposer llm: expected an endpoint, found none; give --llm-url and --llm-model")
    settings = LlmSettings(
        model=llm.model,
        base_url=llm.base_url,
        api_key_env=llm.api_key_env,
        max_tokens=_LLM_ANSWER_TOKENS,
        timeout_s=_LLM_TIMEOUT_S,
    )
    return Contestant(
        name,
        llm.model,
        lambda seed: Llm(settings, playbook),
        lambda seed: AssessLlm(settings),
        endpoint=llm.base_url or "",
    )
