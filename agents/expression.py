"""Expression: one line of a playbook, such as `workload.concurrency > config.max_num_seqs`, in Jinja's grammar."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import StrictUndefined, nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import TemplateSyntaxError, UndefinedError
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tools.targets.knobs import Value

__all__ = ["FUNCTIONS", "Expression", "ExpressionError"]


class ExpressionError(ValueError):
    """An expression that can't be read, or that says something an expression may not say."""


def _pow2(value: float) -> int:
    """The least power of two that is not below `value`; 1 for anything up to 1."""
    return 1 << max(0, math.ceil(value) - 1).bit_length()


FUNCTIONS: Mapping[str, Callable[..., float]] = {"ceil": math.ceil, "max": max, "min": min, "pow2": _pow2}
"""What an expression may call."""

_GRAMMAR = (
    *(nodes.Name, nodes.Getattr, nodes.Const, nodes.Call, nodes.CondExpr, nodes.Test),
    *(nodes.Compare, nodes.And, nodes.Or, nodes.Not),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos),
)
"""No powers, filters, subscripts or lists: nothing that could run long or reach further."""

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined)


@dataclass(frozen=True)
class Expression:
    """A checked expression over numbers, words and facts. It can't loop, call out or see more than it is given."""

    source: str

    def __post_init__(self) -> None:
        _checked(self.source)

    @property
    def names(self) -> frozenset[str]:
        """The names it uses, a fact with its group: `{"in_flight", "config.max_num_seqs"}`."""
        return _checked(self.source)[0]

    def value(self, facts: Mapping[str, object]) -> Value | None:
        """What it comes to under `facts`; None where a fact that it needs isn't known.

        Raises:
            ExpressionError: it can't be worked out: a comparison of a word with a number, a division by zero.
        """
        try:
            result = _checked(self.source)[1](**{**FUNCTIONS, **facts})
        except UndefinedError:
            return None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ExpressionError(f"{self.source!r} can't be worked out: {error}") from None
        if isinstance(result, StrictUndefined):
            return None
        if not isinstance(result, bool | int | float | str):
            raise ExpressionError(f"{self.source!r}: expected a number, a word, true or false, found {result!r}")
        return result


@cache
def _checked(source: str) -> tuple[frozenset[str], TemplateExpression]:
    """The names that `source` uses, and what works it out. To read and compile it takes longer than to work it out a
    hundred times.

    Raises:
        ExpressionError: it can't be read, or says something an expression may not say.
    """
    tree = _tree(source)
    _check(source, tree)
    groups = list(tree.find_all(nodes.Getattr))
    grouped = {id(node.node) for node in groups}
    bare = {node.name for node in tree.find_all(nodes.Name) if id(node) not in grouped}
    facts = {f"{node.node.name}.{node.attr}" for node in groups if isinstance(node.node, nodes.Name)}
    return frozenset(bare - FUNCTIONS.keys() | facts), _ENVIRONMENT.compile_expression(source, undefined_to_none=False)


def _tree(source: str) -> nodes.Template:
    """The parsed expression, below a root of its own so that a search finds the outermost node too."""
    parser = Parser(_ENVIRONMENT, source, state="variable")
    try:
        expression = parser.parse_expression()
    except TemplateSyntaxError as error:
        raise ExpressionError(f"{source!r} can't be read: {error.message}") from None
    if not parser.stream.eos:
        raise ExpressionError(f"{source!r} can't be read: it goes on after its end")
    return nodes.Template([nodes.Output([expression])])


def _check(source: str, tree: nodes.Template) -> None:
    for node in tree.find_all(nodes.Expr):
        if not isinstance(node, _GRAMMAR):
            raise ExpressionError(f"{source!r}: {type(node).__name__} has no place in an expression")
    for group in tree.find_all(nodes.Getattr):
        if not isinstance(group.node, nodes.Name):
            raise ExpressionError(f"{source!r}: expected facts as group.name, found something longer")
    for test in tree.find_all(nodes.Test):
        if test.name != "defined":
            raise ExpressionError(f"{source!r}: expected `is defined`, found `is {test.name}`")
    for call in tree.find_all(nodes.Call):
        if not (isinstance(call.node, nodes.Name) and call.node.name in FUNCTIONS) or call.kwargs:
            raise ExpressionError(f"{source!r}: expected a call of {', '.join(FUNCTIONS)}")
