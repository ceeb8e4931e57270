"""Do two independent sources say the same about the server?"""

from __future__ import annotations

from tools.canonical import digest
from tools.targets.spec import CommandSpec, ExternalSpec
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "identity.sources"


def verify(evidence: Evidence) -> Verdict:
    """What /metrics states (the config's digest) is what /server_info reports (the config), before and after.

    A served name or a fingerprint can be set to anything; a spoof has to know and alter both sources alike.
    """
    if not evidence.measured:
        return error(RULE, "no trial was measured")
    for trial, measured in evidence.measured:
        for when, identity in (("before", measured.identity_before), ("after", measured.identity_after)):
            if identity is None:
                return error(RULE, f"the server of trial {trial.id} wasn't identified {when} the load", trial)
            if not identity.config_digest or not identity.config:
                return error(RULE, f"one source alone tells the config of trial {trial.id}", trial)
            if set(identity.unreported) == identity.config.keys() and not _believed(evidence):
                return error(RULE, f"the command line alone tells the config of trial {trial.id}", trial)
            reported = digest(dict(identity.config))
            if identity.config_digest != reported:
                told = f"metrics {identity.config_digest[:12]}, server info {reported[:12]}"
                return failed(RULE, f"the two sources of trial {trial.id} state different configs: {told}", trial)
    told = f"two sources state one config in each of {len(evidence.measured)} launches"
    if unreported := sorted({name for _, m in evidence.measured if (i := m.identity_before) for name in i.unreported}):
        by = "the owner" if isinstance(evidence.deployment.target, ExternalSpec) else "the command line"
        told += f"; of {', '.join(unreported)} {by} alone tells, for the engine doesn't"
    return passed(RULE, told, *evidence.trials)


def _believed(evidence: Evidence) -> bool:
    """Whether the owner has declared that this engine tells nobody its config, or changes it himself."""
    spec = evidence.deployment.target
    return isinstance(spec, ExternalSpec) or (isinstance(spec, CommandSpec) and spec.reports == "command_line")
