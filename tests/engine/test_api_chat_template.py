"""The engine renders conversations as transformers does, and reads tokenizers as it does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from engine.errors import RequestRefused, StartRefused
from engine.tokenizer import ModelTokenizer

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather <in> Zürich & elsewhere",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        },
    }
]
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich"}}}
CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be <brief> & 'kind'."}, {"role": "user", "content": "  Grüezi 🙂\n"}],
    [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"sun": true}'},
        {"role": "assistant", "content": "Sunny.", "reasoning": "It says so."},
        {"role": "user", "content": "Sure?"},
    ],
]
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages %}
    {%- if message.role == "system" and loop.first and tools %}{%- continue %}{%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}{{- message.content }}{%- endif %}
    {%- if message.thinking %}{{- '(' + message.thinking + ')' }}{%- endif %}
    {%- if message.reasoning_content %}{{- '<think>' + message.reasoning_content + '</think>' }}{%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson }}
        {{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think></think>' }}{%- endif %}
{%- endif %}
"""
GEMMA = """{{ bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'tool' %}{{ raise_exception("no tools here") }}{%- endif %}
    {% generation %}{{ message['content'] | trim }}{% endgeneration %}
    {{ documents | tojson(indent=2) if documents else '' }}
{% endfor %}
{{ eos_token }}{{ strftime_now("%Y") }}
"""
REFUSED = "the template refuses"


@pytest.fixture(params=["tiny", "qwen", "gemma", "in the config"])
def directory(request: pytest.FixtureRequest, tiny_model: Path, tmp_path: Path) -> Path:
    copy = shutil.copytree(tiny_model, tmp_path / "model")
    if request.param in ("qwen", "gemma"):
        (copy / "chat_template.jinja").write_text(QWEN if request.param == "qwen" else GEMMA)
    if request.param == "in the config":
        (copy / "chat_template.jinja").unlink()
        config = json.loads((copy / "tokenizer_config.json").read_text())
        templates = [{"name": "default", "template": GEMMA}, {"name": "tool_use", "template": QWEN}]
        (copy / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": templates}))
    return copy


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"add_generation_prompt": False},
        {"tools": TOOLS},
        {"documents": [{"title": "t", "text": "x"}]},
        {"variables": {"enable_thinking": False}},
        {"add_generation_prompt": False, "continue_final_message": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("chat", CHATS, ids=["plain", "system", "tools"])
def test_it_renders_as_transformers_does(directory: Path, chat: list[dict[str, Any]], options: dict[str, Any]) -> None:
    theirs = PreTrainedTokenizerFast.from_pretrained(str(directory))
    ours = ModelTokenizer(directory)
    variables = options.get("variables", {})
    rest = {key: value for key, value in options.items() if key != "variables"}

    def expected() -> str:
        try:
            arguments = {"add_generation_prompt": True, **rest, **variables}
            return str(theirs.apply_chat_template(chat, tokenize=False, **arguments))
        except Exception:  # noqa: BLE001 - whatever it says, it refuses
            return REFUSED

    def found() -> str:
        try:
            return ours.chat_template.render(chat, **options)
        except RequestRefused:
            return REFUSED

    assert found() == expected()


def test_it_reads_special_tokens_wherever_they_stand(tiny_model: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_model, tmp_path / "model")
    config = json.loads((copy / "tokenizer_config.json").read_text())
    config["added_tokens_decoder"] = {
        "600": {"content": "<late>", "special": True, "normalized": False, "lstrip": False, "rstrip": False},
        "601": {"content": "<plain>", "special": False, "normalized": False, "lstrip": False, "rstrip": False},
    }
    config["eos_token"] = {"content": "<the end>", "__type": "AddedToken"}
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = PreTrainedTokenizerFast.from_pretrained(str(copy))
    ours = ModelTokenizer(copy)
    assert ours.special_tokens == theirs.special_tokens_map
    assert ours.eos_token_id == theirs.eos_token_id
    for text in ("a<late>b<plain>c<the end>", "<|im_end|>", "Zürich 🙂"):
        ids = theirs.encode(text)
        assert ours.encode(text) == ids
        for skip in (True, False):
            assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(ids, skip_special_tokens=skip)


def test_a_template_that_is_none_is_refused_at_the_start(tiny_model: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_model, tmp_path / "model")
    (copy / "chat_template.jinja").write_text("{% for %}")
    with pytest.raises(StartRefused, match="chat template"):
        ModelTokenizer(copy)


def test_the_server_s_side_needs_neither_torch_nor_transformers() -> None:
    code = "import sys, engine.server.app as _; print({'torch', 'transformers', 'llguidance'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
