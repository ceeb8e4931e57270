"""Environment: which variables of ours a server may see, and which nobody may hand it in a file.

What shapes how an engine serves (VLLM_CPU_KVCACHE_SPACE, LLAMA_ARG_PARALLEL, GGML_..., SGLANG_...) isn't taken from
whoever happens to run autotune: it stands in the deployment, or a measurement couldn't be repeated elsewhere. Neither
is what loads code (LD_PRELOAD, PYTHONPATH, VLLM_PLUGINS, GGML_BACKEND_PATH) or opens a server (VLLM_SERVER_DEV_MODE).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["allowed_environment", "is_secret"]

_ALLOWED = frozenset(
    {"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "XDG_CACHE_HOME"}
    | {"LLAMA_CACHE", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"}
    | {"DISABLE_TELEMETRY", "DO_NOT_TRACK", "VLLM_DO_NOT_TRACK", "VLLM_NO_USAGE_STATS"}
)
"""Where programs, libraries and caches are, and what keeps a server from telling others of itself."""
_ALLOWED_PREFIXES = ("LC_", "OMP_", "MKL_", "KMP_", "GOMP_", "CUDA_", "NVIDIA_", "TORCH_", "TRITON_", "HF_")
_SECRET_WORDS = frozenset({"AUTH", "AUTHORIZATION", "CREDENTIAL", "CREDENTIALS", "KEYS", "PASSWD", "PASSPHRASE"})
_SECRET_ENDS = ("KEY", "PASSWORD", "SECRET", "TOKEN")
"TOKENIZERS_PARALLELISM and MAX_TOKENS are none."


def allowed_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The part of `environment` (by default this process's) that a server may see: no key, no token, no injection."""
    source = os.environ if environment is None else environment
    return {
        name: value
        for name, value in source.items()
        if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)) and not is_secret(name)
    }


def is_secret(name: str) -> bool:
    """Whether a variable is called like a secret, whatever it holds."""
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in name.upper().split("_"))
