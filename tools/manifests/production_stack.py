"""Helm values of vLLM's production stack: `vllmConfig` with a key per flag, which its chart renders as words.

Source of the order and of the words: helm/templates/deployment-vllm-multi.yaml of vllm-project/production-stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import yaml

from tools.manifests.expansion import KUBERNETES
from tools.manifests.find import Surroundings, find_sites
from tools.manifests.part import Implied, Insertable, Part, Variables
from tools.manifests.site import CommandSite
from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View
from tools.manifests.yaml_list_part import ListPart, write_word
from tools.manifests.yaml_text import YamlText, scalar_text
from tools.manifests.yaml_variables import NoVariables, YamlVariables

__all__ = ["stack_sites"]

_FLAGS: Mapping[str, str] = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu_memory_utilization",
    "maxLoras": "--max_loras",
}
"""Keys that are a flag and its value, in the order in which the chart writes them."""

_SWITCHES: Mapping[str, str] = {
    "enableChunkedPrefill": "enable-chunked-prefill",
    "enablePrefixCaching": "enable-prefix-caching",
}
_CHART = "the chart writes it"


@dataclass(frozen=True)
class KeysPart:
    """The words that the keys of `vllmConfig` become: two for a flag with a value, one for a switch."""

    text: YamlText
    config: yaml.MappingNode
    owners: tuple[yaml.Node, ...]

    @property
    def insertable(self) -> Insertable:
        return "end" if self.text.get(self.config, "extraArgs") is None else "nowhere"

    @cached_property
    def _words(self) -> list[tuple[str, str, View | None]]:
        """Each word, the key it comes from, and the view of the value (None: it is a flag, or isn't written)."""
        words: list[tuple[str, str, View | None]] = []
        for key, flag in _SWITCHES.items():
            view = self._value(key)
            if view is None and key == "enableChunkedPrefill":
                continue
            on = view is not None and view.text.lower() in ("true", "yes", "on")
            words.append((f"--{flag}" if on else f"--no-{flag}", key, view))
        for key, flag in _FLAGS.items():
            view = self._value(key)
            if view is not None:
                words += [(flag, key, None), (view.text, key, view)]
        return words

    def _value(self, key: str) -> View | None:
        node = self.text.get(self.config, key)
        if not isinstance(node, yaml.ScalarNode):
            return None
        return KUBERNETES.read(self.text.scalar(node, self.config, *self.owners))

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(word for word, _, _ in self._words)

    @cached_property
    def computed(self) -> frozenset[int]:
        return frozenset(
            at for at, (_, _, view) in enumerate(self._words) if view is not None and view.is_foreign(0, len(view.text))
        )

    def view_of(self, at: int) -> View | None:
        return self._words[at][2]

    def replaced(self, at: int, word: str) -> Splice:
        old, key, view = self._words[at]
        node = self.text.get(self.config, key)
        if key in _SWITCHES:
            wanted = {f"--{_SWITCHES[key]}": "true", f"--no-{_SWITCHES[key]}": "false"}.get(word)
            if wanted is None:
                raise CannotEdit(f"{key} can be true or false here, and not {word}")
            if node is None:  # the chart says no where the values say nothing
                return self._added(f"{key}: {wanted}", first=True)
            word = wanted
        if view is None or view.locked or not isinstance(node, yaml.ScalarNode):
            raise CannotEdit(f"{old} can't be changed here: {_CHART if view is None else view.locked or _CHART}")
        return self._view.splice(node.start_mark.index, node.end_mark.index, write_word(word, node))

    def deleted(self, at: int, count: int) -> list[Splice]:
        """A key's line goes with its value; its flag has nothing of its own to go."""
        return [splice for place in range(at, at + count) for splice in self._deleted(place)]

    def _deleted(self, at: int) -> list[Splice]:
        _, key, view = self._words[at]
        if view is None:
            if key in _FLAGS:
                return []
            raise CannotEdit(f"{self.words[at]} stands nowhere in this file: {_CHART}")
        key_node, node = next((name, value) for name, value in self.config.value if name.value == key)
        text = self._view.text
        start = text.rfind("\n", 0, key_node.start_mark.index) + 1
        found = text.find("\n", node.end_mark.index)
        end = len(text) if found < 0 else found + 1
        if text[start : key_node.start_mark.index].strip() or text[node.end_mark.index : end].strip():
            raise CannotEdit(f"the line of {key} holds something else too; take it out by hand")
        return [self._view.splice(start, end, "")]

    def inserted(self, at: int, words: tuple[str, ...], going: int) -> list[Splice]:
        """A list of extra arguments, which the chart writes behind all others."""
        items = ", ".join(write_word(KUBERNETES.escape(word), None, new=True) for word in words)
        return [self._added(f"extraArgs: [{items}]")]

    def _added(self, line: str, first: bool = False) -> Splice:
        """A line with a new key: the mapping's first, or its last."""
        text, keys = self._view.text, self.config.value
        start = text.rfind("\n", 0, keys[0][0].start_mark.index) + 1 if keys else 0
        lead = text[start : keys[0][0].start_mark.index] if keys else ""
        if self.config.flow_style or not keys or lead.strip():
            raise CannotEdit(f"there is no place for `{line}`: write vllmConfig with a key on a line of its own first")
        end_of_line = "\r\n" if "\r\n" in text else "\n"
        if first:
            return self._view.splice(start, start, lead + line + end_of_line)
        end = len(text[: keys[-1][1].end_mark.index].rstrip())
        found = text.find("\n", end)
        here = len(text) if found < 0 else found - text[:found].endswith("\r")
        return self._view.splice(here, here, end_of_line + lead + line)

    def extents(self) -> list[tuple[int, int]]:
        view = self.text.view
        return [
            (view.starts[key.start_mark.index], view.ends[value.end_mark.index - 1])
            for key, value in self.config.value
            if key.value in _FLAGS or key.value in _SWITCHES or key.value == "extraArgs"
        ]

    @property
    def _view(self) -> View:
        return self.text.locked(self.config, *self.owners)


def stack_sites(
    text: YamlText, spec: yaml.MappingNode, owners: tuple[yaml.Node, ...], where: str
) -> Iterator[CommandSite]:
    """The site of one entry of `servingEngineSpec.modelSpec`."""
    if text.get(spec, "raySpec") is not None:
        return
    config = text.get(spec, "vllmConfig")
    parts: list[Part] = [_leading(text, spec)]
    extra = text.get(config, "extraArgs")
    if isinstance(config, yaml.MappingNode):
        parts.append(KeysPart(text, config, owners))
        if isinstance(extra, yaml.SequenceNode):
            items = tuple(KUBERNETES.read(text.scalar(item, extra, config, *owners)) for item in extra.value)
            parts.append(ListPart(text.locked(extra, config, *owners), extra, items, KUBERNETES))
    if trailing := _trailing(text, spec):
        parts.append(trailing)
    env = text.get(spec, "env")
    variables: Variables = NoVariables("write an `env:` with one variable into this modelSpec first")
    if isinstance(env, yaml.SequenceNode) and env.value:
        variables = YamlVariables(text, env, KUBERNETES, owners)
    repository, tag = (scalar_text(text.get(spec, key)) or "" for key in ("repository", "tag"))
    yield from find_sites(parts, Surroundings(f"{where}.vllmConfig", variables, f"{repository}:{tag}"))


def _leading(text: YamlText, spec: yaml.MappingNode) -> Implied:
    model = scalar_text(text.get(spec, "modelURL")) or ""
    words = ["vllm", "serve", model, "--host", "0.0.0.0", "--port", "8000"]
    computed = {6} | ({2} if "{{" in model else set[int]())
    if _on(text, spec, "enableLoRA"):
        words.append("--enable-lora")
    if _on(text, spec, "enableTool"):
        words.append("--enable-auto-tool-choice")
    if parser := scalar_text(text.get(spec, "toolCallParser")):
        words += ["--tool-call-parser", parser]
    return Implied(tuple(words), _CHART, frozenset(computed))


def _trailing(text: YamlText, spec: yaml.MappingNode) -> Implied | None:
    words: list[str] = []
    if _on(text, text.get(spec, "lmcacheConfig"), "enabled"):
        words += ["--kv-transfer-config", "{{ lmcacheConfig }}"]
    if template := scalar_text(text.get(spec, "chatTemplate")):
        words += ["--chat-template", f"/templates/{template}"]
    computed = frozenset(at for at, word in enumerate(words) if "{{" in word)
    return Implied(tuple(words), _CHART, computed) if words else None


def _on(text: YamlText, node: yaml.Node | None, key: str) -> bool:
    return (scalar_text(text.get(node, key)) or "").lower() in ("true", "yes", "on")
