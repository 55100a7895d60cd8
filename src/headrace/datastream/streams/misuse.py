"""Misuse that the source of a function shows, reported when the program is built, with the line.

What cannot be read, a lambda or what a decorator has made, say, is left to the errors of the running job.
"""

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.errors import InvalidProgramError, refused
from headrace.common.typeinfo.types import Types, no_such_type
from headrace.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction
from headrace.graph.specs import OperatorSpec
from headrace.operators.checkpointed import READ_ONLY, check_declared
from headrace.operators.functions import NO_KEYED_STATE, STATE_GETTERS, has_own, objects_of
from headrace.state.descriptors import MapStateDescriptor, StateDescriptor
from headrace.state.protocols import StateKind

_MAY_LEAVE: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_APART: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Try)
"""Code inside these need not run, or its errors are caught."""


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

    def is_call_of(self, node: ast.AST, getter: str) -> bool:
        """Returns True for a call of the context's own method of this name."""
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
            if isinstance(node, ast.Assign) and self.is_call_of(node.value, getter)
            if isinstance(node.targets[0], ast.Name) and len(_assigned(self.body, node.targets[0].id)) == 1
        }


def source_of(function: object, name: str, uses: str, parameters: int = 2) -> MethodSource | None:
    """A method of a function object; None where its source cannot be read, or need not be what is called.

    Args:
        function: the function object.
        name: the name of its method.
        uses: a name that has to occur in it; None where it does not.
        parameters: how many it has beside ``self``; the last one is the context.
    """
    bound = getattr(function, name, None)
    if not inspect.ismethod(bound) or bound.__self__ is not function or hasattr(bound, "__wrapped__"):
        return None
    code = getattr(bound.__func__, "__code__", None)
    if code is None or uses not in code.co_names:
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
    """The nodes that assign or delete a name."""
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


_ASKING: Final = (*(("open", getter) for getter in STATE_GETTERS), ("initialize_state", "get_keyed_state_store"))
"""The methods that are called once, before the first record, and what they may ask for there."""


def check_uses_no_keyed_state(spec: OperatorSpec, text: str = NO_KEYED_STATE) -> None:
    """Refuse functions that are sure to ask for state of keys, for an operator without any.

    Args:
        spec: the operator.
        text: what is wrong about it, and what to do.

    Raises:
        InvalidProgramError: with the line of the method.
    """
    if StateKind.KEYED in spec.state_kinds:
        return
    for function in objects_of(spec.functions):
        for name, getter in _ASKING:
            if (method := source_of(function, name, getter, parameters=1)) is not None:
                for node in method.evaluated():
                    if method.is_call_of(node, getter):
                        raise method.refused(node, f"{getter}: {text}")


def check_types_exist(spec: OperatorSpec) -> None:
    """Refuse functions whose ``open`` uses what :class:`Types` does not have, or does not call what it has.

    Raises:
        InvalidProgramError: with the line of the method.
    """
    for function in objects_of(spec.functions):
        method = source_of(function, "open", Types.__name__, parameters=1)
        if method is None or method.function.__globals__.get(Types.__name__) is not Types:
            continue
        nodes = [node for statement in method.body for node in ast.walk(statement)]
        arguments = {argument for node in nodes if isinstance(node, ast.Call) for argument in node.args}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == Types.__name__:
                if (text := no_such_type(node.attr)) is not None:
                    raise method.refused(node, text)
                if node in arguments:
                    raise method.refused(node, f"Types.{node.attr} is a function: write Types.{node.attr}()")


_SERVICE: Final = "timer_service"
_TIMERS: Final = frozenset(
    f"{what}_{domain}_timer" for what in ("register", "delete") for domain in ("event_time", "processing_time")
)


def check_has_no_timers(function: object, methods: Iterable[str], keys: str) -> None:
    """Refuse a function for streams without keys that has timers, or is for keys.

    Args:
        function: the function object.
        methods: those that are called for records.
        keys: what to do for keys; begins in lower case.

    Raises:
        InvalidProgramError: when it is for keyed streams, has ``on_timer``, or one of the methods sets or deletes a
            timer at each call.
    """
    if isinstance(function, KeyedProcessFunction | KeyedCoProcessFunction):
        raise refused(f"{type(function).__name__} wants keys: {keys}")
    if has_own(function, "on_timer"):
        raise refused(f"{type(function).__name__} has timers, which belong to keys: {keys}")
    check_sets_no_timers(function, methods, f"timers belong to keys: {keys}")


def check_sets_no_timers(function: object, methods: Iterable[str], text: str) -> None:
    """Refuse methods that set or delete a timer at each call.

    Args:
        function: the function object.
        methods: the methods whose context has no timers.
        text: what is wrong about them, and what to do.

    Raises:
        InvalidProgramError: with the line of the method.
    """
    for method in (source_of(function, name, _SERVICE) for name in methods):
        if method is not None:
            services = method.names_of(_SERVICE)
            for node in method.evaluated():
                if _sets_timer(node, method, services):
                    raise method.refused(node, text)


def _sets_timer(node: ast.AST, method: MethodSource, services: set[str]) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _TIMERS:
        return False
    service = node.func.value
    return method.is_call_of(service, _SERVICE) or (isinstance(service, ast.Name) and service.id in services)


_READING: Final = ("process_element", "on_timer")
"""The methods that must not change broadcast state."""
_CHANGING: Final = "process_broadcast_element"

_GETTER: Final = "get_broadcast_state"
_CHANGES: Final = frozenset({"put", "put_all", "remove", "clear"})
_UNKNOWN: Final = object()


def check_broadcast_use(function: object, descriptors: Sequence[MapStateDescriptor]) -> None:
    """Refuse a function that requests broadcast state which was not declared, or changes it where it only reads.

    Args:
        function: the function object.
        descriptors: those that were given to ``broadcast(...)``.

    Raises:
        InvalidProgramError: with the line of the function.
    """
    codes = [getattr(getattr(function, name, None), "__code__", None) for name in _READING]
    if getattr(getattr(function, _CHANGING), "__code__", None) in codes:
        return  # one method for both sides: it may tell them apart
    for method in (source_of(function, name, _GETTER) for name in (*_READING, _CHANGING)):
        if method is not None:
            _check_declared(method, function, descriptors)
            if method.name != _CHANGING:
                _check_reads_only(method)


def _check_declared(method: MethodSource, function: object, descriptors: Sequence[MapStateDescriptor]) -> None:
    for node in method.evaluated():
        if _is_getter(node, method):
            argument = _value(node.args[0], method, function)
            if isinstance(argument, StateDescriptor | str):
                try:
                    check_declared(descriptors, argument)
                except InvalidProgramError as error:
                    raise method.refused(node, str(error)) from None


def _check_reads_only(method: MethodSource) -> None:
    states = method.names_of(_GETTER)
    for node in within(method.body):
        changed = _changed(node)
        if changed is None:
            continue
        is_known = isinstance(changed, ast.Name) and changed.id in states
        if is_known or _is_getter(changed, method):
            raise method.refused(node, READ_ONLY)


def _is_getter(node: Any, method: MethodSource) -> bool:
    return method.is_call_of(node, _GETTER) and len(node.args) == 1 and not node.keywords


def _changed(node: ast.AST) -> ast.expr | None:
    """The map that an expression changes, by a method or as ``state[key] = value``; None where it changes none."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in _CHANGES else None
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    return None


def _value(node: ast.expr, method: MethodSource, function: object) -> Any:
    """The value that an expression has at each call of the method; ``_UNKNOWN`` where that is not certain."""
    if isinstance(node, ast.Constant):
        return node.value
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
