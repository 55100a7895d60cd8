"""Names that programs bring from PyFlink, PySpark, pandas or Polars: asking for one says what to do here.

The names are in tables beside the classes that answer, and three decorators make them do so. :func:`unsupported` and
:func:`without_effect` are for methods that the class of Flink has: they are methods here, too. :func:`other_names` is
for what other libraries call something: there is no such attribute.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.call_site import caller
from headrace.common.errors import UnknownNameError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

C = TypeVar("C", bound=type)


def unsupported(methods: Mapping[str, str]) -> Callable[[C], C]:
    """Gives a class methods that raise an :class:`UnsupportedOperationError`.

    Args:
        methods: by name, what to do instead; begins in lower case.
    """
    return _adding(methods, _refusing)


def without_effect(methods: Mapping[str, str]) -> Callable[[C], C]:
    """Gives a class setters that only warn: the setting has nothing to act on here.

    Args:
        methods: by name, why; begins in lower case.
    """
    return _adding(methods, _warning)


def other_names(names: Mapping[str, str]) -> Callable[[C], C]:
    """Gives a class an answer to names that it does not have; ``hasattr`` and completion do not see them.

    Args:
        names: by name, what to write instead; begins in lower case.
    """

    def look_up(self: Any, name: str) -> Any:
        owner = type(self).__name__
        if name in names:
            raise UnknownNameError(f"{owner} has no {name!r}: {names[name]}\n  at {caller()}")
        raise AttributeError(f"{owner!r} object has no attribute {name!r}", name=name, obj=self)

    def add(cls: C) -> C:
        cls.__getattr__ = look_up  # type: ignore[attr-defined]
        return cls

    return add


def _adding(methods: Mapping[str, str], make: Callable[[str, str], Callable[..., Any]]) -> Callable[[C], C]:
    def add(cls: C) -> C:
        for name, text in methods.items():
            method = make(f"{cls.__name__}.{name}()", text)
            method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
        return cls

    return add


def _refusing(method: str, advice: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedOperationError(f"{method} is not supported: {advice}")

    refuse.__doc__ = f"Not supported: {advice}."
    return refuse


def _warning(method: str, reason: str) -> Callable[..., Any]:
    def warn(self: Any, *_: Any, **__: Any) -> Any:
        warnings.warn(f"{method} has no effect: {reason}", stacklevel=2)
        return self

    warn.__doc__ = f"Accepted without effect: {reason}."
    return warn
