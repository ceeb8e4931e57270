"""The survey of a real run: what no config can get out of the machine, as verifiers and reports read it."""

from __future__ import annotations

from autotune.report import read_facts
from autotune.report.write import markdown
from tests.autotune.conftest import Tuned
from tools.ledger import Ledger
from tools.profile import ModelFacts, Roofline, Traffic, ceilings, floor_ms


def test_physics_is_recorded_and_follows_from_the_recorded_rates(tuned: Tuned) -> None:
    entry = Ledger.read(tuned.run.ledger).find("survey")
    assert entry is not None
    survey = entry.data
    roofline, facts = Roofline.from_json(survey["roofline"]), ModelFacts.from_json(survey["physics"]["model"])
    assert survey["physics"]["ridge_flop_per_byte"] == roofline.ridge_flop_per_byte
    # 24 system words, 10 of its own, 12 to answer, all 24 requests at once: the least that the workload asks.
    floor = floor_ms(roofline, facts, 10, context_tokens=34, output_tokens=12)
    assert survey["floors"] == {"ttft_ms": floor.ttft_ms, "tpot_ms": floor.tpot_ms, "e2el_ms": floor.e2el_ms}
    least = ceilings(roofline, facts, Traffic(34, 10, 12, 24))
    assert survey["physics"]["ceilings"]["request_throughput"] == least["request_throughput"]
    assert survey["physics"]["ceilings"]["output_throughput"] > least["output_throughput"]


def test_the_report_shows_the_ridge_point(tuned: Tuned) -> None:
    facts = read_facts(tuned.run)
    ridge = facts.machine["physics"]["ridge_flop_per_byte"]
    assert f"ridge point {ridge:.3g} FLOP per byte" in markdown(facts)
