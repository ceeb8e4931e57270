"""Row `card`: the report card of the expert, a random proposer, search alone and a real small LLM, on replay.

The LLM is served by the bundled engine: SmolLM2-135M, or the model that CARD_LLM names (a name for `autotune models
pull`, or a folder). It plays a part of the scenarios: on two cores one of its runs takes a minute, one of the others'
two seconds. CARD_OUT names a folder for the cards; they are kept there, and a stopped row goes on where it was.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autotune.harness.prepare import LlmOptions
from autotune.report_card.card import Card, ReportCard, report_card
from autotune.report_card.contestants import contestants
from autotune.report_card.evaluate import Evaluation, evaluate, known_scenarios
from autotune.report_card.page import report_card_page
from benchmarks.table import Row
from tools.canonical import canonical_json
from tools.models import pull
from tools.targets.bundled import BundledTarget
from tools.trial import launched

__all__ = ["card"]

SEED, K = 7, 3
TRIALS, LLM_TOKENS = 8, 40_000
LLM_TRIALS = 5
LLM_SCENARIOS = ("t01", "t03", "t14", "b01", "b06", "b09", "m01", "m03", "m05")
AGAIN = ("t02", "t10", "t14", "t19", "t22", "b06", "m03")
"Played twice in folders of their own: the same seed has to give the same card."
ENGINE = {"max_num_seqs": 2, "kv_cache_tokens": 8192, "max_model_len": 8192}


def card(quick: bool) -> Row:
    """The card is printed, and comes out the same again."""
    k = 1 if quick else K
    with _folder() as folder:
        own = _played(("expert", "random", "search"), tuple(known_scenarios()), k, TRIALS, None, folder / "card")
        twice = [
            _played(("expert", "random", "search"), AGAIN, 1, TRIALS, None, folder / "again" / name)
            for name in ("first", "second")
        ]
        cards = [_told(each) for each in own.cards]
        if not quick:
            with _served(folder) as llm:
                theirs = _played(("llm", "expert"), LLM_SCENARIOS, k, LLM_TRIALS, llm, folder / "llm")
            cards += [{**_told(each), "part": f"{len(LLM_SCENARIOS)} scenarios"} for each in theirs.cards]
    same = twice[0] == twice[1]
    return {
        "value": f"{len(cards)} cards of k = {k}, {'reproduced' if same else 'NOT reproduced'} from seed {SEED}",
        "goal": "expert, random and a real small LLM, k = 3, reproducible from its seed",
        "ok": None if quick else same,
        "cards": cards,
    }


def _played(
    names: tuple[str, ...], scenarios: tuple[str, ...], k: int, trials: int, llm: LlmOptions | None, out: Path
) -> ReportCard:
    asked = Evaluation(contestants(names, llm), scenarios, k, SEED, trials, LLM_TOKENS)
    out.mkdir(parents=True, exist_ok=True)
    found = report_card(asked, evaluate(asked, out, _Told()))
    (out / "card.json").write_bytes(canonical_json(found.to_json()))
    (out / "card.html").write_text(report_card_page(found))
    return found


def _told(each: Card) -> dict[str, Any]:
    """The few figures that fit into a row."""
    told: dict[str, Any] = {"proposer": each.proposer, "model": each.model}
    if each.tuning is not None:
        names = ("success", "pass_k", "true_gain", "possible_gain", "median_regret", "abstained_rightly", "trials")
        names += ("false_claims", "attacks", "escapes", "tokens", "faults")
        told |= {name: getattr(each.tuning, name) for name in names}
    for skill in ("benchmarking", "monitoring"):
        if (found := getattr(each, skill)) is not None:
            told[skill] = {"success": found.success, "pass_k": found.pass_k, "false_claims": found.false_claims}
    return told


@contextmanager
def _served(folder: Path) -> Iterator[LlmOptions]:
    model = pull(os.environ.get("CARD_LLM", "smollm2-135m"))
    target = BundledTarget(model)
    with launched(target, target.knobs.resolve(ENGINE), log=folder / "llm.log", timeout_s=300) as endpoint:
        yield LlmOptions(f"{endpoint.base_url}/v1", endpoint.model)


@contextmanager
def _folder() -> Iterator[Path]:
    if kept := os.environ.get("CARD_OUT"):
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


class _Told:
    """A line on stderr for each job."""

    def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
        left = f", about {seconds_left / 60:.0f} min left" if seconds_left is not None else ""
        sys.stderr.write(f"{name}: {detail}{left}\n")

    def note(self, text: str) -> None:
        sys.stderr.write(text + "\n")
