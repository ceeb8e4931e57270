"""Records a peer: one launch of each cell of its space serves one scenario's loads; then cells again, for the noise.

    PEERS=DIR GGUF_Q4=FILE taskset -c 1 env OMP_NUM_THREADS=1 \
        python -m benchmarks.surfaces.record_peer llamacpp --part record --part quality --part pack --rows FOLDER

`record` appends a JSON line per launch to FOLDER/NAME.jsonl and goes on where it was stopped; `quality` asks each lossy
format the questions of `quality.py`; `pack` writes benchmarks/data/surfaces/NAME-SCENARIO.json.gz. Engine and client
share the core that this process is bound to.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.playbook import playbooks_digest
from autotune.console import duration
from autotune.duration import parse_seconds
from benchmarks.peers import executable
from benchmarks.surfaces.calm import calm
from benchmarks.surfaces.forked_peer import ForkedPeer
from benchmarks.surfaces.pack import packed_rows
from benchmarks.surfaces.peers import NAME, PEERS, Peer
from benchmarks.surfaces.quality import QUESTIONS, accuracy
from benchmarks.surfaces.record import SAME_SEED, SEED, key, rows, tell
from benchmarks.surfaces.scenario import LOADS, SCENARIOS
from benchmarks.surfaces.table import Table, write_table
from tools.errors import UserError
from tools.measure.client import drive, warm_up
from tools.measure.measurement import Measurement
from tools.measure.records import RequestRecord
from tools.measure.summary import summarise
from tools.measure.workload import materialise
from tools.profile.hardware import hardware
from tools.targets.knobs import Value
from tools.targets.process import LOOPBACK, ServerProcess, allowed_environment, free_port
from tools.targets.target import Endpoint, LaunchFailed

__all__ = ["measured", "planned"]

Launcher = Callable[[Mapping[str, Value]], AbstractContextManager[Endpoint]]
"Serves a cell; LaunchFailed where it doesn't become ready."

TOP, REPEATS = 4, 2
ASKED = QUESTIONS[::4]


@contextmanager
def launcher(peer: Peer, folder: Path) -> Iterator[Launcher]:
    """How cells of `peer` are launched: as processes of their own, or by its fork server."""
    if not peer.interpreter:

        @contextmanager
        def started(at: Mapping[str, Value]) -> Iterator[Endpoint]:
            port = free_port()
            command, log = peer.command(at, port), folder / f"{peer.name}.log"
            with ServerProcess(command, log=log, env={**allowed_environment(), **peer.environment(at)}) as process:
                ready_s = process.wait_ready(base_url := f"http://{LOOPBACK}:{port}", timeout_s=peer.ready_s)
                yield Endpoint(base_url, NAME, process.pid, ready_s)
                process.stop(grace_s=2.0)

        yield started
        return
    environment = {**allowed_environment(), **peer.environment(peer.space.default)}
    with ForkedPeer.running(executable(*peer.interpreter), environment, folder / f"{peer.name}-forks.log") as forks:

        @contextmanager
        def forked(at: Mapping[str, Value]) -> Iterator[Endpoint]:
            port = free_port()
            base_url, log = f"http://{LOOPBACK}:{port}", folder / f"{peer.name}.log"
            with forks.serving(peer.command(at, port), peer.environment(at), log, base_url, peer.ready_s) as ready_s:
                yield Endpoint(base_url, NAME, 0, ready_s)

        yield forked


def measured(peer: Peer, launch: Launcher, at: Mapping[str, Value], number: int) -> dict[str, Any]:
    """One launch of the cell `at` with the scenario's loads, as a JSON row. Unanswered requests are a failure too."""
    seed, began, when = SEED + number // SAME_SEED, time.monotonic(), time.time()
    row: dict[str, Any] = {"key": key(at, number), "at": dict(at), "number": number, "seed": seed, "when": when}
    row |= {"failure": None, "ready_s": 0.0, "warm_s": 0.0, "metrics": {}, "windows_s": {}}
    try:
        with launch(at) as endpoint:
            row["ready_s"] = endpoint.ready_s
            warming = time.monotonic()
            dialect = warm_up(endpoint, materialise(LOADS["output"], seed))
            row["warm_s"] = time.monotonic() - warming
            for name in SCENARIOS[peer.scenario].loads:
                load = drive(endpoint, materialise(LOADS[name], seed), dialect=dialect)
                found = Measurement.of(
                    materialise(LOADS[name], seed),
                    load,
                    config_digest="",
                    identity_before=None,
                    identity_after=None,
                    counters_before=None,
                    counters_after=None,
                )
                if found.completed < found.offered:
                    row["failure"] = ["bad_config", _unanswered(found.records)]
                    break
                row["metrics"][name] = summarise(found)
                row["windows_s"][name] = found.window_s
    except LaunchFailed as failed:
        row["failure"] = [failed.kind, failed.message]
    row["seconds"] = time.monotonic() - began
    return row


def _unanswered(records: Sequence[RequestRecord]) -> str:
    lost = [record for record in records if record.outcome != "ok"]
    return f"{len(lost)} of {len(records)} requests weren't answered: {lost[0].error or lost[0].outcome}"[:300]


def planned(peer: Peer, done: Sequence[Mapping[str, Any]]) -> Iterator[tuple[dict[str, Value], int]]:
    """(cell, number of its launch): every cell, then the default and the best again, then others; `done` grows."""
    dealt, cells = random.Random(12), list(peer.space.cells())
    dealt.shuffle(cells)
    yield from ((cell, 0) for cell in cells)
    ran = [row for row in done if not row["failure"] and row["number"] == 0]
    ran.sort(key=lambda row: -SCENARIOS[peer.scenario].score(row["metrics"]))
    best = [peer.space.snap({}), *(dict(row["at"]) for row in ran[:TOP])]
    yield from ((cell, number) for number in range(1, REPEATS + 1) for cell in best)
    yield from ((dict(row["at"]), number) for number in range(1, REPEATS + 1) for row in dealt.sample(ran, len(ran)))


def record(peer: Peer, folder: Path, until: float) -> None:
    """Make the launches that `folder` doesn't hold yet, up to the moment `until` of the monotonic clock."""
    file, digest = folder / f"{peer.name}.jsonl", playbooks_digest()
    done = rows(file)
    known, began, made = {row["key"] for row in done}, time.monotonic(), 0
    with launcher(peer, folder) as launch:
        for at, number in planned(peer, done):
            if key(at, number) in known:
                continue
            if time.monotonic() > until:
                tell("stopped by --limit; run it again to go on")
                return
            row = {**measured(peer, launch, at, number), "playbooks": digest}
            with file.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            known.add(row["key"])
            done.append(row)
            made += 1
            pace_s, left = (time.monotonic() - began) / made, duration(until - time.monotonic())
            told = row["failure"] or round(SCENARIOS[peer.scenario].score(row["metrics"]), 3)
            tell(f"{len(done)} launches, {pace_s:.1f} s each, {left} left: {row['key']} {told}")


def ask(peer: Peer, folder: Path) -> None:
    """Accuracy of each combination of lossy formats relative to the default's, into FOLDER/NAME-quality.json."""
    file = folder / f"{peer.name}-quality.json"
    found: dict[str, float] = json.loads(file.read_text()) if file.is_file() else {}
    levels = [peer.space.levels[name] for name in peer.lossy]
    for values in itertools.product(*levels):
        at = peer.space.snap(dict(zip(peer.lossy, values, strict=True)))
        if (name := peer.quality_of(at)) not in found:
            with launcher(peer, folder) as launch, launch(at) as endpoint:
                found[name] = accuracy(endpoint, ASKED)
            tell(f"{name}: {found[name]:.3f} right of {len(ASKED)}")
            file.write_text(json.dumps(found, indent=1))


def pack(peer: Peer, folder: Path) -> None:
    """Write the peer's table.

    Raises:
        UserError: nothing was recorded, or under more than one state of the playbooks.
    """
    recorded = calm(rows(folder / f"{peer.name}.jsonl"))
    digests = {row["playbooks"] for row in recorded}
    if len(digests) != 1:
        raise UserError(f"{peer.name}: recorded under {len(digests)} states of the playbooks; expected one")
    asked: dict[str, float] = {"": 1.0}
    if peer.lossy:
        asked = json.loads((folder / f"{peer.name}-quality.json").read_text())
    base = asked[peer.quality_of(peer.space.default)]
    scenario = SCENARIOS[peer.scenario]
    when = datetime.fromtimestamp(min(row["when"] for row in recorded), UTC)
    table = Table(
        name=f"{peer.name}-{scenario.name}",
        engine=peer.engine,
        scenario=scenario.name,
        default=peer.space.default,
        knobs=peer.knobs,
        rows=packed_rows(
            recorded,
            peer.space,
            scenario,
            lambda at: asked[peer.quality_of(at)] / base,
            scenario.loads,
        ),
        workload={load: LOADS[load].model_dump(mode="json", by_alias=True) for load in scenario.loads},
        hardware=hardware().to_json() | {"used_cores": 1},
        playbooks_digest=digests.pop(),
        recorded={
            "date": when.isoformat(timespec="seconds"),
            "command": f"python -m benchmarks.surfaces.record_peer {peer.name} --part record --rows FOLDER",
            "quality": f"right answers to {len(ASKED)} questions, relative to the default's" if peer.lossy else "",
        },
    )
    path = write_table(table)
    tell(f"{path}: {len(table.rows)} cells, {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(PEERS))
    parser.add_argument("--part", action="append", choices=("record", "quality", "pack"), required=True)
    parser.add_argument("--rows", type=Path, required=True, help="folder of the recorded launches")
    parser.add_argument("--limit", default="20m", help="wall clock for the launches: 90s, 15m")
    asked = parser.parse_args()
    asked.rows.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    peer, until = PEERS[asked.name], time.monotonic() + parse_seconds("--limit", asked.limit)
    try:
        for part in asked.part:
            if part == "record":
                record(peer, asked.rows, until)
            else:
                (ask if part == "quality" else pack)(peer, asked.rows)
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted; run it again to go on")


if __name__ == "__main__":
    main()
