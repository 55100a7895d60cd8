"""Misuse of broadcast state that the source of a function shows: told when the program is built, with its own line.

A state that was not declared is told where each call asks for it, a change where it may only be read wherever it is
written. What cannot be read here, an attribute that ``open`` sets, say, is left to the errors of the running job.
"""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused
from headrace.common.errors import InvalidProgramError
from headrace.operators.broadcast.broadcast_state import READ_ONLY, check_declared
from headrace.state.descriptors import StateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.state.descriptors import MapStateDescriptor

_READING: Final = ("process_element", "on_timer")
"""The methods that must not change broadcast state."""
_CHANGING: Final = "process_broadcast_element"

_GETTER: Final = "get_broadcast_state"
_CHANGES: Final = frozenset({"put", "put_all", "remove", "clear"})
_UNKNOWN: Final = object()

_MAY_LEAVE: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_APART: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Try)
"""What is within need not be called, or its errors are caught."""


def check_broadcast_use(function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
    """Refuse a function that asks for broadcast state which was not declared, or changes it where it only reads.

    Args:
        function: the function object.
        descriptors: those that were given to ``broadcast(...)``.

    Raises:
        InvalidProgramError: with the line of the function.
    """
    codes = [getattr(getattr(function, name, None), "__code__", None) for name in _READING]
    if getattr(getattr(function, _CHANGING), "__code__", None) in codes:
        return  # one method for both sides: it may tell them apart
    for method in (_method(function, name) for name in (*_READING, _CHANGING)):
        if method is not None:
            _check_declared(method, function, descriptors)
            if method.name != _CHANGING:
                _check_reads_only(method)


@dataclass(frozen=True, slots=True)
class _Method:
    """A method whose source was found.

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


def _method(function: Any, name: str) -> _Method | None:
    """A method of a function object; None where its source cannot be read, or need not be what is called."""
    bound = getattr(function, name, None)
    if not inspect.ismethod(bound) or bound.__self__ is not function or hasattr(bound, "__wrapped__"):
        return None
    code = getattr(bound.__func__, "__code__", None)
    if code is None or _GETTER not in code.co_names:
        return None
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or node.name != name or node.args.posonlyargs:
        return None
    names = [argument.arg for argument in node.args.args]
    if len(names) != 3 or tuple(names) != code.co_varnames[:3] or _assigned(node.body, names[2]):
        return None
    return _Method(name, bound.__func__, code, node.body, names[0], names[2])


def _check_declared(method: _Method, function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
    for expression in _always(method.body):
        for node in _evaluated(expression):
            if _is_getter(node, method.context):
                asked = _value(node.args[0], method, function)
                if isinstance(asked, StateDescriptor):
                    try:
                        check_declared(descriptors, asked)
                    except InvalidProgramError as error:
                        raise method.refused(node, str(error)) from None


def _check_reads_only(method: _Method) -> None:
    states = {
        node.targets[0].id
        for node in _within(method.body)
        if isinstance(node, ast.Assign) and _is_getter(node.value, method.context)
        if isinstance(node.targets[0], ast.Name) and len(_assigned(method.body, node.targets[0].id)) == 1
    }
    for node in _within(method.body):
        changed = _changed(node)
        if changed is None:
            continue
        is_known = isinstance(changed, ast.Name) and changed.id in states
        if is_known or _is_getter(changed, method.context):
            raise method.refused(node, READ_ONLY)


def _changed(node: ast.AST) -> ast.expr | None:
    """What an expression changes as a map, if it does: by a method, or as ``state[key] = value``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in _CHANGES else None
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    return None


def _is_getter(node: ast.AST, context: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == _GETTER
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == context
        and len(node.args) == 1
        and not node.keywords
    )


def _value(node: ast.expr, method: _Method, function: Any) -> Any:
    """What a name or an attribute of the object stands for whenever the method is called, where that is certain."""
    if isinstance(node, ast.Name):
        code, called = method.code, method.function
        if node.id in code.co_varnames or node.id in code.co_cellvars:
            return _UNKNOWN
        if node.id in code.co_freevars:
            cell = called.__closure__[code.co_freevars.index(node.id)]
            return _contents(cell)
        return called.__globals__.get(node.id, _UNKNOWN)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == method.me:
        is_set_later = any(_stores(code, node.attr) for code in _codes_but_init(type(function)))
        return _UNKNOWN if is_set_later else inspect.getattr_static(function, node.attr, _UNKNOWN)
    return _UNKNOWN


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is assigned later
        return _UNKNOWN


def _codes_but_init(kind: type) -> Iterator[Any]:
    """The code of all methods of a class that may run when the job does."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if name != "__init__" and (code := getattr(member, "__code__", None)) is not None:
                yield code


def _stores(code: Any, attribute: str) -> bool:
    return any(one.opname == "STORE_ATTR" and one.argval == attribute for one in dis.get_instructions(code))


def _assigned(body: Iterable[ast.stmt], name: str) -> list[ast.AST]:
    """Where a name is given a value, or taken away."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return [n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]


def _within(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
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
