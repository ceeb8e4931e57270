"""Every feature of the API, driven by the real openai client: whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.engine.conftest import reap, start
from tests.tiny_model import build_tiny_model

CHAT: Any = [{"role": "user", "content": "What is the capital of France?"}]
PROMPT = "The quick brown fox"
SCHEMA: Any = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Bern"]}, "big": {"type": "boolean"}},
    "required": ["city", "big"],
    "additionalProperties": False,
}
NOTHING: Any = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS: Any = [
    {"type": "function", "function": {"name": "look", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "wait", "description": "Waits.", "parameters": NOTHING}},
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """Of a server with room for tools in its prompts."""
    folder = tmp_path_factory.mktemp("roomy")
    model = build_tiny_model(folder / "tiny", max_position_embeddings=2048)
    settings = model / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model_max_length": 10**30}))
    server = start(model, folder / "log")
    yield openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    reap(server)


def complete(client: openai.OpenAI, *, body: dict[str, Any] | None = None, **options: Any) -> Any:
    """The choices of a completion, after it was checked that streaming it gives the same."""
    given: Any = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "extra_body": body, **options}
    whole = client.completions.create(**given)
    chunks = list(client.completions.create(**given, stream=True, stream_options={"include_usage": True}))
    for choice in whole.choices:
        own = [each for chunk in chunks for each in chunk.choices if each.index == choice.index]
        assert "".join(each.text for each in own) == choice.text
        assert [each.finish_reason for each in own if each.finish_reason] == [choice.finish_reason]
        if choice.logprobs:
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                streamed = [value for each in own if each.logprobs for value in getattr(each.logprobs, name)]
                assert streamed == pytest.approx(getattr(choice.logprobs, name)) if "log" not in name else streamed
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    return whole.choices


def converse(client: openai.OpenAI, *, body: dict[str, Any] | None = None, **options: Any) -> Any:
    """The choice of a chat completion, after it was checked that streaming it gives the same."""
    given: Any = {"model": "tiny", "messages": CHAT, "max_tokens": 120, "temperature": 0, "extra_body": body, **options}
    whole = client.chat.completions.create(**given).choices[0]
    with client.chat.completions.stream(**given) as stream:
        list(stream)
        streamed = stream.current_completion_snapshot.choices[0]
    assert (streamed.message.content or None) == (whole.message.content or None)
    assert streamed.finish_reason == whole.finish_reason
    assert [(c.function.name, c.function.arguments) for c in streamed.message.tool_calls or ()] == [
        (c.function.name, c.function.arguments) for c in whole.message.tool_calls or ()
    ]
    return whole


def test_the_tokenizer_is_told_whatever_stands_in_its_config(client: openai.OpenAI) -> None:
    """lm-eval asks for it, and transformers writes numbers of 30 digits."""
    told: Any = client.get("../tokenizer_info", cast_to=object)
    assert told["model_max_length"] == 10**30
    assert told["eos_token"] == "<|im_end|>"
    assert "messages" in told["chat_template"]


def test_several_answers_to_several_prompts_stand_in_order(client: openai.OpenAI) -> None:
    alone = [complete(client, prompt=prompt)[0].text for prompt in (PROMPT, "A server")]
    texts = [choice.text for choice in complete(client, prompt=[PROMPT, "A server"], n=2, best_of=2)]
    assert texts == [alone[0], alone[0], alone[1], alone[1]]
    chat = client.chat.completions.create(model="tiny", messages=CHAT, n=3, max_tokens=20, temperature=2, seed=1)
    assert [choice.index for choice in chat.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in chat.choices}) > 1
    assert chat.usage is not None and chat.usage.completion_tokens <= 60


def test_seeds_of_several_answers_follow_each_other(client: openai.OpenAI) -> None:
    both = complete(client, temperature=2, n=2, seed=7, max_tokens=20)
    assert [complete(client, temperature=2, seed=seed, max_tokens=20)[0].text for seed in (7, 8)] == [
        c.text for c in both
    ]
    assert both[0].text != both[1].text


def test_sampling_fields_reach_the_engine(client: openai.OpenAI) -> None:
    plain = complete(client, body={"ignore_eos": True})[0].text
    assert complete(client, body={"top_k": 1, "ignore_eos": True}, temperature=1, seed=3)[0].text == plain
    assert complete(client, body={"min_p": 1.0, "ignore_eos": True}, temperature=1, seed=3)[0].text == plain
    for changed in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"extra_body": {"repetition_penalty": 5.0}}):
        options: dict[str, Any] = {"max_tokens": 60, "temperature": 0, "model": "tiny", "prompt": PROMPT}
        assert client.completions.create(**options, **changed) != client.completions.create(**options)
    body = {"return_token_ids": True}
    forced = complete(client, logit_bias={"77": 100}, body=body)[0]
    assert set(forced.token_ids) == {77}


def test_a_stop_string_ends_the_answer_and_its_tokens(client: openai.OpenAI) -> None:
    body = {"ignore_eos": True, "return_token_ids": True, "skip_special_tokens": False}
    plain = complete(client, max_tokens=60, body=body)[0]
    # Cut within the text, so that the string begins and ends within tokens.
    middle = len(plain.text) // 2
    stop = plain.text[middle : middle + 5]
    place = plain.text.index(stop)
    choice = complete(client, max_tokens=60, stop=["never", stop], body=body)[0]
    assert (choice.text, choice.finish_reason, choice.stop_reason) == (plain.text[:place], "stop", stop)
    assert choice.token_ids == plain.token_ids[: len(choice.token_ids)]
    assert 0 < len(choice.token_ids) < 60
    kept = complete(client, max_tokens=60, stop=stop, body=body | {"include_stop_str_in_output": True})[0]
    assert kept.text == plain.text[: place + len(stop)]
    later = complete(client, max_tokens=60, stop=stop, body=body | {"min_tokens": 60})[0]
    assert (later.text, later.finish_reason) == (plain.text, "length")


def test_a_stop_token_ends_the_answer(client: openai.OpenAI) -> None:
    body = {"ignore_eos": True, "return_token_ids": True}
    plain = complete(client, body=body)[0]
    token = plain.token_ids[5]
    place = plain.token_ids.index(token)
    choice = complete(client, body=body | {"stop_token_ids": [token]})[0]
    assert (choice.finish_reason, choice.stop_reason, choice.token_ids) == ("stop", token, plain.token_ids[: place + 1])
    assert plain.text.startswith(choice.text)
    kept = complete(client, body=body | {"stop_token_ids": [token], "include_stop_str_in_output": True})[0]
    assert len(kept.text) > len(choice.text)
    until = complete(client, body=body | {"stop_token_ids": [token], "min_tokens": 10})[0]
    assert len(until.token_ids) >= 10


def test_log_probabilities_of_completions(client: openai.OpenAI) -> None:
    choice = complete(client, logprobs=3, body={"ignore_eos": True})[0]
    known = choice.logprobs
    assert len(known.tokens) == len(known.token_logprobs) == len(known.top_logprobs) == len(known.text_offset) == 12
    assert "".join(known.tokens).replace("\ufffd", "") in choice.text or "\ufffd" in choice.text
    for own, top in zip(known.token_logprobs, known.top_logprobs, strict=True):
        assert own == pytest.approx(max(top.values()))  # greedy
        assert 1 <= len(top) <= 4
    named = complete(client, logprobs=0, body={"return_tokens_as_token_ids": True, "return_token_ids": True})[0]
    assert named.logprobs.tokens == [f"token_id:{token}" for token in named.token_ids]
    assert [list(top) for top in named.logprobs.top_logprobs] == [[token] for token in named.logprobs.tokens]


def test_lm_eval_s_question_is_answered(client: openai.OpenAI) -> None:
    """How likely is the end of each prompt? Token ids, in a batch, echoed."""
    prompts = [[20, 30, 40, 50, 60], [70, 80, 90]]
    for max_tokens in (1, 0):
        choices = complete(client, prompt=prompts, logprobs=1, echo=True, max_tokens=max_tokens)
        for ids, choice in zip(prompts, choices, strict=True):
            known = choice.logprobs
            assert len(known.token_logprobs) == len(known.tokens) == len(ids) + max_tokens
            assert known.token_logprobs[0] is None and known.top_logprobs[0] is None
            assert all(value < 0 for value in known.token_logprobs[1:])
            for own, top in zip(known.token_logprobs[1:], known.top_logprobs[1:], strict=True):
                assert own <= max(top.values())
            assert known.text_offset[0] == 0
    assert complete(client, prompt=prompts[0], echo=True, max_tokens=0)[0].text == "".join(
        known_text(client, prompts[0])
    )
    echoed = complete(client, prompt=PROMPT, echo=True, max_tokens=3)[0].text
    assert echoed == PROMPT + complete(client, prompt=PROMPT, max_tokens=3)[0].text
    asked = complete(client, prompt=prompts[0], body={"prompt_logprobs": 2})[0].prompt_logprobs
    assert asked[0] is None
    assert all(str(token) in known for token, known in zip(prompts[0][1:], asked[1:], strict=True))


def known_text(client: openai.OpenAI, ids: list[int]) -> str:
    answer: Any = client.post("../detokenize", cast_to=object, body={"tokens": ids})
    return str(answer["prompt"])


def test_log_probabilities_of_chats(client: openai.OpenAI) -> None:
    given: Any = {"model": "tiny", "messages": CHAT, "max_tokens": 6, "temperature": 0, "logprobs": True}
    content = client.chat.completions.create(**given, top_logprobs=2).choices[0].logprobs.content  # type: ignore[union-attr]
    assert content is not None
    for each in content:
        assert each.bytes is not None
        assert bytes(each.bytes).decode(errors="replace") == each.token
        assert len(each.top_logprobs) == 2
        assert each.top_logprobs[0].token == each.token
        assert each.top_logprobs[0].logprob >= each.top_logprobs[1].logprob
    chunks = list(client.chat.completions.create(**given, top_logprobs=2, stream=True))
    streamed = [each for c in chunks for each in (c.choices[0].logprobs and c.choices[0].logprobs.content) or ()]
    assert [each.token for each in streamed] == [each.token for each in content]
    bare = client.chat.completions.create(**given).choices[0].logprobs
    assert bare is not None and bare.content is not None and bare.content[0].top_logprobs == []
    with pytest.raises(openai.BadRequestError, match="only allowed with logprobs"):
        client.chat.completions.create(**{**given, "logprobs": False}, top_logprobs=2)


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": SCHEMA, "strict": True}}},
        {"body": {"guided_json": SCHEMA}},
        {"body": {"guided_json": json.dumps(SCHEMA)}},
        {"body": {"structured_outputs": {"json": SCHEMA}}},
    ],
    ids=["response_format", "guided_json", "as text", "structured_outputs"],
)
def test_an_answer_follows_its_schema(client: openai.OpenAI, form: dict[str, Any]) -> None:
    choice = converse(client, **form)
    assert choice.finish_reason == "stop"
    value = json.loads(choice.message.content)
    assert value["city"] in ("Paris", "Bern")
    assert isinstance(value["big"], bool)


def test_an_answer_follows_other_grammars(client: openai.OpenAI) -> None:
    assert converse(client, body={"guided_choice": ["yes", "no"]}).message.content in ("yes", "no")
    assert converse(client, body={"structured_outputs": {"regex": "[0-9]{3}"}}).message.content.isdecimal()
    assert converse(client, body={"guided_grammar": 'start: "a" "b"'}).message.content == "ab"
    assert complete(client, body={"structured_outputs": {"choice": ["up"]}})[0].text == "up"
    text = converse(client, response_format={"type": "json_object"}, max_tokens=20).message.content
    assert text.lstrip().startswith("{")
    assert converse(client, response_format={"type": "text"}, max_tokens=3).finish_reason == "length"
    with pytest.raises(openai.BadRequestError, match="Invalid type: nothing"):
        form: Any = {"type": "json_schema", "json_schema": {"name": "c", "schema": {"type": "nothing"}}}
        converse(client, response_format=form)


def test_a_tool_is_called_where_it_must_be(client: openai.OpenAI) -> None:
    named = converse(client, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "look"}})
    assert named.finish_reason == "tool_calls"
    (call,) = named.message.tool_calls
    assert call.function.name == "look"
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Bern")
    assert call.id.startswith("call_")
    assert named.message.content is None
    some = converse(client, tools=TOOLS, tool_choice="required", body={"parallel_tool_calls": False})
    assert [call.function.name in ("look", "wait") for call in some.message.tool_calls] == [True]
    for call in some.message.tool_calls:
        json.loads(call.function.arguments)
    with pytest.raises(openai.BadRequestError, match=r"expected one of \['look', 'wait'\]"):
        converse(client, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "jump"}})
    with pytest.raises(openai.BadRequestError, match="no tools to choose from"):
        converse(client, tool_choice="required")


def test_what_looks_like_a_call_is_one_only_where_tools_may_be_called(client: openai.OpenAI) -> None:
    said = '{"name": "look", "arguments": {"city": "Bern"}}'
    body = {"guided_choice": [said]}
    auto = converse(client, tools=TOOLS, body=body)
    assert (auto.finish_reason, auto.message.content) == ("tool_calls", None)
    assert [json.loads(call.function.arguments) for call in auto.message.tool_calls] == [{"city": "Bern"}]
    for options in ({"tools": TOOLS, "tool_choice": "none"}, {}):
        choice = converse(client, body=body, **options)
        assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (said, None, "stop")
    tagged = converse(client, tools=TOOLS, body={"guided_choice": [f"Well.\n<tool_call>\n{said}\n</tool_call>"]})
    assert tagged.message.content == "Well."
    assert tagged.message.tool_calls[0].function.name == "look"


def test_a_conversation_with_tools_goes_on(client: openai.OpenAI) -> None:
    first = converse(client, tools=TOOLS, tool_choice="required").message
    call = first.tool_calls[0]
    answered: Any = {"role": "tool", "tool_call_id": call.id, "content": "It is Bern."}
    messages = [*CHAT, first, answered]
    choice = converse(client, messages=messages, tools=TOOLS, max_tokens=5)
    assert choice.message.role == "assistant"
    rest = client.with_options(max_retries=0)
    told: Any = rest.post(
        "../tokenize", cast_to=object, body={"messages": [*CHAT, first.model_dump(), answered], "tools": TOOLS}
    )
    text = known_text(client, told["tokens"])
    assert call.function.arguments.split()[0][:3] in text
    assert "<tool_response>\nIt is Bern.\n</tool_response>" in text
    assert '"description": "Waits."' in text


def test_a_message_is_continued(client: openai.OpenAI) -> None:
    messages: Any = [*CHAT, {"role": "assistant", "content": "It is P"}]
    told: Any = client.post(
        "../tokenize",
        cast_to=object,
        body={"messages": messages, "add_generation_prompt": False, "continue_final_message": True},
    )
    assert known_text(client, told["tokens"]).endswith("assistant\nIt is P")
    converse(client, messages=messages, max_tokens=3, body={"continue_final_message": True})
    with pytest.raises(openai.BadRequestError, match="exclude each other"):
        converse(client, messages=messages, body={"continue_final_message": True, "add_generation_prompt": True})
