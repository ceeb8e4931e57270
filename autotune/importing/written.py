"""Written: what was imported as a deployment.yaml, with comments on what to look at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autotune.asked_load import AskedLoad, judged_by
from autotune.importing.imported import Imported
from tools.deployment import parse_deployment
from tools.manifests.yaml_file import YamlFile
from tools.manifests.yaml_scalar import write_scalar
from tools.measure.workload import WorkloadClass
from tools.redaction import printable, redacted
from tools.targets.knobs import Value
from tools.traces.spec_file import spec_yaml

__all__ = ["written"]

_LOAD = """\
# What users do. Change all of this: `autotune workload describe LOG` makes it from a log of requests.
workload:
  class: chat
  requests: 64                   # more of them tell smaller differences; a P99 needs 368
  system_prompt_tokens: 192      # the same for all users
  prompt_tokens: {min: 16, max: 512, mean: 160, std: 120}
  output_tokens: {min: 8, max: 256, mean: 96, std: 64}
  arrivals: {kind: poisson, rate_rps: 1.0}   # your busiest hour, of one replica
  warmup_requests: 4
  timeout_s: 120

# The promise to users, and what better means. Change both.
slo:
  ttft_ms: {p95: 1000}
  tpot_ms: {p95: 100}

objective:
  metric: p95_ttft_ms
  min_effect: 0.05               # the least gain that is worth a commit: 5 %

guardrails:
  - {metric: output_throughput, max_regression: 0.05}
"""

_PLAYBOOKS: Mapping[WorkloadClass, str] = {
    "chat": "interactive-latency",
    "chat-plus": "interactive-latency",
    "background-agent": "background-agents",
    "data-processor": "batch-throughput",
}


def written(found: Imported, load: AskedLoad | None, output: Path) -> str:
    """The text of a deployment.yaml at `output`, checked to be one.

    Args:
        load: what users do and were promised; None: an example to be changed.

    Raises:
        UserError: a text that is no valid deployment, such as a workload that doesn't go with its promise.
    """
    kind: WorkloadClass = load.spec.workload_class if load else "chat"
    lines = [
        *_head(found),
        f"name: {found.name}",
        f"model: {_scalar(found.model)}" + ("" if found.model_here else f"   # {_model_note(found)}"),
        *_target(found),
        f"device: {found.device}",
        *_manifest(found),
        "",
        *_config(found),
        "",
        *(_LOAD if load is None else _load(load)).splitlines(),
        "",
        "quality: lossless",
        f"playbook: {_PLAYBOOKS[kind]}",
    ]
    text = "\n".join(lines) + "\n"
    parse_deployment(YamlFile.parse(output, text))
    return text


def _head(found: Imported) -> Iterator[str]:
    version = f", {found.engine} {found.version}" if found.version else ""
    yield f"# Imported from {_line(found.told)}{version} by `autotune import`; nothing was run."
    for note in found.notes:
        yield f"# {_line(note[:1].upper() + note[1:])}."
    if found.left_out:
        yield "# Not taken over:"
        yield from (f"#   {_line(each.what)}: {_line(each.why)}" for each in found.left_out)


def _model_note(found: Imported) -> str:
    folder = "a folder with the model's files, or a name of `models pull`"
    what = "the path of a .gguf file" if found.engine == "llamacpp" else folder
    return f"as the source has it; put in {what}"


def _target(found: Imported) -> Iterator[str]:
    placed = [("cpus", found.cpus), ("numa_node", found.numa_node)]
    placed = [(name, value) for name, value in placed if value is not None]
    if not (found.command or found.arguments or found.environment or found.served_name or placed):
        yield f"target: {found.engine}"
        return
    yield "target:"
    yield f"  kind: {found.engine}"
    if found.command:
        yield f"  command: {_flow(found.command)}"
    if found.served_name:
        yield f"  served_name: {_scalar(found.served_name)}"
    yield from (f"  {name}: {_quoted(value) if isinstance(value, str) else value}" for name, value in placed)
    if found.arguments:
        yield f"  arguments: {_flow(found.arguments)}"
    if found.environment:
        yield "  environment:"
        yield from (f"    {name}: {_quoted(value)}" for name, value in found.environment.items())


def _manifest(found: Imported) -> Iterator[str]:
    if found.manifest is None:
        return
    site = f", site: {_quoted(found.manifest.site)}" if found.manifest.site else ""
    yield f"manifest: {{file: {_quoted(found.manifest.file)}{site}}}   # a commit changes both files"


def _config(found: Imported) -> Iterator[str]:
    yield "# Only the values of the marked lines may ever be changed by a commit."
    yield "config:" + ("" if found.knobs else " {}")
    for knob in found.knobs:
        if knob.found:
            yield _knob_line(knob.name, knob.value, knob.managed)
    added = [knob for knob in found.knobs if not knob.found]
    if added:
        yield f"  # Not in the source, and worth trying: what {found.engine} does where nothing is said."
        yield from (_knob_line(knob.name, knob.value, knob.managed) for knob in added)
    if found.unsaid:
        yield f"  # Worth trying too, but {found.engine} chooses these itself: put in what its log says, and uncomment."
        yield from ("  # " + _knob_line(name, value, True).lstrip() for name, value in found.unsaid.items())


def _knob_line(name: str, value: Value, managed: bool) -> str:
    return f"  {name}: {_scalar(value)}" + ("  # autotune: managed" if managed else "")


def _load(load: AskedLoad) -> str:
    parts = [spec_yaml(load.spec, ("What users do.",))]
    bounds = load.slo.model_dump(mode="json", exclude_unset=True)
    promise = ["# The promise to users, and what better means.", f"slo: {json.dumps(bounds)}", ""]
    promise += ["objective:", f"  metric: {judged_by(load)}"]
    return "\n".join([*parts, *promise])


def _flow(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(_quoted, words)) + "]"


def _scalar(value: Value) -> str:
    return write_scalar(value)


def _quoted(text: str) -> str:
    return write_scalar(text, '"')


def _line(text: str) -> str:
    """Text of others as part of a comment: on one line, and without what looks like a secret."""
    return " ".join(printable(redacted(text)).split())
