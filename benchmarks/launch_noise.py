"""How much launches of one config differ under the same requests: makes benchmarks/data/launch_noise.json.

    python -m benchmarks.launch_noise RECORD.jsonl ... [--out FILE]

A record is the ledger of a run (its baseline is launched twice on one seed), or what `benchmarks/record_surface.py
--part noise` writes. Launches are grouped by file, config, seed and load; what is kept of each group is the logarithm
of each metric less the group's mean, times sqrt(n / (n - 1)), so that the pooled mean square is the variance of a
launch. Keep the machine quiet while you record: what else runs on it is recorded too.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.measure.measurement import Measurement
from tools.measure.summary import summarise

OUT = Path(__file__).parent / "data" / "launch_noise.json"
METRICS = ("p95_ttft_ms", "mean_ttft_ms", "mean_e2el_ms", "p95_tpot_ms", "output_throughput")


def launches(path: Path) -> Iterator[tuple[tuple[Any, ...], Mapping[str, float]]]:
    """(what makes launches comparable, summary) of every launch in a record that was measured."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row.get("kind") == "trial" and row["data"]["summary"]:
            data = row["data"]
            yield (path, data["config_digest"], data["seed"], data.get("load_factor", 1.0)), data["summary"]
        elif row.get("measurement"):
            measurement = Measurement.from_json(row["measurement"])
            yield (path, measurement.config_digest, measurement.seed), summarise(measurement)


def residuals(groups: list[list[Mapping[str, float]]], metric: str) -> list[list[float]]:
    """By group of two launches or more that have `metric` above zero."""
    found = []
    for group in groups:
        logs = [math.log(summary[metric]) for summary in group if summary.get(metric, 0.0) > 0]
        if len(logs) >= 2:
            stretch = math.sqrt(len(logs) / (len(logs) - 1))
            found.append([round(stretch * (value - fmean(logs)), 6) for value in logs])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    grouped: dict[tuple[Any, ...], list[Mapping[str, float]]] = defaultdict(list)
    for path in asked.records:
        for key, summary in launches(path):
            grouped[key].append(summary)
    found = {metric: residuals(list(grouped.values()), metric) for metric in METRICS}
    asked.out.parent.mkdir(exist_ok=True)
    asked.out.write_text(json.dumps({"residuals_of_log": found}, indent=1) + "\n")
    for metric, groups in found.items():
        every = [value for group in groups for value in group]
        spread = math.sqrt(fmean(value**2 for value in every)) if every else math.nan
        print(f"{metric}: {spread:.1%} from launch to launch, {len(groups)} groups, {len(every)} launches")


if __name__ == "__main__":
    main()
