"""Plugins: what headrace finds by a name, in its own packages or in distributions of others.

A distribution offers a plugin as an entry point of one of headrace's groups (``headrace.connectors``, say): the name
of the entry point is the plugin's name, its object is a class. Looking for a plugin reads the metadata of what is
installed and imports nothing but the one that is needed.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError, InvalidProgramError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


class Plugin:
    """The root of all plugins.

    Args:
        name: the name by which it was requested.

    Class attributes:
        noun: what messages call a plugin of its kind.
        required_options: the options that have to be given.
        optional_options: the others that it knows.
        other_options: options that Flink has and not this plugin, and what to do instead.
    """

    noun: ClassVar[str]
    required_options: ClassVar[tuple[ConfigOption, ...]] = ()
    optional_options: tuple[ConfigOption, ...] = ()
    other_options: Mapping[str, str] = MappingProxyType({})

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"{self.noun} {self.name!r}"

    def read_options(self, given: Mapping[str, Any], nested: str | None = None) -> Configuration:
        """Check options, of which the plugin has to know every one.

        Args:
            given: keys and values.
            nested: the name of a further plugin: keys that begin with it and a dot are for that one to check.

        Raises:
            ConfigurationError: when one is unknown or missing, or its value cannot be read.
        """
        known = {option.key: option for option in self.required_options + self.optional_options}
        for key in given:
            if key not in known and not (nested and key.startswith(f"{nested}.")):
                advice = self.other_options.get(key) or _alternatives(key, known)
                raise ConfigurationError(f"{self} has no option {key!r}: {advice}")
        missing = [option.key for option in self.required_options if option.key not in given]
        if missing:
            raise ConfigurationError(f"{self} needs {' and '.join(map(repr, missing))} among its options")
        options = Configuration.from_dict(given)
        for option in known.values():
            options.get(option)
        return options


P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True)
class PluginGroup(Generic[P]):
    """All plugins of one kind.

    Attributes:
        name: the group of the entry points.
        kind: the class that every plugin of the group extends.
        built_in: headrace's own, by name, as ``module:class``. No distribution can replace them.
        other_names: names that only Flink has, and what to use instead.
    """

    name: str
    kind: type[P]
    built_in: Mapping[str, str]
    other_names: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """The names of all plugins that are there now, sorted."""
        return sorted({*self.built_in, *_installed(self.name).names})

    def load(self, name: str) -> P:
        """Make the plugin of a name.

        Raises:
            ConfigurationError: when there is none of that name, or more than one.
            InvalidProgramError: when its module cannot be imported, or it is none of this group; the message names the
                distribution.
        """
        entry = self._entry(name)
        plugin = self._import(entry)
        if not (isinstance(plugin, type) and issubclass(plugin, self.kind)):
            raise InvalidProgramError(
                f"{self.kind.noun} {name!r} of {_distribution(entry)}: {entry.value} has to be a class that extends "
                f"{self.kind.__module__}.{self.kind.__name__}"
            )
        return plugin(name)

    def _entry(self, name: str) -> EntryPoint:
        from importlib.metadata import EntryPoint

        found = list(_installed(self.name).select(name=name))
        if name in self.built_in:
            found.insert(0, EntryPoint(name, self.built_in[name], self.name))
        if not found and name in self.other_names:
            raise ConfigurationError(f"there is no {self.kind.noun} {name!r}: {self.other_names[name]}")
        if not found:
            raise ConfigurationError(
                f"there is no {self.kind.noun} {name!r}: {_alternatives(name, self.names())} To add one, install a "
                f"distribution that has an entry point of that name in the group {self.name!r}"
            )
        if len({entry.value for entry in found}) > 1:
            owners = " and ".join(dict.fromkeys(map(_distribution, found)))
            raise ConfigurationError(f"the {self.kind.noun} {name!r} is in {owners}: uninstall all but one of them")
        return found[0]

    def _import(self, entry: EntryPoint) -> Any:
        try:
            return entry.load()
        except Exception as error:
            raise InvalidProgramError(
                f"{self.kind.noun} {entry.name!r} of {_distribution(entry)} cannot be loaded from {entry.value}: "
                f"{type(error).__name__}: {error}"
            ) from error


def installed_in(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, of which nothing is imported."""
    return {entry.name: entry for entry in _installed(group)}


def _installed(group: str) -> EntryPoints:
    """The entry points of a group, looked up again when the path or one of its folders has changed."""
    return _entry_points(group, tuple((place, _modified(place)) for place in sys.path))


@lru_cache(maxsize=64)
def _entry_points(group: str, _: tuple[tuple[str, int], ...]) -> EntryPoints:
    from importlib.metadata import entry_points  # not at the top: most programs name no plugin

    importlib.invalidate_caches()  # a folder may have come onto the path after the program had begun
    return entry_points(group=group)


def imported(class_name: str) -> Any:
    """The object at ``module.name``.

    Raises:
        InvalidProgramError: when it cannot be imported.
    """
    module, _, name = class_name.rpartition(".")
    if not module:
        raise InvalidProgramError(f"'{class_name}' names no module: write 'module.{class_name}'")
    try:
        return getattr(importlib.import_module(module), name)
    except HeadraceError:
        raise
    except Exception as error:
        raise InvalidProgramError(f"'{class_name}' cannot be imported: {type(error).__name__}: {error}") from error


def _modified(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


def _distribution(entry: EntryPoint) -> str:
    return "headrace" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _alternatives(name: str, known: Collection[str]) -> str:
    if close := difflib.get_close_matches(name, known, n=3, cutoff=0.6):
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there are {', '.join(map(repr, sorted(known)))}." if known else "there are none."
