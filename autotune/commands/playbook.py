"""`autotune playbook`: what the playbooks know, and whether their advice can be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agents.playbook import Playbook
    from agents.playbook_check import Finding

__all__ = ["playbook_group"]

playbook_group = typer.Typer(help="What playbooks know: list, show and check them.", no_args_is_help=True)

_FURTHER = 5
"Times as many situations are drawn for what holds seldom."

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@playbook_group.command("list")
def list_playbooks(as_json: Json = False) -> None:
    """The playbooks that are shipped, each with its goal."""
    import json

    from agents.playbook import load_playbook, playbook_names, playbooks_digest
    from autotune.console import out

    playbooks = [load_playbook(name) for name in playbook_names()]
    if as_json:
        rows = [{"name": p.name, "goal": p.goal, "hypotheses": len(p.hypotheses)} for p in playbooks]
        print(json.dumps({"digest": playbooks_digest(), "playbooks": rows}))
        return
    for playbook in playbooks:
        out.print(f"[bold]{playbook.name}[/] ({len(playbook.hypotheses)} hypotheses)\n  {playbook.goal}")


@playbook_group.command("show")
def show_playbook(
    playbook: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A shipped playbook, or a .yaml file.")],
    as_json: Json = False,
) -> None:
    """One playbook with all that it borrows written out."""
    import json

    from agents.playbook import load_playbook

    shown = load_playbook(playbook)
    if as_json:
        print(json.dumps(shown.model_dump(mode="json", by_alias=True)))
    else:
        _print(shown)


@playbook_group.command("check")
def check_playbooks(
    playbooks: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="All that are shipped by default.")
    ] = None,
    situations: Annotated[int, typer.Option(min=20, max=5000, help="Deployments of the bundled engine to draw.")] = 160,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    as_json: Json = False,
) -> None:
    """Look for advice that can't be followed: names, values, and configs that wouldn't start on drawn machines.

    Nothing is launched. Exit code 2 where something is wrong.
    """
    import json

    from rich.markup import escape
    from rich.progress import track

    from agents.playbook import load_playbook, playbook_names
    from agents.playbook_check import check_playbook
    from autotune.console import err, out
    from autotune.playbook_situations import engine_spaces, playbook_situations

    asked = [load_playbook(source) for source in playbooks or playbook_names()]
    found: list[Finding] = []
    with playbook_situations(_FURTHER * situations, seed) as drawn:
        some, further = drawn[: len(drawn) // _FURTHER], drawn[len(drawn) // _FURTHER :]
        for playbook in track(asked, f"{len(some)} situations", console=err, transient=True):
            found += check_playbook(playbook, engine_spaces(), some, further)
    if as_json:
        checked = [{"name": p.name, "hypotheses": len(p.hypotheses)} for p in asked]
        findings = [finding.to_json() for finding in found]
        print(json.dumps({"situations": len(some), "checked": checked, "findings": findings}))
    else:
        for finding in found:
            place = ", ".join(finding.hypotheses) or "playbook"
            out.print(escape(f"{finding.playbook}, {place} ({finding.rule}): {finding.sentence}"), soft_wrap=True)
            if finding.facts:
                out.print(escape(f"  such as {json.dumps(finding.facts)}"), soft_wrap=True)
        out.print(f"{len(asked)} playbooks in {len(some)} situations: {len(found) or 'nothing'} wrong")
    if found:
        raise typer.Exit(2)


def _print(playbook: Playbook) -> None:
    from rich.markup import escape

    from autotune.console import out

    out.print(f"[bold]{playbook.name}[/]: {escape(playbook.goal)}")
    for name, source in playbook.define.items():
        out.print(f"  {name} = {escape(source)}")
    for hypothesis in playbook.hypotheses:
        how = f"for {', '.join(hypothesis.engines)}" + (", by itself" if hypothesis.alone else "")
        tried = ", ".join(f"{knob}: {value}" for knob, value in hypothesis.attempt.items())
        expected = ", ".join(f"{metric} {direction}" for metric, direction in hypothesis.expect.items())
        out.print(f"\n[bold]{hypothesis.id}[/] ({how})")
        for word, text in {"when": hypothesis.when, "try": tried, "expect": expected, "why": hypothesis.why}.items():
            out.print(escape(f"  {word:7} {text}"), soft_wrap=True)
