"""What the search is owed, whatever a proposer says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.harness.share import owed_to_search
from tools.ledger import Ledger

OWN, SEARCHED = {"kind": "propose"}, {"kind": "propose", "by_search": True}


@pytest.mark.parametrize(
    ("said", "owed"),
    [
        ([], 0),
        ([OWN], 1),
        ([OWN, {"kind": "measure"}], 2),
        ([OWN, SEARCHED], 0),
        ([OWN, {"kind": "propose", "preflight": "FAIL"}], 1),
        ([SEARCHED, SEARCHED, OWN], 0),
        ([{"kind": "inspect"}, {"kind": "weigh"}, {"kind": "search"}], 0),
        ([OWN, OWN, {"kind": "finish", "by_search": True}], 0),
        ([OWN, {"kind": "finish", "by_search": True}, OWN], 1),
    ],
)
def test_as_many_trials_as_the_proposer_chose(tmp_path: Path, said: list[dict[str, Any]], owed: int) -> None:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        for number, one in enumerate(said):
            by_search = {"by_search": True} if one.get("by_search") else {}
            ledger.append("action", {"action": {"kind": one["kind"]}, **by_search}, key=f"action:{number}")
            if one["kind"] in ("propose", "measure"):
                status = one.get("preflight", "PASS")
                ledger.append("preflight", {"status": status}, key=f"preflight:{number}")
        for free in ("llm", "random"):
            assert owed_to_search(ledger, free, patience=4) == owed
        assert owed_to_search(ledger, "expert", patience=4) == 0


def test_before_it_may_end_the_search_has_made_its_least(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        assert owed_to_search(ledger, "llm", patience=4) == 0
        ledger.append("action", {"action": {"kind": "finish"}}, key="action:1")
        assert owed_to_search(ledger, "llm", patience=4) == 4
        ledger.append("action", {"action": {"kind": "propose"}, "by_search": True}, key="action:2")
        assert owed_to_search(ledger, "llm", patience=4) == 3
