"""Writing a run's report into its folder: report.md, report.json, report.html."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape

from autotune.harness.rundir import RunDir
from autotune.report.facts import Facts, read_facts
from autotune.report.picture import tradeoff_svg
from tools.targets.knobs import Value

__all__ = ["Written", "markdown", "write"]


@dataclass(frozen=True, slots=True)
class Written:
    """Where the three forms of a report stand."""

    markdown: Path
    json: Path
    html: Path


def write(run: RunDir) -> Written:
    """Render the run as it stands; each file is replaced whole."""
    facts = read_facts(run)
    written = Written(run.path / "report.md", run.path / "report.json", run.path / "report.html")
    _replace(written.markdown, markdown(facts))
    _replace(written.json, json.dumps(facts.to_json(), indent=2, sort_keys=True) + "\n")
    bound = facts.slo.get(facts.objective)
    picture = tradeoff_svg(facts.dots, facts.path, facts.objective, bound)
    _replace(written.html, _template("page.html.jinja").render(facts=facts, picture=picture, number=_number))
    return written


def markdown(facts: Facts) -> str:
    """The report as Markdown. Text from a proposer is escaped and quoted."""
    return _template("report.md.jinja").render(facts=facts, number=_number)


def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("autotune.report"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html.jinja",), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["patch"] = _patch
    environment.filters["cell"] = _cell
    return environment.get_template(name)


def _patch(patch: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in patch.items()) or "(baseline)"


def _cell(text: str) -> str:
    """Free text as one Markdown table cell: one line, no markup, bounded."""
    flat = " ".join(text.split())[:300]
    return "".join(f"\\{c}" if c in "\\|`*_[]<>#!" else c for c in flat)


def _number(value: float) -> str:
    """Three significant digits, never an exponent for the sizes that occur."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".part")
    draft.write_text(text)
    draft.replace(path)
