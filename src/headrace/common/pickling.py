"""Values as bytes for another process, with classes and functions that only the program's own process can import.

It is ``cloudpickle`` with what that lacks: functions that remember their results (``functools.cache``), generic
functions (``functools.singledispatch``), and ``cached_property``, which has a lock before Python 3.12. Those of a
script would go by a name that no other process can import, or not at all. And code keeps the name of its file, which
cloudpickle leaves out from 3.1.3 on: errors point to the line of the program.

A class that comes back to the process that has defined it is that class there, and stays as it is. cloudpickle would
put copies of its methods into it, with copies of the globals that they use: what a notebook defines anew, or a program
sets, between two jobs would be without effect on the second one, without a word.
"""

import functools
import io
import sys
from collections import ChainMap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final
from weakref import WeakSet

import cloudpickle

PROTOCOL: Final = 5
"""Fixed, so that all supported versions of Python read and write the same bytes."""

_MAIN: Final = "__main__"
_GENERIC: Final = getattr(functools.singledispatch(len), "__code__")  # noqa: B009 - declared without it
"""All generic functions have this code, whatever they do."""

_WITH_SETTER: Final = 6
"""The length of what pickling returns for an object with a function that sets its state."""

_DEFINED_HERE: Final[WeakSet[type]] = WeakSet()
"""Classes that this process has defined and pickled."""

_MADE: Final[WeakSet[type]] = WeakSet()
"""Classes that were made of a pickle: another one of the same identity, of a later job, changes them."""


def pickle_by_value(value: object) -> bytes:
    """The bytes of a value.

    Raises:
        Exception: what cannot be pickled raises all kinds of errors.
    """
    file = io.BytesIO()
    _Pickler(file, PROTOCOL).dump(value)
    return file.getvalue()


def _cached(value: Any) -> str | tuple[Any, ...]:
    if _is_importable(value):
        name: str = value.__reduce__()
        return name
    about = {key: item for key, item in vars(value).items() if key != "cache_parameters"}
    return _new_cached, tuple(value.cache_parameters().values()), about


def _new_cached(maxsize: int | None, typed: bool) -> Callable[..., Any]:
    """A function that caches results of one that is set afterwards, which may call it in turn."""

    @functools.lru_cache(maxsize, typed)
    def call(*args: object, **kwargs: object) -> Any:
        return call.__wrapped__(*args, **kwargs)

    return call


def _generic(value: Any) -> tuple[Any, ...]:
    return _new_generic, (), (dict(value.registry), vars(value).get("__wrapped__")), None, None, _set_generic


def _new_generic() -> Callable[..., Any]:
    return functools.singledispatch(_no_function)


def _no_function(_: object) -> None:
    raise AssertionError("replaced by what is registered for object")


def _set_generic(value: Any, state: tuple[dict[type, Callable[..., Any]], Callable[..., Any]]) -> None:
    registry, function = state
    functools.update_wrapper(value, function)
    for kind, registered in registry.items():
        value.register(kind, registered)


def _cached_property(value: functools.cached_property[Any]) -> tuple[Any, ...]:
    about = {key: item for key, item in vars(value).items() if key not in {"lock", "func"}}
    return functools.cached_property, (value.func,), about


def _code(value: CodeType) -> tuple[Any, ...]:
    _, about = cloudpickle.Pickler.dispatch_table[CodeType](value)
    # A text of its own for each code: which of them share one is not the same in every process.
    return _new_code, (about, "".join(value.co_filename))


def _new_code(about: tuple[Any, ...], filename: str) -> CodeType:
    return CodeType(*about).replace(co_filename=filename)


def _class(value: type, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    if value not in _MADE:
        _DEFINED_HERE.add(value)
    make, arguments, state, _, _, set_state = reduced
    return _new_class, (make, *arguments), (set_state, state), None, None, _set_class


def _new_class(make: Callable[..., type], *arguments: object) -> type:
    """A class without its attributes, or the one of that identity that there is in this process."""
    found = make(*arguments)
    if found not in _DEFINED_HERE:
        _MADE.add(found)
    return found


def _set_class(value: type, state: tuple[Callable[[type, Any], object], object]) -> None:
    set_state, attributes = state
    if value in _MADE:
        set_state(value, attributes)


def _is_importable(value: object) -> bool:
    """Return whether another process finds a function by its name."""
    name = value.__module__
    if name == _MAIN or name not in sys.modules or name in cloudpickle.list_registry_pickle_by_value():
        return False
    found: Any = sys.modules[name]
    for part in getattr(value, "__qualname__", "").split("."):  # a partial has none
        found = getattr(found, part, None)
    return found is value


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap(
        {
            type(functools.lru_cache(len)): _cached,
            functools.cached_property: _cached_property,
            CodeType: _code,
        },
        cloudpickle.Pickler.dispatch_table,
    )

    def reducer_override(self, value: Any) -> Any:
        if type(value) is FunctionType and value.__code__ is _GENERIC and not _is_importable(value):
            return _generic(value)
        reduced = super().reducer_override(value)
        is_by_value = isinstance(value, type) and isinstance(reduced, tuple) and len(reduced) == _WITH_SETTER
        return _class(value, reduced) if is_by_value else reduced
