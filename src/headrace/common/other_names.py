"""Names that an object does not have, misspelled or brought from other libraries: asking for one says what to write.

PyFlink's are in :mod:`headrace.common.pyflink_names`, those of PySpark, pandas and Polars in tables beside the classes
that answer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final, TypeVar

from headrace.common.call_site import caller, warn_caller
from headrace.common.errors import MissingNameError, UnknownNameError
from headrace.common.pyflink_names import MEMBERS, PLAIN
from headrace.common.tracebacks import hides_engine

C = TypeVar("C", bound=type)


_NOTHING: Final[Mapping[str, str]] = {}
_EXPLAINED: Final = "_headrace_names_explained"
_LIKENESS: Final = 0.7
_FUNCTIONS: Final = (FunctionType, MethodType, BuiltinMethodType)
_BEGIN_OF_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def other_names(names: Mapping[str, str] = _NOTHING) -> Callable[[C], C]:
    """Gives a class an answer to names that it does not have; ``hasattr`` and completion do not see them.

    What PyFlink has is a :class:`MissingNameError`, anything else an :class:`UnknownNameError`, with the names that are
    alike where there are any.

    Args:
        names: those of other libraries and what to write instead, which begins in lower case.
    """

    @hides_engine
    def look_up(self: Any, name: str) -> Any:
        owner_name = type(self).__name__
        if name.startswith("_"):  # Python's own protocols ask for these
            raise AttributeError(f"{owner_name!r} object has no attribute {name!r}", name=name, obj=self)
        if hasattr(type(self), name):  # a property or the like, which has raised an AttributeError of its own
            return object.__getattribute__(self, name)
        for owner in type(self).__mro__:
            missing = MEMBERS.get(owner.__name__, {}).get(name)
            if missing is not None:
                raise MissingNameError(f"{owner.__name__}.{name}() is not supported{missing}\n  at {caller()}")
        hint = f": {names[name]}" if name in names else alike(name, dir(type(self)))
        raise UnknownNameError(f"{owner_name} has no {name!r}{hint}\n  at {caller()}")

    def add(cls: C) -> C:
        cls.__getattr__ = look_up  # type: ignore[attr-defined]
        return cls

    return add


def names_explained(shown: str, names: Mapping[str, str] = _NOTHING) -> Callable[[C], C]:
    """Lets :func:`explained` say what to write instead of names that a class does not have.

    For objects that functions use at each record: a ``__getattr__``, which :func:`other_names` adds, makes every use of
    every attribute several times as slow.

    Args:
        shown: what programs know the class as.
        names: as those of :func:`other_names`.
    """

    def add(cls: C) -> C:
        setattr(cls, _EXPLAINED, (shown, names))
        return cls

    return add


def explained(error: BaseException) -> str:
    """What to write instead of an attribute that was asked for in vain; empty where it is not known."""
    if not isinstance(error, AttributeError) or error.name is None:
        return ""
    if isinstance(error.obj, _FUNCTIONS):  # ctx.window.end
        name = error.obj.__name__
        return f"{name} is a method, which has to be called: {name}().{error.name}"
    shown, names = getattr(type(error.obj), _EXPLAINED, (None, _NOTHING))
    if shown is None:
        return ""
    missing = PLAIN.get(f"{shown}.{error.name}")
    if missing is not None:
        return f"{shown}.{error.name}() is not supported{missing}"
    hint = f": {names[error.name]}" if error.name in names else alike(error.name, dir(type(error.obj)))
    return f"{shown} has no {error.name!r}{hint}"


def alike(name: str, known: Iterable[str]) -> str:
    """The end of a message: which names somebody may have meant; empty when none is alike.

    Args:
        name: the name that is not there.
        known: the names that are; those with an underscore do not count.
    """
    public = [each for each in known if not each.startswith("_")]
    words = _BEGIN_OF_WORD.sub("_", name).lower()  # Java's keyBy is key_by
    by_words = {_BEGIN_OF_WORD.sub("_", each).lower(): each for each in public}
    close = [words] if words in by_words else difflib.get_close_matches(words, by_words, n=3, cutoff=_LIKENESS)
    return f": did you mean {' or '.join(by_words[each] for each in close)}?" if close else ""


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
