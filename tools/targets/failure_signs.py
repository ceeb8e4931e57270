"""Signs of failure in servers' logs: whose voice a line is, which cause it names, how far the start had come.

The texts are those that vLLM, SGLang, llama.cpp, Ollama, PyTorch and argparse print; tests hold genuine logs of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Literal

from tools.targets.target import FailureKind

__all__ = [
    "CAUSES",
    "KNOWN",
    "PROGRESS",
    "SELF_INFLICTED",
    "SETTING_REFUSED",
    "VAGUE",
    "Cause",
    "Phase",
    "Voice",
    "phase_of",
    "spoken",
]

Phase = Literal["start", "load", "profile", "serve"]
"""How far a server had come: reading its settings; loading weights; sizing the KV cache, warming up and recording
graphs; answering requests."""

Cause = Literal[
    "oom_at_load",
    "oom_at_profile",
    "oom_under_burst",
    "cache_too_small",
    "bad_flag",
    "incompatible_knobs",
    "port_taken",
    "model_missing",
    "slow_start",
    "hang",
    "crash",
    "unreachable",
]
"""What went wrong, finer than a FailureKind. `cache_too_small` is the one lack of memory that *more* memory for the
KV cache mends: what is left for it can't hold one sequence."""

CAUSES: Mapping[Cause, tuple[FailureKind, str]] = MappingProxyType(
    {
        "oom_at_load": ("oom", "quantise the weights, use fewer replicas or a smaller model, or free memory"),
        "oom_at_profile": ("oom", "lower the KV cache's size or share, tokens per step or sequences"),
        "oom_under_burst": ("oom", "leave more memory free: lower the KV cache's size or share, or tokens per step"),
        "cache_too_small": ("oom", "give the KV cache more memory, or lower the longest context"),
        "bad_flag": ("bad_config", "mend or drop that setting"),
        "incompatible_knobs": ("bad_config", "change one of the settings that it names"),
        "port_taken": ("port_taken", "choose another port, or end what listens there"),
        "model_missing": ("model_missing", "mend the model's path or name, or pull it first"),
        "slow_start": ("timeout", "allow more time to become ready, or let it load, compile or record less"),
        "hang": ("timeout", "read the end of its log: nothing there shows progress"),
        "crash": ("crash", "read the end of its log"),
        "unreachable": ("unreachable", "see whether it runs and which address it listens on"),
    }
)
"""Kind of each cause, and what to do."""


class Voice(IntEnum):
    """Who speaks in a line of a log, from least to most trustworthy."""

    QUIET = 0
    "Information and warnings: what didn't end the server, whatever it says."
    PLAIN = 1
    "No sign of a level: the server's, a library's, or a request's text that it printed."
    RAISED = 2
    "An exception at the end of a traceback, or a line that a program prints before it gives up."
    LOUD = 3
    "A line that its logger marked as an error."


_PREFIX = re.compile(
    r"^(?:\([\w.]+ (?:rank=\d+ )?pid=\d+(?:, ip=[\d.]+)?\) ?|\[rank\d+\]: ?|[\w.-]+ +\| "
    r"|\w{3} +\d+ [\d:]{8} \S+ [\w.-]+\[\d+\]: )+"
)
"""Of a worker, a container or the journal, before what the program said itself."""

_REQUEST_TEXT = re.compile(
    r"""\b(?:prompt|content|text|input|messages|body|query|output|completion|response|data)["']?\s*[:=]\s*["'\[{].*"""
)
_LEVEL = re.compile(r"\b(TRACE|DEBUG|INFO|WARN(?:ING)?|ERR(?:OR)?|CRITICAL|FATAL)\b|^[\d.]+ ([DIWE]) ")
_LEVEL_WITHIN = 60
"Characters from a line's start in which its level stands."
_TRACE_LINES = 60
_EXCEPTION = re.compile(r"^[\w.]*(?:Error|Exception)\b")
_GIVES_UP = re.compile(
    r"^(?:[\w. -]*error:|fatal|panic:|terminate called|\s*what\(\):|CUDA error|cudaMalloc|Cuda failure"
    r"|ggml_|llama_|alloc_tensor_range|\S+\.cpp:\d+:|error while handling"
    r"|\[[\d: -]+(?: \w+)*\] (?:Scheduler|Watchdog))",
    re.IGNORECASE,
)


def spoken(lines: list[str], at: int) -> tuple[Voice, str]:
    """The voice of line `at`, and what it says without prefixes and without the text of requests."""
    text = _REQUEST_TEXT.sub("", _PREFIX.sub("", lines[at]))
    level = _LEVEL.search(text[:_LEVEL_WITHIN])
    word = (level[1] or level[2]) if level else ""
    if word.startswith(("ERR", "CRIT", "FATAL")) or word == "E":
        return Voice.LOUD, text
    if word and not _GIVES_UP.match(text):
        return Voice.QUIET, text
    if _GIVES_UP.match(text):
        return Voice.RAISED, text
    if _EXCEPTION.match(text.strip()) or text.startswith("  Value error, "):
        before = lines[max(0, at - _TRACE_LINES) : at]
        raised = any(
            "Traceback (most recent call last)" in line or line.lstrip().startswith("File ") for line in before
        )
        return (Voice.RAISED if raised else Voice.PLAIN), text
    return Voice.PLAIN, text


_PHRASES: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    (
        "cache_too_small",
        (
            r"No available memory for the cache blocks",
            r"KV cache is needed, which is larger than",
            r"is larger than the maximum number of tokens that can be stored in KV cache",
            r"Not enough memory\. Please try to increase --mem-fraction-static",
        ),
    ),
    (
        "oom_at_load",  # or later: the phase decides
        (
            r"out of memory\b",
            r"OutOfMemory",
            r"MemoryError",
            r"(?:can(?:no|')t|failed to|unable to) allocate (?:memory|\w+ buffer|buffer)",
            r"std::bad_alloc",
            r"insufficient memory",
            r"not enough (?:host )?memory",
            r"model requires more system memory",
            r"is less than desired \w+ memory utilization",
            r"is less than requested memory",
            r"process has terminated: signal: killed",
        ),
    ),
    (
        "port_taken",
        (
            r"address already in use",
            r"EADDRINUSE",
            r"errno 98\b",
            r"couldn't bind HTTP server socket",
            r"Only one usage of each socket address",
        ),
    ),
    (
        "model_missing",
        (
            r"is not a local folder and is not a valid model identifier",
            r"no such model",
            r"\bmodel\b.{0,80}\bnot found",
            r"No such file or directory: .*(?:config\.json|safetensors|gguf)",
            r"failed to open GGUF file",
            r"invalid magic characters",
            # who keeps models
            r"Repo id must be in the form",
            r"invalid repository ID or local directory",
            r"(?:RepositoryNotFound|GatedRepo|RevisionNotFound|LocalEntryNotFound|EntryNotFound)Error",
            r"cannot find an appropriate cached snapshot",
            r"couldn't connect to .{0,80} to load",
            # what is in a model
            r"unknown model architecture",
            r"does not recogni[sz]e this architecture",
            r"model architectures? .{0,80} (?:is|are) not supported",
            r"unrecogni[sz]ed model in",
            r"StrictDataclass\w*Error",
            r"does not appear to have a file named",
            r"error no file named",
            r"is not a valid JSON file",
            r"couldn't instantiate the backend tokenizer",
            r"can't load (?:the )?(?:\w+ )?(?:tokenizer|model|config\w*|processor)\b",
            # its weights
            r"cannot find any model weights",
            r"SafetensorError",
            r"error while deserializing header",
            r"PytorchStreamReader failed|UnpicklingError",
            r"(?:weights|parameters) were not initialized from",
            r"size mismatch for \w",
            r"missing tensor '",
            r"tensor '.{1,120}' data is not within the file",
            r"failed to (?:open|load|read) (?:the )?(?:\w+ )?(?:adapter|projector|checkpoint|tokenizer)\b",
        ),
    ),
    (
        "incompatible_knobs",
        (
            r"is greater than the derived",
            r"must be greater than or equal to max_num_seqs",
            r"is smaller than max_model_len",
            r"cannot be larger than the number of available",
            r"(?:must be|is not) divisible by",
            r"requires flash_attn",
            r"No common block size",
            r"(?:in|not )compatible with",
            r"(?:can ?not|can't|should not) be (?:used|set|enabled) (?:together )?with",
            r"is not supported (?:with|when)",
        ),
    ),
    (
        "bad_flag",
        (
            r"unrecogni[sz]ed arguments",
            r"invalid choice",
            r"error: argument ",
            r"no such option",
            r"unknown (?:option|flag|argument|shorthand)",
            r"invalid argument: -",
            r"error while handling (?:argument|environment variable)",
            r"\b(?:valid|allowed) (?:options|choices|values) are\b",
            r"validation errors? for",
            r"unexpected keyword",
            r"port must be 0-65535",
            r"cannot assign requested address",
            r"invalid value for",
            r"missing (?:option|argument|parameter)\b",
            r"(?:expected|requires|needs) (?:an|at least one|one) argument",
        ),
    ),
    ("slow_start", (r"timed out waiting for llama runner to start",)),
    ("hang", (r"Watchdog timeout \(self\.watchdog_timeout", r"Watchdog caught collective operation timeout")),
)
KNOWN: tuple[tuple[Cause, re.Pattern[str]], ...] = tuple(
    (cause, re.compile("|".join(phrases), re.IGNORECASE)) for cause, phrases in _PHRASES
)
"""What a line says that names its cause. The first that matches is the line's cause."""

VAGUE: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    ("model_missing", re.compile(r"failed to load model", re.IGNORECASE)),
)
"""Lines that tell a consequence: believed where nothing else tells why."""

SETTING_REFUSED = re.compile(
    r"^\s*(?:[\w.]+\.)?(?:Value|Type|Overflow|FileNotFound|NotADirectory|Argument\w*|\w*Validation|\w*Config\w*)Error\b"
)
"""An exception that ends a server before it has loaded anything: then it has looked at nothing but its settings."""

SELF_INFLICTED = re.compile(r"Received sigquit from a child proces|kill_process_tree|SIGQUIT received", re.IGNORECASE)
"""A server that kills itself after an exception of a part: its SIGKILL isn't the kernel's."""

PROGRESS = re.compile(
    r"\d ?%|\d+/\d+|load(?:ing| weight|_tensors)|starting to load|model buffer|captur|compil|profil|warm|download"
    r"|waiting for",
    re.IGNORECASE,
)
"""A line of a start that goes on."""

_MILESTONES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    (
        "serve",
        re.compile(
            r"Application startup complete|Uvicorn running on|server is listening on|starting the main loop"
            r"|fired up and ready to roll|engine: serving |llama runner started in"
        ),
    ),
    (
        "profile",
        re.compile(
            r"KV cache memory|kv[ _]?cache|memory profiling|profile_run|determine_available|captur|cuda ?graph"
            r"|KV buffer|compute buffer|warming up|init_memory_pool|cache blocks|graph_reserve|gallocr|n_ctx_seq"
            r"|memory utilization|_dummy_run|mem-fraction-static",
            re.IGNORECASE,
        ),
    ),
    (
        "load",
        re.compile(
            r"load_model|model_loader|loading model|load_tensors|load weight|safetensors checkpoint|model buffer"
            r"|alloc_tensor_range|create_weights|error loading|model requires more|loading weights|starting to load",
            re.IGNORECASE,
        ),
    ),
)


_SETTINGS = re.compile(r"\bargs[:=]|server_args|with config:|usage:")
"""A line that lists settings: it names every part of a server and tells of none."""


def phase_of(line: str) -> Phase | None:
    """The phase that a line belongs to, if it tells. `serve` only from what servers say once they are ready."""
    if _SETTINGS.search(line):
        return None
    return next((phase for phase, sign in _MILESTONES if sign.search(line)), None)
