"""Instructions: form that can be checked without understanding a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.evals.item import Item, TaskSet, chat

__all__ = ["INSTRUCTIONS"]

_ASKED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "one-word": ("Answer with one word only: what colour is grass?", {"words_at_most": 1, "contains": "green"}),
    "upper": ("Write the word hello in capital letters and nothing else.", {"upper": True, "contains": "hello"}),
    "lower": ("Repeat in lower case only: THE END", {"lower": True, "contains": "the end"}),
    "no-comma": ("Say in one sentence what a dog is. Use no commas.", {"lacks": ",", "contains": "dog"}),
    "begin": ('Begin your answer with the word "Indeed". Is ice cold?', {"starts": "indeed", "contains": "cold"}),
    "numbered": ("List three fruits as a numbered list.", {"matches": r"^1[.)]", "lines_at_least": 2}),
    "bullets": ("List two animals. Begin each line with a dash.", {"matches": r"^- ", "lacks": "1."}),
    "exact": ("Repeat exactly: The quick brown fox", {"starts": "The quick brown fox", "words_at_most": 6}),
    "yes-no": ("Is Paris in France? Answer yes or no.", {"matches": r"(?i)^(yes|no)\b", "contains": "yes"}),
    "letters": ("Write the first five letters of the alphabet.", {"matches": r"(?i)a,? ?b,? ?c,? ?d,? ?e"}),
    "question": ("Write one short question about the sea.", {"contains": "?", "words_at_most": 14}),
    "name": ("Write a greeting to Anna in at most five words.", {"contains": "Anna", "words_at_most": 5}),
}


def _item(name: str) -> Item:
    text, kept = _ASKED[name]
    return chat(name, text, "constraints", kept, max_tokens=14)


INSTRUCTIONS = TaskSet("instructions", tuple(_item(name) for name in _ASKED))
