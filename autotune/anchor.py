"""Anchor: the commit that holds a ledger's head. A chain that is rebuilt later no longer contains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.harness.nodes.publish import trailers_of
from autotune.harness.rundir import RunDir
from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.ledger import LedgerView
from tools.manifests.yaml_file import YamlFile
from tools.repo import commits_with_trailer, file_at, files_changed, message_of, read_trailers
from tools.standing import Standing

__all__ = ["Anchor", "anchor_of"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Whether a commit holds this very ledger, and what is wrong with those that say they do."""

    sha: str
    "Empty where none does."
    problems: tuple[str, ...]


def anchor_of(run: RunDir, ledger: LedgerView) -> Anchor:
    """Looks in the deployment's repository and in the one around the run's folder, whatever the ledger itself says:
    a record from which its commit was dropped is still claimed by it."""
    started, recorded = ledger.find("run.started"), ledger.find("commit")
    if started is None:
        return Anchor("", ("the ledger doesn't say on what the run began",))
    by_key = {entry.key: entry for entry in ledger}
    judged = [by_key.get(key) for key in ("verdict", "publication")]
    passed = all(entry is not None and entry.data["status"] == "PASS" for entry in judged)
    if recorded is not None and not passed:
        return Anchor("", ("there is a commit without a PASS",))
    expected = trailers_of(_name(run, ledger), by_key) if passed else None
    file = Path(started.data["file"])
    claims = _claims(run, file, _name(run, ledger))
    if recorded is not None:
        claims.setdefault(recorded.data["sha"], file)
    problems: list[str] = []
    for sha, place in claims.items():
        wrong = list(_wrong(ledger, file, place, sha, expected))
        problems += wrong
        if not wrong:
            return Anchor(sha, ())
    return Anchor("", tuple(dict.fromkeys(problems)))


def _name(run: RunDir, ledger: LedgerView) -> str:
    """As the plan has it: the folder may have been copied under another name."""
    plan = ledger.find("plan")
    return str(plan.data["plan"]["run"]) if plan else run.id


def _claims(run: RunDir, file: Path, name: str) -> dict[str, Path]:
    """Commits that say they are this run's, and the place whose repository has them."""
    found: dict[str, Path] = {}
    for place in (file, run.path):
        try:
            found |= {sha: place for sha in commits_with_trailer(place, "Autotune-Run", name) if sha not in found}
        except UserError:
            continue  # no repository there, so it holds no claim
    return found


def _wrong(ledger: LedgerView, file: Path, place: Path, sha: str, expected: dict[str, str] | None) -> Iterator[str]:
    try:
        trailers = read_trailers(place, sha)
        if expected is None or any(trailers.get(name) != value for name, value in expected.items()):
            yield f"commit {sha[:12]} doesn't anchor this ledger: the chain was rebuilt, or the commit is another run's"
            return
        change, plan, started = (ledger.find(key) for key in ("change", "plan", "run.started"))
        assert change is not None and plan is not None and started is not None
        message, changed = message_of(place, sha), files_changed(place, sha)
        if message.partition("\nAutotune-")[0].strip() != change.data["message"].strip():
            yield f"commit {sha[:12]} says something else than what was judged"
        manifest = change.data.get("manifest")
        may = sorted([change.data["file"], *([manifest["file"]] if manifest else [])])
        if sorted(changed) != may:
            yield f"commit {sha[:12]} changes {', '.join(changed[:3])}; it may change {' and '.join(may)} alone"
        before = YamlFile.parse(file, started.data["file_text"])
        planned = {("config", name): value for name, value in plan.data["patch"].items()}
        after = before.splice({key: v for key, v in planned.items() if before.data["config"].get(key[1]) != v})
        if file_at(file, sha) != after:
            yield f"commit {sha[:12]} changes something else than what was verified"
        if manifest:
            begun, deployment = started.data["manifest"], parse_deployment(before).deployment
            standing = Standing.of(deployment, Path(begun["file"]), begun["text"])
            changes = {name: v for name, v in plan.data["patch"].items() if deployment.config.get(name) != v}
            if file_at(Path(begun["file"]), sha) != standing.changed(changes):
                yield f"commit {sha[:12]} changes {manifest['file']} otherwise than was verified"
    except UserError as error:
        yield f"the commit can't be read: {error}"
