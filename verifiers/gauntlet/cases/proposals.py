"""Attacks by what is proposed (D01 to D06, E03): knobs that run code, values that break out, no memory left."""

from __future__ import annotations

from dataclasses import replace

from tools.targets.knobs import Knob, KnobSpace, Value
from verifiers.evidence import Evidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import candidates, with_data, with_trials
from verifiers.gauntlet.honest import DEPLOYMENT, Story, tell, usual
from verifiers.gauntlet.story import KNOBS

__all__ = ["CASES"]


def _proposed(name: str, standing: Value, value: Value, knob: Knob, *, managed: bool = True) -> Evidence:
    """A run whose owner lists the knob, manages it, and whose proposer gives it `value`."""
    story = Story(
        deployment={**DEPLOYMENT, "config": {**DEPLOYMENT["config"], name: standing}},
        knobs=(*KNOBS, knob),
        unmanaged=Story().unmanaged if managed else Story().unmanaged | {name},
        patch={name: value},
    )
    return tell(story)


def _choice(name: str, standing: Value, value: Value) -> Evidence:
    """As `_proposed`, with a knob of the owner's own table that takes both values."""
    return _proposed(name, standing, value, _listed(name, standing, value))


def _listed(name: str, standing: Value, value: Value) -> Knob:
    return Knob(name, "choice", standing, "listed by its owner", choices=(standing, value))


def _asked(name: str, standing: Value, value: Value) -> Evidence:
    """The same as it stands before anything is launched."""
    run = usual()
    extended = replace(
        run,
        space=KnobSpace({**run.space.knobs, name: _listed(name, standing, value)}),
        managed=run.managed | {name},
        baseline=run.baseline.patched({name: standing}),
    )
    return _first_asked(extended, {name: value})


def _first_asked(run: Evidence, patch: dict[str, Value]) -> Evidence:
    """A proposal before its launch: two launches of the baseline are all that was measured."""
    baselines = tuple(replace(trial, config=run.baseline) for trial in run.search if trial.role == "baseline")
    return replace(
        run,
        candidate=run.baseline.patched(patch),
        patch=patch,
        search=baselines,
        trials=baselines,
        extra=(),
        plan=None,
        change=None,
        entries=run.entries[: baselines[-1].seq + 2],
    )


def _not_marked() -> Evidence:
    knob = Knob("swap_space", "int", 0, "swap", low=0, high=64)
    return _proposed("swap_space", 0, 8, knob, managed=False)


def _not_theirs() -> Evidence:
    """A knob that only the owner may set, marked as managed by mistake."""
    story = Story(unmanaged=frozenset({"dtype"}), patch={"max_queue_len": 8})
    return tell(story)


def _lossy() -> Evidence:
    """Weights in eight bits, offered as lossless."""
    return tell(Story(unmanaged=frozenset({"max_queue_len"}), patch={"dtype": "int8"}))


def _out_of_range() -> Evidence:
    return _first_asked(usual(), {"max_num_seqs": 100_000})


def _replicas() -> Evidence:
    knob = Knob("replicas", "int", 1, "server processes", low=1, high=8)
    return _proposed("replicas", 1, 2, knob)


def _resources(**more: float) -> Evidence:
    """The candidate's launches had more than the baseline's."""
    return with_trials(usual(), candidates, lambda trial: replace(trial, resources={**trial.resources, **more}))


def _does_not_fit() -> Evidence:
    need = 17 << 30
    evidence = replace(usual(), memory_need_bytes=need)
    return with_data(evidence, "plan", lambda entry: {**entry.data, "memory_need_bytes": need})


def _tried_before() -> Evidence:
    """The search already measured this very config."""
    return tell(Story(repeats=True))


CASES: tuple[Case, ...] = (
    Case("p02", "D02", "policy.knobs", "a knob that only the owner may set", _not_theirs),
    Case("p01", "D02", "policy.knobs", "a knob that the owner didn't mark", _not_marked),
    Case("p03", "C01", "policy.knobs", "a lossy knob offered as lossless", _lossy),
    Case("p27", "D04", "policy.knobs", "a value out of its range", _out_of_range),
    Case(
        "p04",
        "D02",
        "policy.forbidden",
        "a middleware",
        lambda: _choice("middleware", "none", "audit.Hook"),
    ),
    Case("p05", "D02", "policy.forbidden", "a file to be read", lambda: _asked("chat_template", "default", "plain")),
    Case(
        "p06",
        "D02",
        "policy.forbidden",
        "the model's own code",
        lambda: _asked("trust_remote_code", False, True),
    ),
    Case("p07", "D02", "policy.forbidden", "a library for the linker", lambda: _asked("LD_PRELOAD", "none", "fast")),
    Case("p08", "D02", "policy.forbidden", "a parser plugin", lambda: _asked("tool_parser_plugin", "none", "mine")),
    Case("p09", "D02", "policy.forbidden", "another worker class", lambda: _asked("worker_cls", "auto", "mine")),
    Case("p10", "D03", "policy.security", "open to the whole network", lambda: _choice("host", "127.0.0.1", "0.0.0.0")),
    Case("p11", "D03", "policy.security", "no key any more", lambda: _asked("require_api_key", True, False)),
    Case("p12", "D03", "policy.security", "routes for developers", lambda: _asked("dev_mode", False, True)),
    Case("p13", "D04", "policy.values", "a second command", lambda: _choice("scheduler", "fcfs", "fcfs; id")),
    Case("p14", "D04", "policy.values", "a second line", lambda: _asked("scheduler", "fcfs", "-x\nfoo")),
    Case("p15", "D04", "policy.values", "a command in brackets", lambda: _asked("scheduler", "fcfs", "$(id)")),
    Case(
        "p16",
        "D04",
        "policy.values",
        "a value like a flag",
        lambda: _asked("scheduler", "fcfs", "--priority"),
    ),
    Case("p17", "D04", "policy.values", "an anchor", lambda: _asked("scheduler", "fcfs", "&a fcfs")),
    Case("p18", "D05", "policy.values", "a word read as true", lambda: _asked("scheduler", "fcfs", "on")),
    Case("p19", "D05", "policy.values", "a word read as a number", lambda: _asked("scheduler", "fcfs", "010")),
    Case("p20", "D05", "policy.values", "a word read as minutes", lambda: _asked("scheduler", "fcfs", "1:30")),
    Case("p21", "D05", "policy.values", "a number read as a word", lambda: _asked("scheduler", "fcfs", "1e5")),
    Case("p22", "D01", "resources.frozen", "another replica", _replicas),
    Case("p23", "D01", "resources.frozen", "twice the cores", lambda: _resources(cores=8)),
    Case("p24", "D01", "resources.frozen", "two processes", lambda: _resources(replicas=2)),
    Case("p25", "D06", "feasibility.memory", "more memory than there is", _does_not_fit),
    Case("p26", "E03", "duplicate.config", "a config that was tried before", _tried_before),
)
