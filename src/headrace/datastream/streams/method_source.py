"""What the source of a method shows, read when a program is built: what it is sure to call, and what it may call.

What cannot be read, a lambda or what a decorator has made, say, is left to the errors of the running job.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAY_LEAVE: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_APART: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Try)
"""What is within need not be called, or its errors are caught."""


@dataclass(frozen=True, slots=True)
class MethodSource:
    """A method ``(self, ..., context)`` whose source was found.

    Attributes:
        name: its name.
        function: the function of Python that it is.
        code: the code of that.
        body: its statements.
        me: what it calls its object.
        context: what it calls its context.
    """

    name: str
    function: Any
    code: Any
    body: list[ast.stmt]
    me: str
    context: str

    def refused(self, node: ast.AST, text: str) -> Exception:
        """The error about a line of the method."""
        line = self.code.co_firstlineno + getattr(node, "lineno", 1) - 1
        return refused(f"{self.name} ({self.code.co_filename}:{line}): {text}")

    def is_asked(self, node: ast.AST, getter: str) -> bool:
        """Whether an expression is a call of the context's own method of this name."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == getter
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == self.context
        )

    def evaluated(self) -> Iterator[Any]:
        """The parts of expressions that are evaluated at each call, if nothing before them fails."""
        for expression in _always(self.body):
            yield from _evaluated(expression)

    def names_of(self, getter: str) -> set[str]:
        """The names that stand for what the context's method gave, and for nothing else."""
        return {
            node.targets[0].id
            for node in within(self.body)
            if isinstance(node, ast.Assign) and self.is_asked(node.value, getter)
            if isinstance(node.targets[0], ast.Name) and len(_assigned(self.body, node.targets[0].id)) == 1
        }


def source_of(function: Any, name: str, asks_for: str, parameters: int = 2) -> MethodSource | None:
    """A method of a function object; None where its source cannot be read, or need not be what is called.

    Args:
        function: the function object.
        name: the name of its method.
        asks_for: a name that has to occur in it; None where it does not.
        parameters: how many it has beside ``self``; the last one is the context.
    """
    bound = getattr(function, name, None)
    if not inspect.ismethod(bound) or bound.__self__ is not function or hasattr(bound, "__wrapped__"):
        return None
    code = getattr(bound.__func__, "__code__", None)
    if code is None or asks_for not in code.co_names:
        return None
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or node.name != name or node.args.posonlyargs:
        return None
    names = [argument.arg for argument in node.args.args]
    if len(names) != parameters + 1 or (*names,) != code.co_varnames[: len(names)] or _assigned(node.body, names[-1]):
        return None
    return MethodSource(name, bound.__func__, code, node.body, names[0], names[-1])


def _assigned(body: Iterable[ast.stmt], name: str) -> list[ast.AST]:
    """Where a name is given a value, or taken away."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return [n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]


def within(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes but those of functions, classes and ``try`` within."""
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, _APART):
            yield node
            waiting += ast.iter_child_nodes(node)


def _always(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """The expressions of a method that are evaluated at each call, if nothing before them fails."""
    for statement in body:
        if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
            if statement.value is not None:
                yield statement.value
        elif isinstance(statement, ast.If | ast.While):
            yield statement.test
        elif isinstance(statement, ast.For):
            yield statement.iter
        elif not isinstance(statement, ast.Pass):
            return
        if any(isinstance(node, _MAY_LEAVE) for node in ast.walk(statement)):
            return


def _evaluated(expression: ast.AST) -> Iterator[Any]:
    """The parts of an expression that are evaluated whatever their values are."""
    waiting: list[ast.AST] = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.BoolOp):
            waiting.append(node.values[0])
        elif isinstance(node, ast.IfExp):
            waiting.append(node.test)
        elif isinstance(node, ast.Compare):
            waiting += [node.left, node.comparators[0]]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            waiting.append(node.generators[0].iter)
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
