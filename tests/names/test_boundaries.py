"""Whatever a program calls while it builds a job shows it the program's own lines when it fails, and no others."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

import pytest

from headrace.common import config_options
from headrace.common.public_module import (
    CALLED_BY_TASKS,
    ENGINE_BASES,
    ENGINE_METHODS,
    ONLY_MADE,
    TO_DERIVE,
    WITHOUT_ERRORS,
)
from headrace.connectors.file_system import rolling, sink, source
from headrace.datastream import slot_sharing_group
from headrace.datastream.dependencies import ConfiguredEnvironment
from headrace.formats.csv import schema
from headrace.formats.json import schemas
from headrace.state import ttl
from tests.names.test_answers import PUBLIC

OF_ENGINE: Final = CALLED_BY_TASKS | WITHOUT_ERRORS | TO_DERIVE

BUILDERS: Final = [
    config_options.OptionBuilder,
    config_options.TypedConfigOptionBuilder,
    sink.OutputFileConfig.OutputFileConfigBuilder,
    rolling.FileCompactStrategyBuilder,
    schema.CsvSchemaBuilder,
    schemas.JsonRowDeserializationSchemaBuilder,
    schemas.JsonRowSerializationSchemaBuilder,
    sink.BulkFormatBuilder,
    sink.RowFormatBuilder,
    sink._FileSinkBuilder,
    slot_sharing_group.SlotSharingGroup.Builder,
    source.FileSourceBuilder,
    ttl.StateTtlConfigBuilder,
]
"""Not public by name, but what public methods return."""


def public_classes() -> Iterator[type]:
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and found.__module__.startswith("headrace."):
                yield found


def is_only_made(cls: type) -> bool:
    """Tasks call it for each record; programs call the methods that make it."""
    return any(base.__name__ in ONLY_MADE for base in cls.__mro__)


BUILDING: Final = {cls for cls in public_classes() if cls.__name__ not in OF_ENGINE and not is_only_made(cls)}


def public_methods(cls: type) -> dict[str, Any]:
    """Those of a class and of what it is put together from; what it extends for the engine, tasks and driver call."""
    parts = [base for base in cls.__mro__ if base is cls or _is_part(base)]
    engine = {name for base in cls.__mro__ if base.__name__ in OF_ENGINE | ENGINE_BASES for name in vars(base)}
    engine = (engine - {"__init__"}) | ENGINE_METHODS.get(cls.__name__, frozenset())
    methods = {}
    for name, member in (each for part in parts for each in vars(part).items()):
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        can_fail = not isinstance(member, staticmethod | classmethod) or _has_parameters(getattr(cls, name))
        is_for_programs = name not in engine and (name == "__init__" or not name.startswith("_"))
        if isinstance(function, FunctionType) and can_fail and is_for_programs:
            methods[name] = function
    return methods


def _has_parameters(function: Any) -> bool:
    return bool(inspect.signature(function).parameters)


def _is_part(base: type) -> bool:
    return (
        base.__module__.startswith("headrace.datastream.streams.")
        or base.__name__.endswith("Builder")
        or base is ConfiguredEnvironment
    )


@pytest.mark.parametrize("cls", [*sorted(BUILDING, key=str), *BUILDERS], ids=lambda cls: cls.__qualname__)
def test_its_methods_hide_what_is_inside(cls: type) -> None:
    exposed = [name for name, function in public_methods(cls).items() if not hasattr(function, "__wrapped__")]
    assert exposed == []


def test_what_makes_assigners_and_triggers_hides_what_is_inside() -> None:
    made = {cls: vars(cls)["of"].__func__ for cls in public_classes() if is_only_made(cls) and "of" in vars(cls)}
    assert made
    assert [cls for cls, function in made.items() if not hasattr(function, "__wrapped__")] == []


def test_the_exceptions_are_there() -> None:
    public = {name for module in map(importlib.import_module, [*PUBLIC, "headrace.log"]) for name in module.__all__}
    assert OF_ENGINE - public == set()


@pytest.mark.parametrize(("owner", "names"), ENGINE_METHODS.items())
def test_methods_of_the_engine_are_there(owner: str, names: frozenset[str]) -> None:
    assert all(names <= vars(cls).keys() for cls in public_classes() if cls.__name__ == owner)


@pytest.mark.slow
def test_processes_that_run_tasks_have_nothing_around_methods() -> None:
    program = (
        "import sys; from importlib.machinery import ModuleSpec;"
        "sys.modules['__main__'].__spec__ = ModuleSpec('pyspark.daemon', None);"
        "from headrace.datastream import StreamExecutionEnvironment as Env;"
        "print(hasattr(Env.execute, '__wrapped__'), hasattr(Env, 'sql'))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "False False\n"
