"""Names that programs bring from PyFlink, PySpark, pandas or Polars: asking an object for one says what to do here.

PyFlink's are in :mod:`headrace.common.pyflink_names`, those of other libraries in tables beside the classes that
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from headrace.common.call_site import caller, warn_caller
from headrace.common.errors import MissingNameError, UnknownNameError
from headrace.common.pyflink_names import MEMBERS
from headrace.common.tracebacks import hides_engine

C = TypeVar("C", bound=type)


_NOTHING: Final[Mapping[str, str]] = {}


def other_names(names: Mapping[str, str] = _NOTHING) -> Callable[[C], C]:
    """Gives a class an answer to names that it does not have; ``hasattr`` and completion do not see them.

    What PyFlink has is a :class:`MissingNameError`, what other libraries have an :class:`UnknownNameError`.

    Args:
        names: those of other libraries and what to write instead, which begins in lower case.
    """

    @hides_engine
    def look_up(self: Any, name: str) -> Any:
        for owner in type(self).__mro__:
            missing = MEMBERS.get(owner.__name__, {}).get(name)
            if missing is not None:
                raise MissingNameError(f"{owner.__name__}.{name}() is not supported{missing}\n  at {caller()}")
        owner_name = type(self).__name__
        if name in names:
            raise UnknownNameError(f"{owner_name} has no {name!r}: {names[name]}\n  at {caller()}")
        raise AttributeError(f"{owner_name!r} object has no attribute {name!r}", name=name, obj=self)

    def add(cls: C) -> C:
        cls.__getattr__ = look_up  # type: ignore[attr-defined]
        return cls

    return add


def without_effect(methods: Mapping[str, str]) -> Callable[[C], C]:
    """Gives a class setters that only warn: the setting has nothing to act on here.

    Args:
        methods: by name, why; begins in lower case.
    """

    def add(cls: C) -> C:
        for name, text in methods.items():
            method = _warning(f"{cls.__name__}.{name}()", text)
            method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
        return cls

    return add


def _warning(method: str, reason: str) -> Callable[..., Any]:
    def warn(self: Any, *_: Any, **__: Any) -> Any:
        warn_caller(f"{method} has no effect: {reason}")
        return self

    warn.__doc__ = f"Accepted without effect: {reason}."
    return warn
