"""LlmEndpoint: one question to a chat completions endpoint, with one deadline over all of it.

The SDK owns the retries (two, with back-off, Retry-After honoured); nothing else sends a failed request again. A
time-out of the socket would not end a server that sends a byte now and then: the deadline cancels whatever is going
on, connecting, waiting to retry and reading included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from agents.completion_error import Transport
from agents.usage import Usage

__all__ = ["OPENAI_URL", "Answered", "Declined", "LlmEndpoint", "is_openai"]

OPENAI_URL = "https://api.openai.com/v1"

_CONNECT_S = 5.0
_LEAST_KEY_CHARS = 8
_BODY_BYTES = 4 << 20
"Most that is read of an answer: some thousand times what an action needs."


@dataclass(frozen=True, slots=True)
class Answered:
    """The body of an answer with status 200, and the HTTP requests that it took."""

    body: bytes
    requests: int


class Declined(Exception):
    """Another status than 200, after the retries that it allows."""

    def __init__(self, status: int, told: str, requests: int) -> None:
        super().__init__(f"the endpoint answered {status}{told}")
        self.status = status
        self.requests = requests

    @property
    def passing(self) -> bool:
        """Whether it is the moment's fault rather than the request's."""
        return self.status >= 500 or self.status in (408, 409, 429)


def is_openai(base_url: str | None) -> bool:
    """Whether `base_url` is OpenAI's own endpoint, as None is: what belongs to an account there goes nowhere else."""
    if base_url is None:
        return True
    try:
        return urlsplit(base_url).hostname == urlsplit(OPENAI_URL).hostname
    except ValueError:  # no address at all
        return False


class LlmEndpoint:
    """Where a model answers. Connections are kept between questions; whoever made it closes it."""

    def __init__(self, base_url: str | None, api_key: str, timeout_s: float, retries: int = 2) -> None:
        """
        Args:
            base_url: up to and including /v1. None: OpenAI's own.
            timeout_s: of one question: connecting, waiting, retrying and the last byte of the answer together.
        """
        self.base_url = base_url or OPENAI_URL
        self.timeout_s = timeout_s
        self._watch = _Watch()
        self._runner = asyncio.Runner()
        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._watch.sent], "response": [self._watch.came]}
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=self.base_url,  # given always: the SDK would read another from the environment
            timeout=openai.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
            max_retries=retries,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks),
        )
        if not is_openai(base_url):
            self._client.organization = self._client.project = None  # read by the SDK from the environment

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._client.close())
        self._runner.close()

    def post(self, parameters: Mapping[str, Any], prompt_tokens: int = 0) -> Answered:
        """The answer to a chat completions request with `parameters`.

        Args:
            prompt_tokens: estimated; what a request is taken to have cost that reached a server and was never answered.

        Raises:
            Transport: not reached, broken off or too slow.
            Declined: any other status than 200.
        """
        return self._runner.run(
            self._asked(self._client.chat.completions.with_streaming_response.create(**parameters), prompt_tokens)
        )

    def models(self) -> Answered:
        """What the endpoint says of its models. Raises as `post` does."""
        return self._runner.run(self._asked(self._client.models.with_streaming_response.list(), 0))

    async def _asked(self, asked: AbstractAsyncContextManager[Any], prompt_tokens: int) -> Answered:
        watch = self._watch
        watch.begin(time.monotonic() + self.timeout_s)
        try:
            async with asyncio.timeout(self.timeout_s), asked as response:
                return Answered(await _bounded(response.iter_bytes()), watch.requests)
        except openai.APIStatusError as error:
            wait = f" (ask again in {watch.wait_s:.0f} s)" if watch.wait_s is not None else ""
            raise Declined(error.status_code, f"{wait}: {self._without_key(error.message)}", watch.requests) from None
        except TimeoutError:
            why = f"no whole answer within {self.timeout_s:g} s"
        except (openai.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = f"the connection failed: {self._without_key(str(error.__cause__ or error))}"
        lost = Usage(prompt_tokens * watch.requests, requests=watch.requests, estimated=True)
        raise Transport(f"{self.base_url}: {why}", usage=lost)

    def _without_key(self, text: str) -> str:
        """`text`, a server's or a library's own, without our key. One of a few letters is no secret but a word."""
        key = self._client.api_key
        return text.replace(key, "[redacted: the key]") if len(key) >= _LEAST_KEY_CHARS else text


@dataclass(slots=True)
class _Watch:
    """Counts the requests of one question, and forbids a retry that the server wants after the deadline."""

    deadline: float = 0.0
    requests: int = 0
    wait_s: float | None = None
    "What the last answer asked to wait."

    def begin(self, deadline: float) -> None:
        self.deadline, self.requests, self.wait_s = deadline, 0, None

    async def sent(self, _: httpx2.Request) -> None:
        self.requests += 1

    async def came(self, response: httpx2.Response) -> None:
        self.wait_s = _retry_after_s(response.headers.get("retry-after"))
        if self.wait_s is not None and time.monotonic() + self.wait_s > self.deadline:
            response.headers["x-should-retry"] = "false"  # which the SDK obeys


def _retry_after_s(text: str | None) -> float | None:
    """Seconds of a Retry-After header, which gives seconds or a date; None without one that can be read."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None


async def _bounded(chunks: AsyncIterator[bytes]) -> bytes:
    """All chunks together; what comes after the most that is read is left behind."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) >= _BODY_BYTES:
            break
    return bytes(body[:_BODY_BYTES])
