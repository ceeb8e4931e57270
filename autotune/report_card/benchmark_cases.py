"""Benchmark cases: finished benchmarks, sound ones and ones with a planted fault, drawn from a surface and a seed.

Each begins as an honest measurement played from the surface; the fault is then planted in its raw records, and the
figures that are shown are worked out from those. Names are neutral.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from agents.assessment import BenchmarkView, Reason
from autotune.report_card.noise import noise_of
from autotune.report_card.playback import Process, play
from autotune.report_card.reference import Reference, reference_of
from autotune.report_card.surface import Cell
from tools.measure.load import ClientHealth
from tools.measure.measurement import Measurement
from tools.measure.summary import summarise
from tools.measure.workload import Workload, WorkloadSpec, materialise, sharing_bound
from tools.targets.knobs import Config

__all__ = ["BENCHMARK_CASES", "benchmark_case"]

_SHOWN = ("p50_ttft_ms", "p95_ttft_ms", "p99_ttft_ms", "p95_itl_ms", "p95_e2el_ms", "output_throughput")
_LATE_S = 0.010
_LATE_SHARE = 0.1
_ENOUGH = (96, 160)
"Requests from which a p95 has its interval, with room."

Case = tuple[BenchmarkView, Reason]


class _Bench:
    """One benchmark in the making."""

    def __init__(self, reference: Reference, seed: int, name: str) -> None:
        self.random = Random(f"{seed}/{name}")
        self.reference, self.surface = reference, reference.surface
        self.requests = self.random.randrange(*_ENOUGH)
        self.promised = {"p95_ttft_ms": float(self.random.choice((300, 500, 1000, 2000)))}
        self.model_served = self.surface.model.name
        self.differences: dict[str, tuple[object, object]] = {}
        self.same_process = True
        quick = sorted(self.surface.cells, key=lambda cell: cell.least_first_s if cell.requests else 1e9)
        self.cell: Cell = self.random.choice(quick[:12])

    def view(
        self, plant: Callable[[Measurement, Workload], Measurement] = lambda measured, _: measured
    ) -> BenchmarkView:
        """The figures of the load, after `plant` has changed its raw records."""
        spec = self.surface.workload
        fields = {name: getattr(spec, name) for name in spec.model_fields_set} | {"requests": self.requests}
        workload = materialise(WorkloadSpec.model_validate(fields), self.random.randrange(10**6))
        config: Config = self.reference.config(self.cell)
        luck = noise_of(self.surface).deal(self.random, self.requests)
        process = Process(1, 0.0, self.cell.ready_s)
        knobs = self.reference.target.knobs
        measured = plant(play(self.surface, self.cell, workload, config, knobs, process, luck), workload)
        return self._figures(measured, workload)

    def _figures(self, measured: Measurement, workload: Workload) -> BenchmarkView:
        summary = summarise(measured)
        late_s = max(_LATE_S, _LATE_SHARE * summary.get("p50_ttft_ms", 0.0) / 1000)
        late = sum(record.sent_s - record.scheduled_s > late_s for record in measured.records)
        chunks = sum(len(record.token_times_s) for record in measured.records)
        due_s = max(record.scheduled_s for record in measured.records)
        prompt = sum(record.prompt_tokens or 0 for record in measured.records)
        hits = sum(record.cached_tokens or 0 for record in measured.records)
        bound = sharing_bound(workload, measured.records)
        return BenchmarkView(
            promised=self.promised,
            measured={name: round(summary[name], 1) for name in (*_SHOWN, *self.promised) if name in summary},
            requests=measured.offered,
            completed=measured.completed,
            failed=measured.failed,
            window_s=round(measured.window_s, 2),
            offered_rps=round(measured.offered / due_s, 2) if due_s else 0.0,
            late_share=round(late / measured.offered, 3),
            send_lag_p99_ms=round(measured.client.send_lag_p99_ms, 2),
            client_cpu_share=round(measured.client.cpu_share, 3),
            chunks_per_s=round(chunks / measured.window_s, 1),
            max_chunks_per_s=round(self.surface.machine.client_floor.max_chunks_per_s),
            prefix_hit_rate=round(hits / prompt, 3),
            sharing_bound=round(bound, 3) if bound is not None else None,
            model_asked=self.surface.model.name,
            model_served=self.model_served,
            config_differences=self.differences,
            same_process=self.same_process,
        )


def _sound(bench: _Bench) -> Case:
    return bench.view(), "sound"


def _sound_slow(bench: _Bench) -> Case:
    """Slow and far out of its promise, and measured well."""
    slow = sorted(bench.surface.cells, key=lambda cell: -sum(cell.turns_s))
    bench.cell = bench.random.choice(slow[:20])
    return bench.view(), "sound"


def _sound_with_losses(bench: _Bench) -> Case:
    """Some requests failed: the server's doing, and told."""
    lost = set(bench.random.sample(range(bench.requests), bench.random.randint(2, 5)))

    def plant(measured: Measurement, _: Workload) -> Measurement:
        records = [
            replace(r, outcome="failed", http_status=503, error="http_503", token_times_s=(), token_counts=())
            if r.index in lost
            else r
            for r in measured.records
        ]
        return replace(measured, records=tuple(records))

    return bench.view(plant), "sound"


def _sound_mean(bench: _Bench) -> Case:
    """Few requests, and a promise about the mean, which few can tell."""
    bench.requests = bench.random.randint(40, 60)
    bench.promised = {"mean_e2el_ms": float(bench.random.choice((800, 1500)))}
    return bench.view(), "sound"


def _late_sends(bench: _Bench) -> Case:
    share, lag_s = bench.random.uniform(0.15, 0.5), bench.random.uniform(0.08, 0.4)

    def plant(measured: Measurement, _: Workload) -> Measurement:
        def late(number: int) -> float:
            return lag_s * bench.random.uniform(0.8, 1.3) if number % round(1 / share) == 0 else 0.0

        records = []
        for record in measured.records:
            add_s = late(record.index)
            times = tuple(t + add_s for t in record.token_times_s)
            records.append(
                replace(record, sent_s=record.sent_s + add_s, token_times_s=times, end_s=record.end_s + add_s)
            )
        client = ClientHealth.of(records, cpu_s=0.2 * measured.window_s, wall_s=measured.window_s)
        return replace(measured, records=tuple(records), client=client)

    return bench.view(plant), "client_bound"


def _busy_client(bench: _Bench) -> Case:
    busy = bench.random.uniform(0.93, 1.0)
    return bench.view(lambda m, _: replace(m, client=replace(m.client, cpu_share=busy))), "client_bound"


def _cached_before(bench: _Bench) -> Case:
    """The same seed was sent to the same server before, and nobody emptied its cache."""
    share = bench.random.uniform(0.93, 0.99)

    def plant(measured: Measurement, _: Workload) -> Measurement:
        records = (replace(r, cached_tokens=int(share * (r.prompt_tokens or 0))) for r in measured.records)
        return replace(measured, records=tuple(records))

    return bench.view(plant), "warm_cache"


def _other_model(bench: _Bench) -> Case:
    bench.model_served = bench.random.choice(("smollm2-135m-instruct-q4", "smollm2-360m", "default"))
    return bench.view(), "wrong_target"


def _other_config(bench: _Bench) -> Case:
    asked = int(bench.cell.at["max_num_seqs"])
    bench.differences = {"max_num_seqs": (asked, max(1, asked // 2) if asked > 1 else 4)}
    return bench.view(), "wrong_target"


def _restarted(bench: _Bench) -> Case:
    bench.same_process = False
    return bench.view(), "wrong_target"


def _few(bench: _Bench) -> Case:
    bench.requests = bench.random.randint(24, 48)
    return bench.view(), "too_short"


def _few_for_p99(bench: _Bench) -> Case:
    bench.promised = {"p99_ttft_ms": float(bench.random.choice((1000, 3000)))}
    return bench.view(), "too_short"


BENCHMARK_CASES: Mapping[str, Callable[[_Bench], Case]] = {
    "b01": _few,
    "b02": _sound,
    "b03": _other_config,
    "b04": _cached_before,
    "b05": _sound_slow,
    "b06": _late_sends,
    "b07": _sound_with_losses,
    "b08": _few_for_p99,
    "b09": _other_model,
    "b10": _busy_client,
    "b11": _sound_mean,
    "b12": _restarted,
}


def benchmark_case(name: str, seed: int, surface: str = "chat") -> Case:
    """The case `name` with the figures that `seed` gives it, and the right answer."""
    return BENCHMARK_CASES[name](_Bench(reference_of(surface), seed, name))
