"""Order: who is launched when. A machine warms up, and a launch leaves its files in the page cache to the next."""

from __future__ import annotations

__all__ = ["round_order"]


def round_order(contenders: int, number: int) -> tuple[int, ...]:
    """The places of `contenders` in the order in which round `number`, from 0, launches them.

    In each run of as many rounds as there are contenders everyone stands once in each place (a Latin square), and over
    as many rounds (twice as many, of an odd number) everyone follows each other equally often.

    Source: Williams, Australian Journal of Scientific Research A 2, 1949.
    """
    cycle, shift = divmod(number, contenders)
    row = [(place + shift) % contenders for place in _zigzag(contenders)]
    return tuple(reversed(row)) if cycle % 2 and contenders % 2 else tuple(row)


def _zigzag(size: int) -> list[int]:
    """0, 1, size - 1, 2, size - 2, ..."""
    places = [0]
    for step in range(1, size // 2 + 1):
        places += [step, size - step]
    return places[:size]
