"""ShellPart: words of a command in a text that a shell, Compose or systemd splits."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from tools.manifests.part import Insertable, is_flag, nearest
from tools.manifests.shell_words import Dialect, Word, quoted, word_view
from tools.manifests.splice import CannotEdit, Splice
from tools.manifests.view import View

__all__ = ["ShellPart"]


@dataclass(frozen=True)
class ShellPart:
    """`spans` are words of `view.text`, in order; a gap between two may hold redirections."""

    view: View
    spans: tuple[Word, ...]
    dialect: Dialect

    @property
    def insertable(self) -> Insertable:
        return "anywhere"

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(span.value for span in self.spans)

    @cached_property
    def computed(self) -> frozenset[int]:
        return frozenset(
            place
            for place, span in enumerate(self.spans)
            if span.computed or self.view.is_foreign(span.start, span.end)
        )

    def view_of(self, at: int) -> View | None:
        return word_view(self.view, self.spans[at], self.dialect)

    def replaced(self, at: int, word: str) -> Splice:
        """Only what stands behind a `--flag=` changes where the flag stays, so that its quotes stay too."""
        span = self.spans[at]
        flag, equals, value = word.partition("=")
        kept = f"{flag}="
        raw = self.view.text[span.start : span.end]
        if equals and raw.startswith(kept):
            start = span.start + len(kept)
            return self.view.splice(start, span.end, quoted(value, self.dialect, raw[len(kept) :]))
        return self.view.splice(span.start, span.end, quoted(word, self.dialect, raw))

    def deleted(self, at: int, count: int) -> list[Splice]:
        """The words go with the gap before them, so that a line of their own goes too."""
        runs: list[tuple[int, int]] = []
        for span in self.spans[at : at + count]:
            gap = self._gap_start(span.start)
            if runs and gap == runs[-1][1] and not self._holds_comment(gap, span.start):
                runs[-1] = (runs[-1][0], span.end)
            else:
                runs.append((span.start, span.end))
        return [splice for start, end in runs for splice in self._gone(start, end)]

    def _gone(self, start: int, end: int) -> list[Splice]:
        gap, following = self._gap_start(start), self._gap_end(end)
        if 0 < gap < start and not self._holds_comment(gap, start):
            return [self.view.splice(gap, end, "")]
        if following > end and not self._holds_comment(end, following):
            return [self.view.splice(start, following, "")]
        if end == self.spans[-1].end and gap < start:
            return self._last_gone(gap, start, end)
        return [self.view.splice(start, end, "")]

    def _last_gone(self, gap: int, start: int, end: int) -> list[Splice]:
        """The last words behind a comment: what continued the command before it goes too, so that it ends there."""
        raw, base = self.view.raw(gap, start), self.view.starts[gap]
        first, last = (len(raw[:at].rstrip("\r")) for at in (raw.index("\n"), raw.rindex("\n")))
        whole = self.view.raw_splice(gap, end, "")
        return [Splice(base, base + first, ""), Splice(base + last, whole.end, "")]

    def inserted(self, at: int, words: tuple[str, ...], going: int) -> list[Splice]:
        if not self.spans:
            raise CannotEdit(f"there is no place for {' '.join(words)}; write one argument there by hand first")
        if at == 0:
            following = [*words[1:], self.words[0]]
            text = (
                self._written(0, word) + self._gap(1, is_flag(after))
                for word, after in zip(words, following, strict=True)
            )
            here = self.spans[0].start
            return [self.view.raw_splice(here, here, "".join(text))]
        here = self.spans[at - 1].end
        return [
            self.view.raw_splice(
                here, here, "".join(self._gap(at, is_flag(word)) + self._written(at, word) for word in words)
            )
        ]

    def extents(self) -> list[tuple[int, int]]:
        """All from the first word to the last, without comment lines between them."""
        found: list[tuple[int, int]] = []
        for place, span in enumerate(self.spans):
            start, end = self.view.starts[span.start], self.view.ends[span.end - 1]
            if place and not self._holds_comment(self.spans[place - 1].end, span.start):
                start = found.pop()[0]
            found.append((start, end))
        return found

    def _written(self, at: int, word: str) -> str:
        like = nearest(self.words, at, is_flag(word), 1) if is_flag(word) else None
        span = self.spans[like] if like is not None else None
        raw = self.view.text[span.start : span.end] if span else ""
        return self.view.encode(quoted(word, self.dialect, raw))

    def _gap(self, at: int, flag: bool) -> str:
        """What stands between a word and a flag (or a value) here: a new line where most have one, or a blank."""
        order = sorted(range(1, len(self.spans)), key=lambda place: (place >= at, abs(place - at)))
        gaps = [gap for place in order if is_flag(self.words[place]) == flag and (gap := self._gap_before(place))]
        lines = [gap for gap in gaps if "\n" in gap]
        return lines[0] if lines and 2 * len(lines) >= len(gaps) else self.view.encode(" ")

    def _gap_before(self, place: int) -> str:
        """The gap as the file has it; nothing where it holds more than white space."""
        end = self.spans[place].start
        start = self._gap_start(end)
        return "" if start == 0 or self._holds_comment(start, end) else self.view.raw(start, end)

    def _gap_start(self, end: int) -> int:
        text, at = self.view.text, end
        before = bisect_right(self._ends, end) - 1
        first = self._ends[before] if before >= 0 else 0
        while at > first:
            if text[at - 1] in " \t" or (text[at - 1] in "\r\n" and self.dialect == "compose"):
                at -= 1
            elif text[at - 2 : at] == "\\\n":
                at -= 2
            else:
                break
        return at

    @cached_property
    def _ends(self) -> list[int]:
        return [span.end for span in self.spans]

    def _gap_end(self, start: int) -> int:
        text, at = self.view.text, start
        while at < len(text):
            if text[at] in " \t" or (text[at] in "\r\n" and self.dialect == "compose"):
                at += 1
            elif text[at : at + 2] == "\\\n":
                at += 2
            else:
                break
        return at

    def _holds_comment(self, start: int, end: int) -> bool:
        """A systemd command may have comment lines between its lines; no other gap holds a `#`."""
        return "#" in self.view.raw(start, end) or ";" in self.view.raw(start, end)
