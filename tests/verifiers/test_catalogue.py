"""The catalogue: stable ids, a question each, small files, and a page that tells all of them."""

from __future__ import annotations

import re
from pathlib import Path

import verifiers
from verifiers import RULES, STAGES

PAGE = Path(__file__).parents[2] / "docs" / "verifying.md"
MOST_LINES = 120


def table() -> list[str]:
    """The page's table of rules, as the catalogue has it."""
    head = [
        "| rule | asks | before a launch | of a trial | of the confirmation | of the commit |",
        "|---|---|---|---|---|---|",
    ]
    rows = []
    for rule in RULES:
        marks = " | ".join("x" if rule in rules else "" for rules in STAGES.values())
        rows.append(f"| `{rule.id}` | {rule.question} | {marks} |".replace("|  |", "| |").replace("|  |", "| |"))
    return [*head, *rows]


def test_the_page_tells_every_rule_and_when_it_is_asked() -> None:
    expected = "\n".join(table())
    assert f"\n{expected}\n\n" in PAGE.read_text(), f"expected docs/verifying.md to hold:\n{expected}"


def test_every_rule_has_a_stable_id_and_a_question_and_is_asked_somewhere() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", rule.id)
        assert rule.question.partition("  ")[0].rstrip(".").endswith("?") or "?" in rule.question, rule.id
        assert rule.stages


def test_a_verifier_is_one_file_of_at_most_120_lines_named_as_its_rule() -> None:
    folder = Path(verifiers.__file__).parent / "rules"
    files = {path.stem: path for path in folder.glob("*/*.py") if path.stem != "__init__"}
    names = {rule.verify.__module__.rpartition(".")[2] for rule in RULES}
    assert names <= set(files)
    assert {path.name: n for path in files.values() if (n := len(path.read_text().splitlines())) > MOST_LINES} == {}
