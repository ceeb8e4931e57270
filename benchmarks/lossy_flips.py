"""Changes that lose something, each as a server could really come by it: a knob, a file of the model, a proxy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.rewriting_proxy import Json, Rewrite
from tools.targets.knobs import Value

__all__ = ["FLIPS", "LOSSLESS", "Flip", "altered_copy"]

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Flip:
    """One change against the baseline."""

    knobs: Mapping[str, Value] = field(default_factory=dict)
    alter: Callable[[Path], None] | None = None
    "Changes a copy of the model's folder."
    rewrite: Rewrite | None = None
    "Stands in front of the server."


def altered_copy(model: Path, folder: Path, alter: Callable[[Path], None]) -> Path:
    """A folder of the model's name with links to its files; `alter` replaces some of them."""
    copy = folder / model.name
    copy.mkdir(parents=True)
    for file in model.iterdir():
        (copy / file.name).symlink_to(file)
    alter(copy)
    return copy


def _replace(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def _json(name: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        data = json.loads((folder / name).read_text())
        change(data)
        _replace(folder / name, json.dumps(data))

    return alter


def _weights(change: Callable[[Weights], None]) -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        path = folder / "model.safetensors"
        weights = load_file(os.path.realpath(path))
        change(weights)
        path.unlink()
        save_file(weights, path, metadata={"format": "pt"})

    return alter


def _rope(data: dict[str, Any]) -> None:
    data["rope_parameters"]["rope_theta"] = 10_000.0


def _epsilon(data: dict[str, Any]) -> None:
    data["rms_norm_eps"] = 1e-3


def _template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    _replace(
        path,
        path.read_text().replace("You are a helpful AI assistant named SmolLM, trained by Hugging Face", "Be brief."),
    )


def _swap_tokens(data: dict[str, Any]) -> None:
    vocabulary = data["model"]["vocab"]
    vocabulary["Ġthe"], vocabulary["Ġan"] = vocabulary["Ġan"], vocabulary["Ġthe"]


def _fewer_merges(data: dict[str, Any]) -> None:
    """As a tokenizer of an older revision: what its last merges joined is cut differently."""
    data["model"]["merges"] = data["model"]["merges"][:30_000]


def _noise(weights: Weights) -> None:
    draw = torch.Generator().manual_seed(0)
    for name, tensor in weights.items():
        if name.endswith("proj.weight"):
            noise = torch.randn(tensor.shape, generator=draw) * tensor.float().std() * 0.02
            weights[name] = (tensor.float() + noise).to(tensor.dtype)


def _six_bits(weights: Weights) -> None:
    for name, tensor in weights.items():
        if name.endswith("proj.weight"):
            step = tensor.float().abs().amax(dim=1, keepdim=True) / 31
            weights[name] = ((tensor.float() / step).round() * step).to(tensor.dtype)


def _older(weights: Weights) -> None:
    """As a checkpoint of some steps before: all weights a little back towards zero."""
    for name, tensor in weights.items():
        if name.endswith("proj.weight"):
            weights[name] = (tensor.float() * 0.98).to(tensor.dtype)


def _hotter(weights: Weights) -> None:
    weights["model.norm.weight"] = (weights["model.norm.weight"].float() * 0.95).to(torch.bfloat16)


def _drop_layer(folder: Path) -> None:
    last = json.loads((folder / "config.json").read_text())["num_hidden_layers"] - 1

    def shorten(data: dict[str, Any]) -> None:
        data["num_hidden_layers"] = last

    def drop(weights: Weights) -> None:
        for name in [name for name in weights if name.startswith(f"model.layers.{last}.")]:
            del weights[name]

    _json("config.json", shorten)(folder)
    _weights(drop)(folder)


class _Truncating(Rewrite):
    """Keeps the end of a long prompt, as a server with a small context might without a word."""

    def request(self, path: str, body: Json) -> Json:
        if isinstance(body.get("prompt"), str):
            return {**body, "prompt": body["prompt"][-4000:]}
        messages = [{**each, "content": (each["content"] or "")[-4000:]} for each in body.get("messages", [])]
        return {**body, "messages": messages} if messages else body


class _Set(Rewrite):
    """Sets fields, of every request or only where it leaves them out."""

    def __init__(self, fields: Json, *, only_missing: bool) -> None:
        self._fields = fields
        self._only_missing = only_missing

    def request(self, path: str, body: Json) -> Json:
        return {**self._fields, **body} if self._only_missing else {**body, **self._fields}


class _Without(Rewrite):
    def __init__(self, *fields: str) -> None:
        self._fields = fields

    def request(self, path: str, body: Json) -> Json:
        return {name: value for name, value in body.items() if name not in self._fields}


class _Unparsed(Rewrite):
    """As a server whose tool parser is missing: calls come as text."""

    def answer(self, path: str, body: Json) -> Json:
        for choice in body.get("choices", []):
            message = choice.get("message", {})
            if calls := message.pop("tool_calls", None):
                message["content"] = json.dumps(calls[0]["function"])
                choice["finish_reason"] = "stop"
        return body


class _Favours(Rewrite):
    """Serves whoever names no browser, library or tool faster than users."""

    def delay_s(self, headers: Mapping[str, str]) -> float:
        agent = headers.get("User-Agent", "")
        return 0.0 if not agent or "aiohttp" in agent else 0.4


FLIPS: Mapping[str, Flip] = {
    "int8 weights": Flip({"quantization": "int8"}),
    "int4 weights": Flip({"quantization": "int4"}),
    "rope base": Flip(alter=_json("config.json", _rope)),
    "norm epsilon": Flip(alter=_json("config.json", _epsilon)),
    "chat template": Flip(alter=_template),
    "two tokens swapped": Flip(alter=_json("tokenizer.json", _swap_tokens)),
    "older tokenizer": Flip(alter=_json("tokenizer.json", _fewer_merges)),
    "noise on weights": Flip(alter=_weights(_noise)),
    "weights of 6 bits": Flip(alter=_weights(_six_bits)),
    "older weights": Flip(alter=_weights(_older)),
    "flatter logits": Flip(alter=_weights(_hotter)),
    "a layer less": Flip(alter=_drop_layer),
    "context cut": Flip({"max_model_len": 1024}),
    "prompts cut silently": Flip(rewrite=_Truncating()),
    "greedy overridden": Flip(rewrite=_Set({"temperature": 0.8}, only_missing=False)),
    "default temperature": Flip(rewrite=_Set({"temperature": 0.6}, only_missing=True)),
    "default top-k": Flip(rewrite=_Set({"top_k": 5}, only_missing=True)),
    "JSON form ignored": Flip(rewrite=_Without("response_format")),
    "tools ignored": Flip(rewrite=_Without("tools", "tool_choice")),
    "tool parser missing": Flip(rewrite=_Unparsed()),
    "load generator favoured": Flip(rewrite=_Favours()),
}

LOSSLESS: Mapping[str, Mapping[str, Value]] = {
    "nothing": {},
    "one thread": {"num_threads": 1},
    "two threads": {"num_threads": 2},
    "one seat": {"max_num_seqs": 1},
    "two seats": {"max_num_seqs": 2},
    "eight seats": {"max_num_seqs": 8},
    "64 seats": {"max_num_seqs": 64},
    "steps of 64 tokens": {"max_num_batched_tokens": 64},
    "steps of 256 tokens": {"max_num_batched_tokens": 256},
    "steps of 4096 tokens": {"max_num_batched_tokens": 4096},
    "long prompts in 32s": {"long_prefill_token_threshold": 32},
    "long prompts in 500s": {"long_prefill_token_threshold": 500},
    "blocks of 32": {"block_size": 32},
    "blocks of 64": {"block_size": 64},
    "no prefix cache": {"enable_prefix_caching": False},
    "a small cache": {"kv_cache_tokens": 2304, "max_num_seqs": 8},
    "a large cache": {"kv_cache_tokens": 65536},
    "cheapest victim": {"preemption_victim": "cheapest", "kv_cache_tokens": 2304, "max_num_seqs": 8},
    "async scheduling": {"async_scheduling": "on"},
    "PyTorch kernels": {"kernels": "torch"},
}
"""Twenty changes of knobs that say they lose nothing; two of them preempt all the time."""
