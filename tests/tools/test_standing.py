"""A config that stands in a manifest too: read, compared with the deployment's, and edited by the engine's table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tools.deployment import DeploymentFile, load_deployment
from tools.errors import UserError
from tools.manifest_ref import ManifestRef
from tools.standing import Standing, agreed_manifest, version_of_image

COMPOSE = """\
# of the platform team
services:
  vllm:
    image: vllm/vllm-openai:v0.32.0
    command:
      - --model=tiny
      - --max-num-seqs
      - "8"      # seats
      - --no-enable-prefix-caching
  canary:
    image: vllm/vllm-openai:v0.32.0
    command: --model tiny --max-num-seqs $SEATS
"""
SITE = "services.vllm.command"
CONFIG = {"max_num_seqs": 8, "enable_prefix_caching": False, "enforce_eager": False}
REST: dict[str, Any] = {
    "name": "chat",
    "model": "tiny",
    "workload": {
        "requests": 24,
        "prompt_tokens": {"min": 10, "max": 24},
        "output_tokens": {"min": 12, "max": 20},
        "arrivals": {"kind": "burst"},
    },
}


def deployed(place: Path, config: dict[str, Any] = CONFIG, text: str = COMPOSE, **more: Any) -> DeploymentFile:
    """A deployment in `place/configs`, all of whose knobs are managed, and its manifest beside that folder."""
    (place / "configs").mkdir(exist_ok=True)
    (place / "compose.yaml").write_text(text)
    named = {"target": "vllm", "manifest": {"file": "../compose.yaml", "site": SITE}, **more}
    lines = yaml.safe_dump({**REST, **named}).splitlines()
    lines += ["config:", *(f"  {name}: {yaml_word(value)}  # autotune: managed" for name, value in config.items())]
    file = place / "configs" / "deployment.yaml"
    file.write_text("\n".join(lines) + "\n")
    return load_deployment(file)


def yaml_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def standing(place: Path) -> Standing:
    found = agreed_manifest(deployed(place))
    assert found is not None
    return found


def test_a_manifest_that_says_the_same_is_agreed_with(tmp_path: Path) -> None:
    found = standing(tmp_path)
    assert (found.manifest.path, found.site.where) == (tmp_path / "compose.yaml", SITE)
    assert found.read.values == {"max_num_seqs": 8, "enable_prefix_caching": False}
    assert found.to_json() == {"file": str(tmp_path / "compose.yaml"), "text": COMPOSE}
    assert agreed_manifest(deployed(tmp_path, manifest=None)) is None


def test_only_the_words_of_the_changed_knobs_change(tmp_path: Path) -> None:
    found = standing(tmp_path)
    changed = found.changed({"max_num_seqs": 64, "enforce_eager": True})
    assert changed == COMPOSE.replace('"8"', '"64"').replace(
        "      - --no-enable-prefix-caching\n", "      - --no-enable-prefix-caching\n      - --enforce-eager\n"
    )
    back = found.with_text(changed).changed({"max_num_seqs": 8, "enforce_eager": None})
    assert back == COMPOSE == found.changed({})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**CONFIG, "max_num_seqs": 9}, r"max_num_seqs is 9, \S+compose.yaml, services.vllm.command has 8"),
        ({**CONFIG, "enforce_eager": True}, "enforce_eager is true, .* leaves it at the engine's false"),
        ({**CONFIG, "block_size": 16}, "block_size is 16, .* leaves it at the engine's choice"),
        ({"max_num_seqs": 8}, "config: doesn't name enable_prefix_caching, .* has false"),
        ({**CONFIG, "kv_cache_tokens": 8}, "kv_cache_tokens is no knob of vllm"),
    ],
)
def test_each_knob_with_two_values_is_named_with_both_and_their_places(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=rf"(?s)deployment\.yaml: .*{said}.*autotune import --force"):
        agreed_manifest(deployed(tmp_path, config))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"manifest": "../compose.yaml"}, "name one: services.vllm.command, services.canary.command"),
        ({"manifest": {"file": "../compose.yaml", "site": "services.x"}}, "services.x"),
        ({"manifest": "../nothing.yaml"}, "nothing.yaml: expected a manifest"),
        ({"target": "llamacpp"}, "expected a command of llamacpp .*, found one of vllm"),
        ({"target": "bundled"}, "bundled"),
    ],
)
def test_a_manifest_that_cannot_be_this_deployments_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        agreed_manifest(deployed(tmp_path, **more))


def test_a_managed_knob_that_cannot_be_edited_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    shared = COMPOSE.replace("command:\n", "command: &all\n").replace("--model tiny --max-num-seqs $SEATS", "*all")
    with pytest.raises(UserError, match=r"enable_prefix_caching is managed, and its manifest can't follow: .*anchor"):
        agreed_manifest(deployed(tmp_path, text=shared))


def test_a_link_is_not_the_manifest(tmp_path: Path) -> None:
    file = deployed(tmp_path)
    (tmp_path / "compose.yaml").rename(tmp_path / "real.yaml")
    (tmp_path / "compose.yaml").symlink_to("real.yaml")
    with pytest.raises(UserError, match=r"found a link to \S+real\.yaml"):
        agreed_manifest(file)


def test_variables_alone_are_edited_as_variables(tmp_path: Path) -> None:
    text = "# the unit reads this\nLLAMA_ARG_MODEL=m.gguf\nLLAMA_ARG_N_PARALLEL=4   # slots\n"
    (tmp_path / "llama.env").write_text(text)
    file = deployed(tmp_path, {"parallel": 4, "batch": 2048}, target="llamacpp", manifest="../llama.env")
    found = agreed_manifest(file)
    assert found is not None
    changed = found.changed({"parallel": 16, "batch": 512})
    assert found.with_text(changed).read.values == {"parallel": 16, "batch": 512}
    assert changed.startswith(text.replace("=4", "=16"))
    with pytest.raises(UserError, match="no variable for it"):
        found.changed({"poll": 0})


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.11.0", "0.11.0"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b6800", "b6800"),
        ("lmsysorg/sglang:v0.5.3.post1-cu126", "0.5.3"),
        ("registry.example:5000/vllm", None),
        ("vllm/vllm-openai:latest", None),
        ("", None),
    ],
)
def test_the_engines_version_is_in_the_images_tag_or_unknown(image: str, version: str | None) -> None:
    assert version_of_image(image) == version


def test_a_manifests_path_is_relative_to_the_deployment() -> None:
    assert ManifestRef.model_validate("../k8s/v.yaml").beside("configs/chat/deployment.yaml") == "configs/k8s/v.yaml"
    assert ManifestRef(file="compose.yaml").beside("deployment.yaml") == "compose.yaml"
    for path in ("/etc/vllm.yaml", " "):
        with pytest.raises(ValidationError, match="relative to this file"):
            ManifestRef(file=path)
