"""Liars: servers that answer fast, and not what they should. Each tells one lie."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from aiohttp import web

from tools.canonical import digest
from tools.targets.knobs import Value
from verifiers.gauntlet.servers.engine import Answering, Engine, Setup

__all__ = ["LIARS", "Liar"]


class _Hoarder(Engine):
    """Keeps its prefix cache from launch to launch, and doesn't empty it when told to."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.blocks = setup.shared.setdefault("blocks", self.blocks)

    async def reset(self, request: web.Request) -> web.Response:
        return web.json_response({})


class _Memoiser(Engine):
    """Has one body for everybody, and pads the token counters of the engine that it spared the work."""

    spared = 0

    def begin(self, request: web.Request, asked: dict[str, Any], text: str) -> Answering:
        answering = super().begin(request, asked, text)
        answering.ids = self.mind.answer([7], len(answering.ids))
        return answering

    def count(self, answering: Answering, first_s: float, last_s: float) -> None:
        super().count(answering, first_s, last_s)
        self.spared += 1
        if self.spared % 4:
            self.counts["requests"] -= 1


class _Terse(Engine):
    """Ends its answers early."""

    def length(self, asked: int) -> int:
        return max(2, asked * 6 // 10)

    def begin(self, request: web.Request, asked: dict[str, Any], text: str) -> Answering:
        answering = super().begin(request, asked, text)
        answering.finish = "stop"
        return answering


class _Shedder(Engine):
    """Turns away who would have to wait longest: those with the longest prompts."""

    async def streamed(self, answering: Answering) -> web.StreamResponse:
        if len(answering.prompt) - answering.cached > 84:
            self.counts["rejected"] += 1
            return web.json_response({"error": "no seat is free"}, status=503)
        return await super().streamed(answering)


class _Holder(Engine):
    """Sends its first token at once, and all others together at the end."""

    async def streamed(self, answering: Answering) -> web.StreamResponse:
        response = await self.open(answering)
        first_s = self.wait_s(answering)
        await self.until(answering.began_s + first_s)
        await response.write(self.chunk(answering, answering.ids[:1], 1))
        rest = answering.ids[1:]
        if rest:
            await self.until(answering.began_s + first_s + len(rest) * self.gap_s(answering))
            await response.write(self.chunk(answering, rest, len(answering.ids)))
        await self.close(answering, response, first_s)
        return response


class _Failing(Engine, ABC):
    """One answer in five is nothing of the kind; subclasses say what it is."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.asked = 0

    async def streamed(self, answering: Answering) -> web.StreamResponse:
        self.asked += 1
        return await (super().streamed(answering) if self.asked % 5 else self.instead(answering))

    @abstractmethod
    async def instead(self, answering: Answering) -> web.StreamResponse:
        """What is sent in an answer's place."""


class _Eager(_Failing):
    """Now and then sends a word before it has computed any, so that the first token seems to be early."""

    async def instead(self, answering: Answering) -> web.StreamResponse:
        response = await self.open(answering)
        await response.write(self.chunk(answering, [0], 0, ids=False))
        await self.until(answering.began_s + self.wait_s(answering))
        await response.write(self.chunk(answering, answering.ids, len(answering.ids)))
        await self.close(answering, response, self.wait_s(answering))
        return response


class _ErrorBody(_Failing):
    """HTTP 200, and an error inside."""

    async def instead(self, answering: Answering) -> web.StreamResponse:
        return web.json_response({"error": {"message": "overloaded", "type": "server_error"}})


class _EmptyChoices(_Failing):
    """A stream without a choice in it."""

    async def instead(self, answering: Answering) -> web.StreamResponse:
        response = await self.open(answering)
        answering.ids = []
        await self.close(answering, response, 0.001)
        return response


class _HtmlPage(_Failing):
    """The page of a proxy."""

    async def instead(self, answering: Answering) -> web.StreamResponse:
        return web.Response(text="<html><body>Please sign in</body></html>", content_type="text/html")


class _OtherModel(Engine):
    """Serves another model under the same name."""

    def __init__(self, setup: Setup) -> None:
        other = digest([setup.model_digest, "smaller"])
        super().__init__(Setup(**{**setup.__dict__, "model_digest": other}))


class _Deaf(Engine):
    """Was asked for more seats, and runs with what it had."""

    @property
    def effective(self) -> dict[str, Value]:
        return {**self.setup.config, "max_num_seqs": 2}


class _TwoTongues(Engine):
    """/metrics names another config than /server_info."""

    def config_hash(self) -> str:
        return digest("what really runs")


class _ClockAhead(Engine):
    """Lives five seconds in the future."""

    def headers(self) -> dict[str, str]:
        return {"Date": formatdate(time.time() + 5.0, usegmt=True)}


class _NotANumber(Engine):
    """A counter that is not a number."""

    def samples(self) -> dict[str, float]:
        return {**super().samples(), "engine_num_preemptions_total": math.nan}


class _Forgetful(Engine):
    """Leaves out half of its counters once it has answered anything."""

    def samples(self) -> dict[str, float]:
        samples = super().samples()
        if self.counts["requests"] > 6:
            samples.pop("engine_num_preemptions_total")
        return samples


class _Courtier(Engine):
    """Serves whoever comes without a name, as the load generator does, and lets all others wait."""

    def wait_s(self, answering: Answering) -> float:
        stranger = "User-Agent" in answering.request.headers
        return super().wait_s(answering) * (4.0 if stranger else 1.0)


class _Truncating(Engine):
    """Reads no more than 512 tokens of a prompt: its end."""

    def begin(self, request: web.Request, asked: dict[str, Any], text: str) -> Answering:
        answering = super().begin(request, asked, text)
        if len(answering.prompt) >= 512:
            answering.text = " ".join(text.split()[-400:])
        return answering

    def read(self, tokens: list[int]) -> list[int]:
        return super().read(tokens)[-512:]


class _Feverish(Engine):
    """Samples at twice the temperature where nobody names one."""

    heat = 2.5


class _Formless(Engine):
    """Ignores the form that is asked for, and calls no tool."""

    def said(self, answering: Answering) -> dict[str, Any]:
        return {"content": self.mind.told(answering.text, answering.ids)}


class _Impossible(Engine):
    """Is faster than its machine can read the weights."""

    def gap_s(self, answering: Answering) -> float:
        return 0.0018


class _Restarting(Engine):
    """Dies in the middle of the load and comes back as another process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.answered = 0

    def count(self, answering: Answering, first_s: float, last_s: float) -> None:
        self.answered += 1
        if self.answered == 9:
            self.started_at = time.time()
            self.setup = Setup(**{**self.setup.__dict__, "pid": self.setup.pid + 1})
            self.counts = dict.fromkeys(self.counts, 0.0)
            self.times = dict.fromkeys(self.times, 0.0)
        super().count(answering, first_s, last_s)


@dataclass(frozen=True)
class Liar:
    """A server that lies, and what must find it out."""

    id: str
    attack: str
    rule: str
    lie: str
    engine: type[Engine]
    questioned: bool = False
    "Whether it has to be asked the evaluation suite: its load alone shows nothing."


def _liars(rows: Sequence[tuple[str, str, str, str, type[Engine]]], questioned: Mapping[str, bool]) -> tuple[Liar, ...]:
    return tuple(Liar(*row, questioned=questioned.get(row[0], False)) for row in rows)


LIARS: tuple[Liar, ...] = _liars(
    (
        ("s01", "A01", "cache.prefix_hits", "keeps its cache from launch to launch", _Hoarder),
        ("s02", "A02", "answers.counted", "one body for everybody", _Memoiser),
        ("s03", "A03", "outputs.lengths", "ends its answers early", _Terse),
        ("s04", "A04", "service.failures", "turns away long prompts", _Shedder),
        ("s05", "A05", "delivery.gaps", "holds tokens back to the end", _Holder),
        ("s06", "A05", "answers.valid", "says a word before it has one", _Eager),
        ("s07", "A09", "answers.valid", "an error inside HTTP 200", _ErrorBody),
        ("s08", "A09", "answers.valid", "a stream without a choice", _EmptyChoices),
        ("s09", "A09", "answers.valid", "a page of HTML", _HtmlPage),
        ("s10", "C02", "identity.model", "another model under the same name", _OtherModel),
        ("s11", "B03", "identity.config", "runs with what it had", _Deaf),
        ("s12", "B04", "identity.sources", "two sources name two configs", _TwoTongues),
        ("s13", "B06", "clock.agrees", "a clock five seconds ahead", _ClockAhead),
        ("s14", "B16", "data.complete", "a counter that is not a number", _NotANumber),
        ("s15", "B16", "data.complete", "half of the counters", _Forgetful),
        ("s16", "B19", "conduct.same", "fast for the load generator alone", _Courtier),
        ("s17", "C03", "quality.context", "reads the end of a long prompt alone", _Truncating),
        ("s18", "C04", "quality.sampling", "a higher default temperature", _Feverish),
        ("s19", "C05", "quality.conformance", "ignores schemas and tools", _Formless),
        ("s20", "B15", "physics.floor", "faster than the weights can be read", _Impossible),
        ("s21", "B02", "identity.process", "dies in mid-load and comes back", _Restarting),
    ),
    questioned=dict.fromkeys(("s16", "s17", "s18", "s19"), True),
)
