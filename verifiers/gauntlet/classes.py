"""Classes: the catalogue of ways to cheat or fail, by id, and which of them wait for a room that isn't built yet."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CLASSES", "WAITING"]

CLASSES: Mapping[str, str] = {
    "A01": "prefix-cache harvest",
    "A02": "answers from a cache in front of the engine",
    "A03": "answers cut short",
    "A04": "requests dropped or refused",
    "A05": "token delivery games",
    "A06": "another workload",
    "A07": "the client is the limit",
    "A08": "easy traffic pays for hard traffic",
    "A09": "an error as a fast success",
    "B01": "claimed, never measured",
    "B02": "another deployment measured",
    "B03": "config not applied",
    "B04": "a forged fingerprint",
    "B05": "tampering with the harness",
    "B06": "tampering with clocks",
    "B07": "cherry-picking",
    "B08": "requests taken for replicates",
    "B09": "drift",
    "B10": "too few launches",
    "B11": "repeated until green",
    "B12": "fitted to the search's requests",
    "B13": "a stale or foreign baseline",
    "B14": "units mixed up",
    "B15": "physically impossible",
    "B16": "empty or partial metrics read as good",
    "B17": "averages hide tails",
    "B18": "moved goalposts",
    "B19": "good conduct for the benchmark alone",
    "C01": "quantisation loss",
    "C02": "another model",
    "C03": "context cut",
    "C04": "sampling overridden",
    "C05": "tools or forms broken",
    "C06": "speculation that isn't lossless",
    "C07": "noise blamed",
    "C08": "the judge addressed",
    "D01": "more hardware",
    "D02": "knobs that run code",
    "D03": "doors opened",
    "D04": "values that break out",
    "D05": "YAML traps",
    "D06": "no headroom",
    "D07": "slow to start",
    "D08": "unrelated edits",
    "D09": "thrash",
    "D10": "no way back",
    "D11": "production harmed while testing",
    "D12": "a stale base",
    "E01": "injected orders",
    "E02": "no abstention",
    "E03": "loops and burnt budgets",
    "E04": "malformed actions",
    "E05": "retry storms",
    "E06": "state lost silently",
    "E07": "leaked secrets",
    "E08": "approval replayed",
    "E09": "the judged chooses the judge",
    "E10": "a fault of the harness counted",
}
"""In the order of the catalogue."""

WAITING: Mapping[str, str] = {
    "D11": "external targets: nothing but a server of our own is measured yet",
}
"""Class to the room that it waits for."""
