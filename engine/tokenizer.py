"""ModelTokenizer: text to ids and back, and the model's chat template."""

from __future__ import annotations

import json
from collections.abc import Sequence as ReadOnlyList
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders

from engine.chat_template import ChatTemplate
from engine.errors import StartRefused

__all__ = ["ModelTokenizer"]

Json = dict[str, Any]


class ModelTokenizer:
    """The tokenizer of a Hugging Face directory. Safe to use from several threads: encoding changes nothing.

    Reads what transformers reads, without importing it: that would take a second.
    """

    def __init__(self, directory: Path) -> None:
        """Raises: StartRefused, kind model_missing, where there is no tokenizer.json, or one that can't be read."""
        if not (directory / "tokenizer.json").is_file():
            raise StartRefused("model_missing", f"{directory} holds no tokenizer.json")
        try:
            self._backend = Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # the library raises nothing narrower
            raise StartRefused("model_missing", f"{directory}/tokenizer.json can't be read: {error}") from error
        self._backend.no_truncation()
        self._backend.no_padding()
        self.config = config = load_json(directory / "tokenizer_config.json")
        self.special_tokens = special_tokens_of(directory, config)
        self._add_missing(config)
        self.chat_template = ChatTemplate.load(directory, config, self.special_tokens)
        added = self._backend.get_added_tokens_decoder()
        self.special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        self._byte_level = isinstance(self._backend.decoder, decoders.ByteLevel)
        self._bytes: dict[int, bytes] = {}

    @property
    def eos_token_id(self) -> int | None:
        token_id: int | None = self._backend.token_to_id(self.special_tokens.get("eos_token", ""))
        return token_id

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids: list[int] = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def encode_beside(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The same, while other threads go on: worth its start from some 10,000 characters on."""
        ids: list[int] = self._backend.encode_batch([text], add_special_tokens=add_special_tokens)[0].ids
        return ids

    def decode(self, token_ids: ReadOnlyList[int], *, skip_special_tokens: bool = True) -> str:
        """Text of `token_ids`; an id the tokenizer doesn't know has no text."""
        text: str = self._backend.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text

    @property
    def joins_bytes(self) -> bool:
        """Whether text is the tokens' bytes one after the other: so with every byte-level BPE."""
        return self._byte_level

    def bytes_of(self, token_id: int) -> bytes:
        """What a token stands for by itself; may be part of a character. Special tokens by their name."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._find_bytes(token_id)
        return known

    def name_of(self, token_id: int) -> str:
        """The token as the vocabulary spells it."""
        name: str | None = self._backend.id_to_token(token_id)
        return "" if name is None else name

    def _find_bytes(self, token_id: int) -> bytes:
        name = self.name_of(token_id)
        if self._byte_level:
            try:
                return bytes(BYTE_OF[character] for character in name)
            except KeyError:
                return name.encode()
        if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
            return bytes.fromhex(name[3:5])
        if token_id in self.special_ids:
            return name.encode()
        # Sentencepiece drops a blank at the beginning of a text; it is part of the token all the same.
        return name.replace("\u2581", " ").encode() if "\u2581" in name else self.decode([token_id]).encode()

    def _add_missing(self, config: Json) -> None:
        """Tokens that only tokenizer_config.json knows."""
        listed = (config.get("added_tokens_decoder") or {}).values()
        tokens = [AddedToken(**{**token, "special": token.get("special", False)}) for token in listed]
        added = {token.content for token in self._backend.get_added_tokens_decoder().values()}
        self._backend.add_tokens([token for token in tokens if token.content not in added])
        added |= {token.content for token in tokens}
        names = [name for name in self.special_tokens.values() if name not in added]
        self._backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])


def special_tokens_of(directory: Path, config: Json) -> dict[str, str]:
    """`bos_token`, `eos_token` and their like, by role."""
    listed = dict(config)
    if "added_tokens_decoder" not in config:
        listed |= load_json(directory / "special_tokens_map.json")
    tokens = {key: value for key, value in listed.items() if key.endswith("_token")}
    named = {key: value["content"] if isinstance(value, dict) else value for key, value in tokens.items()}
    return {key: value for key, value in named.items() if isinstance(value, str)}


def load_json(path: Path) -> Json:
    if not path.is_file():
        return {}
    try:
        content: Json = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StartRefused("model_missing", f"{path} can't be read: {error}") from error
    return content


def byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes as printable characters, the way back."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTE_OF = byte_alphabet()
