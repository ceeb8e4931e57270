"""Compile the native kernels once per user, and keep them where the next process finds them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

__all__ = ["BuildFailed", "built_library", "missing_instructions"]

HERE = Path(__file__).parent
SOURCES = sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h")])

INSTRUCTIONS = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "avx512vbmi", "fma", "bmi2")
"""What the kernels are made of, as /proc/cpuinfo names it: AMD from Zen 4, Intel from Sapphire Rapids."""

FLAGS = (
    *("-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden"),
    "-ffp-contract=off",  # a sum is the same wherever the compiler inlines it
    *("-Wno-uninitialized", "-Wno-maybe-uninitialized"),  # GCC's own headers
    "-DTORCH_TARGET_VERSION=0x020a000000000000",  # the stable ABI of torch 2.10
    *(f"-m{name.replace('_', '')}" for name in INSTRUCTIONS),
)

SECONDS_FOR_BUILD = 300


class BuildFailed(Exception):
    """Why there is no library."""


def missing_instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """Those of INSTRUCTIONS that this CPU lacks; all of them where that can't be known."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    known = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
    return tuple(name for name in INSTRUCTIONS if name not in known)


def built_library() -> Path:
    """The compiled kernels. Compiles them unless this user has them already: for this source, torch and compiler.

    Raises:
        BuildFailed: no compiler, an error of it, or no place to keep the result.
    """
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    found = shutil.which(compiler[0]) if compiler else None
    if found is None:
        raise BuildFailed(f"there is no C++ compiler {shlex.join(compiler)!r} (CXX names another)")
    folder = cache_folder()
    library = folder / f"kernels-{fingerprint(Path(found).resolve(), compiler)}.so"
    if library.is_file():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "build.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process compiles, the others wait for its result
            if not library.is_file():
                print("engine: compiling native kernels, once (about 5 s)", file=sys.stderr, flush=True)
                compile_library(compiler, library)
    except OSError as error:
        raise BuildFailed(f"native kernels can't be kept in {folder}: {error}") from error
    return library


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune" / "native"


def fingerprint(compiler: Path, command: list[str]) -> str:
    """What the library depends on. The compiler is known by its file: asking it for its version takes longer."""
    status = compiler.stat()
    parts = [torch.__version__, *FLAGS, *command, str(compiler), str(status.st_size), str(status.st_mtime_ns)]
    digest = hashlib.sha256("\0".join(parts).encode())
    for source in SOURCES:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:20]


def compile_library(compiler: list[str], library: Path) -> None:
    """Compile the sources side by side in a folder beside `library`, which appears when it is whole."""
    home = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(dir=library.parent) as name:
        folder = Path(name)
        units = [source for source in SOURCES if source.suffix == ".cpp"]
        objects = [str(folder / f"{unit.stem}.o") for unit in units]
        commands = [
            [*compiler, *FLAGS, "-isystem", str(home / "include"), "-c", str(unit), "-o", target]
            for unit, target in zip(units, objects, strict=True)
        ]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(run, commands))
        linked = folder / library.name
        libraries = ["-L", str(home / "lib"), "-ltorch", "-ltorch_cpu"]
        run([*compiler, *FLAGS, "-shared", *objects, *libraries, "-o", str(linked)])
        linked.replace(library)


def run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_FOR_BUILD)
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"compiling native kernels took more than {SECONDS_FOR_BUILD} s") from error
    if done.returncode:
        raise BuildFailed(f"native kernels don't compile: {shlex.join(command)}\n{done.stderr.strip()[-2000:]}")
