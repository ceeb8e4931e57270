"""What a command measures: a server that runs already, or one that a deployment describes, launched for the while."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tools.deployment import Deployment, load_deployment
from tools.errors import UserError
from tools.targets.target import Endpoint, LaunchFailed, Target

__all__ = ["Deployed", "api_key", "deployed", "is_url", "running_endpoint"]


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment that is up."""

    deployment: Deployment
    target: Target
    endpoint: Endpoint


def is_url(target: str) -> bool:
    """Whether TARGET names a running server rather than a file.

    Raises:
        UserError: it is neither, but looks like a server's address.
    """
    if "://" not in target and re.fullmatch(r"[\w.-]+:\d+(/.*)?", target) and not Path(target).exists():
        raise UserError(
            f"{target}: expected a deployment's file or a URL, found no such file; for a server say http://{target}"
        )
    return "://" in target


def api_key(variable: str | None) -> str | None:
    """The key that the environment variable `variable` holds; None where none was named.

    Raises:
        UserError: it isn't set.
    """
    if variable is None:
        return None
    if variable not in os.environ:
        raise UserError(f"--key-env: expected the variable {variable} to hold the key, found it unset")
    key = os.environ[variable].strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UserError(
            f"--key-env: expected {variable} to hold a key of printable ASCII letters, found something else"
        )
    return key


def running_endpoint(url: str, model: str | None, key: str | None) -> Endpoint:
    """The OpenAI-compatible server at `url`; the only model that it serves where none is named.

    Raises:
        UserError: nothing answers there, or it serves no or several models and none was named.
    """
    base_url = _checked(url).rstrip("/").removesuffix("/v1")
    return Endpoint(base_url, model or _only_model(base_url, key), api_key=key)


def _checked(url: str) -> str:
    """`url`, where requests can be sent to it.

    Raises:
        UserError: another scheme, no host, no such port, a name and password in it.
    """
    expected = f"{url}: expected http(s)://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UserError(f"{expected}, found {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{expected}, found the scheme {parts.scheme!r} and the host {parts.hostname!r}")
    if parts.username is not None or parts.query or parts.fragment or port == 0:
        raise UserError(f"{expected}, found more than that; a key goes into a variable that --key-env names")
    return url


@contextmanager
def deployed(path: Path, log: Path) -> Iterator[Deployed]:
    """The deployment at `path`, launched as it stands and stopped whatever happens inside.

    Raises:
        UserError: bad input, or the server doesn't start.
    """
    from autotune.harness.prepare import target_for
    from tools.trial import launched

    deployment = load_deployment(path).deployment
    target = target_for(deployment, path)
    config = target.knobs.resolve(deployment.config)
    try:
        with launched(target, config, log=log, timeout_s=deployment.ready_timeout_s) as endpoint:
            yield Deployed(deployment, target, endpoint)
    except LaunchFailed as failure:
        raise UserError(f"{path}: the server doesn't run ({failure.kind}): {failure.message}") from failure


def _only_model(base_url: str, key: str | None) -> str:
    async def ask() -> Any:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=10)
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.get(f"{base_url}/v1/models") as answer,
        ):
            answer.raise_for_status()
            return await answer.json(content_type=None)

    started = time.monotonic()
    try:
        names = [row["id"] for row in asyncio.run(ask())["data"]]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        waited = time.monotonic() - started
        raise UserError(
            f"{base_url}/v1/models: expected a list of models, found {type(error).__name__}: {error} "
            f"after {waited:.1f} s. Is the server up, is the URL right? Without such a list give --model"
        ) from None
    if len(names) != 1:
        raise UserError(f"{base_url} serves {len(names)} models ({', '.join(names[:5])}); choose one with --model")
    return str(names[0])
