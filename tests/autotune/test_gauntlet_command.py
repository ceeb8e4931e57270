"""`autotune gauntlet`, as a user types it: servers that lie and one that doesn't, driven over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from autotune.commands.gauntlet import gauntlet
from autotune.gauntlet.loopback import LoopbackBench
from autotune.gauntlet.run import run_gauntlet
from autotune.gauntlet.show import marks, show
from autotune.pages.gauntlet import gauntlet_page
from tools.errors import UserError
from tools.measure import Measurement, WorkloadSpec, materialise
from tools.targets.knobs import KnobSpace
from verifiers.gauntlet.case import Exam, Refusal
from verifiers.gauntlet.outcome import Attacked, Controlled, Outcome
from verifiers.gauntlet.servers import LIARS, Engine, Host
from verifiers.gauntlet.servers.honest import WORKLOAD
from verifiers.gauntlet.story import KNOBS, MODEL_DIGEST
from verifiers.verdict import failed

app = typer.Typer()
app.command()(gauntlet)


def run(*options: str) -> Result:
    return CliRunner().invoke(app, list(options), catch_exceptions=False)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as running:
        yield running


def measured(host: Host, server: str) -> Measurement:
    """One launch of the server called `server`, as a trial of the search drives it."""
    liar = next(liar for liar in LIARS if liar.id == server)
    bench = LoopbackBench(host, Engine, liar.engine)
    config = KnobSpace({knob.name: knob for knob in KNOBS}).resolve({"max_num_seqs": 16})
    spec = WorkloadSpec.model_validate({**WORKLOAD, "requests": 10})
    return bench.launch("t1", "search", "B", config, materialise(spec, 7), with_evals=False).measurement


def test_what_a_server_lies_about_is_in_what_was_measured_of_it(host: Host) -> None:
    short, failing, other, ahead = (measured(host, server) for server in ("s03", "s08", "s10", "s13"))
    assert short.completed == 10 and all(record.finish_reason == "stop" for record in short.records)
    assert [record.error.partition(":")[0] for record in failing.records if record.outcome == "failed"]
    assert other.identity_before is not None and other.identity_before.model_digest != MODEL_DIGEST
    assert min(record.clock_skew_s or 0.0 for record in ahead.records) > 3
    for honest_about_it in (short, failing, ahead):
        assert honest_about_it.identity_before is not None
        assert honest_about_it.identity_before.model_digest == MODEL_DIGEST


def test_an_honest_server_is_refused_by_nobody(tmp_path: Path) -> None:
    result = run("--only", "w04", "--out", str(tmp_path))
    assert result.exit_code == 0 and "1 of 1 honest runs" in result.stdout
    assert json.loads((tmp_path / "gauntlet.json").read_text())["controls"][0]["wrongly"] == []
    assert "answers of one token" in (tmp_path / "gauntlet.html").read_text()


def test_without_http_only_records_are_judged() -> None:
    told = json.loads(run("--only", "A03", "--no-http", "--json").stdout)
    assert {attack["way"] for attack in told["attacks"]} == {"record"} and len(told["attacks"]) == 2


def test_what_nothing_is_called_is_refused() -> None:
    with pytest.raises(UserError, match="expected a class"):
        run("--only", "Z99")


class _Silent:
    def phase(self, name: str, detail: str, seconds_left: float | None) -> None: ...

    def note(self, text: str) -> None: ...


def test_a_run_tells_how_far_it_is() -> None:
    lines: list[tuple[str, str]] = []

    class Heard(_Silent):
        def phase(self, name: str, detail: str, seconds_left: float | None) -> None:
            assert seconds_left is not None and seconds_left > 0
            lines.append((name, detail))

    outcome = run_gauntlet(Heard(), only="D06", over_http=False)
    assert len(lines) == len(outcome.attacks) and lines[0][0] == "attack"


@pytest.fixture
def broken() -> Outcome:
    """One attack missed, one refused by its own rule and another, one honest run refused."""
    refusal = Refusal("confirm", failed("cache.prefix_hits", "hits <b>"))
    other = Refusal("confirm", failed("physics.floor", "too fast"))
    both = Exam({refusal.verdict.rule: refusal, "physics.floor": other})
    return Outcome(
        (
            Attacked("k90", "A01", "cache.prefix_hits", "warm", "record", Exam({})),
            Attacked("k91", "A01", "cache.prefix_hits", "warm & wet", "http", both),
            Attacked("k92", "B15", "physics.floor", "fast", "record", Exam({"physics.floor": other})),
        ),
        (Controlled("h90", "honest", "record", frozenset(), frozenset(), Exam({"physics.floor": other})),),
    )


def test_the_page_shows_the_matrix_and_names_what_is_wrong(broken: Outcome) -> None:
    page = gauntlet_page(broken)
    assert "k90 (A01) was not refused by cache.prefix_hits" in page and "warm &amp; wet" in page
    assert "hits &lt;b&gt;" in page and "h90, an honest run (honest), was refused by physics.floor" in page
    assert "physics.floor, B15: its own rule, and no other" in page


def test_the_matrix_tells_its_own_from_others(broken: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    assert marks(broken) == {
        ("cache.prefix_hits", "A01"): "own",
        ("physics.floor", "A01"): "too",
        ("physics.floor", "B15"): "alone",
    }
    show(broken, Console(width=120))
    out = capsys.readouterr().out
    assert "missed k90 A01" in out and "wrong h90" in out and "2 of 3 attacks" in out
