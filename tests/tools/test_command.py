"""The command target: any engine by what its owner says of it, and never a guess, a shell or a second opinion."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.samples import Sample
from pydantic import ValidationError

from engine.knobs import knob_table
from tests.tiny_model import build_tiny_model
from tools.deployment import load_deployment
from tools.errors import UserError
from tools.targets.command import CommandDriver, CommandSpec
from tools.targets.command.counting import Metric
from tools.targets.command.place import Place
from tools.targets.command.template import Template
from tools.targets.control import ControlClient, ControlError
from tools.targets.knobs import KnobError
from tools.targets.placement import Placement
from tools.targets.process import port_is_open
from tools.targets.server import ServerTarget
from tools.targets.target import LaunchFailed

EXAMPLE = Path(__file__).parents[2] / "configs/command/deployment.yaml"
ROWS: tuple[dict[str, Any], ...] = (
    {"name": "slots", "flag": "--slots", "kind": "int", "default": 4, "low": 1, "high": 64, "meaning": "At once."},
    {"name": "eager", "flag": "--eager", "kind": "bool", "default": False, "meaning": "No compiling."},
    {"name": "space", "variable": "SPACE", "kind": "int", "default": 1, "low": 1, "high": 9, "meaning": "GiB."},
    {
        "name": "threads",
        "flag": "-t",
        "kind": "int",
        "usual": 1,
        "low": 1,
        "high": 64,
        "unit": "threads",
        "meaning": ".",
    },
)
PLAIN: dict[str, Any] = {
    "kind": "command",
    "command": "serve {model} --port {port} --name {name} {knobs}",
    "knobs": ROWS,
    "reports": "command_line",
    "reset": "none",
}


def spec(**changes: Any) -> CommandSpec:
    return CommandSpec.model_validate({**PLAIN, **changes})


def driver(model: Path, *names: str, **changes: Any) -> CommandDriver:
    return CommandDriver(model, spec(**changes), frozenset(names), model.parent)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "some model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"0" * 1000)
    (folder / "README.md").write_text("no weights")
    return folder


# The template


def test_a_command_is_split_before_anything_is_filled_in(model: Path) -> None:
    it = driver(model, "slots", "eager", "space", environment={"ALIAS": "{name}-{port}", "LITERAL": "{{port}}"})
    start = it.start(it.knobs.resolve({"slots": 8, "eager": True, "space": 2}), "127.0.0.1", 81)
    words = ["serve", str(model), "--port", "81", "--name", "some model", "--slots", "8", "--eager"]
    assert (start.words, start.environment) == (words, {"ALIAS": "some model-81", "LITERAL": "{port}", "SPACE": "2"})


@given(st.text(min_size=1), st.lists(st.text(min_size=1)))
def test_what_is_filled_in_is_never_looked_at_again(value: str, knobs: list[str]) -> None:
    template = Template.parse(["a", "{model}", "b={model}", "{knobs}", '{"c": {"d": 1}}', "{{port}}"])
    expected = ("a", value, f"b={value}", *knobs, '{"c": {"d": 1}}', "{port}")
    assert template.filled({"model": value}, knobs) == expected


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("serve {modle} --port {port}", "did you mean {model}?"),
        ("serve {model} --port {port} > log", "'>' is for a shell"),
        ("serve $(cat file) --port {port}", "is for a shell"),
        ("serve {model} --port {port} --more={knobs}", "has to be one of its own"),
        ("serve {model} --port {port} {knobs} {knobs}", "stands there twice"),
        ("serve {model} --port '{port}", "No closing quotation"),
        ("", "found nothing"),
        (["serve", "{model}", "--port", "{port}", "a\0b"], "character NUL"),
        ("serve {model} {name}", "neither command nor environment has {port}"),
        ("serve --port {port} {name}", "neither command nor environment has {model}"),
        ("serve {model} --port {port}", "say it as served_name"),
    ],
)
def test_a_command_that_cant_be_meant_is_refused(command: str | list[str], sentence: str) -> None:
    with pytest.raises(ValidationError) as error:
        spec(command=command)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"environment": {"HF_TOKEN": "geheim"}}, "called like a secret"),
        ({"environment": {"not a name": "x"}}, "expected a variable's name"),
        ({"environment": {"A": "{knobs}"}}, "unknown placeholder"),
        ({"reports": "/info"}, "expected PATH#KEY"),
        ({"reports": {}}, "expected a place for each knob"),
        ({"reset": "GET /flush"}, "expected `POST /path`"),
        ({"metrics": {"tokens": "x"}}, "prompt_tokens"),
        ({"metrics": {"requests": "x{a=1"}}, "expected a metric"),
        ({"ready": "health"}, "String should match"),
        ({"shell": True}, "Extra inputs"),
    ],
)
def test_what_a_deployment_may_not_say_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as error:
        spec(**changes)
    assert sentence in str(error.value) and "geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"command": "serve {model} --slots 2 {port} {name} {knobs}"}, "sets slots, which is a knob"),
        ({"environment": {"SPACE": "3"}}, "sets space, which is a knob"),
        ({"command": "serve {model} {port} {name}"}, "no {knobs}, and slots are said by flags"),
        ({"reports": {"slot": "/info#slots"}}, "did you mean 'slots'?"),
        ({"reports": {"eager": "/info#eager"}}, "found none for slots"),
        ({"kv_cache": {"knob": "spaec", "bytes_each": 1}}, "did you mean 'space'?"),
        ({"knobs": [{**ROWS[0], "flagg": "-s"}]}, "knob slots.flagg: Extra inputs"),
        ({"knobs": [*ROWS, {**ROWS[0], "name": "seats"}]}, "slots and seats share --slots"),
        ({"knobs": "none.yaml"}, "none.yaml: expected a YAML file"),
    ],
)
def test_what_contradicts_itself_is_refused(model: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        driver(model, "slots", **changes)
    assert sentence in str(error.value)


def test_a_program_with_a_slash_is_taken_relative_to_the_deployment(model: Path) -> None:
    it = driver(model, "space", command=["./serve.sh", "{model}", "{port}", "{name}"])
    assert it.start(it.knobs.resolve({}), "127.0.0.1", 1).words[0] == str(model.parent / "serve.sh")


# What a server tells of itself


class Answers(http.server.BaseHTTPRequestHandler):
    pages: dict[str, str]

    def do_GET(self) -> None:
        page = self.pages.get(self.path)
        self.send_response(404 if page is None else 200)
        self.end_headers()
        self.wfile.write((page or "").encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def telling(**pages: Any) -> Iterator[ControlClient]:
    """A real server whose page `/name` is a text, or JSON."""
    texts = {f"/{name}": page if isinstance(page, str) else json.dumps(page) for name, page in pages.items()}
    handler = type("Handler", (Answers,), {"pages": texts})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield ControlClient(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


SCRAPE = 'cache_info{slots="6",eager="True"} 1\ndone_total{reason="stop"} 3\ndone_total{reason="abort"} 2\n'


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/info#config.slots", 6),
        ("/info#list.1.name", "b"),
        ("/info#config", {"slots": 6}),
        ("/metrics#cache_info{slots}", "6"),
        ("/metrics#cache_info{}", {"slots": "6", "eager": "True"}),
    ],
)
def test_a_place_is_read(place: str, value: object) -> None:
    info = {"config": {"slots": 6}, "list": [{"name": "a"}, {"name": "b"}]}
    with telling(info=info, metrics=SCRAPE) as client:
        assert Place.parse(place).read(client) == value
    assert str(Place.parse(place)) == place


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("/info#config.slot", "expected a value at config.slot, found only slots"),
        ("/info#list.9", "expected a value at list.9"),
        ("/metrics#config", "expected JSON"),
        ("/metrics#cache{slots}", "expected the metric cache"),
        ("/metrics#cache_info{slot}", "expected the label slot"),
        ("/nowhere#x", "expected 200, found 404"),
    ],
)
def test_a_place_where_nothing_is_says_what_is_there(place: str, sentence: str) -> None:
    page = {"config": {"slots": 6}, "list": []}
    with telling(info=page, metrics=SCRAPE) as client, pytest.raises(ControlError) as error:
        Place.parse(place).read(client)
    assert sentence in str(error.value)


def test_each_form_of_reports_tells_the_same(model: Path) -> None:
    forms: tuple[Any, ...] = (
        "/info#config",
        "/metrics#cache_info{}",
        {"slots": "/info#config.slots", "eager": "/metrics#cache_info{eager}"},
    )
    with telling(info={"config": {"slots": 6, "eager": True, "space": None}}, metrics=SCRAPE) as client:
        for reports in forms:
            assert driver(model, "slots", "eager", reports=reports).effective(client, None) == {
                "slots": 6,
                "eager": True,
            }
        assert driver(model, "slots", "space").effective(client, None) == {}
        assert driver(model, "space", reports="/info#config").effective(client, None) == {}


def test_a_report_of_what_cant_be_is_an_answer_of_another_engine(model: Path) -> None:
    with telling(info={"slots": 4096}) as client, pytest.raises(ControlError, match="expected 1 to 64"):
        driver(model, "slots", reports="/info#").effective(client, None)


def test_a_server_of_another_name_is_not_ours(model: Path) -> None:
    with telling(**{"v1/models": {"data": [{"id": "other"}]}}) as client:
        with pytest.raises(ControlError, match="expected some model, found other"):
            driver(model, "slots").serves(client)
        assert driver(model, "slots", served_name="other").serves(client) == model


def test_silence_on_a_command_line_says_something(model: Path) -> None:
    it = driver(model, "slots", "eager", "space")
    assert it.asked(["serve", "--slots", "8"], {"SPACE": "2"}) == {"slots": 8, "eager": False, "space": 2}


@pytest.mark.parametrize(
    ("metric", "total"),
    [
        ("done_total", 5.0),
        ('done_total{reason="abort"}', 2.0),
        ("done_total{reason!=abort}", 3.0),
        ("done_total{reason=none}", None),
        ("gone_total", None),
    ],
)
def test_a_metric_is_the_sum_of_its_series(metric: str, total: float | None) -> None:
    samples = [Sample("done_total", {"reason": "stop"}, 3.0), Sample("done_total", {"reason": "abort"}, 2.0)]
    assert Metric.parse(metric).total(samples) == total
    broken = [*samples, Sample("done_total", {"reason": "none"}, float("nan"))]
    assert Metric.parse("done_total").total(broken) is None


def test_of_renamed_metrics_the_first_that_is_there_counts_and_none_is_not_zero(model: Path) -> None:
    it = driver(model, "slots", metrics={"requests": ["new_total", "old_total"], "prompt_tokens": "gone_total"})
    assert it.counters([Sample("old_total", {}, 7.0)]) == {"requests": 7.0}


# Sizes


def test_sizes_are_a_lower_bound_and_what_the_owner_says(model: Path) -> None:
    sized = driver(model, "space", "threads", kv_cache={"knob": "space", "bytes_each": 100, "multiple_of": 2})
    config = sized.knobs.resolve({"space": 3})
    assert (sized.memory(config).weights_bytes, sized.memory(config).kv_cache_bytes) == (1000, 300)
    assert sized.kv_sized(config, 599).values["space"] == 4
    narrow = sized.narrowed(sized.knobs, config, cores=2, memory_bytes=1500)
    assert (narrow["space"].high, narrow["threads"].high) == (5, 2)
    unsized = driver(model, "space")
    assert unsized.memory(config).total_bytes == 1000
    with pytest.raises(KnobError, match=r"kv_cache: \{knob"):
        unsized.kv_sized(config, 599)


# Live


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def shipped(tiny: Path, *, placement: Placement | None = None, **changes: Any) -> ServerTarget:
    """The shipped example's target with the tiny model."""
    deployment = load_deployment(EXAMPLE).deployment
    assert isinstance(deployment.target, CommandSpec)
    said = deployment.target.model_copy(update={"kv_cache": None, **changes})
    return ServerTarget(CommandDriver(tiny, said, frozenset(deployment.config), EXAMPLE.parent), placement)


SMALL = {"kv_cache_tokens": 2048, "max_num_batched_tokens": 128, "max_model_len": 256, "num_threads": 1}


def test_the_shipped_example_serves_is_identified_counted_and_gone(tiny: Path, tmp_path: Path) -> None:
    target = shipped(
        tiny,
        reports={
            **dict.fromkeys(SMALL, "command_line"),
            "max_num_seqs": "/server_info#limits.max_num_seqs",
            "enable_prefix_caching": "/server_info#config.enable_prefix_caching",
        },
    )
    config = target.knobs.resolve({**SMALL, "max_num_seqs": 3, "enable_prefix_caching": False})
    endpoint = target.launch(config, log=tmp_path / "log")
    try:
        identity = target.identify(endpoint)
        assert identity.config == dict(config.values) and identity.config_digest == config.digest
        assert set(identity.unreported) == set(SMALL)  # of these the command line alone tells
        assert identity.model_digest == target.model_digest() and identity.pid == endpoint.pid
        assert identity.engine.startswith("command autotune-engine ")
        target.reset_cache(endpoint)
        counters = target.counters(endpoint)
        assert counters["requests"] == 0 and "ttft_seconds_count" in counters
    finally:
        target.stop(endpoint)
    assert not port_is_open(int(endpoint.base_url.rpartition(":")[2]))


def test_an_engine_that_counts_nothing_runs_where_it_is_placed(tiny: Path, tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    target = shipped(tiny, metrics={}, metrics_path="/nowhere", placement=Placement.of(str(cpu), None))
    endpoint = target.launch(target.knobs.resolve(SMALL), log=tmp_path / "log")
    try:
        assert os.sched_getaffinity(endpoint.pid) == {cpu}
        assert target.identify(endpoint).config["num_threads"] == 1 and target.counters(endpoint) == {}
    finally:
        target.stop(endpoint)


def test_a_start_that_fails_is_told_apart(tiny: Path, tmp_path: Path) -> None:
    target = shipped(tiny)
    with pytest.raises(LaunchFailed, match="one sequence may have 512") as failure:
        target.launch(
            target.knobs.resolve({**SMALL, "kv_cache_tokens": 256, "max_model_len": 512}), log=tmp_path / "log"
        )
    assert failure.value.kind == "bad_config"


def test_the_shipped_knobs_are_the_engines_own(tiny: Path) -> None:
    """The example's table is written by hand, as an owner's would be; it must not grow old."""
    own = {row.name: row for row in knob_table()}
    for knob in shipped(tiny).knobs:
        row = own[knob.name]
        assert (knob.flag, knob.kind, knob.tunable, knob.outputs) == (row.flag, row.kind, row.tunable, row.outputs)
        assert row.low is None or (knob.low is not None and row.low <= knob.low and knob.high == row.high)
    assert sys.executable in shipped(tiny)._command(shipped(tiny).knobs.resolve(SMALL), 1).words


LLAMA: dict[str, Any] = {
    "knobs": [
        {"name": "parallel", "flag": "-np", "kind": "int", "default": 1, "low": 1, "high": 64, "meaning": "Slots."},
        {"name": "batch", "flag": "-b", "kind": "int", "default": 2048, "low": 32, "high": 8192, "meaning": "A step."},
        {"name": "flash", "flag": "-fa", "kind": "bool", "words": {"true": ["on"], "false": ["off"]}, "default": False}
        | {"meaning": "No scores in memory."},
    ],
    "reports": {"parallel": "/props#total_slots", "batch": "command_line", "flash": "command_line"},
    "serves": "/props#model_path",
    "version": "/props#build_info",
    "metrics": {
        "prompt_tokens": "llamacpp:prompt_tokens_total",
        "generation_tokens": "llamacpp:tokens_predicted_total",
    },
}


@pytest.mark.skipif("PEERS" not in os.environ, reason="PEERS names no folder with build-llama/bin/llama-server")
def test_an_engine_that_nobody_here_knows_is_driven_by_its_owners_words(tmp_path: Path) -> None:
    program = str(Path(os.environ["PEERS"]) / "build-llama/bin/llama-server")
    words = "-m {model} -a {name} --host {host} --port {port} -c 512 -t 1 --metrics --no-cache-prompt {knobs}"
    target = ServerTarget(
        CommandDriver(
            Path.home() / ".cache/autotune/models/smollm2-135m-bf16.gguf",
            spec(command=f"{program} {words}", **LLAMA),
            frozenset({"parallel", "batch", "flash"}),
            tmp_path,
        )
    )
    config = target.knobs.resolve({"parallel": 2, "batch": 64, "flash": True})
    endpoint = target.launch(config, log=tmp_path / "log", timeout_s=120)
    try:
        identity = target.identify(endpoint)
        assert (identity.config, identity.config_digest) == (dict(config.values), config.digest)
        assert identity.model_digest == target.model_digest() and identity.unreported == ("batch", "flash")
        assert target.counters(endpoint) == {"prompt_tokens": 0.0, "generation_tokens": 0.0}
    finally:
        target.stop(endpoint)
