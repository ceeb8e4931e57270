"""Scorers of this deployment. They run in a process of their own, without a network, and see nothing else."""

from typing import Any


def polite(item: dict[str, Any], answer: str) -> float:
    """1 where the answer has one of the words that the item wants."""
    return float(any(word in answer.lower() for word in item["wanted"]))
