"""Names that no proposal may set, whatever the owner's knob table says of them: kept by hand, extended by patterns.

From the arguments of vLLM (`vllm serve --help`), SGLang (`sglang.launch_server --help`) and llama.cpp (`llama-server
--help`), and from what their advisories were about. A name that isn't here is caught by what it is made of: every
engine calls a path a path. It is better to refuse a harmless knob, which its owner can still set by hand, than to let
one through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ADDRESSES", "LOADING", "RESOURCES", "SECURITY", "Denied", "words_of"]

ADDRESSES = frozenset({"0.0.0.0", "::", "[::]", "*"})
"""Values that open a server to everybody."""


@dataclass(frozen=True, slots=True)
class Denied:
    """One kind of names. All are in words of lower case, joined by `_`."""

    names: frozenset[str]
    "Whole names."
    words: frozenset[str]
    "A name that has one of these words."
    parts: tuple[str, ...]
    "A name that holds one of these texts, across words too."

    def why(self, name: str) -> str:
        """What makes `name` one of this kind; empty where it isn't."""
        words = words_of(name)
        joined = "_".join(words)
        if joined in self.names:
            return f"the name {joined}"
        word = next((word for word in words if word in self.words), None)
        part = next((part for part in self.parts if part in joined), None)
        found = word or part
        return f"`{found}` in its name" if found else ""


def words_of(name: str) -> list[str]:
    """`--trust-remote-code`, `trustRemoteCode` and `TRUST_REMOTE_CODE` are the same words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = [word.lower() for word in re.split(r"[^A-Za-z0-9]+", apart) if word]
    return words[1:] if words[:1] == ["no"] else words


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


LOADING = Denied(
    names=_set("""
        alias chat_template config_format control_vector control_vector_layer_range control_vector_scaled
        fingerprint_mode fingerprint_value hf_token hicache_storage_backend lookup_cache_dynamic lookup_cache_static
        mmproj mmproj_auto model model_draft model_impl models_autoload models_preset override_kv override_tensor
        preferred_sampling_params response_role rpc sampling_defaults served_model_name spec_model speculative_model
        speculative_token_map system_prompt tags tool_server use_modelscope weight_version
    """),
    words=_set("""
        addr address agent class cls code dir directory dyld env environ environment eval exec file filename files
        folder hf hook hooks import jinja json ld lora loras mcp media preset python pythonpath pythonstartup repo
        script scripts shell socket tools uri
    """),
    parts=(
        *("adapter", "allow_insecure", "command", "config", "connector", "download", "draft_model", "endpoint"),
        *("executor", "extension", "kwargs", "load_format", "loader", "middleware", "module", "overrides"),
        *("parser", "path", "pickle", "plugin", "preload", "processor", "remote", "revision", "serializ"),
        *("template", "tokenizer", "url", "webhook"),
    ),
)
"""What loads code, a model or a tokenizer, reads or writes a path, fetches a URL, or says what the server is."""

SECURITY = Denied(
    names=_set("""
        allow_credentials allowed_headers allowed_methods allowed_origins api_prefix disable_fastapi_docs
        enable_log_deltas enable_prompt_logging grpc_mode h11_max_header_count h11_max_incomplete_event_size log_jsonl
        max_log_len port props root_path server_dev_mode slots trust_request_chat_template uds
    """),
    words=_set("""
        auth authentication authorization cert certs cors credential credentials debug headers host hostname insecure
        origin origins password port secret ssl tls verbose verbosity webui
    """),
    parts=(
        *("access_log", "api_key", "apikey", "dev_mode", "log_level", "log_output", "log_prompt", "log_request"),
        *("log_verbosity", "request_id_header", "tool_server", "tokenizer_info"),
    ),
)
"""Who may reach the server, what proves it, and what of people's words ends up in a log."""

RESOURCES = Denied(
    names=_set("""
        api_server_count base_gpu_id cores cpu_limit cpu_request cpus device device_ids devices dp dp_size ep ep_size
        gpu_count gpu_id_step gpu_ids gpus instances main_gpu max_replicas memory_limit memory_request min_replicas
        n_gpus nnodes node_rank nodes num_cores num_cpus num_devices num_gpus num_instances num_nodes num_replicas pp
        pp_size replicas split_mode tensor_split tp tp_size visible_devices
    """),
    words=_set("autoscaling instances nnodes replica replicas"),
    parts=("parallel_size", "data_parallel", "tensor_parallel", "pipeline_parallel", "expert_parallel"),
)
"""How much hardware a deployment takes."""
