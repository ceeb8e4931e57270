"""ControlClient: the few plain HTTP calls by which a target watches its server; never through a proxy."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from tools.targets.target import LaunchFailed

__all__ = ["ControlClient", "ControlError"]

_MAX_BODY_BYTES = 8 << 20


class ControlError(LaunchFailed):
    """The server didn't answer, or not as it should: a failure of kind `unreachable`. The message names the URL."""

    def __init__(self, message: str) -> None:
        super().__init__("unreachable", message)


class ControlClient:
    """One request per connection. `timeout_s` bounds each step of it."""

    def __init__(self, base_url: str, *, timeout_s: float = 5.0) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or parts.hostname is None or parts.port is None:
            raise ControlError(f"expected http://host:port, found {base_url!r}")
        self.base_url = base_url
        self._address = (parts.hostname, parts.port)
        self._timeout_s = timeout_s

    def request(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body.

        Raises:
            ControlError: no connection, a time-out, no HTTP, or a body beyond 8 MiB.
        """
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        try:
            connection.request(method, path, headers={"Connection": "close"})
            answer = connection.getresponse()
            body = answer.read(_MAX_BODY_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise ControlError(f"{method} {self.base_url}{path}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if len(body) > _MAX_BODY_BYTES:
            raise ControlError(f"{method} {self.base_url}{path}: expected at most {_MAX_BODY_BYTES} bytes, found more")
        return answer.status, body

    def text(self, path: str) -> str:
        """Body of a GET that must answer 200."""
        return self._ok("GET", path).decode(errors="replace")

    def json(self, path: str) -> dict[str, Any]:
        """JSON object of a GET that must answer 200."""
        body = self._ok("GET", path)
        try:
            value = json.loads(body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ControlError(f"GET {self.base_url}{path}: expected a JSON object, found {body[:80]!r}")
        return value

    def post(self, path: str) -> None:
        """A POST without a body that must answer 200."""
        self._ok("POST", path)

    def _ok(self, method: str, path: str) -> bytes:
        status, body = self.request(method, path)
        if status != 200:
            raise ControlError(f"{method} {self.base_url}{path}: expected 200, found {status}: {body[:200]!r}")
        return body
