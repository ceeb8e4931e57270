"""Does every proposed value survive a command line, an environment and a YAML file unchanged?"""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import yaml

from tools.errors import UserError
from tools.manifests.yaml_file import YamlFile
from tools.manifests.yaml_scalar import read_plain
from tools.targets.knobs import Value
from verifiers.evidence import Evidence
from verifiers.verdict import Verdict, failed, passed

RULE = "policy.values"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_TEXT = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
"All that a text value may hold: no shell reads a meaning into any of these."
_LONGEST = 256
_LARGEST = 2**53
"JSON readers that hold numbers as doubles keep whole numbers up to here."


def verify(evidence: Evidence) -> Verdict:
    """Asked of the proposal's own words, before any typing could make something harmless of them."""
    for name, value in sorted(evidence.patch.items()):
        if found := _name_fault(name) or _fault(value) or _lost_by_words(value) or _lost_by_yaml(name, value):
            return failed(RULE, f"{name!r:.80}: {value!r:.80}: {found}")
    return passed(RULE, f"{len(evidence.patch)} values survive argv, environment and YAML in value and type")


def _name_fault(name: str) -> str:
    return "" if _NAME.fullmatch(name) else "a knob's name is letters, digits, - and _, and begins with a letter"


def _fault(value: object) -> str:
    if isinstance(value, bool):
        return ""
    if isinstance(value, int):
        return "" if abs(value) <= _LARGEST else "a whole number beyond 2^53, which not every reader can hold"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "not a finite number"
    if not isinstance(value, str):
        return f"expected a number, true, false or a text, found {type(value).__name__}"
    if len(value) > _LONGEST:
        return f"a text of {len(value)} characters; at most {_LONGEST} may stand in a config"
    if value.startswith("-"):
        return "begins with a dash, so that a program would read it as an option"
    if not _TEXT.fullmatch(value):
        strange = next((char for char in value if not _TEXT.fullmatch(char)), "")
        return f"holds {strange!r}, which a shell, a terminal or YAML may act on" if strange else "an empty text"
    return ""


def _lost_by_words(value: Value) -> str:
    """Through a shell's quoting into an argument list or a variable, and read back by its type."""
    word = str(value)
    if shlex.split(shlex.join(["--knob", word])) != ["--knob", word]:
        return "doesn't survive a command line"
    if not isinstance(value, bool | str) and type(value)(word) != value:
        return "doesn't survive being written as text"
    return ""


def _lost_by_yaml(name: str, value: Value) -> str:
    """Written by the splice that a commit uses, and read again; a text must also be a text where nobody quotes it."""
    try:
        file = YamlFile.parse(Path("proposal"), f"config:\n  {name}: 0  # autotune: managed\n")
        again = YamlFile.parse(Path("proposal"), file.splice({("config", name): value})).data["config"][name]
        if type(again) is not type(value) or again != value:
            return f"comes back from a YAML file as {again!r}"
        if isinstance(value, str):
            node = yaml.compose(value, Loader=yaml.SafeLoader)
            plain = read_plain(node) if isinstance(node, yaml.ScalarNode) else None
            if plain != value or type(plain) is not str:
                return f"reads as {plain!r} in YAML where nobody quotes it"
    except (UserError, ValueError, yaml.YAMLError) as refusal:
        return f"can't stand in YAML: {str(refusal).splitlines()[0]}"
    return ""
