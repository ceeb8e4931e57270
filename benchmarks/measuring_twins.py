"""Rows `twins`, `doctor` and `reading`: what `tools/traces` makes of logs whose truth is known.

The logs are written by simulations of users that know nothing of the twin. The doctor's cases were written when it was
thought finished. Two of fifteen kinds were missed then (a moment beside words that hold digits, entries of indented
JSON); those were mended, and the last three kinds were written after that.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.tools.traces_logs import LOGS
from tools.traces import read_log
from tools.traces.conversations import conversations_of
from tools.traces.doctor import diagnose
from tools.traces.twin import HIT_GOAL, KS_GOAL, check_twin, twin_of

__all__ = ["doctor", "reading", "twins"]

Json = dict[str, Any]

NOUNS = ["river", "stone", "cloud", "ember", "field", "harbor", "island", "jacket", "kettle", "ladder", "meadow"]


class _Both:
    """Two sources of chance: one that is the same for every request, and one that isn't."""

    def __init__(self, fixed: random.Random, varying: random.Random) -> None:
        self.fixed = fixed
        self.varying = varying


def twins(quick: bool = False) -> dict[str, Any]:
    """Six kinds of log, three logs of each, two seeds of each twin: the largest KS distance of a marginal (prompt and
    output tokens, gaps between starts, pauses between turns) and the largest difference of hit rates."""
    seeds = (21,) if quick else (21, 22, 23)
    worst: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (name, make) in LOGS.items():
            found: dict[str, float] = {}
            for seed in seeds:
                log = read_log(make(Path(folder) / name, seed))
                conversations = conversations_of(log.requests)
                spec = twin_of(log, conversations)
                for twin_seed in (1,) if quick else (1, 2):
                    check = check_twin(conversations, spec, twin_seed, block_tokens=log.block_tokens)
                    for key, value in {**check.ks, "hit_rate": check.hit_difference or 0.0}.items():
                        found[key] = max(found.get(key, 0.0), value)
            worst[kind] = {key: round(value, 4) for key, value in found.items()}
    largest_ks = max(value for found in worst.values() for key, value in found.items() if key != "hit_rate")
    largest_hit = max(found["hit_rate"] for found in worst.values())
    return {
        "value": {"ks": largest_ks, "hit_rate_difference": largest_hit},
        "goal": f"ks <= {KS_GOAL}, hit_rate_difference <= {HIT_GOAL}",
        "ok": largest_ks <= KS_GOAL and largest_hit <= HIT_GOAL,
        "logs": len(LOGS) * len(seeds),
        "worst": worst,
    }


def doctor(quick: bool = False) -> dict[str, Any]:
    """Faults named, of logs with one, and false alarms, of logs without."""
    seeds = range(2) if quick else range(8)
    missed, alarms, cases = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        for seed in seeds:
            for name, (make, expected) in CASES.items():
                cases += 1
                faults = [finding.fault for finding in diagnose(_log(path, make, seed)).findings]
                if expected is None and faults:
                    alarms.append(f"{name} {seed}: {faults}")
                elif expected is not None and expected not in faults:
                    missed.append(f"{name} {seed}: {faults}")
    return {
        "value": {"missed": len(missed), "false_alarms": len(alarms)},
        "goal": "none missed, no false alarm",
        "ok": not missed and not alarms,
        "cases": cases,
        "told": missed + alarms,
    }


def reading(quick: bool = False) -> dict[str, Any]:
    """Seconds to read a million lines of the Mooncake format (20 hashes each)."""
    lines = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        with path.open("w") as file:
            for number in range(lines):
                ids = ",".join(map(str, [0, 1, *range(number * 18 + 2, number * 18 + 20)]))
                lengths = f'"input_length":10240,"output_length":{number % 500 + 1}'
                file.write(f'{{"timestamp":{number * 7},{lengths},"hash_ids":[{ids}]}}\n')
        started = time.process_time()
        requests = len(read_log(path).requests)
        seconds = (time.process_time() - started) * 1_000_000 / lines
    return {
        "value": round(seconds, 1),
        "goal": "well under 60 s of one core",
        "ok": None if quick else requests == lines and seconds < 60,
        "lines": lines,
    }


def _log(path: Path, make: Callable[[_Both, int], list[Json]], seed: int, requests: int = 80) -> Path:
    chance = random.Random(seed)
    state = random.Random(seed + 1000).getstate()
    lines = []
    for number in range(requests):
        fixed = random.Random()
        fixed.setstate(state)  # what all requests have in common is drawn alike for each
        messages = make(_Both(fixed, chance), number)
        usage = {"completion_tokens": 30}
        lines.append(
            json.dumps({"ts": 1.7e9 + number * 1.3, "body": {"model": "m", "messages": messages}, "usage": usage})
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(NOUNS) + str(chance.randrange(3)) for _ in range(words))


def _asked(both: _Both, system: str) -> list[Json]:
    user = _prose(both.varying, both.varying.randrange(15, 120))
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _plain(both: _Both, number: int) -> list[Json]:
    return _asked(both, _prose(both.fixed, 400))


def _late_end(both: _Both, number: int) -> list[Json]:
    """The moment stands at the very end of the instructions: nothing is shared behind it."""
    moment = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=97 * number)
    return _asked(both, f"{_prose(both.fixed, 400)}\nNow: {moment.isoformat()}")


def _two_tenants(both: _Both, number: int) -> list[Json]:
    texts = [_prose(both.fixed, 300) for _ in range(2)]
    return _asked(both, texts[number % 2])


def _few_shots(both: _Both, number: int) -> list[Json]:
    shots = [f"Q: {_prose(both.fixed, 12)}\nA: {_prose(both.fixed, 8)}\n" for _ in range(12)]
    return _asked(both, "Answer like this.\n" + "".join(shots))


def _documents(both: _Both, number: int) -> list[Json]:
    """Long documents, each read once, behind short instructions: content, not a fault."""
    return _asked(both, f"{_prose(both.fixed, 60)}\n\n{_prose(both.varying, 500)}")


def _iso_first(both: _Both, number: int) -> list[Json]:
    moment = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=97 * number)
    return _asked(both, f"[{moment.isoformat()}] {_prose(both.fixed, 400)}")


def _trace_header(both: _Both, number: int) -> list[Json]:
    trace = f"{both.varying.getrandbits(64):016x}"
    return _asked(both, f"X-Trace: {trace}\n{_prose(both.fixed, 400)}")


def _weather(both: _Both, number: int) -> list[Json]:
    sky = both.varying.choice(["sunny", "overcast", "stormy", "foggy", "clear", "snowy", "windy", "rainy"])
    degrees = both.varying.randrange(-9, 35)
    return _asked(
        both, f"{_prose(both.fixed, 50)} The weather is {sky} at {degrees} degrees. {_prose(both.fixed, 350)}"
    )


def _mixed_shots(both: _Both, number: int) -> list[Json]:
    shots = [f"Q: {_prose(both.fixed, 12)}. A: {_prose(both.fixed, 8)}\n" for _ in range(12)]
    return _asked(both, "Answer like this.\n" + "".join(both.varying.sample(shots, len(shots))))


def _inline_tools(both: _Both, number: int) -> list[Json]:
    tools = [{"name": f"tool{index}", "about": _prose(both.fixed, 20)} for index in range(10)]
    return _asked(both, "Tools: " + json.dumps(both.varying.sample(tools, len(tools))) + "\nUse them.")


def _trailing(both: _Both, number: int) -> list[Json]:
    lines = [_prose(both.fixed, 12) for _ in range(30)]
    return _asked(both, "".join(line + " " * both.varying.choice([0, 0, 1, 3]) + "\n" for line in lines))


def _balance(both: _Both, number: int) -> list[Json]:
    """An amount, deep in the text."""
    amount = f"EUR {both.varying.randrange(10, 99999):,}.{both.varying.randrange(100):02d}"
    return _asked(both, f"{_prose(both.fixed, 150)} The balance is {amount} today. {_prose(both.fixed, 250)}")


def _two_fields(both: _Both, number: int) -> list[Json]:
    ticket = f"TCK-{both.varying.randrange(10**6):06d}"
    text = f"Ticket {ticket}. {_prose(both.fixed, 120)} Agent of the day: {both.varying.choice(NOUNS)}."
    return _asked(both, f"{text} {_prose(both.fixed, 250)}")


def _json_settings(both: _Both, number: int) -> list[Json]:
    settings = [(f"setting_{index}", _prose(both.fixed, 6)) for index in range(20)]
    return _asked(both, json.dumps(dict(both.varying.sample(settings, 20)), indent=1) + "\nObey the settings.")


def _numbered_rules(both: _Both, number: int) -> list[Json]:
    """Rules in one order, a figure in each: nothing varies."""
    rules = [f"{index}. At {index + 3}:00 do {_prose(both.fixed, 10)}" for index in range(25)]
    return _asked(both, "\n".join(rules))


def _hidden_name(both: _Both, number: int) -> list[Json]:
    user = both.varying.choice(["amelie", "bogdan", "chiara", "dmitri", "elodie", "farouk", "gudrun", "hideki"])
    return _asked(both, f'{{"user": "{user}", "role": "member"}}\n{_prose(both.fixed, 380)}')


def _mixed_bullets(both: _Both, number: int) -> list[Json]:
    bullets = [f"  * {_prose(both.fixed, 9)}" for _ in range(24)]
    return _asked(
        both, f"{_prose(both.fixed, 30)}\n\n" + "\n".join(both.varying.sample(bullets, 24)) + "\n\nThat is all."
    )


def _code(both: _Both, number: int) -> list[Json]:
    """The same indented code for everybody, then a question about it."""
    lines = [" " * (4 * (index % 3)) + _prose(both.fixed, 8) for index in range(40)]
    return _asked(both, "\n".join(lines) + "\n\n")


CASES: dict[str, tuple[Callable[[Any, int], list[Json]], str | None]] = {
    "plain instructions": (_plain, None),
    "a moment where nothing follows": (_late_end, None),
    "two tenants": (_two_tenants, None),
    "examples in a fixed order": (_few_shots, None),
    "documents": (_documents, None),
    "a moment at the beginning": (_iso_first, "varying_field"),
    "a trace id in a header": (_trace_header, "varying_field"),
    "weather in mid-text": (_weather, "varying_field"),
    "examples in any order": (_mixed_shots, "shuffled_list"),
    "tools in one line in any order": (_inline_tools, "shuffled_list"),
    "blanks at the ends of lines": (_trailing, "format"),
    "an amount deep in the text": (_balance, "varying_field"),
    "a ticket and a name": (_two_fields, "varying_field"),
    "settings in any order": (_json_settings, "shuffled_list"),
    "numbered rules": (_numbered_rules, None),
    "a name within JSON": (_hidden_name, "varying_field"),
    "bullets in any order": (_mixed_bullets, "shuffled_list"),
    "indented code": (_code, None),
}
