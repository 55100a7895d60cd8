"""Whether functions of the user take what they are called with, and give anything at all: seen before a job runs."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType
from typing import Any, Final

from headrace.common.arguments import refused
from headrace.common.call_site import warn_caller
from headrace.common.errors import InvalidTypeError

_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "open": ("runtime_context",),
    "close": (),
    "map": ("value",),
    "flat_map": ("value",),
    "filter": ("value",),
    "reduce": ("value1", "value2"),
    "get_key": ("value",),
    "process_element": ("value", "ctx"),
    "on_timer": ("timestamp", "ctx"),
    "create_accumulator": (),
    "add": ("value", "accumulator"),
    "get_result": ("accumulator",),
    "apply": ("key", "window", "inputs"),
    "process": ("key", "context", "elements"),
    "clear": ("context",),
    "extract_timestamp": ("value", "record_timestamp"),
}
"""What the methods of functions are called with."""

_YIELDING: Final = frozenset({"flat_map", "process_element", "on_timer", "apply", "process"})
"""Methods that give any number of results. Java's have a collector for them, ``out``, as one more parameter."""

_IS_NO_FUNCTION: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def check_parameters(function: Any, base: type, method: str) -> None:
    """Refuse a function that would fail at each call, as it does not take what it is called with.

    Args:
        function: what the user gave: a callable, or an object with methods.
        base: the class that says which methods are called.
        method: the one that is called for each record; a plain callable stands for it.

    Raises:
        InvalidTypeError: naming the method, with the way to write it.
    """
    for name, parameters in _PARAMETERS.items():
        if name != method and not hasattr(base, name):
            continue
        called = getattr(function, name, None)
        is_method = callable(called)
        called = called if is_method else function if name == method else None
        if callable(called) and not _takes(called, len(parameters)):
            named = ", ".join(parameters)
            wanted = f"def {name}(self{', ' if named else ''}{named})" if is_method else f"a function of ({named})"
            hint = ", and yield the results: there is no collector" if name in _YIELDING else ""
            text = f"{_spelled(called)} does not take what {name} is called with: write {wanted}{hint}"
            raise refused(text, InvalidTypeError)


def check_returns(function: Any, method: str) -> None:
    """Refuse a function that lacks its ``return``: all its results would be null.

    A ``lambda`` gives what it says, and a function that yields or only raises is another matter.

    Args:
        function: what the user gave: a function, or an object with the method.
        method: the method that is called for a record.

    Raises:
        InvalidProgramError: when it never returns anything but None.
    """
    code = _code_without_results(function, method)
    if code is not None:
        raise refused(
            f"{_place(code)} never returns a value, so {method} would make null of every record: return the result"
        )


def check_yields(function: Any, method: str) -> None:
    """Refuse a function that has neither ``yield`` nor ``return``: no record would ever come out.

    Raises:
        InvalidProgramError: when it never gives anything.
    """
    code = _code_without_results(function, method)
    if code is not None:
        raise refused(
            f"{_place(code)} neither yields nor returns anything, so no record comes out of {method}: yield the "
            "results, or return a list of them"
        )


def warn_without_results(function: Any, *methods: str) -> None:
    """Warn of a function without ``yield`` and ``return``; it may be there for what else it does."""
    own = [name for name in methods if _is_of_the_user(getattr(function, name, None))]
    codes = [_code_without_results(function, name) for name in own or methods[:1]]
    if codes[0] is not None and None not in codes:
        warn_caller(
            f"{_place(codes[0])} neither yields nor returns anything, so no record comes out of it: yield the results. "
            "Where that is meant, end it in `return []`"
        )


def _is_of_the_user(method: Any) -> bool:
    return inspect.ismethod(method) and not (method.__module__ or "").startswith("headrace.")


def _takes(called: Any, count: int) -> bool:
    try:
        inspect.signature(called).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # written in C; but of a method it says that there is no place for self
        return not inspect.ismethod(called)
    return True


def _spelled(called: Any) -> str:
    """A function with its parameters, and where it is."""
    name = getattr(called, "__qualname__", type(called).__name__)
    function = getattr(called, "__func__", called)  # a method with its self
    code = getattr(function, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if isinstance(code, CodeType) else ""
    taken = [one.replace(annotation=one.empty) for one in inspect.signature(function).parameters.values()]
    return f"{name}{inspect.Signature(taken)}{place}"


def _code_without_results(function: Any, method: str) -> CodeType | None:
    """The code of what is called, if it never gives anything but None."""
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(function, method, function)
    code = getattr(called, "__code__", None)  # of what is called: a decorator may return what the function does not
    if not isinstance(code, CodeType) or code.co_name == "<lambda>" or code.co_flags & _IS_NO_FUNCTION:
        return None
    returned = [*_returned_constants(code)]
    return code if returned and all(returned) else None


def _returned_constants(code: CodeType) -> Iterator[bool]:
    """For each place where a function returns, whether it is the constant None that is returned."""
    for before, now in pairwise(dis.get_instructions(code)):
        if now.opname == "RETURN_CONST":  # Python 3.12 and 3.13
            yield now.argval is None
        elif now.opname == "RETURN_VALUE":
            yield before.opname == "LOAD_CONST" and before.argval is None


def _place(code: CodeType) -> str:
    return f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
