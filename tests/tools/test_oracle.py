"""The crash oracle: sure where the formula is, never sure of what it learned, monotone, and worth its trials."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.resolve
from engine.errors import StartRefused
from engine.knobs import EngineKnobs
from engine.model_config import ModelConfig
from tests.tiny_model import build_tiny_model
from tools.oracle import CrashOracle, Lesson, Load, Room, StepTime, lessons_of
from tools.oracle.neighbours import distance
from tools.oracle.opinion import LEAST_CHANCE, MOST_CHANCE
from tools.profile.physics import ModelFacts, floor_ms
from tools.profile.roofline import Roofline
from tools.search.observation import Observation
from tools.targets.bundled import BundledTarget
from tools.targets.failures import diagnose
from tools.targets.knobs import Config, KnobSpace, Value
from tools.targets.target import FailureKind, LaunchFailed, MemoryNeed

GIB = 2**30
MEMORY = 24 * GIB
SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "dtype": "bfloat16",
}
"""Of a real model of 135 million parameters: 22.5 KiB of keys and values per token."""
LIKE_MEMORY = ("kv_cache_tokens", "max_num_batched_tokens", "max_num_seqs")
KINDS: tuple[FailureKind, ...] = ("bad_config", "timeout", "crash", "unreachable", "oom")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> BundledTarget:
    """Sized by its config.json alone: nothing here reads a weight."""
    folder = tmp_path_factory.mktemp("shape")
    (folder / "config.json").write_text(json.dumps(SHAPE))
    (folder / "model.safetensors").touch()
    return BundledTarget(folder)


def searched(target: BundledTarget, *more: str) -> KnobSpace:
    return target.knobs.only(frozenset((*LIKE_MEMORY, "block_size", *more)))


def oracle_of(target: BundledTarget, *more: str, memory_bytes: int = MEMORY) -> CrashOracle:
    return CrashOracle.of(target, searched(target, *more), target.knobs.resolve({}), memory_bytes)


def drawn(space: KnobSpace, random: Random) -> dict[str, Value]:
    """Numbers evenly in their logarithms where the knob says so."""
    values: dict[str, Value] = {}
    for knob in space:
        if knob.kind == "int":
            assert knob.low is not None and knob.high is not None and knob.log
            values[knob.name] = round(math.exp(random.uniform(math.log(knob.low), math.log(knob.high))))
        else:
            values[knob.name] = random.choice(knob.choices)
    return values


class Engine:
    """What the engine itself says to a config, without loading a model: its own checks at start-up."""

    def __init__(self, target: BundledTarget) -> None:
        self._model = ModelConfig.load(target.model_dir)

    def refusal(self, config: Config) -> StartRefused | None:
        try:
            knobs = engine.resolve.resolve(EngineKnobs.from_values(config.values), self._model)
            engine.resolve.require_memory(knobs, self._model)
        except StartRefused as refused:
            return refused
        return None


@pytest.fixture
def strict(target: BundledTarget, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """On a machine of 24 GiB of which 4 are taken, which nobody has told the oracle."""
    monkeypatch.setattr(engine.resolve, "available_memory_bytes", lambda: 20 * GIB)
    return Engine(target)


def test_it_agrees_with_the_engine_but_for_its_margin(target: BundledTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.resolve, "available_memory_bytes", lambda: MEMORY)
    oracle, asked, random = oracle_of(target), Engine(target), Random(3)
    agreed = 0
    for _ in range(200):
        config = target.knobs.resolve(drawn(searched(target), random))
        forecast, refused = oracle.forecast(config), asked.refusal(config)
        if forecast.feasible or refused:
            # Never does the engine refuse what the oracle lets through, and both give the same reason.
            assert refused is None if forecast.feasible else refused is not None and refused.kind == forecast.kind
            agreed += 1
        else:  # only where less than the margin would stay free
            assert 0.95 * MEMORY < target.memory(config).total_bytes <= MEMORY
    assert agreed > 190


def lost(
    target: BundledTarget, asked: Engine, space: KnobSpace, seed: int, *, guided: bool, launches: int = 30
) -> float:
    """Share of `launches` that fail, where configs are drawn at random and the oracle may pass some over."""
    random, baseline = Random(seed), target.knobs.resolve({})
    oracle = CrashOracle(target, Room.of(MEMORY), space)
    history, said = [Observation({}, 1.0, feasible=True)], dict[str, str]()
    failed = 0
    while len(history) <= launches:
        patch = drawn(space, random)
        config = baseline.patched(patch)
        if guided:
            forecast = oracle.forecast(config)
            if not forecast.feasible or forecast.chance < 0.5:
                continue
        refused = asked.refusal(config)
        kind = refused.kind if refused else ""
        history.append(Observation(patch, None if refused else 1.0, feasible=not refused, kind=kind))
        if refused:
            failed += 1
            said[config.digest] = refused.sentence
        oracle = oracle.after(history, baseline, said)
    return failed / launches


def test_trials_lost_to_crashes_fall_from_a_fifth_and_more_to_a_twentieth_and_less(
    target: BundledTarget, strict: Engine
) -> None:
    space = searched(target)
    assert space["kv_cache_tokens"].high == 4_000_000 and space["max_num_batched_tokens"].high == 16384
    seeds = range(4)
    at_random = [lost(target, strict, space, seed, guided=False) for seed in seeds]
    guided = [lost(target, strict, space, seed, guided=True) for seed in seeds]
    assert min(at_random) >= 0.2
    assert sum(guided) / len(guided) <= 0.05, guided


def test_a_refusal_that_no_formula_knows_is_learned(target: BundledTarget, strict: Engine) -> None:
    space = searched(target, "kv_cache_dtype")  # fp8 needs a GPU, which only the engine's own start finds out
    at_random = [lost(target, strict, space, seed, guided=False) for seed in range(2)]
    guided = [lost(target, strict, space, seed, guided=True) for seed in range(2)]
    assert sum(guided) <= 0.1 * sum(at_random), (at_random, guided)


patches = st.fixed_dictionaries(
    {
        "kv_cache_tokens": st.integers(8192, 900_000),
        "max_num_batched_tokens": st.integers(512, 16384),
        "max_num_seqs": st.integers(1, 512),
        "block_size": st.sampled_from([16, 32, 64]),
    }
)
launches = st.lists(st.tuples(patches, st.sampled_from([None, *KINDS])), max_size=8)


def taught(target: BundledTarget, lessons: list[tuple[dict[str, int], FailureKind | None]]) -> CrashOracle:
    baseline = target.knobs.resolve({})
    told = tuple(Lesson(baseline.patched(patch), kind) for patch, kind in lessons)
    return replace(oracle_of(target), lessons=(Lesson(baseline), *told))


@given(launches, patches)
@settings(max_examples=30)
def test_what_was_learned_is_never_certain(
    target: BundledTarget, lessons: list[tuple[dict[str, int], FailureKind | None]], patch: dict[str, int]
) -> None:
    config = target.knobs.resolve(patch)
    forecast = taught(target, lessons).forecast(config)
    untaught = oracle_of(target).forecast(config)
    assert forecast.feasible == untaught.feasible  # launches mask nothing
    if forecast.feasible:
        assert LEAST_CHANCE <= forecast.chance <= untaught.chance < 1
        assert forecast.chance >= 0.9 or forecast.kind in KINDS
    assert forecast.sentence


@given(st.lists(st.tuples(patches, st.sampled_from([None, "oom"])), max_size=8), patches, st.sampled_from(LIKE_MEMORY))
@settings(max_examples=30)
def test_more_of_a_memory_like_knob_never_raises_the_chance(
    target: BundledTarget, lessons: list[tuple[dict[str, int], FailureKind | None]], patch: dict[str, int], name: str
) -> None:
    oracle = taught(target, lessons)
    more = {**patch, name: min(patch[name] * 2, int(target.knobs[name].high or 0))}
    if more["max_num_seqs"] > more["max_num_batched_tokens"]:
        return
    here, there = (oracle.forecast(target.knobs.resolve(values)) for values in (patch, more))
    assert there.chance <= here.chance
    assert there.feasible <= here.feasible


@given(patches, st.sampled_from([kind for kind in KINDS if kind != "oom"]))
@settings(max_examples=30)
def test_a_wrong_lesson_can_be_unlearned(target: BundledTarget, patch: dict[str, int], kind: FailureKind) -> None:
    config = target.knobs.resolve(patch)
    before = taught(target, [(patch, kind)]).forecast(config).chance
    after = taught(target, [(patch, kind), (patch, None)]).forecast(config).chance
    assert before < after or not oracle_of(target).forecast(config).feasible


def test_out_of_memory_at_some_size_is_expected_at_more_and_taken_back_when_more_runs(target: BundledTarget) -> None:
    sizes = [{"kv_cache_tokens": tokens} for tokens in (200_000, 400_000, 600_000)]
    small, middle, large = (target.knobs.resolve(patch) for patch in sizes)
    oracle = taught(target, [(sizes[1], "oom")])
    assert oracle.forecast(small).chance > 0.9 > 0.2 > oracle.forecast(large).chance
    forecast = oracle.forecast(middle)
    assert (forecast.feasible, forecast.kind) == (True, "oom") and "ran out of memory" in forecast.sentence
    assert taught(target, [(sizes[1], "oom"), (sizes[2], None)]).forecast(middle).chance > forecast.chance


def test_an_engine_without_a_formula_is_learned_from_its_launches_alone(target: BundledTarget, strict: Engine) -> None:
    space, baseline = searched(target), target.knobs.resolve({})
    unknown = CrashOracle.unsized(space)
    forecast = unknown.forecast(target.knobs.resolve({"kv_cache_tokens": 4_000_000}))
    assert (forecast.feasible, forecast.kind, forecast.chance) == (True, "", MOST_CHANCE)
    history = [Observation({}, 1.0, feasible=True)]
    history += [
        Observation({"kv_cache_tokens": 2**20, "block_size": size}, None, False, kind="oom") for size in (16, 32)
    ]
    taught = unknown.after(history, baseline)
    more, less = (taught.forecast(baseline.patched({"kv_cache_tokens": tokens})) for tokens in (2**21, 2**16))
    assert more.feasible and more.kind == "oom" and more.chance < 0.5 < less.chance


def test_the_stages_at_which_memory_runs_out_are_told_apart() -> None:
    room = Room.of(10 * GIB)
    stages = {
        "at load": MemoryNeed(10 * GIB, 0, 0, GIB),
        "cache is laid out": MemoryNeed(5 * GIB, 4 * GIB, GIB, GIB),
        "in a burst": MemoryNeed(5 * GIB, 4 * GIB, GIB // 2, GIB // 4),
    }
    for said, need in stages.items():
        opinion = room.opinion(need)
        assert opinion.chance == 0.0 and said in opinion.sentence
    assert 0.5 < room.opinion(MemoryNeed(5 * GIB, 4 * GIB, 0, GIB // 4)).chance < MOST_CHANCE
    assert Room.of(10 * GIB, int(9.8 * GIB)).opinion(stages["in a burst"]).chance > 0  # the owner's own runs so


def test_values_that_dont_go_together_are_certain_not_to_run(target: BundledTarget) -> None:
    forecast = oracle_of(target).forecast(target.knobs.resolve({"max_num_seqs": 64, "max_num_batched_tokens": 32}))
    assert (forecast.feasible, forecast.kind, forecast.chance) == (False, "bad_config", 0.0)
    assert "a step must hold one token of each sequence" in forecast.sentence
    short = oracle_of(target).forecast(target.knobs.resolve({"kv_cache_tokens": 4096}))
    assert not short.feasible and "one sequence may have 8192" in short.sentence


def test_only_launches_teach() -> None:
    baseline = Config({"a": 1})
    history = [
        Observation({}, 5.0, feasible=True),
        Observation({"a": 2}, None, feasible=False, kind="crash"),
        Observation({"a": 3}, None, feasible=False, kind="port_taken"),
        Observation({"a": 4}, None, feasible=False),
    ]
    assert lessons_of(history, baseline) == (Lesson(baseline), Lesson(Config({"a": 2}), "crash"))


@given(patches, patches, patches)
@settings(max_examples=30)
def test_distance_is_a_metric(
    target: BundledTarget, one: dict[str, int], two: dict[str, int], three: dict[str, int]
) -> None:
    a, b, c = (target.knobs.resolve(patch) for patch in (one, two, three))
    space = searched(target)
    assert distance(a, a, space) == 0 and distance(a, b, space) == distance(b, a, space)
    assert distance(a, c, space) <= distance(a, b, space) + distance(b, c, space) + 1e-9


ROOF = Roofline(read_bytes_per_s=30e9, flops_per_s_bf16=400e9, flops_per_s_fp32=180e9)
FACTS = ModelFacts(270_000_000, 106_000_000, 28_000_000, 384 * 2, ((0, 30),))


def step_time(in_flight: float = 8.0) -> StepTime:
    return StepTime(ROOF, lambda config: FACTS, Load(256, 128, in_flight))


def test_the_step_time_model_says_which_promises_are_out_of_reach_and_masks_nothing(target: BundledTarget) -> None:
    plain = oracle_of(target)
    oracle = replace(plain, pace=step_time(), promises={"p95_tpot_ms": 0.1, "p95_ttft_ms": 60_000})
    forecast, config = oracle.forecast(target.knobs.resolve({})), target.knobs.resolve({})
    assert forecast.feasible and forecast.chance == plain.forecast(config).chance
    assert "p95_tpot_ms <= 0.1 looks out of reach" in forecast.sentence and "p95_ttft" not in forecast.sentence


@given(st.integers(1, 512), st.integers(512, 16384), st.integers(8192, 900_000))
@settings(max_examples=30)
def test_no_pace_undercuts_the_roofline(target: BundledTarget, seats: int, tokens: int, cache: int) -> None:
    config = target.knobs.resolve({"max_num_seqs": seats, "max_num_batched_tokens": tokens, "kv_cache_tokens": cache})
    pace, floor = step_time().pace(config), floor_ms(ROOF, FACTS, 256, output_tokens=128)
    assert pace.ttft_ms >= floor.ttft_ms and pace.tpot_ms >= floor.tpot_ms
    assert 1 <= pace.batch <= min(seats, 8)


def test_paces_move_as_they_must(target: BundledTarget) -> None:
    def pace(in_flight: float = 32, **patch: int) -> tuple[float, float]:
        found = step_time(in_flight).pace(target.knobs.resolve(patch))
        return found.ttft_ms, found.tpot_ms

    assert pace(max_num_seqs=4)[0] > pace(max_num_seqs=32)[0]  # who has no seat waits
    assert pace(max_num_seqs=4)[1] < pace(max_num_seqs=32)[1]  # fewer together, faster each
    assert pace(1, max_num_seqs=4, max_num_batched_tokens=16)[0] > pace(1, max_num_seqs=4)[0]  # more, smaller chunks
    assert (
        pace(kv_cache_tokens=8192)[1] < pace(kv_cache_tokens=16384)[1] == pace(kv_cache_tokens=32768)[1]
    )  # more seats


def test_the_efficiency_is_what_one_request_alone_showed(target: BundledTarget) -> None:
    config = target.knobs.resolve({})
    alone = step_time(in_flight=1).pace(config).tpot_ms
    fitted = step_time(in_flight=8).fitted(config, alone_tpot_ms=2 * alone)
    assert fitted.efficiency == pytest.approx(0.5)
    assert fitted.pace(config).tpot_ms == pytest.approx(2 * step_time(in_flight=8).pace(config).tpot_ms)


def test_launches_of_a_real_engine_fail_as_foreseen_are_diagnosed_and_teach(tmp_path: Path) -> None:
    target = BundledTarget(build_tiny_model(tmp_path / "tiny"))
    baseline = target.knobs.resolve({})
    oracle = CrashOracle.of(target, target.knobs, baseline, MEMORY)

    def failure(config: Config) -> LaunchFailed:
        with pytest.raises(LaunchFailed) as failed:
            target.launch(config, log=tmp_path / "log")
        assert diagnose(2, failed.value.log_tail, timed_out=False).cause == "incompatible_knobs"
        return failed.value

    config = target.knobs.resolve({"kv_cache_tokens": 256})
    forecast, failed = oracle.forecast(config), failure(config)
    assert (failed.kind, failed.message) == (forecast.kind, forecast.sentence) and not forecast.feasible

    patch: dict[str, Value] = {"kv_cache_dtype": "fp8", "max_num_seqs": 8, "enable_prefix_caching": False}
    unforeseen = baseline.patched(patch)
    assert oracle.forecast(unforeseen).chance > 0.9
    said = {unforeseen.digest: failure(unforeseen).message}
    history = [Observation({}, 1.0, feasible=True), Observation(patch, None, feasible=False, kind="bad_config")]
    taught = oracle.after(history, baseline, said)
    others = baseline.patched({"max_num_seqs": 200}), baseline.patched({"max_num_seqs": 200, "kv_cache_dtype": "fp8"})
    allowed, doubted = (taught.forecast(config) for config in others)
    assert allowed.chance > 0.9 and doubted.feasible and doubted.chance < 0.2
    assert "kv_cache_dtype=fp8" in doubted.sentence and "max_num_seqs" not in doubted.sentence


def test_a_load_is_what_a_trial_of_it_showed() -> None:
    summary = {
        "request_throughput": 2.0,
        "output_throughput": 40.0,
        "total_token_throughput": 540.0,
        "mean_e2el_ms": 3000.0,
    }
    assert Load.measured(summary) == Load(prompt_tokens=250, output_tokens=20, in_flight=6)
