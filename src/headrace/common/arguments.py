"""Checks of the functions of a program, made at once so that errors point at the line that is wrong.

Before a job runs it is seen whether they take what they are called with, and give anything at all.
"""

import dis
import functools
import inspect
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import BuiltinMethodType, CodeType
from typing import Any, Final

from headrace.common.call_site import warn_caller
from headrace.common.errors import InvalidTypeError, refused

_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "open": ("runtime_context",),
    "close": (),
    "map": ("value",),
    "flat_map": ("value",),
    "filter": ("value",),
    "reduce": ("value1", "value2"),
    "get_key": ("value",),
    "partition": ("key", "num_partitions"),
    "process_element": ("value", "ctx"),
    "process_element1": ("value", "ctx"),
    "process_element2": ("value", "ctx"),
    "process_broadcast_element": ("value", "ctx"),
    "map1": ("value",),
    "map2": ("value",),
    "flat_map1": ("value",),
    "flat_map2": ("value",),
    "on_timer": ("timestamp", "ctx"),
    "create_accumulator": (),
    "add": ("value", "accumulator"),
    "get_result": ("accumulator",),
    "join": ("first", "second"),
    "co_group": ("first", "second"),
    "map_partition": ("values",),
    "apply": ("key", "window", "inputs"),
    "process": ("key", "context", "elements"),
    "clear": ("context",),
    "extract_timestamp": ("value", "record_timestamp"),
    "async_invoke": ("value",),
    "timeout": ("value",),
    "async_invoke_batch": ("inputs",),
    "timeout_batch": ("inputs",),
    "select": ("pattern",),
    "flat_select": ("pattern",),
    "process_match": ("match", "ctx"),
    "process_timed_out_match": ("match", "ctx"),
}
"""The parameters of the methods of functions."""

_LIFE_CYCLE: Final = frozenset({"open", "close"})

_YIELDING: Final = frozenset(
    {
        *("flat_map", "flat_map1", "flat_map2", "process_element", "process_element1", "process_element2"),
        *("process_broadcast_element", "on_timer", "apply", "process", "map_partition", "co_group"),
        *("flat_select", "process_match"),
    }
)
"""Methods that give any number of results. Java's have a collector for them, ``out``, as one more parameter."""

_OWN_FOLDER: Final = str(Path(__file__).parents[1])

_IS_NO_FUNCTION: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def method_of_object(function: object, name: str) -> Callable[..., Any] | None:
    """The method of a function object that stands for a call; None where there is none, or the object is called itself.

    A class that is given for a function makes its instances: their methods are another matter. And what is callable, or
    a text, may have a method written in C that only happens to have the name, as ``numpy.maximum.reduce`` and
    ``str.partition``.

    Args:
        function: what the user gave.
        name: the name of the method.
    """
    method = getattr(function, name, None)
    if not callable(method) or isinstance(function, type):
        return None
    if isinstance(method, BuiltinMethodType) and (callable(function) or isinstance(function, str | bytes)):
        return None
    found: Callable[..., Any] = method
    return found


def check_parameters(function: object, base: type, method: str, *, is_opened: bool = True) -> None:
    """Refuse a function that would fail at each call, as it does not take what it is called with.

    Args:
        function: what the user gave: a callable, or an object with methods.
        base: the class that says which methods are called.
        method: the one that is called for each record; a plain callable stands for it.
        is_opened: whether ``open`` and ``close`` are called as well; else they may be of another kind.

    Raises:
        InvalidTypeError: naming the method, with the way to write it.
    """
    for name, usual in _PARAMETERS.items():
        if name != method and (not hasattr(base, name) or (name in _LIFE_CYCLE and not is_opened)):
            continue
        # Functions over windows of all records are not told a key.
        declared = getattr(base, name, None)
        parameters = usual if declared is None else tuple(inspect.signature(declared).parameters)[1:]
        own = method_of_object(function, name)
        called = own or (function if name == method else None)
        if callable(called) and not _takes(called, len(parameters)):
            named = ", ".join(parameters)
            wanted = f"def {name}(self{', ' if named else ''}{named})" if own else f"a function of ({named})"
            is_collecting = name in _YIELDING and _takes(called, len(parameters) + 1)
            hint = ", and yield the results: there is no collector" if is_collecting else ""
            text = f"{_spelled(called)} does not take what {name} is called with: write {wanted}{hint}"
            raise refused(text, InvalidTypeError)


def check_call(function: Callable[..., object], name: str, *parameters: str) -> None:
    """Refuse a function that would fail at each call, as it does not take what it is called with.

    Args:
        function: what is called; a method of an object, where that has one.
        name: what the user knows it as.
        parameters: the names of what it is called with.

    Raises:
        InvalidTypeError: with the way to write it.
    """
    if not _takes(function, len(parameters)):
        text = f"{_spelled(function)} does not take what {name} is called with: write a function of"
        raise refused(f"{text} ({', '.join(parameters)})", InvalidTypeError)


def check_returns(function: object, method: str) -> None:
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


def check_yields(function: object, method: str) -> None:
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


def returns_tuple(function: object) -> bool:
    """Return whether a function that may give any number of results ends in ``return a, b``: results a and b."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_flags & _IS_NO_FUNCTION:
        return False
    pairs = pairwise(instruction.opname for instruction in dis.get_instructions(code))
    return ("BUILD_TUPLE", "RETURN_VALUE") in pairs


def warn_without_results(function: object, *methods: str) -> None:
    """Warn of a function without ``yield`` and ``return``; it may be there for what else it does."""
    own = [name for name in methods if _is_of_the_user(getattr(function, name, None))]
    codes = [_code_without_results(function, name) for name in own or methods[:1]]
    if codes[0] is not None and None not in codes:
        warn_caller(
            f"{_place(codes[0])} neither yields nor returns anything, so no record comes out of it: yield the results. "
            "Where that is meant, end it in `return []`"
        )


def _is_of_the_user(method: object) -> bool:
    code = getattr(method, "__code__", None)  # of the function below a method
    return isinstance(code, CodeType) and not code.co_filename.startswith(_OWN_FOLDER)


def _takes(called: Any, count: int) -> bool:
    is_method = inspect.ismethod(called)
    try:
        # Of what is called: a decorator may hand on more, or less, to the function below it than it takes itself.
        signature = inspect.signature(called.__func__ if is_method else called, follow_wrapped=False)
    except Exception:  # it is written in C, or has attributes or an __eq__ that raise anything: nobody knows
        return True
    try:
        signature.bind(*range(count + is_method))  # of a method the first is self
    except TypeError:
        return False
    return True


def _spelled(called: Any) -> str:
    """A function with its parameters, and where it is."""
    name = getattr(called, "__qualname__", type(called).__name__)
    function = getattr(called, "__func__", called)  # a method with its self
    code = getattr(function, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if isinstance(code, CodeType) else ""
    taken = [
        one.replace(annotation=one.empty)
        for one in inspect.signature(function, follow_wrapped=False).parameters.values()
    ]
    return f"{name}{inspect.Signature(taken)}{place}"


def _code_without_results(function: object, method: str) -> CodeType | None:
    """The code of what is called, if it never gives anything but None."""
    while isinstance(function, functools.partial):
        function = function.func
    called = method_of_object(function, method) or function
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
            # What jumps here brings its own value: `return value or None`.
            yield before.opname == "LOAD_CONST" and before.argval is None and not now.is_jump_target


def _place(code: CodeType) -> str:
    return f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
