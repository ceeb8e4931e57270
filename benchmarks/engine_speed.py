"""Speed rows: ours and a peer side by side, loaded in turns by the same generator; medians of the ratios."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import (
    OUTPUT_TOKENS,
    Result,
    Server,
    Unmeasurable,
    llamacpp,
    load,
    model_dir,
    ours,
    run,
    transformers,
    vllm,
)
from benchmarks.streams import Question, ask_all, text_prompts

Row = dict[str, Any]

BURNING = 0.1
"""Cores that an idle server, or all else, may use; more would slow down whoever is measured. The row then says so."""


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """Median of the ratios of neighbours."""
    return round(statistics.median(a / b for a, b in zip(mine, theirs, strict=True)), 3)


@dataclass
class Speed:
    """Servers are started when a row first needs them, stay up (idle) for the rows after it, and end with `stop`."""

    folder: Path
    pairs: int
    flags: tuple[str, ...]
    _servers: dict[str, Server] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _seed: int = 0
    _alone: tuple[dict[str, list[Result]], Row] | Unmeasurable | None = None

    def stop(self) -> None:
        self._stack.close()
        self._servers.clear()

    def _up(self, kind: str, make: Callable[[], Server]) -> Server:
        if kind not in self._servers:
            self._servers[kind] = self._stack.enter_context(make())
        return self._servers[kind]

    def _ours(self) -> Server:
        return self._up("engine", lambda: ours(self.folder, "--max-model-len", "2048", *self.flags))

    def _vllm(self) -> Server:
        return self._up("vllm", lambda: vllm(self.folder))

    def _llamacpp(self) -> Server:
        return self._up("llama.cpp", lambda: llamacpp(self.folder, "--parallel", "1", "-c", "2048"))

    def _only(self, *servers: Server) -> dict[str, float]:
        """Cores that each idle server burns, and everything else on this machine; other servers are ended first."""
        for kind in [kind for kind, server in self._servers.items() if server not in servers]:
            self._servers.pop(kind).stop()
        time.sleep(1.0)
        before, machine_before, started_s = [server.cpu_s() for server in servers], machine_cpu_s(), time.monotonic()
        time.sleep(2.0)
        machine, seconds = machine_cpu_s() - machine_before, time.monotonic() - started_s
        spent = {server.kind: server.cpu_s() - b for server, b in zip(servers, before, strict=True)}
        spent["others"] = machine - sum(spent.values())
        return {kind: round(cpu_s / seconds, 2) for kind, cpu_s in spent.items()}

    def _in_turns(
        self, servers: Sequence[Server], concurrency: int, prompts: int, spare: str = ""
    ) -> tuple[dict[str, list[Result]], Row]:
        """Results by kind, `pairs` each, in the order A B A B; and what is to be known of them.

        The kind `spare` is left out of the results if it fails; any other's failure is the row's.
        """
        idle = self._only(*servers)
        results: dict[str, list[Result]] = {server.kind: [] for server in servers}
        notes: Row = {"idle_cores": idle}
        for _ in range(self.pairs):
            self._seed += 1
            for server in servers:
                if server.kind not in results:
                    continue
                try:
                    result = load(server, self.folder, concurrency=concurrency, prompts=prompts, seed=self._seed)
                except Unmeasurable as error:
                    if server.kind != spare:
                        raise
                    del results[spare]
                    notes["left_out"] = str(error)
                    continue
                results[server.kind].append(result)
        if disturbed := [kind for kind, cores in idle.items() if cores > BURNING]:
            notes["disturbed_by"] = disturbed
        tokens = {kind: min(r["total_output_tokens"] for r in kept) for kind, kept in results.items()}
        if short := {kind: count for kind, count in tokens.items() if count != prompts * OUTPUT_TOKENS}:
            notes["fewest_tokens"] = {**short, "asked_for": prompts * OUTPUT_TOKENS}
        return results, notes

    def throughput(self, concurrency: int, goal: float) -> Row:
        """Output tokens/s against vLLM compiled."""
        results, notes = self._in_turns([self._ours(), self._vllm()], concurrency, max(32, 2 * concurrency))
        mine, theirs = ([r["output_throughput"] for r in results[kind]] for kind in ("engine", "vllm"))
        value = ratio(mine, theirs)
        figures = {"engine_tok_s": rounded(mine), "vllm_tok_s": rounded(theirs)}
        return {"value": value, "goal": f">= {goal}", "ok": value >= goal, **figures, **notes}

    def _one_at_a_time(self) -> tuple[dict[str, list[Result]], Row]:
        """Rows tpot_c1 and ttft_c1 read the same runs; llama.cpp may be missing from them."""
        if self._alone is None:
            try:
                servers = [self._ours(), self._vllm(), self._llamacpp()]
                self._alone = self._in_turns(servers, 1, 6, spare="llama.cpp")
            except Unmeasurable as error:
                self._alone = error
        if isinstance(self._alone, Unmeasurable):
            raise self._alone
        return self._alone

    def tpot(self) -> Row:
        results, notes = self._one_at_a_time()
        times = {kind: [r["median_tpot_ms"] for r in kept] for kind, kept in results.items()}
        value = ratio(times["engine"], times["vllm"])
        llama = ratio(times["engine"], times["llama.cpp"]) if "llama.cpp" in times else None
        figures = {"against_llama_cpp": llama, "tpot_ms": {kind: rounded(values) for kind, values in times.items()}}
        return {"value": value, "goal": "<= 0.7", "ok": value <= 0.7, **figures, **notes}

    def ttft(self) -> Row:
        results, notes = self._one_at_a_time()
        times = {kind: [r["median_ttft_ms"] for r in kept] for kind, kept in results.items()}
        peers = [values for kind, values in times.items() if kind != "engine"]
        value = ratio(times["engine"], [min(round_) for round_ in zip(*peers, strict=True)])
        # Against one peer alone the goal can be missed, but not reached.
        ok = value <= 1.0 and (True if len(peers) == 2 else None)
        figures = {"ttft_ms": {kind: rounded(values) for kind, values in times.items()}}
        return {"value": value, "goal": "<= 1.0 of the better of vLLM and llama.cpp", "ok": ok, **figures, **notes}

    def continuous_batching(self) -> Row:
        """Tokens/s at 8 against `transformers serve --continuous-batching`, which vllm bench can't drive."""
        servers = [self._ours(), self._up("transformers", lambda: transformers(self.folder))]
        idle = self._only(*servers)
        rates: dict[str, list[float]] = {server.kind: [] for server in servers}
        for number in range(self.pairs):
            prompts = text_prompts(model_dir(), 16, tokens=256, seed=number)
            for server in servers:
                # transformers sends its usage unasked, and doesn't know stream_options.
                more = {"stream_options": {"include_usage": True}} if server.kind == "engine" else {}
                questions = [Question(text, max_tokens=128, more=more) for text in prompts]
                ask_all(server, questions[:1], concurrency=1, timeout_s=120)
                answers, seconds = ask_all(server, questions, concurrency=8, timeout_s=200)
                rates[server.kind].append(sum(answer.num_tokens for answer in answers) / seconds)
        value = ratio(rates["engine"], rates["transformers"])
        figures = {"tok_s": {kind: rounded(values) for kind, values in rates.items()}, "idle_cores": idle}
        return {"value": value, "goal": ">= 4", "ok": value >= 4, **figures}

    def streaming(self) -> Row:
        """HTTP streaming over offline throughput; the engine on one core, server and client on the other."""
        self.stop()
        knobs = ["--num-threads", "1", "--max-num-seqs", "16", "--max-model-len", "2048", *self.flags]
        placed = ["--engine-cpus", "0", "--server-cpus", "1"]
        figures = {"http_tok_s": list[float](), "offline_tok_s": list[float]()}
        for number in range(min(self.pairs, 2)):
            with ours(self.folder, *knobs, *placed) as server:
                result = load(server, self.folder, concurrency=16, prompts=32, seed=900 + number, cpus="1")
            figures["http_tok_s"].append(result["output_throughput"])
            arguments = [str(model_dir()), "32", str(number), *knobs]
            offline = ["taskset", "-c", "0", sys.executable, "-m", "benchmarks.offline", *arguments]
            done = run(offline, timeout_s=240)
            if done.returncode:
                raise Unmeasurable(f"benchmarks.offline failed: {done.stdout[-400:]}")
            figures["offline_tok_s"].append(float(done.stdout.split()[-1]))
        value = ratio(figures["http_tok_s"], figures["offline_tok_s"])
        return {"value": value, "goal": ">= 0.95", "ok": value >= 0.95, **{k: rounded(v) for k, v in figures.items()}}

    def start(self) -> Row:
        """Process start to first token, warm disk, against vLLM --enforce-eager."""
        self.stop()
        seconds: dict[str, list[float]] = {"engine": [], "vllm": []}
        for _ in range(3):
            seconds["engine"].append(first_token_s(ours(self.folder, "--max-model-len", "2048", *self.flags)))
            seconds["vllm"].append(first_token_s(vllm(self.folder, "--enforce-eager")))
        for values in seconds.values():
            del values[0]  # that one warmed the disk
        value = ratio(seconds["engine"], seconds["vllm"])
        figures = {f"{kind}_s": rounded(values, 2) for kind, values in seconds.items()}
        return {"value": value, "goal": "<= 0.15", "ok": value <= 0.15, **figures}


def machine_cpu_s() -> float:
    """CPU seconds that all processes have spent since the machine was started."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def rounded(values: Sequence[float], digits: int = 1) -> list[float]:
    return [round(value, digits) for value in values]


def first_token_s(server: Server) -> float:
    """Seconds from starting the process to the first token of a first request."""
    with server:
        answers, _ = ask_all(server, [Question("The capital of France is", max_tokens=1)], concurrency=1, timeout_s=60)
        return answers[0].first_token_s - server.started_s
