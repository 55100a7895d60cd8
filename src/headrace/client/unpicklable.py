"""The variable or field of a program that cannot travel to the tasks, under the name that the program gives it.

Only a job that cannot be pickled loads it.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Final, TypeAlias

from headrace.common.call_site import of_function
from headrace.common.errors import InvalidProgramError
from headrace.operators.user_code import record_text
from headrace.plan.job_plan import JobPlan, PlannedOperator

_MOST_LOOKED_AT: Final = 1000
"""Objects; each is pickled to see whether it is the one."""

_WHAT_TO_DO: Final = (
    "What a function holds, or takes from the program around it, is pickled. Make connections, clients, locks and the "
    "like in open()"
)

Attempt: TypeAlias = Callable[[object], object]
"""The step that fails for a value that cannot be shipped: pickling it, or pickling and unpickling it."""

_OWN: Final = __name__.split(".", maxsplit=1)[0]


def not_pickled(plan: JobPlan, error: Exception, attempt: Attempt) -> InvalidProgramError:
    """Return the error about a plan for which an attempt fails: it names the operator, and what that holds."""
    for operator in plan.operators():
        cause = _failure(operator.node, attempt)
        if cause is not None:
            return InvalidProgramError(_message(operator, cause, attempt))
    return InvalidProgramError(f"the job cannot travel to the tasks: {type(error).__name__}: {error}")


def _message(operator: PlannedOperator, cause: Exception, attempt: Attempt) -> str:
    holder = _find(operator.node, attempt)
    lines = [
        f"operator {operator.label} cannot travel to the tasks",
        f"  {type(cause).__name__}: {cause}",
        f"  {holder}" if holder else "",
        f"  {_WHAT_TO_DO}",
        f"  operator defined at {operator.node.call_site}",
    ]
    return "\n".join(line for line in lines if line)


def _failure(value: object, attempt: Attempt) -> Exception | None:
    try:
        attempt(value)
    except Exception as error:
        return error
    return None


def _find(value: object, attempt: Attempt) -> str:
    """The name of the innermost variable or field in ``value`` for which an attempt fails.

    It is named as a part of the function, or of the first object of a class of the program, that it is in.
    """
    holder, path, seen, left = "", "", {id(value): value}, _MOST_LOOKED_AT
    while True:
        entered = _holder(value, is_first=not holder)
        holder, path = (entered, "") if entered else (holder, path)
        for name, part in _parts(value):
            left -= 1
            if id(part) not in seen and left >= 0 and _failure(part, attempt) is not None:
                seen[id(part)] = part  # and kept, or another object could have its id
                value, path = part, _joined(path, name)
                break
        else:
            return f"{holder} holds it as {path}" if holder and path else ""


def _holder(value: object, *, is_first: bool) -> str:
    site = of_function(value) if isinstance(value, FunctionType | MethodType | functools.partial) else None
    if site is not None:
        return f"{site.function} ({site.file}:{site.line})"
    kind = value if isinstance(value, type) else type(value)
    is_of_the_program = kind.__module__.split(".")[0] not in (_OWN, "builtins", "functools")
    return kind.__qualname__ if is_first and is_of_the_program else ""


def _joined(path: str, part: str) -> str:
    return f"{path}{part}" if part.startswith("[") or not path else f"{path}.{part}"


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The parts that an object is pickled with, and their names in it."""
    if isinstance(value, FunctionType):
        yield from _variables(value)
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), (value.__name__, value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("its function", value.func), ("its arguments", value.args), ("its arguments", value.keywords))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from ((f"[{record_text(key)}]", item), ("a key", key))
    elif isinstance(value, list | tuple):
        yield from ((f"[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("an element", item) for item in value)
    elif isinstance(value, type):
        yield from ((name, _plain(item)) for name, item in vars(value).items() if not name.startswith("__"))
    else:
        yield from getattr(value, "__dict__", {}).items()
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from ((name, getattr(value, name)) for name in slots if hasattr(value, name))
        yield type(value).__qualname__, type(value)


def _plain(attribute: object) -> object:
    return attribute.__func__ if isinstance(attribute, staticmethod | classmethod) else attribute


def _variables(function: FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the variable has no value yet
            yield name, cell.cell_contents
    names = set(_global_names(function.__code__))
    yield from ((name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__)
    yield from ((f"default {number}", item) for number, item in enumerate(function.__defaults__ or ()))
    yield from (function.__kwdefaults__ or {}).items()


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
