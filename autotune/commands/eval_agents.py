"""`autotune eval agents`: the report card of proposers, on scenarios whose right answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.errors import UserError

__all__ = ["agents"]


def agents(
    proposer: Annotated[
        list[str] | None,
        typer.Option(help="expert, random, search (the numeric search alone) or llm; repeat for more."),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, max=50, help="Attempts at each scenario; pass^k asks for all.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the hidden loads and the launches' luck.")] = 7,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Only this one, by its id or a skill; repeat for more. All by default.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, max=60, help="Exploration trials of a tuning run.")] = 8,
    llm_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the llm proposer.")] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
    llm_key_env: Annotated[str | None, typer.Option(help="Variable that holds its key, where it needs one.")] = None,
    llm_tokens: Annotated[int, typer.Option(min=1, help="Most LLM tokens of a tuning run.")] = 60_000,
    out: Annotated[
        Path, typer.Option(help="Folder of the results: kept one by one, so that the same command goes on.")
    ] = Path("report-card"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Let proposers play scenarios with known right answers on recorded surfaces, and print their report card.

    The same seed gives the same card (an LLM's answers apart). OUT holds it as card.json and card.html, and the whole
    run folder of every run that didn't succeed.
    """
    import json

    from autotune.console import err, run_progress
    from autotune.harness.prepare import LlmOptions
    from autotune.report_card.card import report_card
    from autotune.report_card.contestants import contestants
    from autotune.report_card.evaluate import Evaluation, evaluate
    from autotune.report_card.page import report_card_page
    from autotune.report_card.show import show
    from tools.whole_file import replaced

    llm = LlmOptions(llm_url, llm_model, llm_key_env) if llm_url and llm_model else None
    asked = Evaluation(
        contestants=contestants(tuple(proposer or ("expert", "random", "search")), llm),
        scenarios=_chosen(scenario or []),
        k=k,
        seed=seed,
        trials=trials,
        llm_tokens=llm_tokens,
    )
    _make(out)
    with run_progress() as progress:
        card = report_card(asked, evaluate(asked, out, progress))
    with replaced(out / "card.json") as file:
        file.write((json.dumps(card.to_json(), indent=1) + "\n").encode())
    with replaced(out / "card.html") as file:
        file.write(report_card_page(card).encode())
    if as_json:
        print(json.dumps(card.to_json()))
    else:
        show(card)
        err.print(f"page: {out / 'card.html'}")


def _chosen(wanted: list[str]) -> tuple[str, ...]:
    """Ids of the scenarios that are wanted, by id or by skill, in their usual order.

    Raises:
        UserError: one that is neither.
    """
    from autotune.report_card.evaluate import known_scenarios

    known = known_scenarios()
    if unknown := sorted(set(wanted) - known.keys() - set(known.values())):
        raise UserError(
            f"--scenario: expected a skill ({', '.join(sorted(set(known.values())))}) or one of {', '.join(known)}; "
            f"found {', '.join(unknown)}"
        )
    return tuple(name for name, skill in known.items() if not wanted or name in wanted or skill in wanted)


def _make(out: Path) -> None:
    """The folder of the results. It ignores itself in git."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ".gitignore").write_text("*\n")
    except OSError as error:
        raise UserError(f"--out {out}: expected a folder that can be written to: {error.strerror}") from None
