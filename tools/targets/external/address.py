"""The address of a server that somebody else runs."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

__all__ = ["base_url_of", "origin_of"]


def base_url_of(url: str) -> str:
    """`url` without the `/v1` that clients of its API are given, nor a slash at the end.

    Raises:
        ValueError: another scheme, no host, no such port, a name and password, a query or a fragment in it.
    """
    expected = "expected http(s)://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{expected}, found {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{expected}, found the scheme {parts.scheme!r} and the host {parts.hostname!r}")
    if parts.username is not None or parts.query or parts.fragment or port == 0:
        raise ValueError(f"{expected}, found more than that; a key goes into a variable that is named")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def origin_of(url: str) -> tuple[str, str | None, int]:
    """Scheme, host and port: a key may go wherever these are the same."""
    parts: SplitResult = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
