"""``Configuration``: keys and values, and which of them say how storages are reached."""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import difflib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar, overload

from headrace.common.call_site import warn_caller
from headrace.common.config_options import ConfigOption, boolean, integer, number, parse_list
from headrace.common.errors import ConfigurationError, expect
from headrace.common.flink_options import FLINK_OPTIONS, REFUSED_OPTIONS, reason_of_family
from headrace.common.masking import MASK, is_sensitive, without_secrets
from headrace.common.options import (
    DEPRECATED,
    OPENLINEAGE_NAMESPACE,
    OPTIONS,
    OWN_NAMESPACES,
    REPORTER_NAMESPACE,
    SPARK_NAMESPACE,
    STORAGE_NAMESPACE,
    TRACE_REPORTER_NAMESPACE,
)
from headrace.common.public_module import public_module
from headrace.common.time import Duration, Time, to_millis

__all__ = ["Configuration"]


_HADOOP: Final = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
    "path.style.access": "virtual_hosted_style_request",
}
"""The names of our options in S3A."""

_FLINK: Final = _HADOOP | {
    "access-key": "access_key_id",
    "secret-key": "secret_access_key",
    "region": "region",
    "path-style-access": "virtual_hosted_style_request",
}

_ALIASES: Final = {
    "s3.": _FLINK,
    "s3a.": _FLINK,
    "fs.s3a.": _HADOOP,
    "spark.hadoop.fs.s3a.": _HADOOP,
}
"""Namespaces of others, the first of which wins. What Spark's has besides is Spark's own affair."""

_SSL: Final = "connection.ssl.enabled"
"""Of S3A, whose endpoints need no scheme."""

_HADOOP_KEYS: Final = ("dfs.", "hadoop.", "fs.defaultFS", "fs.permissions.", "fs.viewfs.")
"""The beginnings of the settings of Hadoop that are for HDFS; they are handed on as they are."""

_OF_SPARK: Final = "spark.hadoop."

_SECRET: Final = (STORAGE_NAMESPACE, *_ALIASES, f"{OPENLINEAGE_NAMESPACE}auth.")
"""The beginnings of keys whose values only a client should see."""


def is_secret_key(key: str) -> bool:
    """Return whether the value of a key is never shown."""
    is_of_reporter = key.startswith(_REPORTERS) and key.endswith(".headers")
    return key.startswith(_SECRET) or is_of_reporter


def _is_masked(key: str) -> bool:
    return is_secret_key(key) or is_sensitive(key)


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """Keys and values with secrets masked."""
    return {key: MASK if _is_masked(key) else without_secrets(text) for key, text in values.items()}


def is_hadoop_key(name: str) -> bool:
    """Return whether an option of a storage is a setting of Hadoop for HDFS."""
    return name.startswith(_HADOOP_KEYS)


def problem_of(key: str) -> str | None:
    """Return what is wrong with a key in a namespace of others that nothing would come of; None when nothing is.

    An unknown key that begins with ``headrace.storage.`` is found by the client of the store, which knows them.
    """
    for namespace, names in _ALIASES.items():
        suffix = key.removeprefix(namespace)
        if suffix == key or namespace.startswith("spark."):
            continue
        if suffix in names or suffix == _SSL:
            return None
        close = difflib.get_close_matches(suffix, names, n=2, cutoff=0.5)
        known = " or ".join(namespace + name for name in close) if close else ", ".join(map(namespace.__add__, names))
        meant = f"did you mean {known}?" if close else f"known are {known}."
        return f"{key} is not an option of headrace: {meant} All that S3's client knows begins with {STORAGE_NAMESPACE}"
    return None


def _translated(name: str, value: str, ssl: str) -> str:
    if name == "virtual_hosted_style_request":  # the opposite of a path style
        return {"true": "false", "false": "true"}.get(value.strip().lower(), value)
    if name == "endpoint" and "://" not in value:
        return f"http{'' if ssl.strip().lower() == 'false' else 's'}://{value}"
    return value


_REPORTERS: Final = (REPORTER_NAMESPACE, TRACE_REPORTER_NAMESPACE)

_CHECKED_ELSEWHERE: Final = (STORAGE_NAMESPACE, OPENLINEAGE_NAMESPACE, *_REPORTERS)
"""Namespaces of ours whose keys those know that they are for."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of a key.

    Attributes:
        text: as it stands in a configuration file.
        given: the number, boolean or bytes that were given; the text for whatever else it was.
    """

    text: str
    given: Any

    @classmethod
    def of(cls, key: str, value: Any) -> _Value:
        text = _written(key, value)
        if isinstance(value, bytes | bytearray):
            return cls(text, bytearray(value))
        is_plain = isinstance(value, bool | int | float) and not isinstance(value, Enum)
        return cls(text, value if is_plain else text)


_LONG = integer(-(2**63), 2**63 - 1)
_DOUBLE = number()
_NEARLY_THE_SAME: Final = 0.9
"""The likeness of another key to an option from which on it is a slip: one letter or two of some twenty."""


class Configuration:
    """Keys and values, the values read as text, as in a configuration file.

    Args:
        other: a configuration to begin with a copy of.

    Examples:
        >>> from headrace.common import Configuration
        >>> config = Configuration()
        >>> config.set_string("execution.checkpointing.interval", "10 s")
        Configuration({'execution.checkpointing.interval': '10 s'})
        >>> config.set_integer("parallelism.default", 4).get_integer("parallelism.default", 1)
        4
        >>> config.set_string("parallelism.defualt", "2").validate()
        Traceback (most recent call last):
            ...
        ConfigurationError: parallelism.defualt is not an option of headrace: did you mean parallelism.default?
    """

    __slots__ = ("_values",)

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, _Value] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Configuration:
        """A configuration of these keys and values."""
        made = cls()
        for key, value in values.items():
            made.set(key, value)
        return made

    def set(self, key: str | ConfigOption, value: Any) -> Configuration:
        """Sets a key. Whatever is no text is read as text later on: a duration as ``10 ms``, a list with ``;``.

        An option of Flink that has nothing to act on here is kept as well; a warning says so, and why.
        """
        name: object = key.key if isinstance(key, ConfigOption) else key
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a configuration key is a non-empty string or a ConfigOption, not {key!r}")
        self._values[name] = _Value.of(name, value)
        reason = self._why_without_effect(name)
        if reason is not None:
            warn_caller(f"{name} has no effect: {reason}")
        return self

    def set_checked(self, option: ConfigOption, value: Any) -> None:
        """Sets an option, or raises when it cannot have this value, and leaves it as it was.

        Raises:
            ConfigurationError: when the value cannot be read.
        """
        _parsed(option.key, _written(option.key, value), option.parse)
        for key in option.deprecated_keys:
            self._values.pop(key, None)
        self.set(option, value)

    @overload
    def get(self, key: ConfigOption[T]) -> T: ...
    @overload
    def get(self, key: ConfigOption[T], default: T) -> T: ...
    @overload
    def get(self, key: str, default: Any = None) -> Any: ...
    def get(self, key: Any, default: Any = None) -> Any:
        """The value of an option, read as the option says, or its default; the text of a key that is just a string.

        Raises:
            ConfigurationError: when the value cannot be read.
        """
        if isinstance(key, str):
            return self._values[key].text if key in self._values else default
        name = key.key
        if name not in self._values and key.deprecated_keys:
            name = next(filter(self._values.__contains__, key.deprecated_keys), name)
        return self._read(name, key.parse, key.default if default is None else default)

    def get_string(self, key: str, default_value: str) -> str:
        """The text that is set for a key."""
        return self._values[key].text if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Sets a key to a text."""
        expect(value, str, "set_string")
        return self.set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """The value of a key as an integer."""
        return self._read(key, _LONG, default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Sets a key to an integer."""
        expect(value, int, "set_integer")
        return self.set(key, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """The value of a key as a boolean."""
        return self._read(key, boolean, default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Sets a key to a boolean."""
        expect(value, bool, "set_boolean")
        return self.set(key, value)

    def get_float(self, key: str, default_value: float) -> float:
        """The value of a key as a float."""
        return self._read(key, _DOUBLE, default_value)

    def set_float(self, key: str, value: float) -> Configuration:
        """Sets a key to a float."""
        expect(value, float, "set_float")
        return self.set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """The bytes that were set for a key."""
        return self._read(key, _from_base64, default_value)

    def set_bytearray(self, key: str, value: bytes | bytearray) -> Configuration:
        """Sets a key to bytes, which are written in base 64."""
        return self.set(key, bytes(value))

    def key_set(self) -> AbstractSet[str]:
        """All keys that are set."""
        return frozenset(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether a key is set."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Removes a key; says whether it was set."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Sets everything that another configuration sets, with ``prefix`` before its keys."""
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Puts all keys and values into a dict; numbers, booleans and bytes as they were set, all else as text."""
        target_dict.update({key: value.given for key, value in self._values.items()})

    @staticmethod
    def parse_list_value(value: str | None) -> list[Any]:
        """The elements of a value that is a list: ``a;b``, or a list in YAML, which may be over several lines.

        Raises:
            ValueError: when a list in YAML has anything but plain or quoted values in it.
        """
        return parse_list(value or "")

    def to_dict(self) -> dict[str, str]:
        """All keys and values, as text."""
        return {key: value.text for key, value in self._values.items()}

    def spark_options(self) -> dict[str, str]:
        """The keys and values that are Spark's."""
        return {key: text for key, text in self.to_dict().items() if key.startswith(SPARK_NAMESPACE)}

    def storage_options(self) -> dict[str, str]:
        """Return the options of the clients of storages, by their own names.

        Those for S3 that come from others' keys begin with ``aws_``.
        """
        values = self.to_dict()
        own: dict[str, str] = {}
        said: set[str] = set()
        for namespace in (_OF_SPARK, STORAGE_NAMESPACE):  # the latter, which is our own, wins
            for key, value in values.items():
                name = key.removeprefix(namespace)
                if name == key:
                    continue
                if is_hadoop_key(name):
                    own[name] = value
                elif namespace == STORAGE_NAMESPACE:
                    name = name.replace("-", "_").lower()
                    own[name] = value
                    said |= {name.removeprefix("aws_"), "endpoint" if name == "endpoint_url" else name}
        for namespace, names in _ALIASES.items():
            for suffix, name in names.items():
                given = values.get(namespace + suffix)
                if given is not None and name not in said:
                    own[f"aws_{name}"] = _translated(name, given, values.get(namespace + _SSL, "true"))
                    said.add(name)
        return own

    def job_parameters(self) -> dict[str, str]:
        """Return what functions may ask for: all keys and values but those of the storage, and other secrets."""
        return {key: value.text for key, value in self._values.items() if not is_secret_key(key)}

    def validate(self) -> None:
        """Looks at every key in headrace's namespaces, and at those that are an option's but for a letter or two.

        Raises:
            ConfigurationError: when a key is unknown (the message names those that are spelled alike) or a value
                cannot be read. All mistakes are in one message.
        """
        problems = list(filter(None, map(self._problem, sorted(self._values))))
        if problems:
            raise ConfigurationError("\n".join(problems))

    def _problem(self, key: str) -> str | None:
        option = OPTIONS.get(key) or DEPRECATED.get(key) or FLINK_OPTIONS.get(key)
        if key in REFUSED_OPTIONS:
            return f"{key} is an option of Flink, not of headrace: {REFUSED_OPTIONS[key]}"
        if option is None and reason_of_family(key) is not None:
            return None
        if option is None:
            if key.startswith(_CHECKED_ELSEWHERE):
                return problem_of(key)
            is_ours = f"{key}.".startswith(OWN_NAMESPACES)
            return _unknown(key) if is_ours or _is_misspelled(key) else problem_of(key)
        try:
            self.get(option)
        except ConfigurationError as error:
            return str(error)
        return None

    def _why_without_effect(self, key: str) -> str | None:
        """The reason why a key has no effect; None where it has one, or is set to what holds anyway."""
        option = FLINK_OPTIONS.get(key)
        if option is None:
            return None if key in OPTIONS or key in DEPRECATED else reason_of_family(key)
        with contextlib.suppress(ConfigurationError):  # validate() is for that
            if self.get(option) != option.default:
                return option.reason
        return None

    def _read(self, key: str, parse: Callable[[str], T], default: T) -> T:
        return default if key not in self._values else _parsed(key, self._values[key].text, parse)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and other.to_dict() == self.to_dict()

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __repr__(self) -> str:
        return f"Configuration({self._shown()!r})"

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={text}' for key, text in self._shown().items())}}}"

    def _shown(self) -> dict[str, str]:
        """Return the keys and values of :meth:`to_dict`, without secrets."""
        return masked(self.to_dict())


def _parsed(key: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        shown = MASK if _is_masked(key) else repr(text)
        raise ConfigurationError(f"{key} = {shown}: expected {error}") from None


def _is_misspelled(key: str) -> bool:
    """Return whether a key of no namespace of headrace's is so near to an option that nothing else can be meant."""
    return bool(difflib.get_close_matches(key, OPTIONS, n=1, cutoff=_NEARLY_THE_SAME))


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, OPTIONS, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(OPTIONS)}"
    return f"{key} is not an option of headrace: {hint}"


def _from_base64(text: str) -> bytearray:
    try:
        return bytearray(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise ValueError("bytes in base 64") from None


def _written(key: str, value: object) -> str:
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    shown = MASK if _is_masked(key) else repr(value)
    raise ConfigurationError(f"{key} cannot be set to {shown}: give a string, a number, a boolean or a duration")


_WRITERS: tuple[tuple[tuple[type, ...], Callable[[Any], str]], ...] = (
    ((bool,), lambda value: "true" if value else "false"),
    ((Enum,), lambda value: str(value.name)),
    ((str,), str),
    ((int, float), repr),
    ((Duration, Time, datetime.timedelta), lambda value: f"{to_millis(value)} ms"),
    ((bytes, bytearray), lambda value: base64.b64encode(value).decode()),
    ((list, tuple), lambda value: ";".join(map(str, value))),
)


public_module(__name__)
