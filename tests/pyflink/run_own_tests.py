"""Runs PyFlink's own tests of streams with their imports replaced, and says where ``yardstick.py`` is wrong.

For development alone: the tests are no part of PyFlink's wheel, so they are read from a checkout of Flink::

    python -m tests.pyflink.run_own_tests FLINK/flink-python/pyflink datastream/tests/test_window.py …

Each line begins with ``!`` where the yardstick is wrong. Tests that only collect results or set an option through Java
get a stand-in here; what asks Java for more is ``java``, and what imports a name that headrace has not is ``needs``.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tempfile
import traceback
import unittest
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from headrace.client.running import submission_defaults
from headrace.common import Configuration
from headrace.common.serialization import DeserializationSchema, SerializationSchema
from headrace.common.values import stream_handler_of
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.connectors.driver_sink import DriverSink, EncodedRecords
from headrace.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from headrace.time.watermark_strategy import WatermarkGenerator
from tests.pyflink.yardstick import DIFFERS, HOLDS, NEEDS

FILES = (
    *(f"datastream/tests/{name}" for name in ("test_data_stream.py", "test_window.py", "test_async_function.py")),
    *(f"datastream/tests/{name}" for name in ("test_async_batch_function.py", "test_check_point_config.py")),
    *(f"datastream/tests/{name}" for name in ("test_checkpoint_storage.py", "test_state_backend.py")),
    *(f"datastream/tests/{name}" for name in ("test_slot_sharing_group.py", "test_stream_execution_environment.py")),
    *(f"datastream/connectors/tests/{name}" for name in ("test_file_system.py", "test_kafka.py", "test_seq_source.py")),
    *(f"datastream/formats/tests/{name}" for name in ("test_avro.py", "test_csv.py", "test_json.py", "test_orc.py")),
    "datastream/formats/tests/test_parquet.py",
    *(f"common/tests/{name}" for name in ("test_configuration.py", "test_execution_config.py")),
    *(f"common/tests/{name}" for name in ("test_serialization_schemas.py", "test_typeinfo.py")),
    "common/tests/test_watermark_strategy.py",
)
_POSSIBLE = {
    "holds": ("passes", "java"),
    "needs": ("needs", "java", "skipped"),
    "differs": ("fails", "java"),
    "missing": ("java", "skipped"),
}
"""By what the yardstick says of a test: what may become of it. PyFlink itself skips some."""

RUNTIME = {"headrace.runtime": "local"}


class _Java:
    """A name of Java; a call of one that has no stand-in skips the test."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._path.endswith("PerElementWatermarkGenerator") and name == "getSupplier":
            return lambda: _PerElement
        return (lambda made: made) if name == "forGenerator" else _Java(f"{self._path}.{name}")

    def __call__(self, *_: object, **__: object) -> Any:
        if not self._path.endswith("DummyInitializationContext"):
            raise unittest.SkipTest(f"{'needs' if self._path.startswith('headrace') else 'java'}: {self._path}")


class _PerElement(WatermarkGenerator[Any]):
    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: Any) -> None: ...


class SecondColumnTimestampAssigner(TimestampAssigner):
    """As in PyFlink's ``test_util``."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class _Settings:
    """The configuration of an environment as Java has it; what tests set there is for PyFlink alone."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        self.get_string = environment.get_configuration().get_string

    def set(self, *_: object) -> None: ...

    setString = setInteger = set_string = set_integer = set_boolean = set

    def getValue(self, *_: object) -> None:
        _Java("getValue")()


class _Environment(_Java):
    """An environment as Java has it."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        super().__init__("environment")
        self.settings = _Settings(environment)


class DataStreamTestSinkFunction:
    """Collects what a stream has, as Java spells it or as Python objects."""

    def __init__(self) -> None:
        self._records: list[tuple[Any, str]] = []

    def take(self, records: Sequence[EncodedRecords], type_: Any) -> None:
        for each in records:
            self._records += [(row, stream_handler_of(type_).text(row)) for row in each.as_rows(type_)]

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Any]:
        taken, self._records = self._records, []
        if not is_python_object:
            return [text for _, text in taken]
        return [str(row) if stringify else row for row, _ in taken]

    def clear(self) -> None:
        self._records.clear()


class PyFlinkTestCase(unittest.TestCase):
    """The root of PyFlink's tests; every test has an environment of its own."""

    mode: ClassVar = RuntimeExecutionMode.STREAMING
    tempdir: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.tempdir = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.tempdir, ignore_errors=True)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        self.env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(RUNTIME))
        self.env.set_parallelism(2)
        self.env.set_runtime_mode(self.mode)
        return super().run(result)

    @classmethod
    def assert_equals(cls, actual: list[Any], expected: list[Any]) -> None:
        assert sorted(actual) == sorted(expected)


class PyFlinkBatchTestCase(PyFlinkTestCase):
    """The same in batches."""

    mode = RuntimeExecutionMode.BATCH


class _Schema:
    """A schema as Java has it."""

    def __init__(self, schema: Any) -> None:
        self.open = lambda _: None
        self.serialize, self.deserialize = (getattr(schema, name, None) for name in ("serialize", "deserialize"))


def _stand_ins() -> dict[str, dict[str, Any]]:
    cases = dict.fromkeys(("PyFlinkStreamingTestCase", "PyFlinkUTTestCase"), PyFlinkTestCase)
    java = {"get_gateway": _Java, "get_j_env_configuration": lambda environment: environment.settings}
    helpers = ("get_field_value", "is_instance_of", "load_java_class", "to_jarray", "invoke_method")
    return {
        "java_gateway": java,
        "pyflink_gateway_server": {"on_windows": lambda: False},
        "datastream.utils": {"create_hadoop_configuration": _Java()},
        "testing": {},
        "testing.test_case_utils": {
            **cases,
            **dict.fromkeys(("invoke_java_object_method", "to_java_data_structure"), _Java()),
            "PythonAPICompletenessTestCase": object,
            "PyFlinkTestCase": PyFlinkTestCase,
            "PyFlinkBatchTestCase": PyFlinkBatchTestCase,
        },
        "util": {},
        "util.java_utils": {**java, **dict.fromkeys(helpers, _Java())},
        "datastream.tests": {},
        "datastream.tests.test_util": {
            "DataStreamTestSinkFunction": DataStreamTestSinkFunction,
            "SecondColumnTimestampAssigner": SecondColumnTimestampAssigner,
        },
    }


def _install(root: str) -> None:
    for path, names in _stand_ins().items():
        module = ModuleType(f"{root}.{path}")
        module.__path__ = []
        vars(module).update(names)
        sys.modules[module.__name__] = module
    DataStream.add_sink = lambda stream, sink: stream.sink_to(DriverSink(sink.take))  # type: ignore[attr-defined]
    StreamExecutionEnvironment._j_stream_execution_environment = property(_Environment)  # type: ignore[attr-defined]
    for schema in (SerializationSchema, DeserializationSchema):
        schema._j_serialization_schema = schema._j_deserialization_schema = property(_Schema)  # type: ignore[union-attr]


class _Imports(ast.NodeTransformer):
    """Leaves out of imports what is not there, so that only the tests fail that use it."""

    def __init__(self) -> None:
        self.missing: dict[str, Any] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node  # what functions import is made by the tests

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        names = [alias for alias in node.names if self._is_there(str(node.module), alias.name)]
        return ast.ImportFrom(node.module, names, node.level) if names else None

    def _is_there(self, module: str, name: str) -> bool:
        try:
            exec(f"from {module} import {name}", {})
        except ImportError:
            self.missing[name] = _Java(f"{module}.{name}")
            return False
        return True


def _load(file: Path) -> ModuleType:
    text = re.sub(r"(?m)^(\s*)(from|import) pyflink\b", r"\1\2 headrace", file.read_text())
    text = re.sub(r"WatermarkStrategy\((?=\s*jvm)", "WatermarkStrategy.for_generator(", text)
    text = re.sub(r"\bConfiguration\(\s*j_configuration=", "(", text)
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.modules[file.stem] = module
    imports = _Imports()
    program = ast.fix_missing_locations(imports.visit(ast.parse(text)))
    vars(module).update(imports.missing)
    exec(compile(program, str(file), "exec"), vars(module))
    return module


class _Outcomes(unittest.TestResult):
    """What became of each test: nothing where it passed."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.reasons.setdefault(_name(test), "")

    def _note(self, test: unittest.TestCase, error: Any) -> None:
        where = next((each for each in reversed(traceback.extract_tb(error[2])) if "/tests/" in each.filename), None)
        line = f"{type(test).__name__}:{where.lineno if where else '?'}"
        text = " ".join("".join(traceback.format_exception_only(error[1])).split())
        is_of_java = any(sign in text for sign in ("_Java object", '"_Java"', "attribute '_j_", "get_java_"))
        self.reasons[_name(test)] = f"{'java' if is_of_java else 'fails'}: {line}: {text[:400]}"

    addError = addFailure = _note

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.reasons[_name(test)] = reason if reason.startswith(("java", "needs")) else f"skipped: {reason}"


def _name(test: unittest.TestCase) -> str:
    return test.id().rsplit(".", 1)[-1]


def _outcomes(file: Path) -> dict[str, str]:
    outcomes = _Outcomes()
    try:
        module = _load(file)
    except (ImportError, AttributeError) as error:
        return {"": f"fails: {error}"}
    unittest.defaultTestLoader.loadTestsFromModule(module).run(outcomes)
    return outcomes.reasons


def _expected(file: str, test: str) -> str:
    key = file.removesuffix(".py").removeprefix("datastream/").replace("tests/", "")
    tables = {"holds": HOLDS, "needs": NEEDS, "differs": DIFFERS}
    return next((name for name, table in tables.items() if test in table.get(key, {})), "missing")


def _became(reason: str) -> str:
    kind = reason.partition(":")[0]
    return kind if kind in ("java", "needs", "skipped", "fails") else "passes"


def main(root: Path, files: Sequence[str]) -> int:
    """Prints a line for each test: what became of it, what the yardstick says, and why it failed."""
    _install("headrace")
    wrong = 0
    for file in files:
        if not (root / file).exists():
            print(f"-        {file} is not in this checkout")
            continue
        with submission_defaults(RUNTIME), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for test, reason in _outcomes(root / file).items():
                expected = _expected(file, test)
                became = _became(reason)
                is_wrong = became not in _POSSIBLE[expected]
                wrong += is_wrong
                print(f"{'!' if is_wrong else ' '} {became:8}{expected:8}{file}::{test} {reason}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(Path(sys.argv[1]), sys.argv[2:] or FILES)))
