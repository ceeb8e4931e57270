"""Row `import`: what people have, imported, loaded and backed out again, unchanged and with up to three other knobs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from autotune.harness.reversal import Reversal
from autotune.importing import Source, imported, source_at, source_of, written
from benchmarks.table import Row
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.manifests import YamlFile, read_manifest
from tools.standing import Standing, agreed_manifest
from tools.targets.knobs import Value

__all__ = ["COMMANDS", "Case", "cases", "round_trip", "row"]

MANIFESTS = Path(__file__).parents[1] / "tests" / "tools" / "files" / "manifests"
LEAST = 20
MOST_CHANGED = 3

COMMANDS: Mapping[str, str] = {
    "vllm-plain": "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64 --gpu-memory-utilization 0.9",
    "vllm-variables": "VLLM_CPU_KVCACHE_SPACE=8 VLLM_LOGGING_LEVEL=WARNING vllm serve Qwen/Qwen3-0.6B "
    "--max_num_seqs=16 --dtype bfloat16",
    "vllm-module": "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-7B-Instruct --port 9000 "
    "--max-num-batched-tokens 4096 --no-enable-prefix-caching",
    "vllm-speculating": "vllm serve Qwen/Qwen3-8B --block-size 32 "
    """--speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'""",
    "vllm-switch-first": "vllm serve --trust-remote-code microsoft/Phi-4 --enforce-eager "
    "--api-key sk-abcdefghijklmnopqrst",
    "llamacpp-short": "llama-server -m models/m.gguf -c 8192 -np 4 -b 1024 -ub 256 -t 8 --host 0.0.0.0 --port 8081",
    "llamacpp-hub": "llama-server -hf ggml-org/gemma-3-1b-it-GGUF --parallel 2 --no-cont-batching --alias gemma",
    "sglang": "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --host 0.0.0.0 "
    "--mem-fraction-static 0.85 --max-running-requests 48 --disable-radix-cache",
    "docker": "docker run --gpus all -p 8000:8000 -e HF_TOKEN=hf_abcdefghijklmnopqrstuv vllm/vllm-openai:v0.11.0 "
    "--model mistralai/Mistral-7B-Instruct-v0.3 --max-num-seqs 128",
}
"""Command lines as people post them."""


@dataclass(frozen=True)
class Case:
    """One command to import: of a manifest, at a place in it, or a line by itself."""

    name: str
    file: Path | None = None
    where: str | None = None

    def source(self, folder: Path) -> Source:
        """The case in `folder`, a checkout."""
        if self.file is None:
            return source_of(COMMANDS[self.name])
        return source_at(Path(shutil.copy(self.file, folder / self.file.name)), self.where)


def cases() -> Iterator[Case]:
    """Every command of a foreign engine in the examples, and the lines."""
    for file in sorted(MANIFESTS.iterdir()):
        try:
            sites = read_manifest(file).sites
        except UserError:
            continue  # a template, which is no manifest: that this is said is tested with the manifests
        for site in sites:
            if site.engine != "bundled":
                yield Case(f"{file.name}: {site.where}", file, site.where)
    yield from (Case(name) for name in COMMANDS)


def round_trip(case: Case, folder: Path, counts: Iterable[int] = range(1, MOST_CHANGED + 1)) -> str:
    """Import, load, back out: what went wrong, empty where nothing.

    Args:
        folder: an empty checkout.
        counts: how many knobs to change, one attempt each; fewer where fewer are managed.
    """
    source, output = case.source(folder), folder / "deployment.yaml"
    found = imported(source, output, model="smollm2-135m")
    output.write_text(written(found, None, output))
    file = load_deployment(output)
    standing = agreed_manifest(file) or Standing(source.manifest, source.site, found.table)
    config, text = file.deployment.config, standing.manifest.text
    if said := list(standing.disagreements(config)):
        return said[0]
    stands = standing.read.values
    if standing.changed({name: stands[name] for name in stands if name in file.managed}) != text:
        return "what stands there already was written anew"
    for count in counts:
        changes = {name: standing.another(name, config[name]) for name in sorted(file.managed)[:count]}
        if wrong := _backed_out(standing, YamlFile.read(output), changes):
            return f"{', '.join(changes)}: {wrong}"
    return ""


def _backed_out(standing: Standing, deployment: YamlFile, changes: Mapping[str, Value]) -> str:
    """What is wrong with both files once `changes` are backed out into them; empty where nothing."""
    before, text = standing.read, standing.changed(changes)
    after = standing.with_text(text)
    spoken = standing.table.spoken({**before.values, **changes})
    if standing.table.spoken(after.read.values) != spoken:
        return f"expected {spoken} to stand there, found {after.read.values}"
    if set(_flags(after.read.rest)) - set(_flags(before.rest)):
        return "a word that is no knob was added"
    if _comments(text) != _comments(standing.manifest.text):
        return "a comment was lost or moved"
    spliced = YamlFile.parse(deployment.path, deployment.splice({("config", n): v for n, v in changes.items()}))
    if {n: v for n, v in spliced.data["config"].items() if deployment.data["config"][n] != v} != changes:
        return "the deployment doesn't say the same"
    stood = standing.manifest.text
    return "" if Reversal.of(stood, text).applied(text) == stood else "taking it back doesn't give the same bytes"


def _flags(words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.startswith("--")]


def _comments(text: str) -> Counter[str]:
    return Counter(re.findall(r"(?:^|(?<=\s))#.*$", text, re.MULTILINE))


def row(quick: bool) -> Row:
    """The share of sources whose round trip is exact; all of them, quick or not."""
    wrong: dict[str, str] = {}
    known = list(cases())
    changed = 0
    for case in known:
        with TemporaryDirectory(prefix="autotune-import-") as place:
            subprocess.run(["git", "init", "--quiet", place], check=True)
            try:
                if problem := round_trip(case, Path(place)):
                    wrong[case.name] = problem
            except UserError as refusal:
                wrong[case.name] = str(refusal)
        changed += case.name not in wrong
    return {
        "value": f"{changed} of {len(known)}",
        "goal": f"all of >= {LEAST}: loads, backs out unchanged, and with 1 to {MOST_CHANGED} knobs changed",
        "ok": changed == len(known) >= LEAST,
        "wrong": wrong,
    }
