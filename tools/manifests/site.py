"""CommandSite: one place of a manifest where an engine's command stands, and how edits reach its characters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tools.manifests.part import Part, Variables, is_flag
from tools.manifests.splice import CannotEdit, Splice
from tools.targets.engine_name import EngineName
from tools.targets.tables.word_edit import Delete, Insert, Replace, SetVariable, WordEdit

__all__ = ["Chunk", "CommandSite"]


@dataclass(frozen=True)
class Chunk:
    """The words `start` to `stop` of a part."""

    part: Part
    start: int
    stop: int

    @property
    def words(self) -> tuple[str, ...]:
        return self.part.words[self.start : self.stop]


@dataclass(frozen=True)
class CommandSite:
    """An engine's command as a manifest has it."""

    where: str
    "`services.vllm.command`, `Deployment/vllm containers[0].args`: unique in its file."
    engine: EngineName
    words: tuple[str, ...]
    "Program and arguments as the engine would get them; a variable that we can't know stands as it is written."
    program: int
    "How many of the words are the program (`vllm serve`: 2); what follows are its arguments."
    environment: Mapping[str, str]
    "Variables whose values stand in the file."
    opaque: Mapping[str, str]
    "Variables that come from elsewhere, and from where. Never guessed, never edited."
    computed: frozenset[int]
    "Words whose value isn't in the file. Never guessed, never edited."
    image: str = ""
    "The container image; empty where there is none."
    variable_files: tuple[str, ...] = ()
    "Where more variables come from (`env_file`, `envFrom`, EnvironmentFile=), none of them known here."
    chunks: tuple[Chunk, ...] = field(default=(), repr=False, compare=False)
    variables: Variables | None = field(default=None, repr=False, compare=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words behind the program."""
        return self.words[self.program :]

    def for_words(self, edits: Sequence[WordEdit]) -> tuple[WordEdit, ...]:
        """Edits of `arguments` as edits of `words`."""
        return tuple(_moved(edit, self.program) for edit in edits)

    def placed(self, edits: Sequence[WordEdit]) -> tuple[WordEdit, ...]:
        """`edits`, with flags that would come among words that no one wrote (a chart's) where there is a place."""
        return tuple(self._placed(edit) if isinstance(edit, Insert) else edit for edit in edits)

    def _placed(self, insert: Insert) -> Insert:
        if self._gap(insert.at) is not None or not is_flag(insert.words[0]):
            return insert
        stop, place = 0, insert.at
        for chunk in self.chunks:
            stop += len(chunk.words)
            place = stop if chunk.part.insertable != "nowhere" else place
        return Insert(place, insert.words)

    def splices(self, edits: Sequence[WordEdit]) -> Iterator[Splice]:
        """What the edits change in the file.

        Raises:
            CannotEdit: a word or variable that isn't in the file, or stands there in a way that can't be edited.
        """
        changes: dict[str, str | None] = {}
        gone = {at for edit in edits if isinstance(edit, Delete) for at in range(edit.at, edit.at + edit.count)}
        for edit in edits:
            if isinstance(edit, SetVariable):
                changes[edit.name] = edit.value
            elif isinstance(edit, Insert):
                place = _behind_kept(edit.at, gone)
                chunk, at = self._gap(place) or (self.chunks[-1], self.chunks[-1].stop)
                yield from chunk.part.inserted(at, edit.words, _going(place, gone, chunk.stop - at))
            elif isinstance(edit, Replace):
                chunk, at = self._known(edit.at)
                yield chunk.part.replaced(at, edit.word)
        yield from self._deleted(sorted(gone))
        if changes and self.variables is not None:
            yield from self.variables.changed(changes)

    def _deleted(self, gone: Sequence[int]) -> Iterator[Splice]:
        """Words that stand side by side in one part go together."""
        runs: list[tuple[Chunk, int, int]] = []
        for place in gone:
            chunk, at = self._known(place)
            if runs and runs[-1][0] is chunk and sum(runs[-1][1:]) == at:
                runs[-1] = (chunk, runs[-1][1], runs[-1][2] + 1)
            else:
                runs.append((chunk, at, 1))
        for chunk, at, count in runs:
            yield from chunk.part.deleted(at, count)

    def _known(self, at: int) -> tuple[Chunk, int]:
        if at in self.computed:
            raise CannotEdit(
                f"the value of {self.words[at]!r} isn't in this file; write it out here, or change it there"
            )
        return self._chunk(at)

    def _chunk(self, at: int) -> tuple[Chunk, int]:
        """The chunk that holds word `at`, and the word's number in the part."""
        start = 0
        for chunk in self.chunks:
            if start <= at < start + len(chunk.words):
                return chunk, chunk.start + at - start
            start += len(chunk.words)
        raise CannotEdit(f"there is no word {at}: the command has {len(self.words)}")

    def _gap(self, at: int) -> tuple[Chunk, int] | None:
        """The chunk that takes new words before word `at`; of two, the later: arguments come behind the program."""
        start, found = 0, None
        for chunk in self.chunks:
            stop = start + len(chunk.words)
            where = chunk.part.insertable
            if (where == "anywhere" and start <= at <= stop) or (where == "end" and at == stop):
                found = (chunk, chunk.start + at - start)
            start = stop
        return found


def _going(at: int, gone: Collection[int], most: int) -> int:
    """How many words from `at` on go, of `most` that stand together."""
    return next((count for count in range(most) if at + count not in gone), most)


def _behind_kept(at: int, gone: Collection[int]) -> int:
    """Where new words stand as well as before word `at`: behind one that stays."""
    while at - 1 in gone:
        at -= 1
    return at


def _moved(edit: WordEdit, by: int) -> WordEdit:
    if isinstance(edit, SetVariable):
        return edit
    if isinstance(edit, Replace):
        return Replace(edit.at + by, edit.word)
    if isinstance(edit, Insert):
        return Insert(edit.at + by, edit.words)
    return Delete(edit.at + by, edit.count)
