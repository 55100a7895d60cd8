"""The handler of dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from headrace.common.values.handler import TypeHandler, WrongValueError
from headrace.common.values.records import Columns, RecordHandler, check_classes

if TYPE_CHECKING:
    from headrace.common.typeinfo import DataclassTypeInfo
    from headrace.common.values.checks import CheckSource

_MISSING: Final = object()
"""In place of a field that an instance does not have; it fits no type that has a column."""


class DataclassHandler(RecordHandler):
    """Instances of a dataclass: the values of its fields."""

    __slots__ = ("_class", "_expected", "_extras", "_getters", "_make", "_names")

    info: DataclassTypeInfo

    def __init__(self, info: DataclassTypeInfo, fields: Sequence[TypeHandler]) -> None:
        self._class = info.record_class
        self._names = info.names
        self._getters = [attrgetter(name) for name in info.names]
        self._make: Callable[..., list[Any]] = self._construct if _is_plain(self._class) else self._restore
        self._expected = (
            f"an instance of {info.class_name} itself with all its fields (declare Types.PICKLED_BYTE_ARRAY()"
            " for a mixture of classes)"
        )
        self._extras = _unstored_attributes(self._class)
        super().__init__(info, fields)

    def columns_of(self, records: Sequence[Any]) -> Columns:
        check_classes(records, set(), self._class, self._expected)
        if records:
            self._check_attributes(records[0])
        try:
            return [list(map(getter, records)) for getter in self._getters]
        except AttributeError as error:
            raise WrongValueError(records[0], self._expected) from error

    def records_of(self, columns: Sequence[list[Any]]) -> list[Any]:
        return self._make(columns)

    def fields_of(self, record: Any) -> Sequence[Any]:
        return [getter(record) for getter in self._getters]

    def build(self, values: Sequence[Any]) -> Any:
        return self._restore([[value] for value in values])[0]

    def _check_attributes(self, record: Any) -> None:
        """Finds the class whose ``__post_init__`` sets what is no field; one record is enough to see it."""
        extra = getattr(record, "__dict__", {}).keys() - set(self._names) - self._extras
        if extra:
            raise WrongValueError(
                record,
                f"made of the fields of {self._class.__qualname__} alone: {sorted(extra)[0]!r} is no field and would be"
                " lost (declare it as field(init=False))",
            )

    def _construct(self, columns: Sequence[list[Any]]) -> list[Any]:
        return list(map(self._class, *columns))

    def _restore(self, columns: Sequence[list[Any]]) -> list[Any]:
        # As with pickle: neither __init__ nor __post_init__ run again on values that they have produced already.
        records = list(map(object.__new__, repeat(self._class, len(columns[0]))))
        for name, column in zip(self._names, columns, strict=True):
            deque(map(object.__setattr__, records, repeat(name), column), maxlen=0)
        return records

    def add_check(self, source: CheckSource, value: str) -> str:
        first, record = source.bind(value)
        missing = source.name_of(_MISSING)
        conditions = [f"type({first}) is {source.name_of(self._class)}"]
        return self.add_field_checks(
            source, conditions, [f"getattr({record}, {name!r}, {missing})" for name in self._names]
        )


def _is_plain(cls: type) -> bool:
    """Whether the constructor does nothing but set the fields, in order; it is then the fastest way to an instance.

    Frozen classes are not plain: their constructor calls ``object.__setattr__`` for each field, more slowly than it
    can be done for a whole column.
    """
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    params = vars(owner).get("__dataclass_params__")
    if params is None or not params.init or params.frozen or hasattr(cls, "__post_init__"):
        return False
    own_ways = [vars(base).keys() & {"__new__", "__setattr__"} for base in cls.__mro__[:-1]]
    return not any(own_ways) and type(cls).__call__ is type.__call__ and _takes_fields_in_order(cls)


def _takes_fields_in_order(cls: Any) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    by_position = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    return by_position and [parameter.name for parameter in parameters] == [f.name for f in dataclasses.fields(cls)]


def _unstored_attributes(cls: type) -> set[str]:
    """Attributes of an instance that may be lost, since they are computed when asked for."""
    return {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)}
