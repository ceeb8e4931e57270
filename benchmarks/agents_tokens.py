"""Row `tokens`: what an LLM is sent in one turn, as the record of the run grows, counted by a real tokenizer."""

from __future__ import annotations

import random
from collections.abc import Sequence

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from agents.llm import Llm, LlmSettings
from agents.playbook import load_playbook
from agents.view import HypothesisView, TrialView, View
from autotune.report_card.contestants import PLAYBOOK
from benchmarks.table import Row
from tests.agents.scripted_openai import ScriptedOpenAI, reply
from tests.agents.views import make_view
from tools.models import pull
from tools.targets.knobs import Value

__all__ = ["tokens"]

TRIALS = (10, 25, 50, 100, 200)
FLAT = 0.20
MODEL = "smollm2-135m"
"Whose tokenizer counts."
LOG_LINE = "RuntimeError: [enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried to "


def tokens(quick: bool) -> Row:
    """Tokens of all messages of a turn's first request, from 10 to 200 trials."""
    tokenizer = AutoTokenizer.from_pretrained(pull(MODEL))
    counts = {trials: _tokens(tokenizer, _sent(view_after(trials))) for trials in TRIALS}
    growth = max(counts.values()) / counts[TRIALS[0]] - 1
    return {
        "value": f"{growth:+.1%} from {TRIALS[0]} to {TRIALS[-1]} trials",
        "goal": f"flat within {FLAT:.0%}",
        "ok": growth <= FLAT,
        "tokens by trials": counts,
        "tokenizer": MODEL,
    }


def view_after(trials: int) -> View:
    """A run after so many trials: all metrics, a hypothesis for each, one in eight failed with a long line of log."""
    draw = random.Random(7)
    baseline = TrialView("b1", {}, "baseline", "ok", _metrics(500.0, draw), (), 500.0, "")
    made = (baseline, *(_trial(number, draw) for number in range(trials)))
    return make_view(
        {},
        *made,
        trials_left=8,
        incumbent=next(each.id for each in reversed(made) if each.measured),
        hypotheses=tuple(_hypothesis(each.id) for each in made[1:]),
        notes=tuple(f"refuted in run {number}: more seats make first tokens later" for number in range(trials)),
    )


def _trial(number: int, draw: random.Random) -> TrialView:
    patch: dict[str, Value] = {
        "max_num_seqs": draw.randint(1, 512),
        "max_num_batched_tokens": draw.randint(16, 16384),
        "kv_cache_tokens": draw.randint(256, 4_000_000),
        "enable_prefix_caching": False,
    }
    if number % 8 == 7:
        return TrialView(f"t{number}", patch, "llm", "oom", {}, (), None, LOG_LINE * 4, LOG_LINE * 20)
    value = draw.uniform(100, 900)
    return TrialView(f"t{number}", patch, "llm", "ok", _metrics(value, draw), (), value, "")


def _metrics(value: float, draw: random.Random) -> dict[str, float]:
    metrics = {f"p{p}_{of}_ms": draw.uniform(1, 999) for p in (50, 90, 95) for of in ("ttft", "tpot", "itl", "e2el")}
    return metrics | {"p95_ttft_ms": value, "mean_e2el_ms": 4 * value, "output_throughput": 1e5 / value, "failed": 0.0}


def _hypothesis(trial: str) -> HypothesisView:
    text = "more seats let more prompts into one step, which stalls all who are reading"
    found = "p95_ttft_ms went from 500 to 620, which is worse than the noise explains"
    return HypothesisView(trial, "llm", text, {"p95_ttft_ms": "lower"}, "refuted", found)


def _sent(view: View) -> Sequence[dict[str, str]]:
    """The messages that the proposer sends for `view`, as a server gets them."""
    finish = reply({"action": {"kind": "finish", "reason": "counted"}})
    with ScriptedOpenAI(then=finish) as server:
        llm = Llm(LlmSettings(model="counted", base_url=server.base_url), load_playbook(PLAYBOOK))
        try:
            llm.turn(view)
        finally:
            llm.close()
        messages: list[dict[str, str]] = server.requests[0].body["messages"]
    return messages


def _tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]]) -> int:
    return sum(len(tokenizer.encode(message["content"])) for message in messages)
