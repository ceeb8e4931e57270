"""ControlClient: the few plain HTTP calls by which a target watches its server; no proxy, and no redirect followed."""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from tools.targets.target import Endpoint, LaunchFailed
from tools.targets.trust import Trust

__all__ = ["Answered", "ControlClient", "ControlError"]

_MAX_BODY_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server said to one request, whatever that was."""

    status: int
    headers: Mapping[str, str]
    "Names in lower case."
    body: bytes


class ControlError(LaunchFailed):
    """The server didn't answer, or not as it should: a failure of kind `unreachable`. The message names the URL."""

    def __init__(self, message: str, answered: Answered | None = None) -> None:
        """`answered`: where it did answer, but not as it should. Else the cause says what stood in the way."""
        super().__init__("unreachable", message)
        self.answered = answered


class ControlClient:
    """One request per connection. `timeout_s` bounds each step of it. The key goes to this server and nowhere else."""

    def __init__(
        self, base_url: str, *, timeout_s: float = 5.0, api_key: str | None = None, trust: Trust | None = None
    ) -> None:
        """`base_url`: scheme, host, port, and a path that all requests begin with (may be empty)."""
        try:
            parts = urlsplit(base_url)
            port = parts.port
        except ValueError as error:
            raise ControlError(f"expected http(s)://host:port, found {base_url!r}: {error}") from None
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ControlError(f"expected http(s)://host:port, found {base_url!r}")
        self.base_url = base_url.rstrip("/")
        self._host, self._port = parts.hostname, port
        self._tls = (trust or Trust()).context() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = {"Connection": "close"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    @classmethod
    def to(cls, endpoint: Endpoint, *, timeout_s: float = 5.0) -> ControlClient:
        """A client of the server at `endpoint`."""
        return cls(endpoint.base_url, timeout_s=timeout_s, api_key=endpoint.api_key, trust=endpoint.trust)

    def waiting(self, timeout_s: float) -> ControlClient:
        """The same client with another patience, for an answer that takes long."""
        patient = copy.copy(self)
        patient._timeout_s = timeout_s
        return patient

    def exchange(self, method: str, path: str, body: object = None) -> Answered:
        """One request, with `body` as JSON unless it is None, and whatever is answered.

        Raises:
            ControlError: no connection, a time-out, no HTTP, or a body beyond 8 MiB.
        """
        if self._tls is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        try:
            connection.request(method, self._path + path, data, headers)
            answer = connection.getresponse()
            received = answer.read(_MAX_BODY_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise ControlError(f"{method} {self.base_url}{path}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if len(received) > _MAX_BODY_BYTES:
            raise ControlError(f"{method} {self.base_url}{path}: expected at most {_MAX_BODY_BYTES} bytes, found more")
        told = MappingProxyType({name.lower(): value for name, value in answer.getheaders()})
        return Answered(answer.status, told, received)

    def request(self, method: str, path: str) -> tuple[int, bytes]:
        """Status and body, as `exchange`."""
        answered = self.exchange(method, path)
        return answered.status, answered.body

    def text(self, path: str) -> str:
        """Body of a GET that must answer 200."""
        return self._ok("GET", path).body.decode(errors="replace")

    def json(self, path: str) -> dict[str, Any]:
        """JSON object of a GET that must answer 200."""
        return self._object("GET", path, self._ok("GET", path))

    def ask(self, path: str, body: object) -> dict[str, Any]:
        """JSON object of a POST of `body` that must answer 200."""
        return self._object("POST", path, self._ok("POST", path, body))

    def post(self, path: str) -> None:
        """A POST without a body that must answer 200."""
        self._ok("POST", path)

    def _ok(self, method: str, path: str, body: object = None) -> Answered:
        answered = self.exchange(method, path, body)
        if answered.status != 200:
            found = f"{answered.status}: {answered.body[:200]!r}"
            raise ControlError(f"{method} {self.base_url}{path}: expected 200, found {found}", answered)
        return answered

    def _object(self, method: str, path: str, answered: Answered) -> dict[str, Any]:
        try:
            value = json.loads(answered.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            found = repr(answered.body[:80])
            raise ControlError(f"{method} {self.base_url}{path}: expected a JSON object, found {found}", answered)
        return value
