"""Methods that Flink has and headrace has not, as tables: calling one says what to do instead."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.errors import UnsupportedOperationError

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
