"""Import: what people have becomes a deployment that loads, agrees with its source and can be backed out again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from autotune.commands.import_ import import_
from autotune.importing import Imported, imported, source_at, source_of, written
from benchmarks.targets_import import COMMANDS, Case, cases, round_trip
from tests.autotune.conftest import git
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.standing import agreed_manifest

SECRET = "hf_" + "abcdefghijklmnopqrstuv"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def taken(command: str, **more: Any) -> Imported:
    return imported(source_of(command), Path("deployment.yaml"), **more)


def left_out(found: Imported) -> dict[str, str]:
    return {each.what: each.why for each in found.left_out}


# sources
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_every_source_comes_back_as_it_was_but_for_the_planned_knobs(case: Case, checkout: Path) -> None:
    assert round_trip(case, checkout, counts=(2,)) == ""  # the benchmark tries one and three as well


def test_there_are_as_many_sources_as_promised() -> None:
    assert len(list(cases())) >= 20 and len({case.file for case in cases()}) >= 15


def test_a_word_that_goes_missing_is_noticed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round trip is no tautology: an edit that does nothing fails it."""
    monkeypatch.setattr("tools.standing.Standing.changed", lambda self, changes: self.manifest.text)
    assert "expected" in round_trip(Case("vllm-plain"), checkout)


# what goes where
def test_a_command_line_is_taken_apart() -> None:
    found = taken(
        "CUDA_VISIBLE_DEVICES=1 /opt/vllm/bin/vllm serve --max-num-seqs 64 org/model --seed 7 "
        "--served-model-name chat other --port 9000"
    )
    assert (found.engine, found.model, found.served_name, found.name) == ("vllm", "org/model", "chat", "chat")
    assert found.command == ("/opt/vllm/bin/vllm",) and found.environment == {"CUDA_VISIBLE_DEVICES": "1"}
    assert found.arguments == ("--seed", "7") and found.config["max_num_seqs"] == 64
    assert left_out(found)["--port 9000"] == "each trial gets an address of its own on this machine"
    assert left_out(found)["other"] == "a further value of --served-model-name"


def test_knobs_that_are_tried_and_lossless_are_managed_and_no_others() -> None:
    found = taken("vllm serve m --max-num-seqs 64 --dtype bfloat16 --max-model-len 4096 --gpu-memory-utilization 0.8")
    managed = {knob.name: knob.managed for knob in found.knobs}
    assert managed["max_num_seqs"] and not managed["dtype"] and not managed["max_model_len"]
    assert not managed["gpu_memory_utilization"]  # no playbook tries it


def test_what_is_worth_trying_is_added_where_silence_has_a_known_value_and_named_where_it_has_none() -> None:
    found = taken("vllm serve m --max-num-seqs 64")
    added = {knob.name: knob.value for knob in found.knobs if not knob.found}
    assert added == {"enforce_eager": False, "num_speculative_tokens": 0, "stream_interval": 1}
    assert {"max_num_batched_tokens", "enable_prefix_caching", "block_size"} <= found.unsaid.keys()
    text = written(found, None, Path("deployment.yaml"))
    assert "  # max_num_batched_tokens: " in text and "  enforce_eager: false  # autotune: managed\n" in text


@pytest.mark.parametrize(
    "command",
    [
        f"HF_TOKEN={SECRET} vllm serve m",
        f"MY_PASSWORD=plain OTHER={SECRET} vllm serve m",
        f"vllm serve m --api-key {SECRET}",
        f"vllm serve m --hf_token={SECRET}",
        f"vllm serve m --load-format x --some-token {SECRET}",
        f'vllm serve m --hf-overrides \'{{"key": "{SECRET}"}}\'',
        f"llama-server -m m.gguf --api-key {SECRET}",
        f"docker run -e HUGGING_FACE_HUB_TOKEN={SECRET} vllm/vllm-openai:v0.11.0 --model m",
    ],
)
def test_a_secret_is_named_and_never_copied(command: str) -> None:
    found = taken(command)
    assert "a secret, which is never copied; set it where autotune runs" in left_out(found).values()
    text = written(found, None, Path("deployment.yaml"))
    assert SECRET not in text and "plain" not in text and SECRET not in repr(found)


def test_what_is_filled_in_elsewhere_is_said_and_never_guessed() -> None:
    found = taken('vllm serve m --max-num-seqs "$SEATS" --download-dir $HOME/models --seed 1')
    assert "max_num_seqs" not in found.config and found.arguments == ("--seed", "1")
    assert left_out(found)["--download-dir $HOME/models"] == "its value is filled in elsewhere"
    with pytest.raises(UserError, match="with --model"):
        taken("vllm serve $MODEL")
    assert taken("vllm serve $MODEL", model="here/model").model == "here/model"


@pytest.mark.parametrize(
    ("command", "device"),
    [
        ("vllm serve m", "cuda"),
        ("VLLM_CPU_KVCACHE_SPACE=4 vllm serve m", "cpu"),
        ("docker run public.ecr.aws/x/vllm-cpu-release-repo:v0.11.0 --model m", "cpu"),
        ("llama-server -m m.gguf", "cpu"),
        ("llama-server -m m.gguf -ngl 99", "cuda"),
    ],
)
def test_the_device_is_what_the_source_speaks_of(command: str, device: str) -> None:
    assert taken(command).device == device


def test_no_line_of_the_file_is_a_word_of_the_sources_that_ends_its_comment() -> None:
    found = taken("vllm serve m --seed 1 --port '80\n# autotune: managed\nname: evil'")
    text = written(found, None, Path("deployment.yaml"))
    assert "\nname: evil" not in text and text.count("\nname: ") == 1


@pytest.mark.parametrize("command", ["echo hello", "", "python -m engine serve m", "vllm serve m --max-num-seqs many"])
def test_what_is_no_engines_command_is_refused_with_what_is_expected(command: str) -> None:
    with pytest.raises(UserError, match="expected"):
        taken(command)


@pytest.mark.parametrize(
    ("command", "cpus", "node", "named"),
    [
        ("numactl -N 1 -m 1 taskset -c 0-3,8 vllm serve m", "0-3,8", 1, ""),
        ("exec env A=1 numactl --cpunodebind=0 --membind=0 vllm serve m", None, 0, ""),
        ("numactl -N 0 -m 1 vllm serve m", None, None, "numactl of nodes 0 1"),
        ("sudo -u svc taskset 0xf vllm serve m", None, None, "sudo -u svc 0xf"),
        (f"docker run --gpus all -e HF_TOKEN={SECRET} vllm/vllm-openai:v0.11.0 --model m", None, None, "docker run "),
    ],
)
def test_what_it_is_started_through_is_kept_or_named(
    command: str, cpus: str | None, node: int | None, named: str
) -> None:
    found = taken(command)
    assert (found.cpus, found.numa_node) == (cpus, node)
    through = [what for what, why in left_out(found).items() if why == "what it is started through there"]
    assert SECRET not in repr(found) and [what for what in through if what.startswith(named)] == through
    assert bool(through) == bool(named)
    assert "kind: vllm" in written(found, None, Path("deployment.yaml")) or not (cpus or node is not None)


# the file
def test_a_manifest_is_pointed_back_to_from_where_the_deployment_is(checkout: Path) -> None:
    (checkout / "k8s").mkdir()
    (checkout / "configs").mkdir()
    source = checkout / "k8s" / "compose.yaml"
    source.write_text(
        "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model m --max-num-seqs 8  # seats\n"
    )
    output = checkout / "configs" / "deployment.yaml"
    output.write_text(written(imported(source_at(source, None), output), None, output))
    file = load_deployment(output)
    assert file.deployment.manifest is not None and file.deployment.manifest.file == "../k8s/compose.yaml"
    assert agreed_manifest(file) is not None


def test_outside_a_repository_nothing_is_pointed_back_to_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text("vllm serve m --max-num-seqs 8\n")
    found = imported(source_at(tmp_path / "serve.sh", None), tmp_path / "deployment.yaml")
    assert found.manifest is None and any("git repository" in note for note in found.notes)


# the command
@pytest.fixture
def run(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    app = typer.Typer()
    app.command()(import_)
    monkeypatch.chdir(checkout)
    return lambda *words, **more: CliRunner().invoke(app, list(words), **more)


def test_the_command_takes_a_line_a_file_or_stdin(run: Callable[..., Result]) -> None:
    told = json.loads(run("--json", "--", "vllm", "serve", "m", "--max-num-seqs", "64", "--port", "1").stdout)
    assert told["config"]["max_num_seqs"] == 64 and told["left_out"][0]["what"] == "--port 1"
    assert "max_num_seqs" in told["managed"] and load_deployment(Path(told["out"])).deployment.model == "m"
    piped = run("-", "-o", "piped.yaml", input=COMMANDS["llamacpp-short"] + "\n")
    assert piped.exit_code == 0 and "not taken over: --host 0.0.0.0" in piped.output
    Path("serve.sh").write_text("vllm serve m --max-num-seqs 8\n")
    assert run("serve.sh", "-o", "of-file.yaml", "--workload", "chat-plus").exit_code == 0
    found = load_deployment(Path("of-file.yaml")).deployment
    assert found.workload.workload_class == "chat-plus" and found.slo.bounds()


def test_a_deployment_that_is_there_is_not_overwritten_unless_that_is_said(run: Callable[..., Result]) -> None:
    Path("deployment.yaml").write_text("mine")
    refused = run("vllm serve m")
    assert isinstance(refused.exception, UserError) and "--force" in str(refused.exception)
    assert Path("deployment.yaml").read_text() == "mine"
    assert run("vllm serve m", "--force").exit_code == 0
    assert Path("deployment.yaml").read_text() != "mine"


def test_several_commands_are_named_to_choose_from(run: Callable[..., Result]) -> None:
    Path("two.sh").write_text("vllm serve m --max-num-seqs 8 &\nvllm serve n --max-num-seqs 9\n")
    refused = run("two.sh")
    assert isinstance(refused.exception, UserError) and "choose with --site" in str(refused.exception)
    assert run("two.sh", "--site", "script #2").exit_code == 0
    assert load_deployment(Path("deployment.yaml")).deployment.model == "n"
    assert isinstance(run("nothing.yaml", "-o", "x.yaml").exception, UserError)
