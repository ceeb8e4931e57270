"""Manifests: where an engine's command stands in what people deploy from, and how it is edited there."""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

import pytest
import yaml

from tools.errors import UserError
from tools.manifests import Manifest, read_manifest
from tools.targets.tables.word_edit import Delete, Insert, Replace, SetVariable, WordEdit

FILES = Path(__file__).parent / "files"
EXAMPLES = FILES / "manifests"
EXPECTED = yaml.safe_load((FILES / "manifest_sites.yaml").read_text())


def example(name: str) -> Manifest:
    return read_manifest(EXAMPLES / name)


def changed(before: str, after: str) -> list[str]:
    """The lines that went and came, in order."""
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def with_words(manifest: Manifest, where: str | None, *changes: tuple[str, str | None] | str) -> str:
    """Each change: a word and what it becomes, or a flag to go with its value (None); or flags to come at the end."""
    site = manifest.site(where)
    edits: list[WordEdit] = []
    for change in changes:
        if isinstance(change, str):
            edits.append(Insert(len(site.words), tuple(shlex.split(change))))
        elif change[1] is None:
            edits.append(Delete(site.words.index(change[0]), 1 if "=" in change[0] else 2))
        else:
            edits.append(Replace(site.words.index(change[0]), change[1]))
    return manifest.edited(site, edits)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_words_are_those_that_the_engine_would_get(name: str) -> None:
    manifest = example(name)
    found = {site.where: shlex.join(site.words) for site in manifest.sites}
    assert {"format": manifest.format, "sites": found} == EXPECTED[name]


def test_every_example_is_expected_or_refused_by_name() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} - EXPECTED.keys() == {"chart-template.yaml"}
    with pytest.raises(UserError, match=r"chart-template.yaml, line 12: not valid YAML.*this looks like a template"):
        example("chart-template.yaml")


@pytest.mark.parametrize(
    ("name", "where", "change", "expected"),
    [
        (
            "compose-vllm-list.yaml",
            None,
            [("32", "128"), "--block-size 32"],
            [
                '-       - "32"    # was 16',
                '+       - "128"    # was 16',
                "+       - --block-size",
                '+       - "32"',
            ],
        ),
        (
            "compose-vllm-list.yaml",
            None,
            [("--max-num-seqs", None)],
            ["+       # was 16", "-       - --max-num-seqs", '-       - "32"    # was 16'],
        ),
        (
            "compose-vllm-folded.yaml",
            None,
            [("8192", "4096"), "--block-size 32"],
            [
                "-       --max-num-batched-tokens 8192",
                "+       --max-num-batched-tokens 4096",
                "+       --block-size 32",
            ],
        ),
        (
            "compose-llamacpp-shell.yaml",
            None,
            [("-np", None), ("2048", "512"), "-fa on"],
            [
                "-           -c 8192 -np 4 \\",
                "+           -c 8192 \\",
                "-           -b 2048",
                "+           -b 512 \\",
                "+           -fa on",
            ],
        ),
        (
            "compose-anchors.yaml",
            "services.small.command",
            [("--block-size", None), "--dtype half"],
            ['-       "--block-size", "16",', '+       "--dtype", "half",'],
        ),
        (
            "compose-crlf.yaml",
            None,
            [("64", "8"), '--json {"a":1}'],
            ['-       - "64"', '+       - "8"', "+       - --json", '+       - "{a:1}"'],
        ),
        (
            "k8s-args-only.yaml",
            None,
            [("--max-num-seqs=64", "--max-num-seqs=8"), ("--dtype=bfloat16", None)],
            [
                "-                       - --dtype=bfloat16",
                "-                       - --max-num-seqs=64",
                "+                       - --max-num-seqs=8",
            ],
        ),
        (
            "helm-production-stack.yaml",
            "servingEngineSpec.modelSpec[0].vllmConfig",
            [("--no-enable-chunked-prefill", "--enable-chunked-prefill"), ("0.9", "0.8"), ("--dtype", None)],
            [
                "-         enableChunkedPrefill: false",
                "+         enableChunkedPrefill: true",
                '-         dtype: "bfloat16"',
                "-         gpuMemoryUtilization: 0.9",
                "+         gpuMemoryUtilization: 0.8",
            ],
        ),
        (
            "helm-production-stack.yaml",
            "servingEngineSpec.modelSpec[1].vllmConfig",
            ["--block-size 32"],
            ['+           - "--block-size"', '+           - "32"'],
        ),
        (
            "vllm.service",
            None,
            [("--max-num-seqs", None), "--async-scheduling"],
            [
                "-     --max-num-seqs 64 \\",
                "-     --served-model-name %i-qwen",
                "+     --served-model-name %i-qwen \\",
                "+     --async-scheduling",
            ],
        ),
        (
            "serve.sh",
            None,
            [("128", "64"), ("--max-num-batched-tokens=8192", "--max-num-batched-tokens=2048"), "--block-size 32"],
            [
                "-   --max-num-seqs 128 \\",
                "+   --max-num-seqs 64 \\",
                "-   --max-num-batched-tokens=8192 \\",
                "+   --max-num-batched-tokens=2048 \\",
                "+   --block-size 32 \\",
            ],
        ),
        (
            "oneline.sh",
            None,
            [("16", "32"), "-O3"],
            [
                "- vllm serve Qwen/Qwen3-0.6B --port 8000 --max-num-seqs 16",
                "+ vllm serve Qwen/Qwen3-0.6B --port 8000 --max-num-seqs 32 -O3",
            ],
        ),
        (
            "vllm.env",
            "VLLM_ARGS",
            [("--max-num-seqs", None), "--block-size 32"],
            [
                '- VLLM_ARGS="--max-num-seqs 64 --dtype bfloat16"',
                '+ VLLM_ARGS="--dtype bfloat16 --block-size 32"',
            ],
        ),
    ],
)
def test_an_edit_reads_as_a_person_would_have_made_it(
    name: str, where: str | None, change: list[tuple[str, str | None] | str], expected: list[str]
) -> None:
    before = example(name)
    after = with_words(before, where, *change)
    assert [line for line in changed(before.text, after) if line[0] != "?"] == expected


def test_quotes_in_quotes_stay_as_they_are() -> None:
    before = example("nested.sh")
    after = with_words(before, None, ('{"cudagraph_mode": "FULL"}', '{"cudagraph_mode": "it\'s $5"}'))
    assert after == before.text.replace(r"\"FULL\"", r"\"it'\\''s \$5\"")
    assert read_manifest(before.path, after).site().words[6] == '{"cudagraph_mode": "it\'s $5"}'


@pytest.mark.parametrize(
    ("name", "where", "variable", "value", "expected"),
    [
        (
            "k8s-args-only.yaml",
            None,
            "VLLM_CPU_KVCACHE_SPACE",
            "8",
            [
                '-                       - {name: VLLM_CPU_KVCACHE_SPACE, value: "40"}',
                '+                       - {name: VLLM_CPU_KVCACHE_SPACE, value: "8"}',
            ],
        ),
        ("k8s-deployment.yaml", None, "NEW", "1", ["+         - name: NEW", '+           value: "1"']),
        (
            "k8s-deployment.yaml",
            None,
            "VLLM_LOGGING_LEVEL",
            None,
            ["-         - name: VLLM_LOGGING_LEVEL", '-           value: "INFO"'],
        ),
        (
            "compose-vllm-list.yaml",
            None,
            "VLLM_LOGGING_LEVEL",
            "WARN",
            ["-       - VLLM_LOGGING_LEVEL=INFO", "+       - VLLM_LOGGING_LEVEL=WARN"],
        ),
        ("compose-sglang-string.yml", None, "NEW", "a$b", ['+       NEW: "a$$b"']),
        (
            "vllm.service",
            None,
            "VLLM_CPU_KVCACHE_SPACE",
            "16",
            ["- Environment=VLLM_CPU_KVCACHE_SPACE=8", "+ Environment=VLLM_CPU_KVCACHE_SPACE=16"],
        ),
        ("vllm.service", None, "VLLM_CPU_KVCACHE_SPACE", None, ["- Environment=VLLM_CPU_KVCACHE_SPACE=8"]),
        ("vllm.service", None, "NEW", "a b", ['+ Environment="NEW=a b"']),
        (
            "llama.sh",
            None,
            "OMP_NUM_THREADS",
            "4",
            [
                "- OMP_NUM_THREADS=8 LLAMA_ARG_FLASH_ATTN=on nohup ./build/bin/llama-server \\",
                "+ OMP_NUM_THREADS=4 LLAMA_ARG_FLASH_ATTN=on nohup ./build/bin/llama-server \\",
            ],
        ),
        (
            "serve.sh",
            None,
            "VLLM_CPU_KVCACHE_SPACE",
            "8",
            ["- export VLLM_CPU_KVCACHE_SPACE=40      # GiB", "+ export VLLM_CPU_KVCACHE_SPACE=8      # GiB"],
        ),
        ("serve.sh", None, "VLLM_CPU_OMP_THREADS_BIND", None, ['- export VLLM_CPU_OMP_THREADS_BIND="0-31|32-63"']),
        (
            "llama-server.env",
            "variables",
            "LLAMA_ARG_N_PARALLEL",
            "8",
            ["- LLAMA_ARG_N_PARALLEL=4", "+ LLAMA_ARG_N_PARALLEL=8"],
        ),
        (
            "docker-run.sh",
            None,
            "A",
            "1",
            ["+     -e A=1 \\"],
        ),
    ],
)
def test_a_variable_is_set_where_the_file_has_its_variables(
    name: str, where: str | None, variable: str, value: str | None, expected: list[str]
) -> None:
    manifest = example(name)
    after = manifest.edited(manifest.site(where), [SetVariable(variable, value)])
    assert [line for line in changed(manifest.text, after) if line[0] != "?"] == expected
    assert read_manifest(manifest.path, after).site(where).environment.get(variable) == value


def test_what_comes_from_elsewhere_is_named_and_never_guessed() -> None:
    service = example("compose-vllm-list.yaml").site()
    assert service.environment == {"VLLM_LOGGING_LEVEL": "INFO"}
    assert service.opaque.keys() == {"HUGGING_FACE_HUB_TOKEN", "NVIDIA_VISIBLE_DEVICES"}
    assert example("vllm.service").site().variable_files == ("-/etc/vllm/secrets.env",)
    assert example("compose-vllm-folded.yaml").site().variable_files == (".env",)
    script = example("serve.sh").site()
    assert script.opaque.keys() == {"VLLM_LOGGING_LEVEL"}
    assert [script.words[at] for at in sorted(script.computed)] == ["$MODEL", "$(cat /run/secrets/key)"]


def test_two_commands_at_one_place_have_names_of_their_own() -> None:
    manifest = read_manifest(Path("a.sh"), "vllm serve a --x 1 &\nvllm serve b --x 1\nwait\n")
    assert [site.where for site in manifest.sites] == ["script", "script #2"]
    after = manifest.edited(manifest.site("script #2"), [Replace(4, "2")])
    assert after == "vllm serve a --x 1 &\nvllm serve b --x 2\nwait\n"


def test_arguments_are_counted_from_behind_the_program() -> None:
    site = example("serve.sh").site()
    assert site.program == 2 and site.arguments == site.words[2:]
    assert site.for_words([Replace(0, "a"), Insert(1, ("b",)), Delete(2, 2), SetVariable("A", "1")]) == (
        Replace(2, "a"),
        Insert(3, ("b",)),
        Delete(4, 2),
        SetVariable("A", "1"),
    )


STACK = """\
servingEngineSpec:
  modelSpec:
    - name: a
      repository: vllm/vllm-openai
      tag: v0.10.0
      modelURL: m
      vllmConfig:
        # the promise is 500 ms
        maxModelLen: 1024  # tokens
      env: []
"""


def test_a_chart_gets_the_keys_that_its_words_need() -> None:
    manifest = read_manifest(Path("values.yaml"), STACK)
    site = manifest.site()
    assert site.arguments == (
        "m",
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
        "--no-enable-prefix-caching",
        *site.words[-2:],
    )
    edits = (Replace(7, "--enable-prefix-caching"), Replace(9, "2048"), Insert(10, ("--max-num-seqs", "8")))
    after = manifest.edited(site, edits)
    assert changed(STACK, after) == [
        "+         enablePrefixCaching: true",
        "-         maxModelLen: 1024  # tokens",
        "+         maxModelLen: 2048  # tokens",
        '+         extraArgs: ["--max-num-seqs", "8"]',
    ]
    assert read_manifest(manifest.path, after).site().words[-2:] == ("--max-num-seqs", "8")


def test_a_line_goes_behind_the_comment_of_the_line_before() -> None:
    manifest = example("compose-anchors.yaml")
    site = manifest.site("services.small.command")
    after = manifest.edited(site, [Insert(6, ("--dtype", "half"))])
    assert changed(manifest.text, after) == ['+       "--dtype", "half",']
    assert '"--max-num-seqs", "256",   # it is small\n      "--dtype", "half",\n      "--block-size", "16",\n' in after
