"""This install: versions, names that other distributions take, the machine, git, disk and the environment."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata, util
from pathlib import Path

from autotune.doctor.check import Check
from autotune.privacy import ASKED_FOR, TAKEN_OUT
from tools.models import cache_dir
from tools.profile.hardware import hardware

__all__ = ["check_install"]

ROOMS = ("agents", "autotune", "configs", "engine", "playbooks", "tools", "verifiers")
"""Our import names: plain words, some of which other distributions use as well."""

_DISTRIBUTION = "autotune-inference"
_NEEDED = ("torch", "transformers", "langgraph", "openai", "optuna", "pydantic", "llguidance")
_TRACING = tuple(
    f"{maker}_{name}" for maker in ("LANGSMITH", "LANGCHAIN") for name in ("TRACING", "TRACING_V2", "API_KEY")
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LEAST_FREE_BYTES = 2 << 30
"One small model, its conversion and a run's raw records."
_GIT = (2, 20)
"Worktrees as they are used here."


def check_install(
    environment: Mapping[str, str] = os.environ, home: Path | None = None, taken_out: Collection[str] = TAKEN_OUT
) -> list[Check]:
    """Every check of this machine and its Python environment. Nothing is changed and nothing is asked of the network.

    Args:
        home: the folder of models, in place of the one that is used.
        taken_out: variables that were set, and that this process took out of its environment when it started.
    """
    cache = home or cache_dir()
    return [
        _python(),
        *_versions(),
        _shadowing(),
        _cores(environment),
        _git(),
        _cache(cache),
        _disk(cache),
        _tracing(environment, taken_out),
        _proxies(environment),
    ]


def _python() -> Check:
    found = f"Python {platform.python_version()}, {sys.executable}"
    return Check("python", "ok", found) if sys.version_info >= (3, 11) else Check("python", "fail", found, "use 3.11+")


def _versions() -> Iterator[Check]:
    found, missing = [], []
    for name in (_DISTRIBUTION, *_NEEDED):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing == [_DISTRIBUTION]:
        yield Check("packages", "ok", f"{', '.join(found)}; run from its source folder")
    elif missing:
        reinstall = "install into an environment of its own: pipx install, uv tool install, or a container"
        yield Check("packages", "fail", f"not installed: {', '.join(missing)}", reinstall)
    else:
        yield Check("packages", "ok", ", ".join(found))


def _shadowing() -> Check:
    """Whether each of our names leads to our own folder, and whether another distribution ships one of them."""
    ours = Path(__file__).resolve().parents[2]
    elsewhere = [f"{name} -> {place}" for name in ROOMS if (place := _place(name)) is None or place.parent != ours]
    owners = metadata.packages_distributions()
    others = [
        f"{name} (also in {', '.join(foreign)})"
        for name in ROOMS
        if (foreign := sorted(set(owners.get(name, ())) - {_DISTRIBUTION}))
    ]
    alone = "give autotune an environment of its own: pipx install, uv tool install, or a container"
    if elsewhere:
        return Check("import names", "fail", f"not ours: {', '.join(elsewhere)}", alone)
    if others:
        return Check("import names", "warn", f"shared with another distribution: {', '.join(others)}", alone)
    return Check("import names", "ok", f"{', '.join(ROOMS)} are ours alone")


def _place(name: str) -> Path | None:
    spec = util.find_spec(name)
    if spec is None:
        return None
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return next((Path(p).resolve().parent if p.endswith(".py") else Path(p).resolve() for p in places if p), None)


def _cores(environment: Mapping[str, str]) -> Check:
    machine = hardware()
    found = f"{machine.cores} cores, {machine.memory_bytes / 2**30:.1f} GiB, {len(machine.gpus)} GPUs"
    threads = environment.get("OMP_NUM_THREADS", "")
    if machine.cores < 2:
        return Check("machine", "warn", found, "the load generator shares the one core: figures will be noisy; use 2+")
    if threads.isdigit() and int(threads) > machine.cores:
        do = f"unset OMP_NUM_THREADS, or set it to {machine.cores} or less"
        return Check("machine", "warn", f"{found}, OMP_NUM_THREADS={threads}: more threads than cores", do)
    return Check("machine", "ok", found)


def _git() -> Check:
    try:
        told = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("git", "fail", f"no git that answers: {error}", "install git; what passes is committed with it")
    version = re.search(r"(\d+)\.(\d+)", told)
    if version is None or (int(version[1]), int(version[2])) < _GIT:
        return Check("git", "fail", told.strip() or "an unknown version", "install git 2.20 or later")
    return Check("git", "ok", told.strip())


def _cache(folder: Path) -> Check:
    models = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    writable = _existing(folder)
    if not os.access(writable, os.W_OK):
        do = "make it writable, or set AUTOTUNE_CACHE to a folder that is"
        return Check("model cache", "fail", f"{folder}: {writable} can't be written to", do)
    if not models:
        return Check("model cache", "ok", f"{folder}: no model yet; `autotune models pull smollm2-135m` fetches one")
    return Check("model cache", "ok", f"{folder}: {', '.join(models)}")


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(_existing(folder)).free
    found = f"{free / 2**30:.1f} GiB free at {folder}"
    if free < _LEAST_FREE_BYTES:
        return Check("disk", "warn", found, "free 2 GiB or more: models and raw records of runs need them")
    return Check("disk", "ok", found)


def _existing(folder: Path) -> Path:
    """`folder`, or the nearest folder above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())


def _tracing(environment: Mapping[str, str], taken_out: Collection[str]) -> Check:
    kept = [name for name in _TRACING if environment.get(name)]
    taken = [name for name in _TRACING if name in taken_out]
    told = []
    if taken:
        told.append(f"{', '.join(taken)} were set, and are taken out here; in other programs langchain would upload")
    if kept:
        asked = f" since {ASKED_FOR} asks for it" if environment.get(ASKED_FOR, "").lower() == "true" else ""
        told.append(f"{', '.join(kept)} are set{asked}: langchain uploads the state of runs")
    if told:
        return Check("tracing", "warn", "; ".join(told), f"unset {' '.join([*taken, *kept])}")
    return Check("tracing", "ok", "no variable that makes langchain upload runs")


def _proxies(environment: Mapping[str, str]) -> Check:
    found = [name for name in _PROXIES for spelt in (name, name.lower()) if environment.get(spelt)]
    exempt = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if found and not {"127.0.0.1", "*"} & {host.strip() for host in exempt.split(",")}:
        told = f"{', '.join(dict.fromkeys(found))} set, and NO_PROXY doesn't name 127.0.0.1"
        return Check("proxy", "warn", told, "add 127.0.0.1,localhost to NO_PROXY: servers under test run there")
    return Check("proxy", "ok", f"{', '.join(dict.fromkeys(found))} set, not for 127.0.0.1" if found else "none set")
