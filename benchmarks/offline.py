"""Offline throughput: `python -m benchmarks.offline MODEL PROMPTS SEED [KNOB FLAGS]` prints output tokens/s.

256 random tokens in, 128 out, all requests there from the start; no server, no text.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from benchmarks.peers import INPUT_TOKENS, OUTPUT_TOKENS
from engine.core import Engine
from engine.flags import FlagParser, add_knob_flags, knobs_from
from engine.loading import load_engine
from engine.sampling import SamplingParams


def answer_all(engine: Engine, count: int, chance: random.Random) -> int:
    """Tokens of the answers to `count` random prompts."""
    params = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0.0, ignore_eos=True)
    vocabulary = min(32000, engine.model_config.vocab_size)
    for index in range(count):
        engine.add(f"r{index}", [chance.randrange(3, vocabulary) for _ in range(INPUT_TOKENS)], params)
    tokens = 0
    while engine.has_work:
        tokens += sum(len(delta.token_ids) for delta in engine.step())
    return tokens


def main(model: Path, prompts: int, seed: int, flags: list[str]) -> None:
    parser = FlagParser(allow_abbrev=False)
    add_knob_flags(parser)
    engine = load_engine(model, knobs_from(parser.parse_args(flags)))
    chance = random.Random(seed)
    answer_all(engine, 2, chance)
    started_s = time.monotonic()
    tokens = answer_all(engine, prompts, chance)
    print(tokens / (time.monotonic() - started_s))


main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
