"""A job as bytes; and which variable of which function it is that cannot become bytes."""

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Final, TypeAlias

from headrace.common.call_site import of_function
from headrace.common.errors import InvalidProgramError
from headrace.common.pickling import pickle_by_value
from headrace.operators.user_code import record_text
from headrace.plan.job_plan import JobPlan, PlannedOperator

_MOST_LOOKED_AT: Final = 1000
"""Objects; each is pickled to see whether it is the one."""

_MOST_TRIED_BYTES: Final = 1 << 20
"""A larger job is not unpickled to see whether that can be done."""

_WHAT_TO_DO: Final = (
    "What a function holds, or takes from the program around it, is pickled. Make connections, clients, locks and the "
    "like in open()"
)

_Attempt: TypeAlias = Callable[[object], object]
"""What fails of a value that cannot travel: pickling it, or unpickling it as well."""

_OWN: Final = __name__.split(".", maxsplit=1)[0]


def pickled(plan: JobPlan) -> bytes:
    """A plan with the functions of the program in it.

    Raises:
        InvalidProgramError: when something of the program cannot be pickled, or not unpickled, as a mock; it names the
            operator that holds it, and the variable.
    """
    try:
        data = pickle_by_value(plan)
    except Exception as error:  # whatever a class's __reduce__ may raise
        raise _not_pickled(plan, error, pickle_by_value) from error
    if len(data) <= _MOST_TRIED_BYTES:
        try:
            pickle.loads(data)
        except Exception as error:  # whatever its __setstate__, or a __getattr__ that looks for what is not there yet
            raise _not_pickled(plan, error, _there_and_back) from error
    return data


def _there_and_back(value: object) -> object:
    return pickle.loads(pickle_by_value(value))


def _not_pickled(plan: JobPlan, error: Exception, attempt: _Attempt) -> InvalidProgramError:
    for operator in plan.operators():
        cause = _failure(operator.node, attempt)
        if cause is not None:
            return InvalidProgramError(_told(operator, cause, attempt))
    return InvalidProgramError(f"the job cannot travel to the tasks: {type(error).__name__}: {error}")


def _told(operator: PlannedOperator, cause: Exception, attempt: _Attempt) -> str:
    holder = _find(operator.node, attempt)
    lines = [
        f"operator {operator.label} cannot travel to the tasks",
        f"  {type(cause).__name__}: {cause}",
        f"  {holder}" if holder else "",
        f"  {_WHAT_TO_DO}",
        f"  operator defined at {operator.node.call_site}",
    ]
    return "\n".join(line for line in lines if line)


def _failure(value: object, attempt: _Attempt) -> Exception | None:
    try:
        attempt(value)
    except Exception as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class _FoundAt:
    """Where an object was found.

    Attributes:
        holder: what of the program it belongs to; empty while nothing of the program was met.
        path: how it is called there.
    """

    holder: str = ""
    path: str = ""

    def __str__(self) -> str:
        return f"{self.holder} holds it as {self.path}" if self.holder and self.path else ""


def _find(value: object, attempt: _Attempt) -> str:
    """Which variable or field below ``value``, of which an attempt fails, is the innermost of which it does."""
    place, seen, left = _FoundAt(), {id(value): value}, _MOST_LOOKED_AT
    while True:
        place = _entered(value, place)
        for path, part in _parts(value):
            left -= 1
            if id(part) not in seen and left >= 0 and _failure(part, attempt) is not None:
                seen[id(part)] = part  # and kept, or another object could have its id
                value, place = part, _FoundAt(place.holder, _joined(place.path, path))
                break
        else:
            return str(place)


def _entered(value: object, place: _FoundAt) -> _FoundAt:
    """A function, and the first object of a class of the program, is what holds all that is found below it."""
    site = of_function(value) if isinstance(value, FunctionType | MethodType | functools.partial) else None
    if site is not None:
        return _FoundAt(f"{site.function} ({site.file}:{site.line})")
    kind = value if isinstance(value, type) else type(value)
    is_of_the_program = kind.__module__.split(".")[0] not in (_OWN, "builtins", "functools")
    return place if place.holder or not is_of_the_program else _FoundAt(kind.__qualname__)


def _joined(path: str, part: str) -> str:
    return f"{path}{part}" if part.startswith("[") or not path else f"{path}.{part}"


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What an object is pickled with, and how that is called in it."""
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
