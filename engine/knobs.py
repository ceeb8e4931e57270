"""The one knob table: flags, validation, the page in docs/ and the tuner's search space are derived from it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from engine.errors import StartRefused

__all__ = ["EngineKnobs", "Knob", "KnobRow", "Value", "knob_table"]

Value = bool | int | float | str
Device = Literal["cpu", "cuda"]
DtypeName = Literal["auto", "bf16", "fp16", "fp32"]
KernelsName = Literal["auto", "torch", "native", "triton"]


@dataclass(frozen=True, slots=True)
class Knob:
    """What a field's type doesn't say: meaning, range, unit, and what a change of it may do."""

    meaning: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    unit: str = ""
    live: bool = False
    outputs: Literal["lossless", "lossy"] = "lossless"
    tunable: bool = True
    placeholder: Value | None = None
    "A value that stands for one the engine works out at start-up: 0 for all cores, `auto` for the checkpoint's dtype."


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One row of the table: a field of EngineKnobs and its Knob, flattened. `low` and `high` are inclusive."""

    name: str
    kind: Literal["bool", "int", "float", "choice"]
    default: Value
    meaning: str
    low: float | None
    high: float | None
    log: bool
    choices: tuple[Value, ...]
    unit: str
    live: bool
    outputs: Literal["lossless", "lossy"]
    tunable: bool
    flag: str
    placeholder: Value | None

    def check(self, value: object) -> Value:
        """`value` if this knob can take it. Nothing is ever clamped.

        Raises:
            StartRefused: kind bad_config; wrong type, out of range or not among the choices.
        """
        if self.kind == "choice":
            for choice in self.choices:
                if type(choice) is type(value) and choice == value:
                    return choice
            raise self._refuse(value, "one of " + ", ".join(map(str, self.choices)))
        if self.kind == "bool":
            if isinstance(value, bool):
                return value
            raise self._refuse(value, "true or false")
        number = isinstance(value, int) or (self.kind == "float" and isinstance(value, float))
        if isinstance(value, bool) or not number:
            raise self._refuse(value, "a whole number" if self.kind == "int" else "a number")
        assert isinstance(value, int | float)
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise self._refuse(value, f"{self.low:g} to {self.high:g} {self.unit}".rstrip())
        return value

    def _refuse(self, value: object, expected: str) -> StartRefused:
        return StartRefused("bad_config", f"{self.flag}: expected {expected}, found {value!r}")


@dataclass(frozen=True, slots=True)
class EngineKnobs:
    """Every setting of the engine. A new knob is one field here and nothing else."""

    max_num_seqs: Annotated[
        int,
        Knob(
            "Sequences computed together. More raises throughput until the KV cache or the step time is full.",
            low=1,
            high=512,
            log=True,
            unit="sequences",
        ),
    ] = 32
    max_num_batched_tokens: Annotated[
        int,
        Knob(
            "Most tokens of one step, prompts and new tokens together. Fewer keeps the gap between tokens short while "
            "prompts are read in; more reads prompts in faster.",
            low=16,
            high=16384,
            log=True,
            unit="tokens",
        ),
    ] = 512
    long_prefill_token_threshold: Annotated[
        int,
        Knob(
            "Most prompt tokens of one sequence in a step, so that a long prompt leaves room for others. 0: no limit.",
            low=0,
            high=16384,
            unit="tokens",
        ),
    ] = 0
    block_size: Annotated[
        Literal[16, 32, 64],
        Knob("Tokens in a block of the KV cache. A prefix is shared in whole blocks.", unit="tokens"),
    ] = 16
    enable_prefix_caching: Annotated[
        bool, Knob("Reuse the KV blocks of a prefix that an earlier request has computed.")
    ] = True
    kv_cache_tokens: Annotated[
        int,
        Knob(
            "Tokens the KV cache holds, in whole blocks. Too few and running sequences are recomputed; it must hold "
            "one sequence of max_model_len.",
            low=256,
            high=4_000_000,
            log=True,
            unit="tokens",
        ),
    ] = 32768
    num_threads: Annotated[
        int,
        Knob(
            "CPU threads that compute. 0: all cores this process may use. Without effect on a GPU.",
            low=0,
            high=256,
            unit="threads",
            placeholder=0,
        ),
    ] = 0
    dtype: Annotated[
        DtypeName,
        Knob(
            "Number format of weights, activations and KV cache. auto: the checkpoint's own where the device computes "
            "it natively, else fp32.",
            outputs="lossy",
            placeholder="auto",
        ),
    ] = "auto"
    quantization: Annotated[
        Literal["none", "int8", "int4"],
        Knob(
            "Bits of the linear layers' weights: int8 has a scale per output, int4 one per 32 inputs. Fewer bytes are "
            "read for each token.",
            outputs="lossy",
        ),
    ] = "none"
    kv_cache_dtype: Annotated[
        Literal["auto", "fp8"],
        Knob(
            "Number format of the KV cache. auto: that of the activations. fp8 holds twice the tokens; it needs Triton "
            "kernels and a GPU of compute capability 8.9 or later.",
            outputs="lossy",
        ),
    ] = "auto"
    preemption_victim: Annotated[
        Literal["latest", "cheapest"],
        Knob(
            "Who gives its blocks up where they run out: the latest arrival, or, of all later ones, who has least to "
            "compute again."
        ),
    ] = "latest"
    async_scheduling: Annotated[
        Literal["auto", "on", "off"],
        Knob(
            "Prepare the next step while this one is computed. auto: on a GPU. On a CPU both are the same cores' work, "
            "and tokens come a step later.",
            tunable=False,
            placeholder="auto",
        ),
    ] = "auto"
    kernels: Annotated[
        KernelsName,
        Knob(
            "What computes a layer: plain PyTorch, native code for bf16 on CPUs with AVX512-BF16, or Triton on GPUs. "
            "auto: the fastest that runs here.",
            tunable=False,
            placeholder="auto",
        ),
    ] = "auto"
    cuda_graphs: Annotated[
        bool,
        Knob(
            "Replay recorded steps on a GPU, one recording per batch size, in place of launching kernel by kernel.",
            tunable=False,
        ),
    ] = True
    max_model_len: Annotated[
        int,
        Knob(
            "Most tokens of one sequence, prompt and answer together. 0: what the model was made for.",
            low=0,
            high=4_000_000,
            unit="tokens",
            tunable=False,
            placeholder=0,
        ),
    ] = 0
    max_queue_len: Annotated[
        int,
        Knob(
            "Requests that may wait; one more is answered 503 with Retry-After.",
            low=1,
            high=100_000,
            log=True,
            unit="requests",
            tunable=False,
        ),
    ] = 1024
    device: Annotated[Device, Knob("Where the model runs.", tunable=False)] = "cpu"

    def __post_init__(self) -> None:
        for row in knob_table():
            row.check(getattr(self, row.name))
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise StartRefused(
                "bad_config",
                f"--max-num-batched-tokens is {self.max_num_batched_tokens} but --max-num-seqs is {self.max_num_seqs}: "
                "a step must hold one token of each sequence; raise the first or lower the second",
            )

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> EngineKnobs:
        """The knobs that `values` stand for; a missing one takes its default.

        Raises:
            StartRefused: kind bad_config; an unknown name (the nearest is suggested) or a value its knob can't take.
        """
        known = {row.name for row in knob_table()}
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else "known knobs: " + ", ".join(sorted(known))
                raise StartRefused("bad_config", f"unknown knob {name!r}; {hint}")
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks every value against its row

    def to_dict(self) -> dict[str, Value]:
        return dataclasses.asdict(self)


@cache
def knob_table() -> tuple[KnobRow, ...]:
    """The rows of the table, in the order of the fields."""
    hints = get_type_hints(EngineKnobs, include_extras=True)
    return tuple(row_of(field.name, hints[field.name], field.default) for field in fields(EngineKnobs))


def row_of(name: str, hint: Any, default: Any) -> KnobRow:
    kind_of = {bool: "bool", int: "int", float: "float"}
    declared, knob = get_args(hint)
    choices = get_args(declared) if get_origin(declared) is Literal else ()
    return KnobRow(
        name=name,
        kind="choice" if choices else kind_of[declared],  # type: ignore[arg-type]  # the literal's three names
        default=default,
        choices=choices,
        flag="--" + name.replace("_", "-"),
        **{field.name: getattr(knob, field.name) for field in fields(Knob)},
    )
