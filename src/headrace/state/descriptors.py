"""State descriptors: the name, the type and the behaviour of one keyed state, under PyFlink's signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, overload

from headrace.common.arguments import method_of_object
from headrace.common.errors import InvalidProgramError, StateMigrationError, expect, is_unicode, refused
from headrace.common.type_variables import ACC, OUT, K, SupportsAggregate, SupportsReduce, T, V
from headrace.common.typeinfo import DeclaredType, Json, TypeInformation, Types, type_from_json
from headrace.state.evolution import NOTHING_RENAMED, OTHER_UID, Evolution, Incompatible, RenamedFields, evolution
from headrace.state.ttl import StateTtlConfig, TtlPolicy

__all__ = [
    "AggregatingStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueStateDescriptor",
]


def _checked_name(name: object) -> str:
    if not name:
        raise InvalidProgramError(f"the name of a state must not be empty: {name!r}")
    if not isinstance(name, str):
        raise InvalidProgramError(f"the name of a state must be a string, not {name!r}")
    if not is_unicode(name):
        raise InvalidProgramError(f"the name of a state must be text that UTF-8 can write, not {name!r}")
    return name


class StateDescriptor:
    """The declaration of a state in a program.

    A type may be given as type information, as a class or type hint, or not at all: then values are pickled.

    Examples:
        >>> from headrace.common import Time, Types
        >>> from headrace.datastream.state import StateTtlConfig, ValueStateDescriptor
        >>> last_seen = ValueStateDescriptor("last seen", Types.LONG())
        >>> last_seen.enable_time_to_live(StateTtlConfig.new_builder(Time.days(7)).build())
        >>> last_seen.get_name()
        'last seen'

    Attributes:
        subject: what errors call it, where an operator keeps it for itself.
        advice: what errors say is to be done when something else is stored.
        advice_on_keys: the same of keys of another type.
        namespaces: what the namespaces are that an operator keeps the state in, in words: what was stored in others is
            refused. None where that does not matter.
        renamed_fields: which fields of the values have other names than in what is stored.
        evolves: whether values of an earlier type may become those of this one. Not so where an operator has made the
            type of its own parts, so that a field of another name is another thing.
    """

    kind: ClassVar[str]
    """The kind of the stored state; states of different kinds cannot replace each other."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        self.name = _checked_name(name)
        self.type_info = type_info
        self.subject: str | None = None
        self.advice = (
            "declare a state of another name and take the values over from this one, or restore the old declaration"
        )
        self.advice_on_keys = OTHER_UID
        self.namespaces: str | None = None
        self.evolves = True
        self.renamed_fields = NOTHING_RENAMED
        self._ttl_config: StateTtlConfig | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info})"

    def keep_for_operator(self, subject: str, renamed: RenamedFields, advice: str = OTHER_UID) -> None:
        """Says that an operator keeps it for itself: the program knows neither its name nor its descriptor.

        Args:
            subject: what errors call it.
            renamed: which fields of the values have other names than in what is stored.
            advice: what errors say is to be done when something else is stored.
        """
        self.subject, self.renamed_fields = subject, renamed
        self.advise(advice)

    def advise(self, advice: str) -> None:
        """Says what errors are to say when something else is stored, or keys of another type have it."""
        self.advice = self.advice_on_keys = advice

    @property
    def label(self) -> str:
        """The name of the state in errors."""
        return self.subject or f"{self.kind} state {self.name!r}"

    def get_name(self) -> str:
        """The name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets values, elements or entries expire.

        Raises:
            InvalidTypeError: when it is no ``StateTtlConfig``.
        """
        expect(ttl_config, StateTtlConfig, "enable_time_to_live")
        self._ttl_config = ttl_config

    @property
    def ttl(self) -> TtlPolicy | None:
        """Return when elements expire; None when they do not."""
        return TtlPolicy.of(self._ttl_config)

    def stored_types(self) -> Json:
        """The types under which the state is stored: equal ones can read what the other has written."""
        return {"value": self.type_info.to_json()}

    def set_renamed_fields(self, renamed: Mapping[str, str]) -> None:
        """Says which fields of the values have other names than in what is stored; PyFlink has no such method.

        Values that were stored before a field was renamed then keep it; what is stored since has the new name, so this
        may stay in the program, or go.

        Args:
            renamed: new names by old ones. A field of an inner record is given by its path in the stored type, as in
                ``{"address.zip": "postcode"}``.

        Raises:
            InvalidProgramError: when it is no such mapping, or the declared type has no field of a new name there.

        Examples:
            >>> from headrace.common import Types
            >>> from headrace.datastream.state import ValueStateDescriptor
            >>> seen = ValueStateDescriptor("seen", Types.ROW_NAMED(["visits"], [int]))
            >>> seen.set_renamed_fields({"count": "visits"})
        """
        given = RenamedFields.given(renamed)
        unfit = given.unfit({"": self._value_type})
        if unfit:
            raise refused(f"{self.label}: {'; '.join(unfit)}")
        self.renamed_fields = given

    def evolution_of(self, stored: Json) -> Evolution | None:
        """Return how values that were stored under types that :meth:`stored_types` gave become those that are declared.

        Returns:
            None when they are the same.

        Raises:
            StateMigrationError: when they cannot, with both types in words.
        """
        declared = self.stored_types()
        if stored == declared:
            return None
        if not self._may_become(stored) or stored.keys() != declared.keys() or stored.get("key") != declared.get("key"):
            raise self._other_type(stored)
        try:
            return evolution(type_from_json(stored["value"]), self._value_type, self.renamed_fields)
        except Incompatible as error:
            raise self._other_type(stored, error.differences) from error

    def _may_become(self, stored: Json) -> bool:
        """Return whether values may change; where they do not evolve, fields may have other names, and nothing else."""
        if self.evolves:
            return True
        fields = stored.get("value", {}).get("fields", ())
        renamed = [{**each, "name": self.renamed_fields.new_name("", each["name"])} for each in fields]
        return {"value": {**stored["value"], "fields": renamed}} == self.stored_types()

    @property
    def _value_type(self) -> TypeInformation:
        """The type of values, of elements of a list, or of values of entries."""
        return self.type_info

    def _other_type(self, stored: Json, differences: Sequence[str] = ()) -> StateMigrationError:
        why = f" ({'; '.join(differences)})" if differences else ""
        return StateMigrationError(
            f"{self.label} was stored with another type: stored {_types_text(stored)}, declared "
            f"{_types_text(self.stored_types())}{why}; {self.advice}"
        )

    def describes_same(self, other: StateDescriptor) -> bool:
        """Return whether both can stand for one state: of the same kind, types and time to live."""
        if self.kind != other.kind or self.ttl != other.ttl:
            return False
        return self.type_info is other.type_info or self.stored_types() == other.stored_types()


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a :class:`~headrace.state.interfaces.ValueState`.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> ValueStateDescriptor("total", Types.DOUBLE()).type_info
        Double
        >>> ValueStateDescriptor("total", float).type_info
        Double
    """

    kind = "value"

    @overload
    def __init__(self: ValueStateDescriptor, name: str, value_type_info: None = None) -> None: ...
    @overload
    def __init__(self, name: str, value_type_info: DeclaredType[T]) -> None: ...
    def __init__(self, name: str, value_type_info: object = None) -> None:
        super().__init__(name, _type_of(value_type_info))


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a :class:`~headrace.state.interfaces.ListState`.

    Examples:
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> ListStateDescriptor("words", str).type_info
        ListTypeInfo<String>

    Attributes:
        takes_none: whether an element may be None; only the operators of windows say so.
    """

    kind = "list"

    @overload
    def __init__(self: ListStateDescriptor, name: str, elem_type_info: None = None) -> None: ...
    @overload
    def __init__(self, name: str, elem_type_info: DeclaredType[T]) -> None: ...
    def __init__(self, name: str, elem_type_info: object = None) -> None:
        self.element_type = _type_of(elem_type_info)
        self.takes_none = False
        super().__init__(name, Types.LIST(self.element_type))

    def stored_types(self) -> Json:
        """The type of the elements."""
        return {"value": self.element_type.to_json()}

    @property
    def _value_type(self) -> TypeInformation:
        return self.element_type


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Describes a :class:`~headrace.state.interfaces.MapState` (or broadcast state).

    Examples:
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> MapStateDescriptor("visits", str, int).type_info
        MapTypeInfo<String, Long>
    """

    kind = "map"

    @overload
    def __init__(self: MapStateDescriptor, name: str) -> None: ...
    @overload
    def __init__(
        self: MapStateDescriptor[K, Any], name: str, key_type_info: DeclaredType[K], value_type_info: None = None
    ) -> None: ...
    @overload
    def __init__(self, name: str, key_type_info: DeclaredType[K], value_type_info: DeclaredType[V]) -> None: ...
    def __init__(self, name: str, key_type_info: object = None, value_type_info: object = None) -> None:
        self.key_type = _type_of(key_type_info)
        self.value_type = _type_of(value_type_info)
        super().__init__(name, Types.MAP(self.key_type, self.value_type))

    def stored_types(self) -> Json:
        """The types of keys and values of the entries."""
        return {"key": self.key_type.to_json(), "value": self.value_type.to_json()}

    @property
    def _value_type(self) -> TypeInformation:
        return self.value_type


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a :class:`~headrace.state.interfaces.ReducingState`.

    ``reduce_function`` is a function of two values or an object with a method ``reduce(value1, value2)``.

    Examples:
        >>> from headrace.datastream.state import ReducingStateDescriptor
        >>> ReducingStateDescriptor("largest", max, int).reduce(2, 3)
        3
    """

    kind = "reducing"

    def __init__(
        self,
        name: str,
        reduce_function: Callable[[T, T], T] | SupportsReduce[T],
        type_info: DeclaredType[T] | None = None,
    ) -> None:
        super().__init__(name, _type_of(type_info))
        self._reduce_function = reduce_function
        self.reduce: Callable[[T, T], T] = _method_or_function(reduce_function, "reduce")

    def get_reduce_function(self) -> Any:
        """The reduce function as it was given."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor, Generic[T, OUT]):
    """Describes an :class:`~headrace.state.interfaces.AggregatingState`.

    ``agg_function`` is an object with methods ``create_accumulator()``, ``add(value, accumulator)`` and
    ``get_result(accumulator)``; ``state_type_info`` is the type of its accumulators.

    Examples:
        >>> from headrace.datastream.state import AggregatingStateDescriptor
        >>> class Total:
        ...     def create_accumulator(self):
        ...         return 0.0
        ...     def add(self, value, accumulator):
        ...         return accumulator + value
        ...     def get_result(self, accumulator):
        ...         return accumulator
        >>> AggregatingStateDescriptor("total", Total(), float).type_info
        Double
    """

    kind = "aggregating"

    def __init__(
        self,
        name: str,
        agg_function: SupportsAggregate[T, ACC, OUT],
        state_type_info: DeclaredType[ACC] | None = None,
    ) -> None:
        super().__init__(name, _type_of(state_type_info))
        for method in ("create_accumulator", "add", "get_result"):
            if not callable(getattr(agg_function, method, None)):
                raise InvalidProgramError(f"the aggregate function of state {name!r} has no method {method}()")
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        """The aggregate function."""
        return self._agg_function


def _types_text(types: Json) -> str:
    return " and ".join(f"{role} {type_from_json(described)}" for role, described in types.items())


def _type_of(kind: object) -> TypeInformation:
    return Types.PICKLED_BYTE_ARRAY() if kind is None else Types.of(kind)


def _method_or_function(function: Any, name: str) -> Callable[[Any, Any], Any]:
    called: Callable[[Any, Any], Any] = method_of_object(function, name) or function
    if callable(called):
        return called
    raise InvalidProgramError(f"expected a function or an object with a method {name}(), got {function!r}")
