"""ModelTokenizer: text to ids and back, and the model's chat template."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as ReadOnlyList
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from engine.errors import RequestRefused, StartRefused

__all__ = ["ModelTokenizer"]


class ModelTokenizer:
    """The tokenizer of a Hugging Face directory. Safe to use from several threads: encoding changes nothing."""

    def __init__(self, directory: Path) -> None:
        """Raises: StartRefused, kind model_missing, where there is no tokenizer.json."""
        if not (directory / "tokenizer.json").is_file():
            raise StartRefused("model_missing", f"{directory} holds no tokenizer.json")
        # Not AutoTokenizer: it imports model code for a second, and finds the same tokenizer.json.
        self._pretrained = PreTrainedTokenizerFast.from_pretrained(str(directory))
        self._backend = self._pretrained.backend_tokenizer

    @property
    def eos_token_id(self) -> int | None:
        token_id: int | None = self._pretrained.eos_token_id
        return token_id

    @property
    def has_chat_template(self) -> bool:
        return self._pretrained.chat_template is not None

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, token_ids: ReadOnlyList[int]) -> str:
        """Text of `token_ids` without special tokens; an id the tokenizer doesn't know has no text."""
        text: str = self._backend.decode(token_ids, skip_special_tokens=True)
        return text

    def encode_chat(self, messages: ReadOnlyList[Mapping[str, Any]]) -> list[int]:
        """Ids of the conversation in the model's own format, up to where the assistant begins to speak.

        Raises:
            RequestRefused: the model has no chat template, or the template refuses the messages.
        """
        if not self.has_chat_template:
            raise RequestRefused("the model has no chat template; use /v1/completions", param="messages")
        try:
            text = self._pretrained.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except TemplateError as error:
            raise RequestRefused(
                f"the model's chat template refuses the messages: {error}", param="messages"
            ) from error
        return self.encode(text, add_special_tokens=False)
