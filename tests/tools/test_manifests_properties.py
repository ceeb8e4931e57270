"""Any words in any writing: what is read is what the real reader reads, and an edit changes that and nothing else."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.manifests import Manifest, read_manifest
from tools.manifests.yaml_scalar import write_scalar
from tools.targets.tables.word_edit import Delete, Insert, Replace, SetVariable, WordEdit, edited

QUICK = settings(max_examples=40, deadline=None)
CHARS = "ab1 $\"'\\#{}[]:,=%&|;<>*?!~`é☀-"
texts = st.text(CHARS, max_size=8)
flags = st.builds("--{}".format, st.text("abc-", min_size=1, max_size=6).filter(lambda text: text.strip("-")))
words = st.one_of(flags, st.builds("{}={}".format, flags, texts), texts, st.integers(0, 9999).map(str))
arguments = st.lists(words, min_size=1, max_size=6)


@st.composite
def edits_of(draw: st.DrawFn, count: int, first: int) -> list[WordEdit]:
    """Edits of `count` words that leave the first ones and don't overlap; at least one word stays."""
    edits: list[WordEdit] = []
    place = first
    while place < count:
        kind = draw(st.sampled_from(("keep", "replace", "delete", "insert")))
        if kind == "replace":
            edits.append(Replace(place, draw(words)))
        elif kind == "delete" and place > first:
            edits.append(Delete(place))
        elif kind == "insert":
            edits.append(Insert(place, tuple(draw(st.lists(words, min_size=1, max_size=2)))))
        place += 1
    if draw(st.booleans()):
        edits.append(Insert(count, tuple(draw(st.lists(words, min_size=1, max_size=3)))))
    return edits


def require_edit(manifest: Manifest, edits: Sequence[WordEdit], before: str, after: str) -> str:
    """The new text, known to read as planned; what stands before and after the command is as it was."""
    site = manifest.site()
    planned = edited(site.words, site.environment, edits)
    text = manifest.edited(site, edits)
    assert text.startswith(before) and text.endswith(after)
    new = read_manifest(manifest.path, text).site()
    assert (new.words, dict(new.environment)) == planned
    return text


# A shell script.


@st.composite
def shell_word(draw: st.DrawFn, word: str) -> str:
    """`word` in one of the ways a shell takes it: each piece bare, in single or in double quotes, or escaped."""
    style = draw(st.sampled_from(("library", "single", "double", "escaped", "mixed")))
    if style == "library" or not word:
        return shlex.quote(word)
    cut = draw(st.integers(0, len(word))) if style == "mixed" else 0
    pieces = [(word[:cut], "single"), (word[cut:], "double")] if style == "mixed" else [(word, style)]
    return "".join(_shell_piece(piece, how) for piece, how in pieces)


def _shell_piece(text: str, style: str) -> str:
    if style == "single":
        return "'" + text.replace("'", "'\\''") + "'"
    if style == "double":
        return '"' + "".join("\\" + char if char in '$`"\\' else char for char in text) + '"'
    return "".join("\\" + char if not char.isalnum() else char for char in text)


@st.composite
def script(draw: st.DrawFn) -> tuple[list[str], str, str, str]:
    """Words, and the script's text before, of and behind the command that has them."""
    own = ["vllm", "serve", *draw(arguments)]
    gaps = st.sampled_from((" ", "  ", " \\\n  ", "\t", " \\\n"))
    line = "".join(draw(gaps) + draw(shell_word(word)) for word in own[2:])
    before = draw(
        st.sampled_from(("", '#!/bin/sh\n# it\'s a "script"\nset -e; ', "cd /x && exec ", "A=1 numactl -N 0 "))
    )
    after = draw(st.sampled_from(("", "\n", "  # --not 'this\n", " > log 2>&1 &\nwait\n", "; echo 'done'\n")))
    return own, before, f"vllm serve{line}", after


@QUICK
@given(st.data())
def test_a_shell_command_is_read_and_edited_as_the_shell_reads_it(data: st.DataObject) -> None:
    own, before, command, after = data.draw(script())
    manifest = read_manifest(Path("run.sh"), before + command + after)
    assert list(manifest.site().words) == own
    text = require_edit(manifest, data.draw(edits_of(len(own), 2)), before, after)
    new = read_manifest(manifest.path, text).site()
    line = text[len(before) : len(text) - len(after)]
    assert real_shell(line) == list(new.words)


def real_shell(command: str) -> list[str]:
    """The words that a real shell makes of `command`."""
    print_words = 'for word in vllm "$@"; do printf \'%s\\0\' "$word"; done'
    done = subprocess.run(
        ["/bin/sh", "-c", f"vllm() {{ {print_words}; }}\n{command}\n"], capture_output=True, text=True, check=True
    )
    return done.stdout.split("\0")[:-1]


# A list in YAML.


@st.composite
def yaml_word(draw: st.DrawFn, word: str) -> str:
    style = draw(st.sampled_from(("json", "single", "plain")))
    if style == "single":
        return "'" + word.replace("'", "''") + "'"
    return write_scalar(word) if style == "plain" else json.dumps(word, ensure_ascii=False)


@st.composite
def deployment(draw: st.DrawFn) -> tuple[list[str], str, str]:
    """Words of `args`, the file's text before them, and the whole text."""
    own = [word.replace("$", "") for word in draw(arguments)]
    comments = st.sampled_from(("", "", "  # it's: [a] comment"))
    end = draw(st.sampled_from(("\n", "\r\n")))
    shape = draw(st.sampled_from(("block", "flow", "lines")))
    head = f"kind: Pod{end}apiVersion: v1{end}metadata: {{name: 'é'}}{end}spec:{end}  containers:{end}  - name: c{end}"
    head += f"    command: [vllm, serve]{end}    args:"
    written = [draw(yaml_word(word)) for word in own]
    if shape == "block":
        lead = draw(st.sampled_from(("    - ", "        -   ")))
        listed = end + "".join(f"{lead}{word}{draw(comments)}{end}" for word in written)
    elif shape == "flow":
        listed = f" [{', '.join(written)}]{draw(comments)}{end}"
    else:
        listed = f" [{end}" + "".join(f"      {word},{draw(comments)}{end}" for word in written) + f"    ]{end}"
    tail = draw(st.sampled_from(("", f"    image: x  # last{end}", f"---{end}a: [1, 'b']{end}")))
    return own, head, head + listed + tail


@QUICK
@given(st.data())
def test_a_list_in_yaml_is_edited_so_that_nothing_else_changes(data: st.DataObject) -> None:
    own, head, text = data.draw(deployment())
    manifest = read_manifest(Path("pod.yaml"), text)
    assert list(manifest.site().words[2:]) == own
    after = require_edit(manifest, data.draw(edits_of(len(own) + 2, 2)), head, "")
    before_data, after_data = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(after))
    new = list(read_manifest(manifest.path, after).site().words)
    assert container(after_data[0])["args"] == [word.replace("$", "$$") for word in new[2:]]
    container(before_data[0])["args"] = container(after_data[0])["args"]
    assert after_data == before_data
    assert comments_of(after) == comments_of(text)


def container(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


def comments_of(text: str) -> int:
    return text.count("# it's: [a] comment") + text.count("# last")


# A text in YAML that Compose splits.


@QUICK
@given(st.data())
def test_a_command_that_is_one_text_in_yaml_is_edited_in_its_own_style(data: st.DataObject) -> None:
    plain = st.text("ab1=:/.,☀", min_size=1, max_size=6).filter(lambda text: not text.endswith(":"))
    own = ["vllm", "serve", *data.draw(st.lists(flags | plain | st.just('{"a": "b c"}'), min_size=1, max_size=5))]
    style = data.draw(st.sampled_from(("literal", "folded", "double", "single")))
    glue = data.draw(st.sampled_from((" ", "\n      "))) if style in ("literal", "folded") else " "
    command = " ".join(own[:2]) + "".join(glue + shlex.quote(word) for word in own[2:])
    block = {"literal": "|", "folded": ">-"}.get(style)
    quoted = json.dumps(command, ensure_ascii=False) if style == "double" else "'" + command.replace("'", "''") + "'"
    head, tail = "services:\n  a:\n    image: x\n    command: ", "\n    ports: ['80']  # last\n"
    text = head + (f"{block}\n      {command}" if block else quoted) + tail
    manifest = read_manifest(Path("compose.yaml"), text)
    assert list(manifest.site().words) == own
    after = require_edit(manifest, data.draw(edits_of(len(own), 2)), head, tail)
    service = yaml.safe_load(after)["services"]["a"]
    new = [word.replace("$", "$$") for word in read_manifest(manifest.path, after).site().words]
    assert shlex.split(service["command"]) == new
    assert service == yaml.safe_load(text)["services"]["a"] | {"command": service["command"]}


# A systemd unit.


@QUICK
@given(st.data())
def test_a_units_command_is_edited_between_its_comments(data: st.DataObject) -> None:
    own = ["/bin/vllm", "serve", *data.draw(arguments)]
    gaps = st.sampled_from((" ", " \\\n    ", " \\\n  # a comment\n    ", " \\\r\n  "))
    line = "".join(data.draw(gaps) + unit_word(word) for word in own[2:])
    head, tail = "[Unit]\nDescription=x\n[Service]\nEnvironment=A=1 'B=2 3'\n", "\nRestart=always\n# end\n"
    text = f"{head}ExecStart=/bin/vllm serve{line}{tail}"
    manifest = read_manifest(Path("a.service"), text)
    assert list(manifest.site().words) == own
    after = require_edit(manifest, data.draw(edits_of(len(own), 2)), head, tail)
    assert after.count("# a comment") == text.count("# a comment")
    variable = data.draw(
        st.builds(SetVariable, st.sampled_from("AB"), texts | st.none()) | st.builds(SetVariable, st.just("C"), texts)
    )
    require_edit(manifest, [variable], "[Unit]\nDescription=x\n[Service]\n", tail)


def unit_word(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$").replace("%", "%%")
    return f'"{escaped}"'
