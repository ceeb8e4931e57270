"""What the expert promises, played against a small queueing model and the real search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import pytest

from agents import Expert, Finish, Measure, Playbook, Propose, Search, TrialView, View
from tests.agents.views import make_view, trial
from tools.canonical import digest
from tools.proposal import Source
from tools.search import Observation, Problem, strategy
from tools.targets.knobs import Value

Config = Mapping[str, Value]
Outcome = Mapping[str, float] | None
Model = Callable[[Config], Outcome]


def served(config: Config) -> Outcome:
    """Latencies of a server at 4 requests/s: seats, cache room, prefix reuse and step length interact."""
    seats = min(float(config["max_num_seqs"]), float(config["kv_cache_tokens"]) / 360)
    own = 64.0 if config["enable_prefix_caching"] else 320.0
    step = float(config["max_num_batched_tokens"])
    prefill_ms = own * 0.9 + 25 * math.ceil(own / step)
    stall_ms = 0.4 * min(step, own * seats)
    work_ms = prefill_ms + 32 * 30 / math.sqrt(seats) + stall_ms
    load = 4.0 * work_ms / 1000
    queue_ms = 4000 * max(0.0, load - seats / 6) + 50 * load
    return {"p95_ttft_ms": prefill_ms + stall_ms + queue_ms, "mean_e2el_ms": work_ms + queue_ms + 960}


def play(playbook: Playbook, model: Model, view: View) -> tuple[View, str]:
    """The harness's loop over a model in place of trials; the search is the real one."""
    expert, space = Expert(playbook), view.space
    view = record(view, model, {}, "baseline")
    for _ in range(60):
        action = expert.turn(view).action
        assert action == expert.turn(view).action, "a pure function of the view"
        if isinstance(action, Finish):
            return view, action.reason
        assert action.cost <= view.trials_left
        if isinstance(action, Propose):
            view = record(view, model, action.patch, "playbook")
        else:
            assert isinstance(action, Search)
            for _ in range(action.trials):
                numeric = strategy("tpe", Problem(space, view.baseline, lower_is_better=True, seed=0))
                patch = numeric.ask([Observation(t.patch, t.objective, t.measured) for t in view.trials[1:]])
                assert patch is not None
                view = record(view, model, patch, "search")
    raise AssertionError("it never finishes")


def record(view: View, model: Model, patch: Config, source: Source) -> View:
    metrics = model({**view.baseline.values, **patch})
    ttft = metrics["p95_ttft_ms"] if metrics else None
    made = trial(f"t{len(view.trials)}", dict(patch), ttft, metrics=metrics)
    made = dataclasses.replace(made, source=source)
    better = bool(patch) and view.improves(made, view.best)
    return dataclasses.replace(
        view,
        trials=(*view.trials, made),
        incumbent=made.id if better else view.incumbent,
        trials_left=view.trials_left - bool(patch),
    )


POOR: Config = {
    "max_num_seqs": 2,
    "enable_prefix_caching": False,
    "max_num_batched_tokens": 8192,
    "kv_cache_tokens": 1024,
}


def test_interacting_faults_are_mended_by_the_first_proposal(playbook: Playbook) -> None:
    view, _ = play(playbook, served, make_view(POOR))
    assert view.trials[0].objective is not None
    first = view.trials[1]
    assert first.source == "playbook"
    assert {"max_num_seqs", "enable_prefix_caching", "max_num_batched_tokens", "kv_cache_tokens"} <= first.patch.keys()
    assert view.gain(first, view.trials[0]) > 0.9
    assert view.best is not None
    assert view.gain(view.best, view.trials[0]) >= view.gain(first, view.trials[0])


def test_a_good_deployment_is_left_alone_after_a_few_trials(playbook: Playbook) -> None:
    good = {"max_num_seqs": 16, "max_num_batched_tokens": 256, "kv_cache_tokens": 16384}

    def level(config: Config) -> Outcome:
        return {"p95_ttft_ms": 100.0, "mean_e2el_ms": 1500.0}

    view, reason = play(playbook, level, make_view(good))
    assert reason.startswith("nothing to change")
    assert view.incumbent is None
    assert len(view.trials) - 1 <= 4


def test_when_all_at_once_crashes_each_is_tried_on_the_best_so_far(playbook: Playbook) -> None:
    def short_of_memory(config: Config) -> Outcome:
        return None if float(config["kv_cache_tokens"]) > 4096 else served(config)

    view, _ = play(playbook, short_of_memory, make_view(POOR))
    assert view.trials[1].outcome == "oom"
    assert view.best is not None
    assert view.best.source == "playbook"
    assert view.best.patch["enable_prefix_caching"] is True
    assert float(view.best.patch["max_num_seqs"]) > 2
    assert view.gain(view.best, view.trials[0]) > 0.5


def test_proposals_build_on_the_best_config_so_far(playbook: Playbook) -> None:
    base = trial("t0", {}, 1000.0, source="baseline")
    best = trial("t1", {"block_size": 32}, 700.0, source="search")
    action = Expert(playbook).turn(make_view({"max_num_seqs": 2}, base, best, incumbent="t1")).action
    assert isinstance(action, Propose)
    assert action.patch.items() >= {"block_size": 32, "max_num_seqs": 16}.items()


def test_a_hypothesis_that_proved_wrong_is_taken_back(playbook: Playbook) -> None:
    """Seats and prefix cache went in together; the first token came sooner, and yet end-to-end latency rose."""
    poor = {"max_num_seqs": 2, "enable_prefix_caching": False, "max_num_batched_tokens": 256}
    base = trial("t0", {}, 1000.0, source="baseline", metrics={"p95_e2el_ms": 4000.0})
    both = {"max_num_seqs": 16, "enable_prefix_caching": True}
    best = trial("t1", both, 700.0, metrics={"p95_e2el_ms": 9000.0})
    action = Expert(playbook).turn(make_view(poor, base, best, incumbent="t1")).action
    assert isinstance(action, Propose)
    assert action.patch == {"enable_prefix_caching": True}
    assert "seats-for-the-load" in action.hypothesis


def test_nothing_is_tried_twice(playbook: Playbook) -> None:
    view, _ = play(playbook, served, make_view(POOR))
    digests = [digest(view.changes(t.patch)) for t in view.trials]
    assert len(digests) == len(set(digests))


def test_an_endless_run_of_refusals_ends(playbook: Playbook) -> None:
    view, reason = play(playbook, lambda config: None, make_view({}, trials_left=50))
    assert reason.startswith("nothing to change")
    assert len(view.trials) < 20


@pytest.mark.parametrize("left", [{"trials_left": 0}, {"seconds_left": 0.0}])
def test_a_spent_budget_finishes_at_once(playbook: Playbook, left: dict[str, float]) -> None:
    base = trial("t0", {}, 1000.0, source="baseline")
    assert isinstance(Expert(playbook).turn(make_view({"max_num_seqs": 2}, base, **left)).action, Finish)


def test_a_search_asks_for_no_more_than_is_left(playbook: Playbook) -> None:
    base = trial("t0", {}, 100.0, source="baseline", metrics={"mean_e2el_ms": 1000.0})
    action = Expert(playbook).turn(make_view({"max_num_batched_tokens": 256}, base, trials_left=2)).action
    assert action == Search(trials=2, why=action.why if isinstance(action, Search) else "")


def test_an_unknown_noise_is_learned_first_and_once(playbook: Playbook) -> None:
    base = trial("t0", {}, 1000.0, source="baseline")
    expert = Expert(playbook)
    assert expert.turn(make_view({"max_num_seqs": 2}, base, noise=None)).action == Measure(trial="t0")
    again = trial("t1", {}, 1010.0, source="baseline")
    assert isinstance(expert.turn(make_view({"max_num_seqs": 2}, base, again, noise=None)).action, Propose)


def test_a_gain_within_the_noise_is_no_gain() -> None:
    base = trial("t0", {}, 1000.0, source="baseline")
    view = make_view({}, base, noise=0.1)
    assert not view.improves(trial("t1", {"block_size": 8}, 950.0), base)
    assert view.improves(trial("t1", {"block_size": 8}, 850.0), base)


def test_promises_come_before_the_objective() -> None:
    view = make_view({}, slo={"p95_tpot_ms": 50.0})
    keeps = trial("a", {}, 1000.0, metrics={"p95_tpot_ms": 40.0})
    misses: TrialView = trial("b", {}, 100.0, metrics={"p95_tpot_ms": 90.0})
    assert not view.improves(misses, keeps)
    assert view.improves(keeps, misses)
