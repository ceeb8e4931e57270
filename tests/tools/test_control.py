"""ControlClient: prefixes, keys, certificates, redirects and refusals, against real servers on loopback."""

from __future__ import annotations

import http.client
import socket
import ssl

import pytest

from tests.tools.moody_server import CERTIFICATE, MoodyServer, serve_moody
from tools.targets.control import ControlClient, ControlError
from tools.targets.target import Endpoint
from tools.targets.trust import Trust


def test_what_is_asked_goes_below_the_prefix_with_the_key_and_over_a_trusted_connection() -> None:
    with serve_moody(MoodyServer(prefix="/team", key="k"), tls=True) as server:
        trust = Trust(ca_file=str(CERTIFICATE))
        client = ControlClient.to(Endpoint(server.url, "moody", api_key="k", trust=trust))
        assert client.json("/v1/models")["data"][0]["id"] == "moody"
        assert client.ask("/v1/chat/completions", {"messages": [], "max_tokens": 1})["model"] == "moody"
        assert set(server.authorised) == {"Bearer k"}
        with pytest.raises(ControlError) as untrusted:
            ControlClient(server.url).request("GET", "/v1/models")
        assert isinstance(untrusted.value.__cause__, ssl.SSLCertVerificationError)
        assert ControlClient(server.url, trust=Trust(insecure=True)).request("GET", "/metrics")[0] == 401


def test_a_refusal_carries_what_was_answered_and_a_redirect_is_not_followed() -> None:
    with serve_moody() as other, serve_moody() as server:
        server.refusal = (307, {"Location": f"{other.url}/v1/chat/completions"})
        with pytest.raises(ControlError, match="expected 200, found 307") as refused:
            ControlClient(server.url, api_key="k").ask("/v1/chat/completions", {"messages": []})
        assert refused.value.answered is not None
        assert refused.value.answered.headers["location"].startswith(other.url)
        assert other.authorised == []


def test_where_nobody_answers_the_cause_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(ControlError) as refused:
        ControlClient(f"http://127.0.0.1:{port}").json("/v1/models")
    assert isinstance(refused.value.__cause__, ConnectionRefusedError) and refused.value.answered is None
    with serve_moody(tls=True) as server, pytest.raises(ControlError) as plain:
        ControlClient(server.url.replace("https", "http")).json("/v1/models")
    assert isinstance(plain.value.__cause__, OSError | http.client.HTTPException) or plain.value.answered is not None


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:99999", "host:80"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ControlError, match=r"expected http\(s\)://host:port"):
        ControlClient(url)
