"""KnobPage: the table as Markdown, for docs/engine.md (`python -m engine knobs`)."""

from __future__ import annotations

from engine.knobs import KnobRow, knob_table

__all__ = ["knob_page"]


def knob_page() -> str:
    """A Markdown table of every knob."""
    lines = ["| flag | values | default | what it does |", "|---|---|---|---|"]
    lines += [f"| `{row.flag}` | {values_of(row)} | `{default_of(row)}` | {notes_of(row)} |" for row in knob_table()]
    return "\n".join(lines) + "\n"


def values_of(row: KnobRow) -> str:
    if row.kind == "bool":
        return "`--no-…` turns it off"
    if row.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in row.choices)
    return f"{row.low:.0f} to {row.high:.0f} {row.unit}"


def default_of(row: KnobRow) -> str:
    return str(row.default).lower() if row.kind == "bool" else str(row.default)


def notes_of(row: KnobRow) -> str:
    lossy = " Can change what the model says." if row.outputs == "lossy" else ""
    fixed = "" if row.tunable else " Never tuned: it is the owner's."
    return row.meaning + lossy + fixed
