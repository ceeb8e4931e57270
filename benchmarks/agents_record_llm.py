"""Records what a real LLM proposes, left alone on a table: config after config, each with all that came of the earlier.

    python -m benchmarks.agents_record_llm [--model NAME] [--seeds 3] [--trials 15]

That is how today's agents work: no search, no playbook, no second measurement; at the end the best that was seen is
shipped. The transcript is kept in `data/llm_alone.json`, so that the rows needn't serve a model: it says what was
proposed, in order, by table and seed. An answer that is no valid proposal after two repairs ends a transcript, as does
the LLM's own `finish`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.actions import Propose
from agents.llm import Llm, LlmSettings
from agents.playbook import Playbook
from agents.proposer import ProposerFailed
from benchmarks.agents_advice import view_of
from benchmarks.agents_countdown import counted
from benchmarks.agents_play import Exploration
from benchmarks.agents_transcripts import FILE
from benchmarks.surfaces.table import Table, load_table, table_names
from tools.search import Observation
from tools.targets.knobs import Value

__all__ = ["LlmAlone"]

ANSWER_TOKENS = 512
"A small model that rambles is to be cut short: one action needs about 100."

ALONE = Playbook.model_validate(
    {
        "name": "alone",
        "goal": "Find the config with the highest score.",
        "allowed_actions": ["propose", "finish"],
        "verifiers": ["policy"],
    }
)
"No knowledge of ours."


class LlmAlone:
    """An LLM as a strategy."""

    name = "llm-alone"

    def __init__(self, llm: Llm, table: Table, trials: int) -> None:
        self._llm = llm
        self._table = table
        self._trials = trials

    def ask(self, history: Sequence[Observation]) -> dict[str, Value] | None:
        """The LLM's next patch; None where it finishes, or says nothing that can be used."""
        left = self._trials - (len(history) - 1)
        try:
            action = self._llm.turn(view_of(self._table, history, trials_left=left)).action
        except ProposerFailed as failed:
            sys.stderr.write(f"{self._table.name}: {failed}\n")
            return None
        return dict(action.patch) if isinstance(action, Propose) else None


def main() -> None:
    from benchmarks.agents_llm import MODEL, served

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL, help="a name for `autotune models pull`, or a folder")
    parser.add_argument("--seeds", type=int, default=3, help="transcripts of each table")
    parser.add_argument("--trials", type=int, default=15)
    asked = parser.parse_args()
    tables: dict[str, list[list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), asked.model) as options:
        settings = LlmSettings(
            model=options.model, base_url=options.base_url, max_tokens=ANSWER_TOKENS, timeout_s=300.0
        )
        llm = Llm(settings, ALONE)
        jobs = [(name, seed) for name in table_names() for seed in range(asked.seeds)]
        for name, seed in counted("transcripts", jobs):
            table = load_table(name)
            exploration = Exploration(table, LlmAlone(llm, table, asked.trials), seed)
            steps = [exploration.step(number) for number in range(asked.trials)]
            tables.setdefault(name, []).append([dict(step.patch) for step in steps if step is not None])
        llm.close()
    command = f"python -m benchmarks.agents_record_llm --model {options.model} --seeds {asked.seeds}"
    kept = {
        "model": options.model,
        "recorded": datetime.date.today().isoformat(),
        "command": command,
        "tables": tables,
    }
    FILE.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
