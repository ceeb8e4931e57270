"""External targets: real servers on loopback that die, restart, change, throttle, redirect, hide or want a key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.moody_server import CERTIFICATE, MoodyServer, serve_moody
from tools.errors import UserError
from tools.measure import WorkloadSpec
from tools.measure.client import drive
from tools.measure.slo import Slo
from tools.measure.workload import materialise
from tools.service.campaign import calibrate_service
from tools.targets.external.change import Changed, require_undisturbed
from tools.targets.external.spec import ExternalSpec
from tools.targets.external.target import ExternalTarget
from tools.targets.knobs import Config
from tools.targets.target import LaunchFailed, Target
from tools.trial import TrialResult, run_trial

SPEC = WorkloadSpec.model_validate(
    {
        "requests": 10,
        "prompt_tokens": 12,
        "output_tokens": 4,
        "arrivals": {"kind": "closed", "concurrency": 2},
        "timeout_s": 10,
        "warmup_requests": 0,
    }
)
LOAD = materialise(SPEC)


def target(server: MoodyServer, **fields: object) -> ExternalTarget:
    spec = ExternalSpec.model_validate({"kind": "external", "url": server.url, **fields})
    return ExternalTarget(spec, server.model, {}, Path())


def trial(there: Target, folder: Path) -> TrialResult:
    return run_trial(there, there.knobs.resolve({}), LOAD, log=folder / "log", ready_timeout_s=5)


def started_anew(server: MoodyServer) -> None:
    server.started_at = (server.started_at or 0.0) + 60


def swapped(server: MoodyServer) -> None:
    server.root = "/models/other-1b"


def moved(server: MoodyServer) -> None:
    server.refusal = (307, {"Location": "http://elsewhere.invalid/v1/chat/completions"})


def throttled(server: MoodyServer) -> None:
    server.refusal = (429, {"Retry-After": "7"})


def throttled_for_a_moment(server: MoodyServer) -> None:
    throttled(server)
    server.refusals = 2


def overloaded(server: MoodyServer) -> None:
    server.refusal = (503, {"Retry-After": "2"})


def locked(server: MoodyServer) -> None:
    server.refusal = (401, {})


def counting_anew(server: MoodyServer) -> None:
    server.counted, server.started_at = 0, None


def rebuilt(server: MoodyServer) -> None:
    server.fingerprint = "fp_2"


def renamed(server: MoodyServer) -> None:
    server.model = "other"


CHANGES: dict[str, tuple[Callable[[MoodyServer], None], str]] = {
    "restarts": (started_anew, "was started anew"),
    "restarts without telling its start": (counting_anew, "was started anew"),
    "changes its model": (swapped, "serves another model"),
    "serves another name": (renamed, "serves another model"),
    "is replaced by another build": (rebuilt, "is another build"),
    "throttles": (throttled, "turns us away"),
    "is overloaded": (overloaded, "turns us away"),
    "redirects": (moved, "redirects, which isn't followed"),
    "wants a key": (locked, "refuses the key"),
}


def test_a_server_that_stays_is_measured_and_left_running(tmp_path: Path) -> None:
    with serve_moody() as server:
        result = trial(target(server), tmp_path)
        assert result.measurement is not None and result.measurement.completed == 10
        assert result.measurement.counted("generation_tokens") == 10 * 4
        identity = result.measurement.identity_before
        assert identity is not None and identity == result.measurement.identity_after
        assert identity.started_at == server.started_at and identity.process_started_at == 0.0
        assert identity.engine == "vllm" and identity.pid == 0
        assert trial(target(server), tmp_path).measurement is not None  # it is still there


def test_the_digest_of_a_model_is_of_what_it_tells_and_not_of_how_it_is_served() -> None:
    with serve_moody() as server:
        there = target(server).check()
        server.root = "/models/other-1b"
        other = target(server).check()
    longer = replace(there, listed={**there.listed, "max_model_len": 99, "meta": {"n_params": 7, "n_ctx": 99}})
    shorter = replace(there, listed={**there.listed, "max_model_len": 9, "meta": {"n_params": 7, "n_ctx": 9}})
    assert longer.model_digest == shorter.model_digest != there.model_digest != other.model_digest
    assert replace(there, stated_digest="abc").model_digest == "abc"


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_the_middle_of_a_load_is_named_and_nothing_is_kept(change: str, tmp_path: Path) -> None:
    turn, says = CHANGES[change]
    with serve_moody() as server:
        there = target(server)
        there.check()
        server.changing(turn, after=6)
        result = trial(there, tmp_path)
    assert result.measurement is None and result.failure is not None
    assert result.failure.kind == "unreachable" and says in result.failure.message, result.failure.message
    assert server.streamed > 6  # it was in the middle


def test_what_is_over_before_the_load_has_ended_spoils_it_too(tmp_path: Path) -> None:
    with serve_moody() as server:
        server.changing(throttled_for_a_moment, after=4)
        failure = trial(target(server), tmp_path).failure
    assert failure is not None and "turns us away: 2 of 10 requests" in failure.message
    assert "(Retry-After: 7)" in failure.message


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_loads_is_named_too(change: str, tmp_path: Path) -> None:
    turn, says = CHANGES[change]
    with serve_moody() as server:
        there = target(server)
        endpoint = there.launch(Config({}), log=tmp_path / "log")
        server.counted += 100
        there.counters(endpoint)
        turn(server)
        with pytest.raises(Changed, match=says):
            there.counters(there.launch(Config({}), log=tmp_path / "log"))


def test_a_server_that_dies_in_the_middle_is_named(tmp_path: Path) -> None:
    with serve_moody() as server:
        there = target(server)
        endpoint = there.launch(Config({}), log=tmp_path / "log")
        assert there.postmortem(endpoint) is None
    failure = trial(there, tmp_path).failure
    assert failure is not None and "doesn't answer" in failure.message
    death = there.postmortem(endpoint)
    assert isinstance(death, Changed) and death.change == "silent"


def test_a_full_queue_of_the_engine_itself_is_a_measurement_and_no_throttling(tmp_path: Path) -> None:
    with serve_moody() as server:
        server.changing(overloaded, after=6)
        endpoint = target(server).launch(Config({}), log=tmp_path / "log")
        records = drive(replace(endpoint, external=False), LOAD).records
    refused = sum(record.outcome == "failed" for record in records)
    assert refused > 1
    require_undisturbed(server.url, records, {"rejected": float(refused)}.get)
    with pytest.raises(Changed, match="turns us away"):
        require_undisturbed(server.url, records, {"rejected": float(refused - 1)}.get)


def test_a_calibration_across_a_change_is_not_kept() -> None:
    with serve_moody() as server:
        endpoint = target(server).launch(Config({}), log=Path("unused"))
        server.changing(throttled, after=20)
        with pytest.raises(Changed, match=r"turns us away.*429"):
            calibrate_service(endpoint, SPEC, Slo(), target="it", requests=48, budget_s=60, verify_loads=0)


def test_a_certificate_is_checked_by_the_file_that_is_named_and_else_refused(tmp_path: Path) -> None:
    with serve_moody(MoodyServer(prefix="/team-a"), tls=True) as server:
        with pytest.raises(UserError, match=r"can't prove who it is.*ca_file"):
            target(server).check()
        trusted = trial(target(server, ca_file=str(CERTIFICATE)), tmp_path)
        there = target(server, insecure=True)
        blind = trial(there, tmp_path)
    for result in (trusted, blind):
        assert result.measurement is not None and result.measurement.completed == 10, result.failure
    assert blind.measurement is not None and blind.measurement.identity_before is not None
    assert "certificate not checked" in there.where
    assert "certificate not checked" in blind.measurement.identity_before.engine


def test_the_key_is_wanted_named_and_sent_to_that_server_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", "s3cret")
    with serve_moody(MoodyServer(key="s3cret")) as server, serve_moody() as other:
        other.counts_of = server
        with pytest.raises(UserError, match=r"refuses the key.*api_key_env") as refused:
            target(server).check()
        assert "s3cret" not in str(refused.value)
        there = target(server, api_key_env="THEIR_KEY", metrics_url=f"{other.url}/metrics")
        result = trial(there, tmp_path)
        assert result.measurement is not None and result.measurement.completed == 10
        assert other.authorised and set(other.authorised) == {None}
        server.refusal = (308, {"Location": f"{other.url}/v1/chat/completions"})
        asked = len(other.authorised)
        failure = trial(there, tmp_path).failure
        assert failure is not None and "redirects" in failure.message and "s3cret" not in failure.message
        assert set(other.authorised[asked:]) <= {None} and other.streamed == 0
    with pytest.raises(UserError, match="expected the variable NO_SUCH_KEY to hold the key"):
        target(server, api_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"url": "ftp://host/v1"}, "the scheme 'ftp'"),
        ({"url": "http://me:pw@host/v1"}, "a key goes into a variable"),
        ({"url": "http://host", "insecure": True}, "isn't https"),
        ({"url": "https://host", "insecure": True, "ca_file": "x.pem"}, "expected ca_file or insecure"),
        ({"url": "http://host", "metrics_url": "http://host"}, "the whole address of the metrics"),
        ({"url": "http://host", "api_key": "abc"}, "Extra inputs"),
    ],
)
def test_what_can_t_be_meant_is_refused_with_the_file(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ExternalSpec.model_validate({"kind": "external", **fields})


def test_without_a_program_that_applies_it_no_other_config_can_be_measured(tmp_path: Path) -> None:
    spec = ExternalSpec(kind="external", url="http://127.0.0.1:9", engine="vllm")
    there = ExternalTarget(spec, "m", {"max_num_seqs": 8}, tmp_path)
    assert not there.can_apply
    with pytest.raises(LaunchFailed, match="target has no apply:") as refused:
        there.launch(there.knobs.resolve({"max_num_seqs": 16}), log=tmp_path / "log")
    assert refused.value.kind == "bad_config"
    with pytest.raises(UserError, match="of which engine"):
        ExternalTarget(spec.model_copy(update={"engine": None}), "m", {"max_num_seqs": 8}, tmp_path)
