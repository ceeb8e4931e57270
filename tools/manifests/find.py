"""Engines' commands among the words that a format has found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tools.manifests.part import Implied, Part, Variables
from tools.manifests.programs import engine_of_name, find_program, image_place, image_program, script_place
from tools.manifests.shell_commands import ShellCommand, read_shell
from tools.manifests.shell_part import ShellPart
from tools.manifests.shell_variables import Assignment, Layered, ShellVariables, assignments, docker_variables
from tools.manifests.shell_words import UnclosedQuote
from tools.manifests.site import Chunk, CommandSite
from tools.manifests.view import View
from tools.targets.engine_name import EngineName

__all__ = ["Surroundings", "find_sites", "shell_sites"]


@dataclass(frozen=True)
class Surroundings:
    """What a format knows about the place of a command."""

    where: str
    variables: Variables
    image: str = ""
    starts_itself: bool = False
    "No program is named here, so the image's own runs."
    name: str = ""
    "The container's, which may speak of the engine where nothing else does."
    files: tuple[str, ...] = ()
    "Where more variables come from, all of them unknown here."


def find_sites(parts: Sequence[Part], around: Surroundings) -> Iterator[CommandSite]:
    """The engine's command that `parts` make together, or those in the script that they hand to a shell."""
    words = tuple(word for part in parts for word in part.words)
    if program := find_program(words):
        variables = around.variables
        if len(parts) == 1 and isinstance(parts[0], ShellPart):
            variables = _beside(parts[0], program.at, variables, ())
            if not around.image and _container_run(parts[0].words[: program.at]) is not None:
                around = replace(around, image=parts[0].words[program.at - 1])
        yield _site(parts, program.at, program.engine, program.size, replace(around, variables=variables))
    elif (image := image_place(words)) is not None and len(parts) == 1 and isinstance(parts[0], ShellPart):
        yield from _in_container(parts[0], image, around)
    elif (script := script_place(words)) is not None:
        view = _view_of(parts, script)
        try:
            yield from shell_sites(view, around) if view is not None else ()
        except UnclosedQuote:  # not a script that a shell would take
            return
    elif around.starts_itself:
        yield from _of_image(parts, around)


def shell_sites(view: View, around: Surroundings) -> Iterator[CommandSite]:
    """The engines' commands in a shell text.

    Raises:
        UnclosedQuote: a quote that doesn't close, so that no one can say where commands end.
    """
    commands = read_shell(view.text).commands
    exported: list[Assignment] = []
    for command in commands:
        part = ShellPart(view, command.words, "sh")
        exported += _exported(part, command, exported)
        program = find_program(part.words)
        if program is None and image_place(part.words) is None and script_place(part.words) is None:
            continue
        before = exported if program is None or _container_run(part.words[: program.at]) is None else ()
        outer = Layered((around.variables, ShellVariables(part, before, None))) if before else around.variables
        yield from find_sites([part], replace(around, variables=outer))


def _exported(part: ShellPart, command: ShellCommand, exported: Sequence[Assignment]) -> list[Assignment]:
    branch = command.depth > 0
    found = list(assignments(part, len(part.words), branch))
    if part.words[0] == "export":
        bare = [Assignment(word, part, at, branch=True) for at, word in enumerate(part.words) if word.isidentifier()]
        return [*found, *bare[1:]]
    # Alone, an assignment changes a variable that was exported before: what it holds then isn't known here.
    known = {one.name for one in exported}
    alone = len(found) == len(part.words)
    return [replace(one, branch=True) for one in found if alone and one.name in known]


def _beside(part: ShellPart, program: int, outer: Variables, exported: Sequence[Assignment]) -> Variables:
    """The variables of a command whose program is word `program` of `part`."""
    words = part.words[:program]
    container = _container_run(words)
    if container is not None:
        inner = list(docker_variables(part, container + 1, program))
        return Layered((ShellVariables(part, inner, container + 1, "-e"), outer))
    before = [*exported, *assignments(part, program)]
    kept = not words or part.dialect == "sh"
    return Layered((outer, ShellVariables(part, before, 0 if kept and "sudo" not in words else None)))


def _container_run(words: Sequence[str]) -> int | None:
    """Where `run` or `exec` of a container tool stands."""
    for at, word in enumerate(words):
        if word in ("run", "exec") and any(tool in words[:at] for tool in ("docker", "podman", "nerdctl")):
            return at
    return None


def _in_container(part: ShellPart, image: int, around: Surroundings) -> Iterator[CommandSite]:
    """`docker run OPTIONS IMAGE ARGUMENTS`, where the image runs its own program."""
    if any(word.startswith("--entrypoint") for word in part.words[:image]):
        return
    run = part.words.index("run")
    variables = ShellVariables(part, list(docker_variables(part, run + 1, image)), run + 1, "-e")
    inside = replace(around, variables=variables, image=part.words[image], starts_itself=True)
    yield from _of_image([part], inside, image + 1)


def _of_image(parts: Sequence[Part], around: Surroundings, start: int = 0) -> Iterator[CommandSite]:
    program = image_program(around.image)
    words = tuple(word for part in parts for word in part.words)[start:]
    if program is None:
        engine = engine_of_name(around.name) or engine_of_name(around.image)
        if engine is None or engine == "sglang" or not words or not words[0].startswith("-"):
            return
        own: tuple[str, ...] = ("vllm", "serve") if engine == "vllm" else ("llama-server",)
    else:
        engine, own = program.engine, program.words
        if program.skipped:
            if words[:1] and words[0] in program.skipped:
                start += 1
            else:
                return
    implied = Implied(own, f"the image {around.image or around.name} starts {' '.join(own)} by itself")
    yield _site([implied, *parts], 0, engine, len(own), around, skipped=start)


def _site(
    parts: Sequence[Part], at: int, engine: EngineName, size: int, around: Surroundings, skipped: int = 0
) -> CommandSite:
    """The site of the words from `at` on; of what follows the first part, `skipped` words aren't the engine's."""
    chunks: list[Chunk] = []
    computed: set[int] = set()
    words: list[str] = []
    for number, part in enumerate(parts):
        count = len(part.words)
        leaving = min(at, count)
        at -= leaving
        if number > 0 or not isinstance(part, Implied):
            also = min(skipped, count - leaving)
            skipped -= also
            leaving += also
        if leaving == count and number + 1 < len(parts) and count > 0:
            continue
        computed |= {len(words) + place - leaving for place in part.computed if place >= leaving}
        chunks.append(Chunk(part, leaving, count))
        words += part.words[leaving:]
    return CommandSite(
        where=around.where,
        engine=engine,
        words=tuple(words),
        program=size,
        environment=dict(around.variables.values),
        opaque=dict(around.variables.opaque),
        computed=frozenset(computed),
        image=around.image,
        variable_files=around.files,
        chunks=tuple(chunks),
        variables=around.variables,
    )


def _view_of(parts: Sequence[Part], at: int) -> View | None:
    for part in parts:
        if at < len(part.words):
            return part.view_of(at)
        at -= len(part.words)
    return None
