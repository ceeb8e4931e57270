"""OwnWord: what an engine tells of itself at addresses of its own: version, settings, start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tools.targets.control import ControlClient, ControlError
from tools.targets.drivers.driver import Driver
from tools.targets.drivers.llamacpp import LlamaCpp
from tools.targets.drivers.sglang import SgLang
from tools.targets.drivers.vllm import Vllm
from tools.targets.knobs import Value
from tools.targets.spec import ServerSpec

__all__ = ["OwnWord", "empty_cache", "own_word"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnWord:
    """What isn't told is empty or None."""

    version: str = ""
    config: Mapping[str, Value] = field(default_factory=dict)
    "Of the knobs that were asked about; all of them where the engine states the config's digest too."
    model_digest: str | None = None
    started_at: float | None = None
    pid: int | None = None


def own_word(engine: str | None, client: ControlClient, model: str, knobs: Collection[str]) -> OwnWord:
    """What a server of `engine` says; nothing where it has no such address, or keeps it closed.

    Args:
        model: the name that it serves.
        knobs: names of the settings to look for.

    Raises:
        ControlError: no answer at all.
    """
    if engine == "bundled":
        return _bundled(_if_told(lambda: client.json("/server_info"), {}))
    driver = _driver(engine, model, knobs)
    if driver is None:
        return OwnWord()
    nothing: dict[str, Value] = {}
    told = _if_told(lambda: driver.effective(client, None), nothing)
    return OwnWord(
        version=_if_told(lambda: driver.version(client), ""),
        config={name: value for name, value in told.items() if name in knobs},
    )


def empty_cache(engine: str | None, client: ControlClient, model: str) -> None:
    """Empty the prefix cache.

    Raises:
        ControlError: it can't be emptied, or not by us.
    """
    driver = _driver(engine, model, ())
    if driver is not None:
        driver.reset_cache(client)
    else:
        client.post("/reset_prefix_cache")


def _driver(engine: str | None, model: str, knobs: Collection[str]) -> Driver | None:
    """Who knows how to ask a server of `engine`; it starts nothing and reads no file."""
    match engine:
        case "vllm":
            return Vllm(Path(model), ServerSpec(kind="vllm", served_name=model), knobs)
        case "sglang":
            return SgLang(Path(model), ServerSpec(kind="sglang", served_name=model), knobs)
        case "llamacpp":
            return LlamaCpp(Path(model), ServerSpec(kind="llamacpp", served_name=model), knobs)
    return None


def _if_told(ask: Callable[[], T], unsaid: T) -> T:
    """What `ask` gives; `unsaid` where the server answers, but not that."""
    try:
        return ask()
    except ControlError as error:
        if error.answered is None:
            raise
        return unsaid
    except (KeyError, TypeError, ValueError):  # another kind of answer than that engine gives
        return unsaid


def _bundled(told: Mapping[str, Any]) -> OwnWord:
    digest, started_at, pid = told.get("model_digest"), told.get("started_at"), told.get("pid")
    config = told.get("config")
    return OwnWord(
        version=str(told.get("engine", "")).partition(" ")[2],
        config=dict(config) if isinstance(config, dict) else {},
        model_digest=digest if isinstance(digest, str) else None,
        started_at=float(started_at) if isinstance(started_at, int | float) else None,
        pid=pid if isinstance(pid, int) else None,
    )
