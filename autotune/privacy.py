"""Privacy: no library that this project stands on reports anywhere because a variable happens to be set."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

__all__ = ["ASKED_FOR", "TAKEN_OUT", "keep_private"]

ASKED_FOR = "AUTOTUNE_ALLOW_TRACING"
"""Set to `true`, it leaves a tracer's variables as they are: run states then go where they say."""

_TRACERS = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_API_")
"""With a key and one of their switches set, langchain-core uploads the state of every graph; a flag is no consent."""

_QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Switches of libraries and engines."""

TAKEN_OUT: set[str] = set()
"""Names of the variables that this process was given and that were taken out; the doctor tells of them."""


def keep_private(environment: MutableMapping[str, str] | None = None) -> None:
    """Take the switches of tracers out of `environment` (this process's by default), and turn telemetry off.

    Has to be called before langgraph is imported: it reads its own when it is.
    """
    source = os.environ if environment is None else environment
    if source.get(ASKED_FOR, "").lower() != "true":
        for name in [name for name in source if name.startswith(_TRACERS)]:
            del source[name]
            if source is os.environ:
                TAKEN_OUT.add(name)
    source.update(_QUIET)  # a tracer that somebody asked for is no word about telemetry
    source["LANGGRAPH_STRICT_MSGPACK"] = "true"  # a checkpoint revives no types
