"""Advice that serves nothing that is asked for isn't given; what is given can be handed to a search."""

from __future__ import annotations

import dataclasses

import pytest

from agents import Expert, Propose, load_playbook
from agents.advice import advise, advise_all, advised_priors
from agents.playbook import Hypothesis
from agents.suggest import suggest_playbook
from agents.view import View
from tests.agents.views import WORKLOAD, make_view, trial
from tools.canonical import digest
from tools.targets.knobs import Knob, KnobSpace

PACE = {"mean_tpot_ms": "lower"}
FIRST = {"p95_ttft_ms": "lower"}


def said(view: View, *expectations: dict[str, str], metrics: dict[str, float] | None = None) -> list[str]:
    """Ids of the hypotheses that are left, of one for each expectation; all of them hold."""
    playbook = load_playbook("interactive-latency")
    rows = [
        Hypothesis.model_validate({"id": f"h{i}", "when": "true", "try": {"block_size": 8}, "expect": e, "why": "w"})
        for i, e in enumerate(expectations)
    ]
    mine = playbook.model_copy(update={"hypotheses": tuple(rows)})
    return [advice.hypothesis.id for advice in advise(mine, view, view.baseline.values, metrics or {})]


@pytest.mark.parametrize(
    ("objective", "left"),
    [
        ("p95_ttft_ms", ["h0"]),
        ("mean_tpot_ms", ["h1"]),
        ("p99_itl_ms", ["h1"]),
        ("mean_e2el_ms", ["h0", "h1"]),
        ("request_throughput", ["h0", "h1"]),
        ("a score made of several", ["h0", "h1"]),
    ],
)
def test_only_what_serves_the_objective_is_said(objective: str, left: list[str]) -> None:
    assert said(make_view(objective_metric=objective), FIRST, PACE) == left


def test_a_promise_that_is_broken_is_served_too() -> None:
    view = make_view(slo={"p95_tpot_ms": 50.0})
    assert said(view, FIRST, PACE, metrics={"p95_tpot_ms": 40.0}) == ["h0"]
    assert said(view, FIRST, PACE, metrics={"p95_tpot_ms": 60.0}) == ["h0", "h1"]
    assert said(view, FIRST, PACE) == ["h0", "h1"]


def test_a_hypothesis_that_names_only_its_price_is_said_and_a_loss_elsewhere_is_no_gain() -> None:
    assert said(make_view(), {"mean_tpot_ms": "higher"}, {"mean_tpot_ms": "lower", "mean_ttft_ms": "higher"}) == ["h0"]


QUANTISED = KnobSpace(
    {
        **make_view().space.knobs,
        "quantization": Knob("quantization", "choice", "none", "Bits.", choices=("none", "int8", "int4")),
    }
)


def bulk(**changes: object) -> View:
    """One core, few rows, and a throughput to raise."""
    base = dataclasses.replace(trial("t0", {}, 2.0, source="baseline"), metrics={"request_throughput": 2.0})
    facts = {**WORKLOAD, "concurrency": 4.0, "system_prompt_tokens": 0.0}
    shown = {"objective_metric": "request_throughput", "lower_is_better": False, "space": QUANTISED, "workload": facts}
    return make_view({}, base, **{**shown, "baseline": QUANTISED.resolve({"max_num_seqs": 2}), **changes})


def test_priors_are_whole_patches_the_surest_first_and_none_twice() -> None:
    view = bulk()
    playbook = load_playbook("batch-throughput")
    priors = advised_priors(playbook, view)
    weights = [prior.weight for prior in priors]
    assert weights == sorted(weights, reverse=True)
    assert priors[0].patch == {"max_num_seqs": 4}
    assert {"max_num_seqs": 4, "quantization": "int8"} in [dict(prior.patch) for prior in priors]
    assert len({digest(dict(prior.patch)) for prior in priors}) == len(priors)
    assert all(prior.why and 0 < prior.weight <= 1 for prior in priors)
    for prior in priors:
        view.space.resolve({**view.baseline.values, **prior.patch})


def test_priors_stand_on_the_best_config_and_on_the_baseline() -> None:
    best = dataclasses.replace(trial("t1", {"block_size": 32}, 3.0), metrics={"request_throughput": 3.0})
    view = bulk(trials=(*bulk().trials, best), incumbent="t1")
    patches = [dict(prior.patch) for prior in advised_priors(load_playbook("batch-throughput"), view)]
    assert patches[:2] == [{"block_size": 32, "max_num_seqs": 4}, {"max_num_seqs": 4}]


def test_nothing_measured_gives_no_priors() -> None:
    assert advised_priors(load_playbook("batch-throughput"), bulk(trials=())) == ()


def test_a_proposal_says_what_it_expects() -> None:
    view = bulk()
    playbook = load_playbook("batch-throughput")
    action = Expert(playbook).turn(view).action
    assert isinstance(action, Propose)
    together = advise_all(playbook, view, view.baseline.values, view.trials[0].metrics)
    assert action.expect == {metric: way for one in together for metric, way in one.hypothesis.expect.items()}
    assert action.expect["p95_e2el_ms"] == "lower"


def test_what_only_a_measurement_can_decide_is_tried_after_the_rest() -> None:
    view = bulk(baseline=QUANTISED.resolve({"max_num_seqs": 4}))
    action = Expert(load_playbook("batch-throughput")).turn(view).action
    assert isinstance(action, Propose)
    assert action.patch == {"quantization": "int8"}


@pytest.mark.parametrize(
    ("objective", "workload", "promised", "name"),
    [
        ("p95_ttft_ms", {}, (), "interactive-latency"),
        ("mean_tpot_ms", {"mean_prompt_tokens": 200.0}, (), "interactive-latency"),
        ("p95_ttft_ms", {"mean_prompt_tokens": 400.0, "system_prompt_tokens": 300.0}, (), "prefix-heavy"),
        ("p95_ttft_ms", {"mean_prompt_tokens": 9000.0, "system_prompt_tokens": 300.0}, (), "long-context"),
        ("p99_itl_ms", {}, (), "tail-and-stutter"),
        ("mean_task_ms", {}, (), "background-agents"),
        ("p99_e2el_ms", {}, (), "background-agents"),
        ("output_throughput", {}, (), "batch-throughput"),
        ("output_throughput", {}, ("p95_tpot_ms",), "cost-per-token"),
    ],
)
def test_a_playbook_is_suggested_by_who_waits(
    objective: str, workload: dict[str, float], promised: tuple[str, ...], name: str
) -> None:
    assert suggest_playbook(objective, workload, promised) == name
    assert load_playbook(name).name == name
