"""Shapes: the JSON that goes back, chunk by chunk or whole, in OpenAI's form with vLLM's extensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence as ReadOnlyList

import orjson

from engine.logprobs import TokenLogprobs
from engine.server.pieces import Json, Piece, Wording, event
from engine.tokenizer import ModelTokenizer

__all__ = ["ChatShape", "CompletionShape", "Shape"]

LEAST_LOGPROB = -9999.0
"""JSON has no minus infinity; OpenAI sends this."""


class Shape(ABC):
    """Words the answer to one request.

    A stream's ordinary chunk is text between constants that are rendered once; any other goes through a dict.
    """

    _chunk_object: str
    _whole_object: str
    _before_text: bytes
    _after_text: bytes

    def __init__(self, wording: Wording, tokenizer: ModelTokenizer) -> None:
        self._wording = wording
        self._tokenizer = tokenizer
        self._envelope: Json = {"id": wording.answer_id, "created": wording.created, "model": wording.model}
        self._chunk_envelope = {**self._envelope, "object": self._chunk_object}
        tail = b'"logprobs":null,"finish_reason":null}]' + (b',"usage":null' if wording.with_usage else b"") + b"}\n\n"
        self._tail = self._after_text + tail
        self._heads: dict[int, bytes] = {}

    def chunk(self, index: int, piece: Piece, counts: Json | None = None) -> bytes:
        """The events of a piece. `counts` is the usage so far, where every chunk is to carry it."""
        if counts is None and piece.is_plain and not self._wording.with_ids:
            return (self._heads.get(index) or self._head(index)) + orjson.dumps(piece.text) + self._tail
        return self._chunk(index, piece, counts)

    def closing(self, counts: Json) -> bytes:
        """The event without choices that carries the usage."""
        return event({**self._chunk_envelope, "choices": [], "usage": counts})

    def whole(self, pieces: ReadOnlyList[Piece], counts: Json) -> Json:
        """The answer to a request that doesn't stream; a piece is all of a choice."""
        choices = [self._choice(index, piece, self._message(piece)) for index, piece in enumerate(pieces)]
        body = {**self._envelope, "object": self._whole_object, "choices": choices, "usage": counts}
        return body | self._around(pieces[0])

    def _head(self, index: int) -> bytes:
        head = orjson.dumps(self._chunk_envelope)[:-1] + b',"choices":[{"index":%d,' % index
        self._heads[index] = b"data: " + head + self._before_text
        return self._heads[index]

    def _event(self, choice: Json, counts: Json | None, around: Json) -> bytes:
        body = {**self._chunk_envelope, "choices": [choice], **around}
        return event(body | {"usage": counts} if self._wording.with_usage else body)

    def _choice(self, index: int, piece: Piece, said: Json) -> Json:
        choice = {
            "index": index,
            **said,
            "logprobs": self._logprobs(index, piece),
            "finish_reason": piece.finish_reason,
        }
        if piece.finish_reason:
            choice["stop_reason"] = piece.stop_reason
        if self._wording.with_ids:
            choice["token_ids"] = list(piece.token_ids)
        return choice

    def _prompt_part(self, piece: Piece) -> Json:
        part: Json = {}
        if piece.prompt_ids is not None and self._wording.with_ids:
            part["prompt_token_ids"] = list(piece.prompt_ids)
        if piece.prompt_logprobs:
            part["prompt_logprobs"] = [known and self._by_id(known) for known in piece.prompt_logprobs]
        return part

    def _name(self, token_id: int) -> str:
        if self._wording.names_ids:
            return f"token_id:{token_id}"
        return self._tokenizer.bytes_of(token_id).decode(errors="replace")

    def _by_id(self, known: TokenLogprobs) -> Json:
        """vLLM's form: the alternatives by id."""
        ranked = [(token, logprob, rank) for rank, (token, logprob) in enumerate(known.top, 1)]
        return {
            str(token): {"logprob": finite(logprob), "rank": rank, "decoded_token": self._name(token)}
            for token, logprob, rank in [(known.token_id, known.logprob, known.rank), *ranked]
        }

    @abstractmethod
    def _chunk(self, index: int, piece: Piece, counts: Json | None) -> bytes:
        """The events of a piece that isn't plain."""

    @abstractmethod
    def _message(self, piece: Piece) -> Json:
        """What was said, in the words of an answer that doesn't stream."""

    @abstractmethod
    def _around(self, piece: Piece) -> Json:
        """What stands beside the choices."""

    @abstractmethod
    def _logprobs(self, index: int, piece: Piece) -> Json | None:
        """Log-probabilities of the piece's tokens, None where none were asked for."""


class CompletionShape(Shape):
    """/v1/completions. With `echo` an answer's log-probabilities begin with the prompt's, as its text does."""

    _chunk_object = _whole_object = "text_completion"
    _before_text, _after_text = b'"text":', b","

    def __init__(self, wording: Wording, tokenizer: ModelTokenizer, *, echo: bool = False) -> None:
        super().__init__(wording, tokenizer)
        self._echo = echo
        self._offsets: dict[int, int] = {}
        "Characters of each choice's tokens so far."

    def _chunk(self, index: int, piece: Piece, counts: Json | None) -> bytes:
        return self._event(self._choice(index, piece, self._message(piece)), counts, {})

    def _message(self, piece: Piece) -> Json:
        return {"text": piece.text}

    def _choice(self, index: int, piece: Piece, said: Json) -> Json:
        part = self._prompt_part(piece)
        if self._echo:
            part.pop("prompt_logprobs", None)
        return super()._choice(index, piece, said) | part

    def _around(self, piece: Piece) -> Json:
        return {}

    def _logprobs(self, index: int, piece: Piece) -> Json | None:
        known, ids = list[TokenLogprobs | None](piece.logprobs), list(piece.token_ids)
        if self._echo and piece.prompt_logprobs:
            known, ids = [*piece.prompt_logprobs, *known], [*(piece.prompt_ids or ()), *ids]
        if not known:
            return None
        tokens, offsets, place = [self._name(token) for token in ids], [], self._offsets.get(index, 0)
        for token in tokens:
            offsets.append(place)
            place += len(token)
        self._offsets[index] = place
        return {
            "text_offset": offsets,
            "tokens": tokens,
            "token_logprobs": [each and finite(each.logprob) for each in known],
            "top_logprobs": [each and self._top(each) for each in known],
        }

    def _top(self, known: TokenLogprobs) -> dict[str, float]:
        top: dict[str, float] = {}
        for token, logprob in (*known.top, (known.token_id, known.logprob)):
            # Several tokens may read alike: the likeliest speaks for them, so that the greedy one can be told.
            top.setdefault(self._name(token), finite(logprob))
        return top


class ChatShape(Shape):
    """/v1/chat/completions."""

    _chunk_object, _whole_object = "chat.completion.chunk", "chat.completion"
    _before_text, _after_text = b'"delta":{"content":', b"},"

    def __init__(self, wording: Wording, tokenizer: ModelTokenizer, *, role: str = "assistant") -> None:
        super().__init__(wording, tokenizer)
        self._role = role

    def _chunk(self, index: int, piece: Piece, counts: Json | None) -> bytes:
        """A choice's first event has the role and no token. Of several events the last has the tokens and the end."""
        deltas: list[Json] = [{"content": piece.text}] if piece.deltas is None else list(piece.deltas)
        if not deltas and (piece.finish_reason or (piece.token_ids and (self._wording.with_ids or piece.logprobs))):
            deltas = [{}]
        if piece.prompt_ids is not None:
            deltas.insert(0, {"role": self._role, "content": ""})
        events = []
        for place, delta in enumerate(deltas, 1):
            part = piece if place == len(deltas) else Piece("")
            around = self._around(piece) if place == 1 else {}
            events.append(self._event(self._choice(index, part, {"delta": delta}), counts, around))
        return b"".join(events)

    def _message(self, piece: Piece) -> Json:
        message: Json = {"role": self._role, "content": piece.text}
        if piece.deltas is not None:
            calls: list[Json] = []
            for call in (call for delta in piece.deltas for call in delta.get("tool_calls", ())):
                if "id" in call:
                    calls.append({key: value for key, value in call.items() if key != "index"})
                else:
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
            message["content"] = "".join(delta.get("content", "") for delta in piece.deltas)
            if calls:
                message |= {"content": message["content"] or None, "tool_calls": calls}
        return {"message": message}

    def _around(self, piece: Piece) -> Json:
        return self._prompt_part(piece)

    def _logprobs(self, index: int, piece: Piece) -> Json | None:
        if not piece.logprobs:
            return None
        content = []
        for known in piece.logprobs:
            top = [self._named(token, logprob) for token, logprob in known.top]
            content.append({**self._named(known.token_id, known.logprob), "top_logprobs": top})
        return {"content": content, "refusal": None}

    def _named(self, token_id: int, logprob: float) -> Json:
        spelled = list(self._tokenizer.bytes_of(token_id))
        return {"token": self._name(token_id), "logprob": finite(logprob), "bytes": spelled}


def finite(logprob: float) -> float:
    return max(logprob, LEAST_LOGPROB)
