"""Asking for what only PyFlink has says what to do instead, and everything else is as in other Python modules."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace
import headrace.datastream
import headrace.expressions
import headrace.testing
from headrace.common.errors import (
    MissingImportError,
    MissingModuleError,
    MissingNameError,
    UnsupportedOperationError,
)
from headrace.common.pyflink_names import MEMBERS, MODULES, NAMES
from headrace.datastream import StreamExecutionEnvironment, window
from headrace.datastream.data_stream import DataStreamSink, KeyedStream
from headrace.datastream.streams.source_stream import DataStreamSource
from tests.names import pyflink

PLACED = [(module, name) for module, names in NAMES.items() for name in names]
OWNED = [(owner, name) for owner, names in MEMBERS.items() for name in names]
PUBLIC = [
    "headrace.cep",
    "headrace.expressions",
    "headrace.testing",
    "headrace.datastream.aggregates",
    "headrace.datastream.formats.cdc",
    "headrace.datastream.formats.protobuf",
    "headrace.datastream.formats.schema_registry",
    "headrace.datastream.connectors.datagen",
    "headrace.datastream.connectors.log",
    "headrace.datastream.connectors.postgres",
    "headrace.datastream.connectors.socket",
    "headrace.datastream.lookup",
    "headrace.datastream.quality",
    *(f"headrace.{name}" for name in pyflink.NAMES if pyflink.name_is_module(name) and pyflink.row(name) is None),
]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    parent, _, last = f"headrace.{name}".rpartition(".")
    for program in (f"import headrace.{name}", f"import headrace.{name} as module", f"from headrace.{name} import any"):
        with pytest.raises(MissingModuleError, match=rf"^headrace\.{name} is not there( yet)?: ") as caught:
            exec(program, {})
        assert caught.value.name == f"headrace.{name}"
        assert caught.value.msg == str(caught.value)
    with pytest.raises(MissingImportError, match=rf"^headrace\.{name} is not there"):
        exec(f"from {parent} import {last}", {})
    assert not hasattr(importlib.import_module(parent), last)


@pytest.mark.parametrize(("module", "name"), PLACED)
def test_names_of_modules(module: str, name: str) -> None:
    found = importlib.import_module(f"headrace.{module}")
    advice = NAMES[module][name].advice
    for program in (
        f"from headrace.{module} import {name}",
        f"def f():\n from headrace.{module} import {name} as x\nf()",
    ):
        with pytest.raises(MissingImportError) as caught:
            exec(program, {})
        assert str(caught.value).startswith(f"headrace.{module}.{name} is not there")
        assert str(caught.value).endswith(f": {advice}")
        assert (caught.value.name, caught.value.path) == (found.__name__, found.__file__)
    with pytest.raises(MissingNameError, match=f"{name} is not there"):
        getattr(found, name)
    assert not hasattr(found, name)
    assert getattr(found, name, None) is None


@pytest.mark.sampled(44)
@pytest.mark.parametrize(("owner", "name"), OWNED)
def test_names_of_objects(owner: str, name: str) -> None:
    classes = [getattr(importlib.import_module(module), owner, None) for module in PUBLIC]
    found = next(each for each in classes if each is not None)
    thing = object.__new__(found)
    with pytest.raises(MissingNameError, match=rf"{owner}\.{name}\(\) is not supported( yet)?: .*\n  at {__file__}"):
        getattr(thing, name)
    assert not hasattr(thing, name)
    assert not hasattr(found, name)
    assert name not in dir(thing)


@pytest.mark.parametrize("cls", [DataStreamSource, KeyedStream, DataStreamSink, StreamExecutionEnvironment])
def test_errors_are_those_that_programs_catch(cls: type) -> None:
    known = next(name for each in cls.__mro__ for name in MEMBERS.get(each.__name__, ()))
    for error in (UnsupportedOperationError, NotImplementedError, AttributeError):
        with pytest.raises(error):
            getattr(object.__new__(cls), known)


@pytest.mark.parametrize(
    "program",
    [
        "from headrace.datastream import SinkFunction",
        "from headrace.datastream.window import AllWindowedStream",
        "from headrace.datastream.connectors import CachedDataStream",
    ],
)
def test_a_name_is_known_in_other_modules_as_well(program: str) -> None:
    with pytest.raises(MissingImportError):
        exec(program, {})


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "from headrace.datastream import Types",
            "headrace.datastream has no 'Types': from headrace.common import Types",
        ),
        ("from headrace import col", "headrace has no 'col': from headrace.expressions import col"),
        ("from headrace.datastream import FileSink", "from headrace.datastream.connectors import FileSink"),
        ("from headrace.expressions import sum", "from headrace.datastream.aggregates import sum"),
        ("from headrace.datastream.functions import MapFuncton", "did you mean MapFunction"),
        ("from headrace.datastream.expressions import col", "is not there: it is headrace.expressions"),
        ("import headrace.datastream.expressions", "is not there: it is headrace.expressions"),
        ("import headrace.common.window as window", "is not there: it is headrace.datastream.window"),
        ("from headrace.datastream.datagen import x", "it is headrace.datastream.connectors.datagen"),
    ],
)
def test_what_is_in_another_module_is_said_with_that_module(program: str, said: str) -> None:
    with pytest.raises(MissingImportError, match=f"{said}") as caught:
        exec(program, {})
    assert isinstance(caught.value, ModuleNotFoundError) == ("it is" in said)


@pytest.mark.parametrize(
    "name", ["headrace.datastream.operators", "headrace.common.jobmanager", "headrace.runtime.errors_"]
)
def test_modules_of_the_engine_are_not_proposed(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^No module named '{name}'"):
        importlib.import_module(name)


@pytest.mark.parametrize("module", ["headrace", *PUBLIC])
def test_names_that_nobody_has_are_errors_of_python(module: str) -> None:
    found = importlib.import_module(module)
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'nonsense'$") as caught:
        _ = found.nonsense
    assert not isinstance(caught.value, UnsupportedOperationError)
    with pytest.raises(ImportError, match=rf"^cannot import name 'nonsense' from '{module}'"):
        exec(f"from {module} import nonsense", {})
    with pytest.raises(ModuleNotFoundError, match=rf"^No module named '{module}\.nonsense'"):
        importlib.import_module(f"{module}.nonsense")


@pytest.mark.parametrize("module", PUBLIC)
def test_dir_shows_what_is_public_and_nothing_else(module: str) -> None:
    found = importlib.import_module(module)
    shown = dir(found)
    below = {name for name in shown if isinstance(getattr(found, name), ModuleType)}
    assert set(shown) - below == set(found.__all__)
    assert {f"{module}.{name}" for name in below} <= set(PUBLIC)
    assert all(getattr(found, name) is not None for name in shown)


@pytest.mark.parametrize("look", [inspect.getmembers, vars, inspect.getsource, inspect.getdoc, repr, inspect.unwrap])
def test_a_public_module_can_be_looked_at(look: Callable[[Any], Any]) -> None:
    for module in PUBLIC:
        assert look(importlib.import_module(module)) is not None


def test_what_a_public_module_holds_can_be_pickled_and_its_examples_found() -> None:
    assert pickle.loads(pickle.dumps(window.TimeWindow)) is window.TimeWindow
    assert pickle.whichmodule(object(), "CountTrigger") == "__main__"  # type: ignore[attr-defined]
    assert all(test.name.startswith("headrace") for test in doctest.DocTestFinder().find(window))


@pytest.mark.parametrize("module", PUBLIC)
def test_a_star_imports_what_is_public(module: str) -> None:
    names: dict[str, Any] = {}
    exec(f"from {module} import *", names)
    assert set(names) - {"__builtins__"} == set(importlib.import_module(module).__all__)


def test_an_import_behind_hundreds_of_names_is_answered() -> None:
    program = "\n".join(f"name{number} = {number}" for number in range(400))
    with pytest.raises(MissingImportError):
        exec(f"{program}\nfrom headrace.datastream.window import TimeWindow, WindowOperationDescriptor", {})


def test_an_import_is_answered_while_it_is_traced() -> None:
    def trace(*_: Any) -> Any:
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(MissingImportError):
            exec("from headrace.datastream.window import WindowOperationDescriptor", {})
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("error", [MissingImportError, MissingModuleError])
def test_errors_can_be_sent_to_another_process(error: type[MissingImportError]) -> None:
    sent = pickle.loads(pickle.dumps(error("no x in m", "m", "m.py")))
    assert (type(sent), str(sent), sent.name, sent.path) == (error, "no x in m", "m", "m.py")


@pytest.mark.slow
def test_a_program_ends_with_the_answer() -> None:
    program = "from headrace.datastream.connectors.pulsar import PulsarSource"
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "headrace.common.errors.MissingModuleError: headrace.datastream.connectors.pulsar is not there"
    )


def test_dir_of_the_package_shows_the_public_packages() -> None:
    assert dir(headrace) == ["__version__", "common", "datastream", "expressions", "table", "testing"]


def test_the_package_itself_stays_small() -> None:
    program = "import sys, headrace; print([name for name in sys.modules if name.startswith('headrace.')])"
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "[]"
    assert headrace.__all__ == ["__version__"]


def test_every_module_under_a_name_of_pyflink_answers() -> None:
    folder = Path(headrace.__file__).parent
    for module in PUBLIC:
        path = folder.joinpath(*module.split(".")[1:])
        source = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        assert "public_module(__name__" in source.read_text(), module
