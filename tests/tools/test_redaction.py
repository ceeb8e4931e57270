"""Redaction: secrets are taken out of what others wrote, and nothing else is."""

from __future__ import annotations

import base64
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.redaction import SECRETS, printable, redacted, redacted_texts
from tools.targets.process import ServerProcess, allowed_environment

SECRET = {
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----",
    "an access key": "AKIA" + "Q3EGRIZ7WX2PLM4T",
    "a forge's token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1",
    "a model hub's token": "hf_" + "QxTzVbNmKjHgFdSaPoIu",
    "an API key": "sk-" + "proj-4f9aKq2Lw8Xz7Rt5Yb3N",
    "a chat token": "xoxb-" + "123456789012-abcdefghij",
    "a signed token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "a bearer token": "Authorization: Bearer " + "mF9xQ2vT7bL4kR8sN1wZ5cY3",
    "a URL with a password": "http://me:" + "hunter22@127.0.0.1:8000/v1",
    "a secret variable": "AWS_SESSION_" + "TOKEN=abcdefgh",
    "a token": "token: " + "abcdefghij1234567890",
    "a password": "password=" + "correct-horse",
}
PLAIN = (
    "p95_ttft_ms x0.111 over 2 blocks, evidence 36 to 1",
    "commit 0837e3b540ed1fb590e7b39f3852db0105a628da on branch autotune/service/interactive-latency",
    "http://127.0.0.1:8000/v1/chat/completions answered 503",
    '{"ms_per_token": 12.345678901234567, "joules_per_token": 1.2345678901234e-05}',
    "stop token: HuggingFaceTB/SmolLM2-135M",
    "draft_token=meta-llama/Llama-3.2-11B-Vision-Instruct.",
    "out of memory: tried to allocate 2.5 GiB; 512 tokens of the prompt",
)


def test_there_is_an_example_of_each_kind() -> None:
    assert SECRET.keys() == SECRETS.keys()


@pytest.mark.parametrize(("kind", "secret"), SECRET.items(), ids=SECRET)
def test_a_secret_is_replaced_by_what_it_was(kind: str, secret: str) -> None:
    said = redacted(f"the server said {secret} and died")
    assert secret not in said and f"[redacted: {kind}]" in said
    assert said.startswith("the server said ") and said.endswith("died")
    assert redacted_texts({"key": [secret, 1, None, {"n": secret}]}) == {
        "key": [redacted(secret), 1, None, {"n": redacted(secret)}]
    }


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@settings(max_examples=25)
@given(st.text())
def test_what_was_redacted_once_is_redacted_for_good(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)
    assert all(char.isprintable() or char == "\n" for char in printable(text)) and len(printable(text)) == len(text)


def test_a_servers_last_words_come_without_its_secrets(tmp_path: Path) -> None:
    secret = SECRET["a model hub's token"]
    with ServerProcess([sys.executable, "-c", f"print('using {secret}')"], log=tmp_path / "log") as server:
        server._supervisor.wait(timeout=30)
        assert server.log_tail() == "using [redacted: a model hub's token]"
        assert secret not in str(server.failure(1)) and secret not in server.failure(1).log_tail


def test_a_server_sees_named_variables_alone_and_no_secret_among_them() -> None:
    passed = {
        "PATH": "/bin",
        "LANG": "C",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "0",
        "OMP_NUM_THREADS": "2",
        "HF_HOME": "/m",
    }
    kept_back = {
        "OPENAI_API_KEY": "k",
        "HF_TOKEN": "t",
        "HF_API_TOKEN": "t",
        "NVIDIA_API_KEY": "k",
        "TORCH_HUB_PASSWORD": "p",
        "CUDA_LICENSE_SECRET": "s",
        "LD_PRELOAD": "/tmp/evil.so",
        "PYTHONSTARTUP": "/tmp/evil.py",
        "LANGSMITH_TRACING": "true",
        "AWS_PROFILE": "x",
        "http_proxy": "http://127.0.0.1:1",
    }
    assert allowed_environment({**passed, **kept_back}) == passed


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(18, 48))
def test_a_random_token_is_taken_for_no_name_and_no_figure(seed: int, size: int) -> None:
    token = base64.b64encode(random.Random(seed).randbytes(size)).decode().rstrip("=")
    assert "[redacted: " in redacted(f"token: {token[:9]}7{token[9:]}")


def test_a_text_made_for_it_does_not_make_it_slow() -> None:
    """Each part of a name could be read in many ways; all ways of all parts would outlast any patience."""
    assert redacted("token=" + "aaaAaA1aa-" * 2_000 + "~") == "[redacted: a token]"
