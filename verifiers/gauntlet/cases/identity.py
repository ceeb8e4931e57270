"""Attacks on who answered (B02 to B04, C02): another process, another config, another model, a forged word."""

from __future__ import annotations

from dataclasses import replace

from tools.canonical import digest
from tools.measure.measurement import Measurement
from tools.targets.target import Identity
from verifiers.evidence import Evidence
from verifiers.gauntlet.case import Case
from verifiers.gauntlet.edit import candidates, identified, named, reidentified, with_measurement
from verifiers.gauntlet.honest import usual

__all__ = ["CASES"]


def _one_process() -> Evidence:
    """The second launch of the candidate was never made: its first one answered again."""
    first = next(trial for trial in usual().trials if trial.id == "c2").measurement
    assert first is not None
    return with_measurement(
        usual(),
        named("c3"),
        lambda m: replace(m, identity_before=first.identity_before, identity_after=first.identity_after),
    )


def _restarted() -> Evidence:
    """The server that was read after the load isn't the one that was read before it."""

    def restart(measurement: Measurement) -> Measurement:
        after = measurement.identity_after
        assert after is not None
        began = after.process_started_at + 6.0
        fresh = replace(after, pid=after.pid + 900, process_started_at=began, started_at=began + 2.0)
        return replace(measurement, identity_after=fresh)

    return with_measurement(usual(), named("c3"), restart)


def _effective(**values: int) -> Evidence:
    """The candidate's server states another value than was asked for, and states it everywhere."""

    def told(identity: Identity) -> Identity:
        config = {**identity.config, **values}
        return replace(identity, config=config, config_digest=digest(config))

    return reidentified(usual(), candidates, before=told, after=told)


def _silent() -> Evidence:
    """The candidate's server doesn't say what it made of the knob."""

    def told(identity: Identity) -> Identity:
        config = {name: value for name, value in identity.config.items() if name != "max_num_seqs"}
        return replace(identity, config=config, config_digest=digest(config))

    return reidentified(usual(), candidates, before=told, after=told)


def _two_words() -> Evidence:
    """/server_info and /metrics name different configs."""
    other = {"config_digest": digest("the config that really runs")}
    return identified(usual(), candidates, before=other, after=other)


def _older_process() -> Evidence:
    """The server says that it started just now; the operating system has known the process for an hour."""

    def told(identity: Identity) -> Identity:
        return replace(identity, process_started_at=identity.process_started_at - 3600)

    return reidentified(usual(), candidates, before=told, after=told)


def _smaller_model() -> Evidence:
    other = {"model_digest": digest("a smaller model under the same name")}
    return identified(usual(), candidates, before=other, after=other)


def _both_smaller() -> Evidence:
    """Both arms agree, on a model that nobody asked for."""
    other = {"model_digest": digest("an older revision")}
    return identified(usual(), lambda trial: True, before=other, after=other)


CASES: tuple[Case, ...] = (
    Case("i02", "B02", "identity.process", "another process answers after the load", _restarted),
    Case("i01", "B02", "identity.process", "one process answered for two launches", _one_process),
    Case("i03", "B03", "identity.config", "the engine clamped the knob", lambda: _effective(max_num_seqs=4)),
    Case("i04", "B03", "identity.config", "another knob changed along", lambda: _effective(block_size=32)),
    Case("i05", "B03", "identity.config", "the engine doesn't say what it made of the knob", _silent),
    Case("i06", "B04", "identity.sources", "two sources name different configs", _two_words),
    Case("i07", "B02", "identity.process", "a process older than its own word", _older_process),
    Case("i08", "C02", "identity.model", "a smaller model under the same name", _smaller_model),
    Case("i09", "C02", "identity.model", "an older revision in both arms", _both_smaller),
)
