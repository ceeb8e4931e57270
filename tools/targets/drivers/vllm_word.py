"""What a vLLM server says of itself over HTTP: its config, the folder that it serves, whether its cache is empty."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prometheus_client.samples import Sample

from tools.targets.control import ControlClient, ControlError
from tools.targets.knobs import Value

__all__ = ["empty_cache", "own_config", "served_root"]

_ELSEWHERE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "scheduling_policy": ("scheduler_config", "policy"),
        "kv_cache_dtype": ("cache_config", "cache_dtype"),
        "attention_backend": ("attention_config", "backend"),
        "compilation_mode": ("compilation_config", "mode"),
        "mm_processor_cache_gb": ("multimodal_config", "mm_processor_cache_gb"),
    }
)
"""Knobs that the server's config has under another name than their flag's; the rest is found by that."""

_NONE: Mapping[str, Value] = MappingProxyType({"quantization": "none", "attention_backend": "auto"})
"""What null stands for, where that is a value of the knob."""

_GRAPHS: Mapping[str, str] = MappingProxyType(
    {"0": "NONE", "1": "PIECEWISE", "2": "FULL", "[2, 0]": "FULL_DECODE_ONLY", "[2, 1]": "FULL_AND_PIECEWISE"}
)
"""vLLM's enumeration of what is recorded as a graph, as it stands in JSON."""

_GIB = 1 << 30
_RESET_S = 3.0
"How long a cache may be busy: blocks are held for a moment after the last answer."


def own_config(client: ControlClient, samples: Sequence[Sample], names: Iterable[str]) -> dict[str, Value]:
    """The knobs of `names` that are in effect by the server's word: /server_info, and where that isn't open
    (VLLM_SERVER_DEV_MODE=1 opens it) or a text for people, the labels of vllm:cache_config_info.

    Raises:
        ControlError: the two contradict one another.
    """
    labels = next((sample.labels for sample in samples if sample.name == "vllm:cache_config_info"), {})
    status, body = client.request("GET", "/server_info?config_format=json")
    config = _object(body).get("vllm_config") if status == 200 else None
    if not isinstance(config, dict):
        return {name: value for name in names if (value := _read_label(labels, name)) is not None}
    cache = config.get("cache_config", {})
    for key in ("block_size", "cache_dtype", "enable_prefix_caching", "num_gpu_blocks"):
        if key in labels and key in cache and str(cache[key]) != labels[key]:
            raise ControlError(
                f"{client.base_url}: /server_info says {key} is {cache[key]}, vllm:cache_config_info {labels[key]}"
            )
    return {name: value for name in names if (value := _read(config, name)) is not None}


def served_root(client: ControlClient, served_as: str) -> Path:
    """The folder that the server says it serves under the name `served_as`.

    Raises:
        ControlError: it serves no such name, or doesn't say from where.
    """
    cards = client.json("/v1/models").get("data", [])
    card = next((card for card in cards if card.get("id") == served_as), None)
    if card is None:
        found = ", ".join(str(card.get("id")) for card in cards) or "none"
        raise ControlError(f"{client.base_url}/v1/models: expected the model {served_as}, found {found}")
    if not isinstance(card.get("root"), str):
        raise ControlError(f"{client.base_url}/v1/models: expected where {served_as} is served from, found no root")
    return Path(card["root"])


def empty_cache(client: ControlClient) -> None:
    """Empty the prefix cache; blocks that are held for a moment more are waited for.

    Raises:
        ControlError: requests run, or the server has no such endpoint (VLLM_SERVER_DEV_MODE=1 opens it).
    """
    until = time.monotonic() + _RESET_S
    while True:
        status, body = client.request("POST", "/reset_prefix_cache")
        if status != 200:
            raise ControlError(f"POST {client.base_url}/reset_prefix_cache: expected 200, found {status}")
        if _object(body).get("success", True):  # older servers answer nothing
            return
        if time.monotonic() > until:
            raise ControlError(f"POST {client.base_url}/reset_prefix_cache: blocks are held: requests are running")
        time.sleep(0.1)


def _read(config: Mapping[str, Any], name: str) -> Value | None:
    """None for what the config doesn't tell."""
    if name == "num_speculative_tokens":
        return _value((config.get("speculative_config") or {name: 0}).get(name))
    if name == "cpu_kvcache_space":
        held = config.get("cache_config", {}).get("kv_cache_memory_bytes")
        is_cpu = str(config.get("device_config", {}).get("device")).startswith("cpu")
        return held // _GIB if is_cpu and isinstance(held, int) and held % _GIB == 0 else None
    section, key = _ELSEWHERE.get(name, ("", name))
    sections = [config.get(section)] if section else [config, *config.values()]
    found = [each[key] for each in sections if isinstance(each, dict) and key in each]
    if len(found) != 1:  # not there, or in two places
        return None
    if name == "cudagraph_mode":
        return _GRAPHS.get(json.dumps(found[0]))
    return _NONE.get(name) if found[0] is None else _value(found[0])


def _read_label(labels: Mapping[str, str], name: str) -> Value | None:
    """A label is a word of Python's."""
    word = labels.get(_ELSEWHERE.get(name, ("", name))[1])
    if word in (None, "None"):
        return None
    if word in ("True", "False"):
        return word == "True"
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


def _value(found: object) -> Value | None:
    if isinstance(found, str):
        return found.removeprefix("torch.")
    return found if isinstance(found, bool | int | float) else None


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; empty where there is none."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
