"""``ConfigOption``: a configuration key that knows the type of its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.common import config_values as values
from headrace.common.public_module import public_module

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A configuration key.

    Attributes:
        key: the name, such as ``parallelism.default``.
        parse: makes the value of the text that stands in a configuration, or raises ``ValueError``.
        default: what holds when the key is not set.
        description: what it is for, for people.
        deprecated_keys: older names, which count where ``key`` is not set.

    Examples:
        >>> from headrace.common import ConfigOptions, Configuration
        >>> workers = ConfigOptions.key("my.workers").int_type().default_value(4)
        >>> print(workers)
        Key: 'my.workers' , default: 4
        >>> Configuration().get(workers)
        4
    """

    key: str
    parse: Callable[[str], T]
    default: T
    description: str = ""
    deprecated_keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"Key: '{self.key}' , default: {self.default}"


@dataclass(frozen=True)
class TypedConfigOptionBuilder(Generic[T]):
    """Ends the definition of an option."""

    key: str
    parse: Callable[[str], T]

    def default_value(self, value: T) -> ConfigOption[T]:
        """The option with a default."""
        return ConfigOption(self.key, self.parse, value)

    def no_default_value(self) -> ConfigOption[T | None]:
        """The option without one: it is ``None`` when it is not set."""
        return ConfigOption[T | None](self.key, self.parse, None)


@dataclass(frozen=True, slots=True)
class OptionBuilder:
    """Says what type an option has."""

    key: str

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """``true`` or ``false``."""
        return TypedConfigOptionBuilder(self.key, values.boolean)

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """An integer of 32 bits."""
        return TypedConfigOptionBuilder(self.key, values.integer(-(2**31), 2**31 - 1))

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """An integer of 64 bits."""
        return TypedConfigOptionBuilder(self.key, values.integer(-(2**63), 2**63 - 1))

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """A number."""
        return TypedConfigOptionBuilder(self.key, values.number())

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """A number."""
        return TypedConfigOptionBuilder(self.key, values.number())

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """Any text."""
        return TypedConfigOptionBuilder(self.key, str)

    def duration_type(self) -> TypedConfigOptionBuilder[int]:
        """A length of time, read as milliseconds."""
        return TypedConfigOptionBuilder(self.key, values.duration)

    def memory_type(self) -> TypedConfigOptionBuilder[int]:
        """An amount of memory, read as bytes."""
        return TypedConfigOptionBuilder(self.key, values.memory_size)


class ConfigOptions:
    """Defines options of a program's own.

    Examples:
        >>> from headrace.common import ConfigOptions, Configuration
        >>> folder = ConfigOptions.key("my.folder").string_type().no_default_value()
        >>> Configuration().set_string("my.folder", "/data").get(folder)
        '/data'
    """

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Begins the definition of an option."""
        return OptionBuilder(key)


public_module(__name__)
