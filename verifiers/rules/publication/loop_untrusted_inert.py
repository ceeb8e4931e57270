"""Did text that anyone may have written stay data: fenced, capped, and without effect on the owner's terms?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.deployment import parse_deployment
from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, error, failed, passed

RULE = "loop.untrusted_inert"

_FENCED = re.compile(r"<data>\n?(.*?)\n?</data>", re.DOTALL)
_MOST_LINE = 240
"Characters of one untrusted line that a prompt may hold."
_MOST_PROMPT = 200_000
_TELLING = 24
"Characters of untrusted text that are no coincidence any more."


def verify(evidence: Evidence) -> Verdict:
    """What servers logged stands in prompts between <data> and </data> only, cut short; knobs that were launched are
    the owner's managed ones; workload, promise and objective are what the owner's file says."""
    started = evidence.of_kind("run.started")
    if not started:
        return error(RULE, "it isn't recorded what the owner's file says")
    try:
        written = parse_deployment(YamlFile.parse(Path(started[0].data["file"]), started[0].data["file_text"]))
    except UserError as refusal:
        return error(RULE, f"the owner's file can't be read: {refusal}")
    if written.deployment != evidence.deployment or written.managed != evidence.managed:
        return failed(RULE, "workload, promise, objective or managed knobs aren't what the owner's file says")
    for entry in evidence.of_kind("trial"):
        if foreign := sorted(set(entry.data["proposal"]["patch"]) - evidence.managed):
            return failed(
                RULE, f"trial {entry.data['id']} changed {foreign[0]}, which the owner doesn't let be managed"
            )
    untrusted = tuple(_untrusted(evidence))
    prompts = 0
    for entry in evidence.of_kind("action"):
        for message in entry.data.get("transcript", ()):
            if message["role"] == "assistant":
                continue
            prompts += 1
            if wrong := _leak(str(message["content"]), untrusted):
                return failed(RULE, f"{entry.key}: {wrong}")
    return passed(RULE, f"in {prompts} prompts untrusted text is fenced and cut short; the owner's terms are untouched")


def _untrusted(evidence: Evidence) -> Iterator[str]:
    """Lines that servers wrote, as a prompt would show them."""
    for entry in evidence.of_kind("trial"):
        if failure := entry.data["failure"]:
            for text in (failure["message"], failure["log_tail"]):
                lines = ["".join(c if c.isprintable() else " " for c in text), *text.splitlines()]
                yield from (line.strip() for line in lines if len(line.strip()) >= _TELLING)


def _leak(prompt: str, untrusted: tuple[str, ...]) -> str:
    if len(prompt) > _MOST_PROMPT:
        return f"a prompt has {len(prompt)} characters"
    fenced = _FENCED.findall(prompt)
    if any("<" in inside for inside in fenced) or max(prompt.count("<data>"), prompt.count("</data>")) > 1:
        return "text between <data> and </data> isn't escaped, so it could close them"
    outside = _FENCED.sub("", prompt)
    for line in untrusted:
        if line[:_TELLING] in outside:
            return f"a server's text stands outside of <data>: {line[:60]!r}"
        if len(line) > _MOST_LINE and any(line[: _MOST_LINE + 1] in inside for inside in fenced):
            return f"a server's text of {len(line)} characters was shown uncut"
    return ""
