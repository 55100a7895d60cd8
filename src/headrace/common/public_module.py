"""The face of the API: modules under PyFlink's names, and what their classes and functions are given for programs.

A public module shows what is public in it, and answers for what it does not have. Its classes answer for names that
they do not have (:mod:`headrace.common.other_names`), and errors leave them with the lines of the program alone
(:mod:`headrace.common.errors`). That is done here, by the tables below, when a public module is loaded: the classes
themselves know nothing of it. Processes that only run tasks leave tracebacks as they are.
"""

import dis
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from pkgutil import iter_modules
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final, TypeVar

from headrace.common.errors import (
    MissingImportError,
    MissingModuleError,
    MissingNameError,
    UnknownNameError,
    hides_engine,
    hides_engine_of_methods,
)
from headrace.common.other_names import OTHER_NAMES, alike, answers_other_names
from headrace.common.pyflink_names import MODULES, NAMES, Missing

T = TypeVar("T")

_IMPORT_FROM: Final = dis.opmap["IMPORT_FROM"]
_NOWHERE: Final[Mapping[str, str]] = {}
_PACKAGES: Final = (
    "headrace",
    "headrace.common",
    "headrace.datastream",
    "headrace.datastream.connectors",
    "headrace.datastream.formats",
    "headrace.metrics",
    "headrace.table",
)
"""Packages whose modules are public, among others."""

_TASK_PROCESSES: Final = ("pyspark.daemon", "pyspark.worker", "headrace.runtime.spark.worker_daemon")
"""The main modules of processes that run tasks, where no program builds a job."""

CALLED_BY_TASKS: Final = frozenset(
    {
        *("AggregatingState", "AppendingState", "Bound", "BoundColumn", "BroadcastState", "BulkFormat"),
        *("ByteArraySchema", "Consumer", "CountWindow", "Counter", "CsvEncoder", "CsvFormat"),
        *("DefaultRollingPolicy", "DeserializationSchema", "Distribution", "Encoder"),
        *("ExponentialBackoffDelayRetryStrategy", "FileEnumeratorProvider", "FixedDelayRetryStrategy"),
        *("FunctionInitializationContext", "FunctionSnapshotContext", "GlobalWindow", "GroupMetadata", "Instant"),
        *("JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"),
        *("KeyedStateStore", "ListState", "Log", "MapState", "MergingState", "Meter", "Metric"),
        *("MetricGroup", "NoRetryStrategy", "OnCheckpointRollingPolicy", "OperatorStateStore", "ParquetFormat"),
        *("Producer", "ReadOnlyBroadcastState", "ReducingState", "RetryPredicate", "Row", "RowKind"),
        *("RuntimeContext", "SerializationSchema", "SessionWindowTimeGapExtractor", "SimpleStringSchema", "State"),
        *("TimeWindow", "TimerService", "TimestampAssigner", "TimestampedValue", "TriggerResult"),
        *("TypeInformation", "TypeSerializer", "ValueState", "WatermarkOutput", "Window", "WindowStagger", "bind"),
        *("bind_tuple", "evaluate", "type_from_json"),
    }
)
"""Tasks call these for each record or batch, or hand them to functions, whose errors name operator and record."""

WITHOUT_ERRORS: Final = frozenset(
    {
        *("Checkpoint", "Column", "ConfigOption", "Duration", "FailureOrigin", "HashMapStateBackend"),
        *(
            "ChangelogMode",
            "ExplainDetail",
            "IngestionTimeAssigner",
            "JobExecutionResult",
            "JobFailure",
            "JobID",
            "JobStatus",
            "Time",
        ),
    }
)
"""Plain values."""

TO_DERIVE: Final = frozenset(
    {
        *("AggregateFunction", "AllWindowFunction", "AsyncBatchFunction", "AsyncFunction", "AsyncRetryPredicate"),
        *("BaseBroadcastProcessFunction", "BroadcastProcessFunction", "CheckpointedFunction", "CoFlatMapFunction"),
        *("EventComparator", "IterativeCondition", "PatternFlatSelectFunction", "PatternFlatTimeoutFunction"),
        *("PatternProcessFunction", "PatternSelectFunction", "PatternTimeoutFunction", "SimpleCondition"),
        *("TimedOutPartialMatchHandler",),
        *("CoGroupFunction", "CoMapFunction", "CoProcessFunction", "ColumnarWatermarkGenerator", "FilterFunction"),
        *("FlatJoinFunction", "FlatMapFunction", "Function", "HeaderProvider", "JoinFunction"),
        *("KafkaMetadataService", "KafkaPartitioner", "KafkaStreamSubscriber", "KafkaTopicSelector", "KeySelector"),
        *("KeyedBroadcastProcessFunction", "KeyedCoProcessFunction", "KeyedProcessFunction", "MapFunction"),
        *("MapPartitionFunction", "Partitioner", "ProcessAllWindowFunction", "ProcessFunction"),
        *("ProcessJoinFunction", "ProcessWindowFunction", "ReduceFunction", "Sink", "Source", "StatefulSinkWriter"),
        *("SupportsPreWriteTopology", "SupportsWriterState", "WatermarkGenerator", "WindowFunction"),
    }
)
"""Bases of what programs write themselves: the engine calls their methods."""

ENGINE_BASES: Final = frozenset(
    {
        *("BulkWriterFactory", "ChangesDeserializationSchema", "ChangesSerializationSchema", "ColumnFileFormat"),
        *("ColumnWriterFactory", "ColumnarDeserializationSchema", "FileFormat", "LineFormat", "SelfDescribingFormat"),
        *("TopicSink", "TopicSource"),
    }
)
"""Bases of public classes that are not public themselves: the engine calls their methods."""

ONLY_MADE: Final = frozenset(
    {
        *("AsyncRetryStrategy", "Evictor", "Trigger", "TypeInformation", "TypeSerializer", "WindowAssigner"),
    }
)
"""Programs make these, by a class method; tasks call the rest, for each record."""

ENGINE_METHODS: Final[Mapping[str, frozenset[str]]] = {
    "Aggregate": frozenset({"bind"}),
    "BucketAssigner": frozenset({"validate"}),
    "CsvSchema": frozenset({"__init__", "of", "separator_of"}),
    "OutputFileConfig": frozenset({"get_part_prefix", "get_part_suffix"}),
}
"""By the name of a class that programs make: the methods that the engine calls, in tasks as well."""

_OF_ENGINE: Final = CALLED_BY_TASKS | WITHOUT_ERRORS | TO_DERIVE | ENGINE_BASES | {"Generic", "Protocol", "object"}

_public: Final[set[str]] = set()
_faced: Final[dict[Any, Any]] = {}


def public_module(name: str, elsewhere: Mapping[str, str] = _NOWHERE) -> None:
    """Makes a module and what it holds a part of the face of the API.

    ``dir()`` shows its ``__all__``, and the public modules below it that are loaded. Type checkers do not see that it
    answers: to them a name that is not there stays an error.

    Args:
        name: the module's ``__name__``.
        elsewhere: names that it hands on from modules of higher packages, which are imported when one is read.
    """
    module = sys.modules[name]
    _public.add(name)
    for each in set(module.__all__) - set(elsewhere):
        setattr(module, each, public(getattr(module, each)))

    @hides_engine
    def look_up(attribute: str) -> Any:
        if attribute in elsewhere:
            return public(getattr(import_module(elsewhere[attribute]), attribute))
        raise answer(module, attribute, sys._getframe(2))  # behind hides_engine

    vars(module).update(__getattr__=look_up, __dir__=lambda: _names(module))


def public(value: T) -> T:
    """Gives a class or a function of headrace what public ones have, and returns it.

    By itself it is for classes that programs meet without an import of their name.
    """
    if not isinstance(value, type | FunctionType) or not value.__module__.startswith("headrace."):
        return value
    if value not in _faced:
        _faced[value] = value
        if isinstance(value, type):
            _make_public(value)
        elif not _is_task_process() and value.__name__ not in _OF_ENGINE:
            _faced[value] = _faced[_faced[value]] = hidden = hides_engine(value)
            setattr(sys.modules[value.__module__], value.__name__, hidden)
    found: T = _faced[value]
    return found


def _make_public(cls: type) -> None:
    """Also what the class extends, and what is beside it to make it: builders, and what its methods return."""
    answers_other_names(cls)
    bases = [base for base in cls.__mro__ if base.__module__.startswith("headrace.")]
    parts = [] if cls.__name__ in _OF_ENGINE else [base for base in bases if base.__name__ not in _OF_ENGINE]
    if parts and not _is_task_process():
        called_by_engine = {name for base in bases if base.__name__ in _OF_ENGINE for name in vars(base)} - {"__init__"}
        only_made = any(base.__name__ in ONLY_MADE for base in bases)
        for part in parts:
            others = called_by_engine | ENGINE_METHODS.get(part.__name__, frozenset())
            hides_engine_of_methods(part, others, only_factories=only_made)
    for part in (cls, *parts):
        for beside in _beside(part):
            public(beside)


def _beside(cls: type) -> Iterator[type]:
    for value in [*vars(cls).values(), *vars(sys.modules[cls.__module__]).values()]:
        is_class = isinstance(value, type) and value.__module__ == cls.__module__
        if is_class and (value.__name__.endswith("Builder") or value.__name__ in OTHER_NAMES):
            yield value


def _is_task_process() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in _TASK_PROCESSES


def answer(module: ModuleType, name: str, asking: FrameType) -> Exception:
    """The error for a name that a module does not have.

    Python replaces an ``AttributeError`` by a text of its own where a program says ``from module import name``, so it
    is an ``ImportError`` there, if there is more to say; everywhere else it has to be an ``AttributeError``, or
    ``hasattr`` would fail.

    Args:
        module: the module.
        name: the name that was read.
        asking: the frame that has read it.
    """
    if name.startswith("_"):  # Python's own protocols ask for these
        return AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
    importing = _is_importing(asking)
    missing = missing_name(module.__name__.partition(".")[2], name)
    if missing is not None:
        text = f"{module.__name__}.{name} is not there{missing}"
        return MissingImportError(text, module.__name__, module.__file__) if importing else MissingNameError(text)
    other = OTHER_NAMES.get(module.__name__, _NOWHERE).get(name)
    hint = f": {other}" if other else (_import_of(name) if importing else "") or alike(name, dir(module))
    if importing and hint:
        return MissingImportError(f"{module.__name__} has no {name!r}{hint}", module.__name__, module.__file__)
    return UnknownNameError(f"module {module.__name__!r} has no attribute {name!r}{hint}")


def check_module(name: str) -> None:
    """Refuse a module that is not there, where more can be said than that.

    Raises:
        MissingModuleError: for one that only PyFlink has, or that has another path.
    """
    missing = MODULES.get(name.partition(".")[2])
    if missing is not None:
        raise MissingModuleError(f"{name} is not there{missing}", name)
    elsewhere = _module_elsewhere(name)
    if elsewhere is not None:
        raise MissingModuleError(f"{name} is not there: it is {elsewhere}", name)


def _module_elsewhere(name: str) -> str | None:
    """The public module that was meant: ``headrace.expressions``, say, by ``headrace.datastream.expressions``."""
    last = name.rpartition(".")[2]
    for package in _PACKAGES:
        found = f"{package}.{last}"
        if found != name and PathFinder.find_spec(found, import_module(package).__path__) is not None:
            import_module(found)
            if found in _public:
                return found
    return None


def _import_of(name: str) -> str:
    """The end of a message: from where to import a name; empty when no public module has it."""
    for package in _PACKAGES[1:]:  # they import what else there is
        for module in iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    holders = [module for module in sorted(_public, key=_depth) if name in sys.modules[module].__all__]
    return f": from {holders[0]} import {name}" if holders else ""


def _depth(module: str) -> int:
    return module.count(".")


def missing_name(module: str, name: str) -> Missing | None:
    """The row of a name that only PyFlink has, in this module or another one of its API.

    Args:
        module: its path below ``headrace``.
        name: the name that is read from it.
    """
    path = f"{module}.{name}" if module else name
    if path in MODULES:
        return MODULES[path]
    if name in NAMES.get(module, {}):
        return NAMES[module][name]
    of_tables = _is_of_tables(module)
    others = (names for owner, names in NAMES.items() if _is_of_tables(owner) == of_tables)
    return next((names[name] for names in others if name in names), None)


def _is_of_tables(module: str) -> bool:
    """Return whether a module belongs to the Table API, which reuses some names of the DataStream API."""
    return module.partition(".")[0] == "table"


def _is_importing(frame: FrameType) -> bool:
    """Returns True for a frame in the middle of ``from module import name``."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


def _names(module: ModuleType) -> list[str]:
    below = [name for name in vars(module) if f"{module.__name__}.{name}" in _public]
    return sorted({*module.__all__, *below})
