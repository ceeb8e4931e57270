"""LLM: answers without a server, for scripts and tests."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as ReadOnlyList
from dataclasses import dataclass, field
from pathlib import Path

from engine.delta import FinishReason
from engine.detokenizer import Detokenizer
from engine.knobs import EngineKnobs
from engine.loading import load_engine
from engine.logprobs import TokenLogprobs
from engine.sampling import SamplingParams
from engine.tokenizer import ModelTokenizer

__all__ = ["LLM", "Completion"]


@dataclass(slots=True)
class Completion:
    """A whole answer."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: FinishReason | None = None
    num_cached_tokens: int = 0
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs | None] = field(default_factory=list)


class LLM:
    """An engine and its tokenizer."""

    def __init__(self, directory: Path, knobs: EngineKnobs | None = None) -> None:
        """Raises: StartRefused; see `load_engine`."""
        self.engine = load_engine(directory, knobs)
        self.tokenizer = ModelTokenizer(directory)

    def generate(self, prompts: Iterable[ReadOnlyList[int] | str], params: SamplingParams) -> list[Completion]:
        """Answers to `prompts` (text or token ids), computed together."""
        answers: dict[str, tuple[Completion, Detokenizer]] = {}
        for index, prompt in enumerate(prompts):
            ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
            self.engine.add(f"generate-{index}", ids, params)
            answers[f"generate-{index}"] = Completion(), Detokenizer(self.tokenizer, params.stop)
        while self.engine.has_work:
            for delta in self.engine.step():
                completion, text = answers[delta.request_id]
                completion.token_ids += delta.token_ids
                completion.logprobs += delta.logprobs
                completion.prompt_logprobs += delta.prompt_logprobs
                completion.num_cached_tokens = delta.num_cached_tokens
                completion.finish_reason = delta.finish_reason
                if delta.finish_reason != "stop":
                    completion.text += "".join(text.add(token) for token in delta.token_ids)
                if delta.finish_reason:
                    completion.text += text.finish()
                if text.stop_string is not None:
                    completion.finish_reason = "stop"
                    self.engine.finish(delta.request_id, "stop")
        return [completion for completion, _ in answers.values()]
