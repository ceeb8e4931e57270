"""Book: what a simulated fleet is asked and what becomes of it, request by request."""

from __future__ import annotations

import math

__all__ = ["Book"]


class Book:
    """Columns by request number. Times in seconds from the start of the simulation.

    Plain lists: single elements of arrays are several times as dear to read and write.
    """

    __slots__ = ("arrived", "decode", "done", "entered", "first", "gaps_from_s", "mixed", "outputs", "prompts")

    def __init__(self, arrived: list[float], prompts: list[int], outputs: list[int], seats: int) -> None:
        self.arrived = arrived
        "When it is due; negative for those that were there before the simulation."
        self.entered = arrived.copy()
        "When it reached the replica that serves it: later than `arrived` where it was held or sent anew."
        self.prompts = prompts
        "Tokens to read, at least 1."
        self.outputs = outputs
        "Tokens to write, at least 1."
        self.first = [math.nan] * len(arrived)
        self.done = [math.nan] * len(arrived)
        self.gaps_from_s = 0.0
        "Gaps between tokens are tallied from then on."
        self.decode = [0] * (seats + 1)
        "Tokens that came after a plain step, by the number of sequences that decoded in it."
        self.mixed: list[tuple[float, int]] = []
        "(seconds, tokens) of the steps in which prompts were read."
