"""Manifests that are refused, in whole or at an edit: each refusal names the place and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.errors import UserError
from tools.manifests import Manifest, read_manifest
from tools.targets.tables.word_edit import Delete, Insert, Replace, SetVariable, WordEdit

EXAMPLES = Path(__file__).parent / "files" / "manifests"


def example(name: str) -> Manifest:
    return read_manifest(EXAMPLES / name)


@pytest.mark.parametrize(
    ("name", "where", "edits", "why"),
    [
        ("compose-anchors.yaml", "services.blue.command", [Replace(5, "8")], "shared through a YAML anchor"),
        ("compose-vllm-folded.yaml", None, [Replace(11, "key")], "the value of '.{API_KEY}' isn't in this file"),
        ("helm-generic.yaml", None, [Delete(1, 2)], r"Values.global.model }}.gguf' isn't in this file"),
        ("k8s-statefulset-sglang.yaml", None, [Replace(8, "a:1")], "LWS_LEADER_ADDRESS.*isn't in this file"),
        ("k8s-deployment.yaml", None, [SetVariable("HF_TOKEN", "hf_x")], "HF_TOKEN can't be edited: its value comes"),
        ("compose-vllm-list.yaml", None, [SetVariable("NVIDIA_VISIBLE_DEVICES", None)], "comes from elsewhere"),
        ("helm-vllm-chart.yaml", None, [SetVariable("A", "1")], "no place for the variable A: write an `env:`"),
        ("compose-vllm-list.yaml", None, [Replace(0, "sglang")], "vllm stands nowhere in this file: the image"),
        ("docker-run.sh", None, [SetVariable("B", None)], "no variable B stands here"),
        ("compose-sglang-string.yml", None, [Insert(9, ("--x", "a: b"))], "can't stand in a YAML text without quotes"),
        (
            "helm-production-stack.yaml",
            "servingEngineSpec.modelSpec[1].vllmConfig",
            [Delete(12, 2)],
            "nothing would be",
        ),
        ("serve.sh", None, [Delete(3, 1), Replace(3, "4")], "two changes meet in the same characters"),
        ("serve.sh", None, [Replace(99, "4")], "there is no word 99"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused_with_its_place(
    name: str, where: str | None, edits: list[WordEdit], why: str
) -> None:
    manifest = example(name)
    with pytest.raises(UserError, match=why) as refusal:
        manifest.edited(manifest.site(where), edits)
    assert str(refusal.value).startswith(f"{EXAMPLES / name}, {manifest.site(where).where}: ")


def test_an_edit_that_reaches_another_place_is_never_returned() -> None:
    """A site that points at another's characters stands for any fault of ours: what comes out is read again."""
    manifest = example("compose-anchors.yaml")
    blue, small = manifest.sites[0], manifest.sites[2]
    broken = replace(blue, chunks=small.chunks)
    forged = replace(manifest, sites=(broken, *manifest.sites[1:]))
    with pytest.raises(UserError, match="the edit would change more than was planned"):
        forged.edited(broken, [Replace(5, "8")])


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.yaml", "\ufeffservices: {}\n", "without a byte order mark"),
        ("a.yaml", "a: [" * 100, "not valid YAML|nested deeper than 64"),
        ("a.yaml", "- " * 100 + "a", "nested deeper than 64 levels"),
        ("a.yaml", "services:\n\tx: 1\n", "line 2: not valid YAML"),
        ("a.yaml", 'services: {a: {command: "vllm serve \'x"}}\n', "line 1: a quote ' opens here and never closes"),
        ("a.sh", "echo ok\nvllm serve 'x\n", "line 2: a quote ' opens here and never closes"),
        ("a.sh", "cat <<EOF\nvllm serve x\n", "line 1: the here-document EOF opens here and never closes"),
        ("a.sh", "vllm serve x \\\r\n --a 1\r\n", "lines end with CR LF"),
        ("a.service", "[Service]\nExecStart=/bin/vllm serve 'x\n", "a quote ' opens here and never closes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(name: str, text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read_manifest(Path(name), text)


def test_a_file_that_is_too_large_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_bytes(b"a: " + b"1" * (1 << 20))
    (tmp_path / "latin.env").write_bytes("A=Grüße\n".encode("latin-1"))
    with pytest.raises(UserError, match="expected at most 1048576 bytes"):
        read_manifest(tmp_path / "large.yaml")
    with pytest.raises(UserError, match="expected UTF-8, found byte 0xfc at 4"):
        read_manifest(tmp_path / "latin.env")
    with pytest.raises(UserError, match="found none that can be read"):
        read_manifest(tmp_path / "none.yaml")


def test_aliases_of_aliases_are_walked_once() -> None:
    bomb = "a0: &a0 [x, y]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert read_manifest(Path("values.yaml"), bomb).sites == ()


def test_a_place_is_named_or_the_only_one() -> None:
    manifest = example("compose-anchors.yaml")
    with pytest.raises(UserError, match=r"3 engines' commands stand here; name one: services.blue.command, "):
        manifest.site()
    with pytest.raises(UserError, match=r"no engine's command stands at services.red.command; there is services.blue"):
        manifest.site("services.red.command")
    with pytest.raises(UserError, match="expected an engine's command"):
        read_manifest(Path("a.yaml"), "services: {web: {image: nginx}}\n").site()


@pytest.mark.parametrize(
    "text",
    [
        "echo vllm serve x --max-num-seqs 1\n",
        "# vllm serve x\n",
        "pip install vllm serve\n",
        "vllm bench serve --model x\n",
        "cat <<'E'\nvllm serve x\nE\n",
        "a=$(vllm serve x)\n",
        "docker run --rm --entrypoint sh vllm/vllm-openai:latest -c ls\n",
        "python -m vllm.entrypoints.cli.main bench\n",
    ],
)
def test_what_only_looks_like_a_command_is_none(text: str) -> None:
    assert read_manifest(Path("a.sh"), text).sites == ()
