"""Quality: how many of a few hundred short questions each lossy cell answers right, relative to the lossless default.

    taskset -c 1 env OMP_NUM_THREADS=1 python -m benchmarks.surfaces.quality --rows FOLDER

Sums, number sequences and look-ups in a short list, after examples: SmolLM2-135M gets two in five right, guessing none.
An answer counts if it is the number. All questions are sent at once, so that batches are as under load. Writes
FOLDER/quality.json: for each combination of number formats its accuracy and the ratio to the default's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.surfaces.fork import ForkTarget
from benchmarks.surfaces.record import MODEL, tell
from benchmarks.surfaces.space import BUNDLED
from tools.evals.asker import open_asker
from tools.evals.item import Item, answered, ask_items, completion
from tools.models import pull
from tools.targets.knobs import Value
from tools.targets.target import Endpoint
from tools.trial import launched

__all__ = ["COMBINATIONS", "QUESTIONS", "accuracy", "name_of"]

COMBINATIONS: tuple[Mapping[str, Value], ...] = (
    {"quantization": "none", "dtype": "auto"},
    {"quantization": "none", "dtype": "fp32"},
    {"quantization": "int8", "dtype": "auto"},
    {"quantization": "int4", "dtype": "auto"},
)
_SUMS = "3 + 4 = 7\n10 - 2 = 8\n11 + 6 = 17\n15 - 5 = 10\n"
_SEQUENCES = "2, 4, 6, 8, 10\n5, 10, 15, 20, 25\n9, 8, 7, 6, 5\n"
_NAMES = ("Ann", "Ben", "Carl", "Dora", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jack", "Kate", "Leo")


def name_of(values: Mapping[str, Value]) -> str:
    """`int8/auto`: what of a cell decides over its quality."""
    return f"{values['quantization']}/{values['dtype']}"


def _sum(dealt: random.Random) -> tuple[str, int]:
    a, b = dealt.randint(1, 30), dealt.randint(1, 20)
    return (f"{_SUMS}{a} + {b} =", a + b) if dealt.random() < 0.75 else (f"{_SUMS}{a + b} - {b} =", a)


def _sequence(dealt: random.Random) -> tuple[str, int]:
    step = dealt.choice((1, 2, 3, 4, 5, 10))
    first = dealt.randint(1, 40)
    numbers = [first + step * place for place in range(5)]
    return f"{_SEQUENCES}{', '.join(map(str, numbers[:-1]))},", numbers[-1]


def _lookup(dealt: random.Random) -> tuple[str, int]:
    ages = {name: dealt.randint(11, 89) for name in dealt.sample(_NAMES, 8)}
    asked = dealt.choice(list(ages))
    listed = "\n".join(f"{name} is {age} years old." for name, age in ages.items())
    return f"{listed}\nQuestion: how old is {asked}? Answer: {asked} is", ages[asked]


def _questions(each: int) -> tuple[Item, ...]:
    items = []
    for kind in (_sum, _sequence, _lookup):
        dealt = random.Random(kind.__name__)
        for index in range(each):
            text, result = kind(dealt)
            name = f"{kind.__name__[1:]}-{index}"
            items.append(completion(name, text, "number", result, max_tokens=4, stop=["\n", ",", " years"]))
    return tuple(items)


QUESTIONS = _questions(400)


def accuracy(endpoint: Endpoint, questions: Sequence[Item] = QUESTIONS) -> float:
    """Share of `questions` that the server at `endpoint` answers right."""

    async def ask() -> float:
        async with open_asker(endpoint) as asker:
            heard = await ask_items(asker, questions)
        right = Counter(each.item.id.partition("-")[0] for each in heard if answered(each).score == 1.0)
        tell(f"right: {dict(right)}")
        return right.total() / len(heard)

    return asyncio.run(ask())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help="folder of the recorded launches")
    folder = parser.parse_args().rows
    folder.mkdir(parents=True, exist_ok=True)
    target = ForkTarget(pull(MODEL))
    found: dict[str, float] = {}
    for values in COMBINATIONS:
        config = target.knobs.resolve(BUNDLED.snap(values))
        with launched(target, config, log=folder / "last-launch.log", timeout_s=60.0) as endpoint:
            found[name_of(values)] = accuracy(endpoint)
        tell(f"{name_of(values)}: {found[name_of(values)]:.3f} right")
    base = found[name_of(COMBINATIONS[0])]
    told = {name: {"accuracy": share, "quality": share / base} for name, share in found.items()}
    (folder / "quality.json").write_text(json.dumps({"questions": len(QUESTIONS), "of": told}, indent=1))


if __name__ == "__main__":
    main()
