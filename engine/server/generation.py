"""Generation: from a request that has been read to the exchange that answers it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

from aiohttp import web

from engine.detokenizer import Detokenizer
from engine.errors import RequestRefused
from engine.grammar import Grammar
from engine.server.border import ENTRY, REQUEST_ID
from engine.server.chat_messages import NamedToolChoice, Tool, for_template
from engine.server.choices import Choice, Prompt
from engine.server.exchange import Exchange
from engine.server.identity import ServerIdentity
from engine.server.link import EngineLink
from engine.server.pieces import Wording
from engine.server.protocol import ChatRequest, CompletionRequest, GenerationRequest, TokenizeRequest
from engine.server.request_log import RequestLog
from engine.server.shapes import ChatShape, CompletionShape, Shape
from engine.server.tool_calls import ToolCallParser, tool_grammar
from engine.tokenizer import ModelTokenizer

__all__ = ["Generation"]

LONG_TEXT = 16_384
"""Characters from which on a text is tokenised in a thread, while streams go on."""


class Generation:
    """Answers requests for text."""

    def __init__(
        self, link: EngineLink, tokenizer: ModelTokenizer, identity: ServerIdentity, log: RequestLog | None
    ) -> None:
        self._link, self._tokenizer, self._identity, self._log = link, tokenizer, identity, log
        self._numbers = itertools.count()

    async def completions(self, request: web.Request, body: CompletionRequest, arrived_s: float) -> web.StreamResponse:
        special = body.add_special_tokens is not False
        prompts = []
        for prompt in body.prompts:
            text = prompt if isinstance(prompt, str) else None
            ids = await self.encode(prompt, special=special) if isinstance(prompt, str) else prompt
            prompts.append(Prompt(text, ids))
        max_tokens = 16 if body.max_tokens is None else body.max_tokens
        shape = CompletionShape(self._wording(request, body, "cmpl"), self._tokenizer, echo=bool(body.echo))
        grammar = await checked(body.asked_grammar())
        return await self._answer(request, body, shape, prompts, max_tokens, grammar, arrived_s, echo=bool(body.echo))

    async def chat(self, request: web.Request, body: ChatRequest, arrived_s: float) -> web.StreamResponse:
        text = self.render(body)
        ids = await self.encode(text, special=bool(body.add_special_tokens))
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        if max_tokens is None:
            max_tokens = max(1, self._identity.max_model_len - len(ids))
        shape = ChatShape(self._wording(request, body, "chatcmpl"), self._tokenizer)
        tools, forced, several = called_tools(body)
        grammar = body.asked_grammar()
        if forced:
            if grammar is not None:
                raise RequestRefused("tool_choice and response_format ask for two different forms", param="tool_choice")
            template = self._tokenizer.chat_template.source(with_tools=True) or ""
            grammar = tool_grammar(tools, tagged="<tool_call>" in template, several=several)

        def parser() -> ToolCallParser | None:
            return ToolCallParser([tool.function.name for tool in tools], several=several) if tools else None

        grammar = await checked(grammar)
        prompts = [Prompt(text, ids)]
        return await self._answer(request, body, shape, prompts, max_tokens, grammar, arrived_s, parser=parser)

    def render(self, body: ChatRequest | TokenizeRequest) -> str:
        """The conversation in the model's own format."""
        template = self._tokenizer.chat_template
        messages, tools = for_template(
            body.messages or [], body.tools or [], template.source(with_tools=bool(body.tools)) or ""
        )
        goes_on = bool(body.continue_final_message)
        begins = not goes_on if body.add_generation_prompt is None else body.add_generation_prompt
        if goes_on and begins:
            raise RequestRefused(
                "add_generation_prompt and continue_final_message exclude each other", param="messages"
            )
        return template.render(
            messages,
            tools=tools,
            documents=body.documents if isinstance(body, ChatRequest) else None,
            add_generation_prompt=begins,
            continue_final_message=goes_on,
            variables=body.chat_template_kwargs,
        )

    async def encode(self, text: str, *, special: bool) -> list[int]:
        if len(text) < LONG_TEXT:
            return self._tokenizer.encode(text, add_special_tokens=special)
        return await asyncio.to_thread(self._tokenizer.encode_beside, text, add_special_tokens=special)

    async def _answer(
        self,
        request: web.Request,
        body: GenerationRequest,
        shape: Shape,
        prompts: list[Prompt],
        max_tokens: int,
        grammar: Grammar | None,
        arrived_s: float,
        *,
        echo: bool = False,
        parser: Callable[[], ToolCallParser | None] = lambda: None,
    ) -> web.StreamResponse:
        # Nothing but the prompt's log-probabilities is wanted: the engine computes one token for them all the same.
        silent = max_tokens == 0 and (echo or body.num_prompt_logprobs is not None)
        deadline_s = None if body.deadline_s is None else arrived_s + body.deadline_s
        with Exchange(shape, usage_at_end=body.usage_at_end, usage_always=body.usage_always) as exchange:
            exchange.keeps_text = self._log is not None and self._log.with_text
            try:
                for index, (prompt, copy) in enumerate(itertools.product(prompts, range(body.n or 1))):
                    params = body.sampling(1 if silent else max_tokens, grammar, copy)
                    answer = self._link.submit(
                        f"{request[REQUEST_ID]}-{next(self._numbers)}",
                        prompt.token_ids,
                        params,
                        arrived_s=arrived_s,
                        priority=body.priority,
                        deadline_s=deadline_s,
                    )
                    detokenizer = Detokenizer(
                        self._tokenizer,
                        params.stop,
                        include_stop=body.include_stop_str_in_output,
                        min_tokens=params.min_tokens,
                        skip_special_tokens=body.skip_special_tokens,
                    )
                    exchange.add(
                        Choice(
                            index,
                            prompt,
                            params,
                            answer,
                            self._tokenizer,
                            detokenizer,
                            include_stop=body.include_stop_str_in_output,
                            echo=echo,
                            silent=silent,
                            parser=parser(),
                        )
                    )
                if body.stream:
                    return await exchange.stream(request, {"X-Request-Id": request[REQUEST_ID]})
                return await exchange.whole()
            finally:
                if self._log is not None:
                    request[ENTRY] |= exchange.entry(arrived_s)

    def _wording(self, request: web.Request, body: GenerationRequest, prefix: str) -> Wording:
        if body.request_id is not None and "X-Request-Id" not in request.headers:
            request[REQUEST_ID] = body.request_id
        return Wording(
            answer_id=f"{prefix}-{request[REQUEST_ID]}",
            model=self._identity.model,
            created=int(time.time()),
            with_ids=bool(body.return_token_ids),
            names_ids=bool(body.return_tokens_as_token_ids),
            with_usage=body.usage_at_end,
        )


def called_tools(body: ChatRequest) -> tuple[list[Tool], bool, bool]:
    """Tools that may be called, whether one must be, and whether several may."""
    several = body.parallel_tool_calls is not False
    match body.tool_choice:
        case "none":
            return [], False, several
        case NamedToolChoice(function=named):
            return [tool for tool in body.tools or [] if tool.function.name == named.name], True, False
        case choice:
            return body.tools or [], choice == "required", several


async def checked(grammar: Grammar | None) -> Grammar | None:
    """`grammar`, if it can be used. In a thread: a large one takes long."""
    if grammar is not None:
        await asyncio.to_thread(grammar.check)
    return grammar
