"""Which words start an engine, and which container images do so by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.targets.engine_name import EngineName

__all__ = [
    "ImageProgram",
    "Program",
    "engine_of_name",
    "find_program",
    "image_place",
    "image_program",
    "script_place",
]

_MODULES: dict[str, tuple[EngineName, int]] = {
    "vllm.entrypoints.openai.api_server": ("vllm", 0),
    "vllm.entrypoints.api_server": ("vllm", 0),
    "vllm.entrypoints.cli.main": ("vllm", 1),
    "sglang.launch_server": ("sglang", 0),
    "engine": ("bundled", 1),
}
"""Python modules, and how many words of a subcommand (`serve`) follow."""

_SCRIPTS: dict[str, tuple[EngineName, int]] = {
    "vllm": ("vllm", 1),
    "sglang": ("sglang", 1),
    "autotune": ("bundled", 1),
    "llama-server": ("llamacpp", 0),
}
_WRAPPERS = frozenset(
    [
        "env",
        "exec",
        "nohup",
        "command",
        "time",
        "sudo",
        "nice",
        "ionice",
        "numactl",
        "taskset",
        "timeout",
        "chrt",
        "stdbuf",
        "setsid",
        "tini",
        "dumb-init",
        "nsys",
        "srun",
        "uv",
        "uvx",
        "poetry",
        "pixi",
        "conda",
        "micromamba",
        "mpirun",
        "docker",
        "podman",
        "nerdctl",
        "docker-compose",
        "kubectl",
        "systemd-run",
    ]
)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_VLLM_IMAGE = re.compile(r"(?:.*/)?vllm-(?:openai|cpu-release-repo|cpu-env)[a-z0-9-]*")
_LLAMACPP_IMAGE = re.compile(r"(?:.*/)?llama\.?cpp")
_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl"})


@dataclass(frozen=True, slots=True)
class Program:
    """The engine's program: `size` words from `at` on."""

    engine: EngineName
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class ImageProgram:
    """What an image runs by itself, so that only arguments stand in the manifest."""

    engine: EngineName
    words: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    "The first argument may be one of these: the image's own script takes it as the program to run."


def find_program(words: Sequence[str]) -> Program | None:
    """The engine's program among `words`: at their start, or behind wrappers such as `numactl` or `docker run`."""
    start = 0
    while start < len(words) and _ASSIGNMENT.match(words[start]):
        start += 1
    if program := _program_at(words, start):
        return program
    if start >= len(words) or _name(words[start]) not in _WRAPPERS:
        return None
    found = (_program_at(words, at) for at in range(start + 1, len(words)))
    return next((program for program in found if program), None)


def _program_at(words: Sequence[str], at: int) -> Program | None:
    if at >= len(words):
        return None
    name = _name(words[at])
    known = _SCRIPTS.get(name)
    end = at + 1
    if re.fullmatch(r"python[0-9.]*", name):
        while end < len(words) and words[end].startswith("-") and words[end] != "-m":
            end += 1
        if end + 1 >= len(words) or words[end] != "-m":
            return None
        known = _MODULES.get(words[end + 1])
        end += 2
    if known is None or (known[1] and list(words[end : end + 1]) != ["serve"]):
        return None
    return Program(known[0], at, end + known[1] - at)


def _name(word: str) -> str:
    """The last part of a path."""
    return word.rpartition("/")[2]


def script_place(words: Sequence[str]) -> int | None:
    """Where the script of `sh -c SCRIPT` stands among `words`, behind wrappers too."""
    for at, word in enumerate(words):
        if _name(word) in _SHELLS:
            for option in range(at + 1, len(words) - 1):
                if not words[option].startswith("-"):
                    break
                if re.fullmatch(r"-[a-z]*c[a-z]*", words[option]):
                    return option + 1
            return None
        if at == 0 and _name(word) not in _WRAPPERS:
            return None
    return None


def image_program(image: str) -> ImageProgram | None:
    """What `image` (`vllm/vllm-openai:v0.11.0`) runs when no command is given; None for one that we don't know."""
    name, _, tag = image.partition("@")[0].rpartition(":")
    if not name or "/" in tag:
        name, tag = (image.partition("@")[0], "")
    if _VLLM_IMAGE.fullmatch(name):
        return ImageProgram("vllm", ("vllm", "serve"))
    if _LLAMACPP_IMAGE.fullmatch(name) and tag.startswith("server"):
        return ImageProgram("llamacpp", ("llama-server",))
    if _LLAMACPP_IMAGE.fullmatch(name) and tag.startswith("full"):
        return ImageProgram("llamacpp", ("llama-server",), skipped=("--server", "-s"))
    return None


def image_place(words: Sequence[str]) -> int | None:
    """Where in `docker run ... IMAGE ARGUMENTS` an image of an engine stands."""
    if not words or _name(words[0]) not in _WRAPPERS:
        return None
    names = [_name(word) for word in words]
    start = next((at for at, name in enumerate(names) if name in _CONTAINER_TOOLS), None)
    if start is None or "run" not in words[start:]:
        return None
    behind = range(words.index("run", start) + 1, len(words))
    return next((at for at in behind if not words[at].startswith("-") and image_program(words[at])), None)


def engine_of_name(name: str) -> EngineName | None:
    """The engine that a container's, a variable's or a file's name speaks of."""
    lower = name.lower()
    if "vllm" in lower:
        return "vllm"
    if "sglang" in lower:
        return "sglang"
    return "llamacpp" if re.search(r"llama[._-]?(cpp|server)", lower) else None
