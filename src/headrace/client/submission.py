"""From a graph and a configuration to a running job."""

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.directory import has_begun
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.client.dependencies import check_interpreter, gather
from headrace.client.job_client import JobClient
from headrace.client.running import GraphCaptured, current_defaults, is_served
from headrace.common import options, scheduler_options, server_options
from headrace.common.call_site import warn_caller
from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointStorageError, ConfigurationError, HeadraceError, InvalidProgramError
from headrace.common.logs import UNCONFIGURED, LogSettings, get_logger
from headrace.common.notebooks import is_notebook, with_cells
from headrace.common.options import ROCKSDB_OPTIONS
from headrace.common.pickling import pickle_by_value
from headrace.connectors.driver_sink import CollectSink, DriverSink
from headrace.connectors.sink import DeliveryGuarantee
from headrace.graph.row_specs import ExpectationSpec
from headrace.graph.specs import MapSpec, OperatorSpec, SinkSpec, SourceSpec
from headrace.graph.stream_graph import Node, StreamGraph
from headrace.jobmanager.events import RuntimeStarted, RuntimeStarting, ServerStarted, SubmissionFailed
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.settings import PlannedJob, job_settings
from headrace.jobmanager.status import JobListener, JobStatusStore
from headrace.operators.expectations import OnViolation
from headrace.plan.job_plan import JobPlan, PlannedOperator, PlanSettings
from headrace.plan.planner import check_program, mode_of, plan_job
from headrace.runtime.local import LocalRuntime
from headrace.runtime.task.dependencies import NOTHING, JobDependencies
from headrace.runtime.task.messages import SerializedJob
from headrace.savepoint.metadata import is_savepoint
from headrace.savepoint.requests import REQUESTS, STARTING, RunningMark
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND, STATE_BACKENDS, StateBackendPlugin
from headrace.state.hashmap_backend import HASHMAP
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.windowing.definition import ChangedWindows

if TYPE_CHECKING:
    from headrace.server.server import RestServer

logger = get_logger(__name__)

_MOST_TRIED_BYTES: Final = 1 << 20
"""A larger job is not unpickled to see whether that can be done."""


def pickled(plan: JobPlan) -> bytes:
    """A plan with the functions of the program in it.

    Raises:
        InvalidProgramError: when something of the program cannot be pickled, or not unpickled, as a mock; it names the
            operator that holds it, and the variable.
    """
    attempt: Callable[[object], object] = pickle_by_value
    try:
        data = pickle_by_value(plan)
        if len(data) <= _MOST_TRIED_BYTES:
            attempt = _there_and_back
            pickle.loads(data)
    except Exception as error:  # whatever a __reduce__ or __setstate__ may raise, or a __getattr__ that is too early
        from headrace.client.unpicklable import not_pickled  # few jobs need it

        raise not_pickled(plan, error, attempt) from error
    return data


def _there_and_back(value: object) -> object:
    return pickle.loads(pickle_by_value(value))


def submit(
    graph: StreamGraph,
    configuration: Configuration,
    job_name: str | None,
    listeners: Sequence[JobListener] = (),
    *,
    is_shown: bool = False,
) -> JobClient:
    """Plan a job and start it.

    Args:
        graph: what to run.
        configuration: how; settings of the command line win over it.
        job_name: its name; the configuration's, or a default, when left out.
        listeners: are called with its events, before others are.
        is_shown: whether its results go to this process alone. Another run of the same query then has to show them from
            the beginning: it does not go on from a checkpoint.

    Raises:
        InvalidProgramError: when the graph cannot be run, or a function in it cannot be pickled.
        ConfigurationError: when an option is unknown or malformed.
        JavaNotFoundError: when Spark is wanted and there is no Java.
    """
    defaults = current_defaults()
    own_directory = configuration.get(options.CHECKPOINT_DIR)
    configuration = effective_configuration(configuration)
    if is_shown:
        _forget_checkpoints(configuration)
    if defaults.captured is not None:
        plan = plan_graph(graph, configuration, job_name, os.cpu_count() or 1)
        defaults.captured.append((graph, plan))
        raise GraphCaptured
    _configure_logging(configuration)
    _check_before_start(graph, configuration, own_directory)
    status = JobStatusStore(_name(configuration, job_name))
    for listener in (*listeners, *_listeners(configuration)):
        status.subscribe(listener)
    server = start_server(configuration) if is_served(configuration) else None
    if server is not None:
        status.publish(ServerStarted(server.address))
    with _announced(configuration):
        try:
            client = JobClient(_job_manager(graph, configuration, job_name, status))
        except BaseException:
            status.publish(SubmissionFailed())
            raise
    if server is not None:
        server.add(client, configuration)
    client.start()
    return client


def _check_before_start(graph: StreamGraph, configuration: Configuration, own_directory: str | None) -> None:
    """Refuse what cannot be run, before Spark takes seconds to start."""
    check_interpreter(configuration)
    _check_scheduler_mode(configuration)
    _check_only_job(configuration, own_directory)
    is_batch, _ = mode_of(graph, configuration.get(options.RUNTIME_MODE))
    check_program(graph, configuration.get(options.MAX_PARALLELISM), is_batch=is_batch)


def _forget_checkpoints(configuration: Configuration) -> None:
    """Leave out the checkpoint directory, but for a job that a dispatcher knows by it."""
    if configuration.get(server_options.FIXED_JOB_ID) is None:
        for key in (options.CHECKPOINT_DIR.key, *options.CHECKPOINT_DIR.deprecated_keys):
            configuration.remove_config(key)


def _check_only_job(configuration: Configuration, own_directory: str | None) -> None:
    """A program of a dispatcher has one job: that which the dispatcher knows by its id and its checkpoint directory.

    Args:
        configuration: what holds.
        own_directory: the checkpoint directory that the program itself sets.

    Raises:
        InvalidProgramError: when there is another one.
    """
    if configuration.get(server_options.FIXED_JOB_ID) is None:
        return
    if own_directory not in (None, configuration.get(options.CHECKPOINT_DIR)):
        raise InvalidProgramError(
            f"the program sets {options.CHECKPOINT_DIR.key} to {own_directory}, and the dispatcher that runs it knows "
            f"its job by {configuration.get(options.CHECKPOINT_DIR)}: submit it with "
            f"-D {options.CHECKPOINT_DIR.key}={own_directory}, or leave it out in the program"
        )
    submitted = current_defaults().submitted
    if submitted:
        raise InvalidProgramError(
            f"the program has run job {submitted[0]!r}, and wants to run another: a program that is given to a "
            "dispatcher has one job. Submit each by itself; several INSERTs of SQL are one job in EXECUTE STATEMENT SET"
        )


def start_server(configuration: Configuration) -> "RestServer":
    """The server of this process, which the first job that is to be served starts.

    Raises:
        ConfigurationError: when it cannot be started so, or what it needs is not installed.
    """
    needed = ("httptools", "jinja2", "starlette", "uvicorn")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"{server_options.REST_PORT.key} or {server_options.REST_BIND_PORT.key} is set, and there is no "
            f"{' and no '.join(missing)} here: run pip install 'headrace[server]'"
        )
    from headrace.server.server import server_of_process

    return server_of_process(configuration)


def _job_manager(
    graph: StreamGraph, configuration: Configuration, job_name: str | None, status: JobStatusStore
) -> JobManager:
    dependencies = gather(configuration)
    runtime, parallelism = open_runtime(
        configuration, lambda master: status.publish(RuntimeStarting(f"Spark, master {master}"))
    )
    status.publish(RuntimeStarted(*runtime.about()))
    plan = plan_graph(graph, configuration, job_name, parallelism)
    current_defaults().submitted.append(plan.name)
    for warning in _warnings(graph):
        logger.warning("%s", warning)
    if configuration.get(options.CHECKPOINT_DIR) is not None:
        _warn_of_derived_uids(plan)
    store = open_store(configuration)
    ship = partial(
        blob_of,
        storage=store.storage,
        dependencies=dependencies,
        storage_options=configuration.storage_options(),
        logs=LogSettings.of(configuration),
    )

    def replan(parallelism: int) -> PlannedJob:
        """A copy of the job with another parallelism, which overrides the configuration."""
        changed = Configuration(configuration)
        changed.set(options.PARALLELISM, str(parallelism))
        plan = plan_graph(graph, changed, job_name, parallelism)
        return PlannedJob(plan, ship(plan), job_settings(changed, plan))

    return JobManager(
        PlannedJob(plan, ship(plan), job_settings(configuration, plan)), runtime, store, status, None, replan
    )


@contextlib.contextmanager
def _announced(configuration: Configuration) -> Iterator[None]:
    """Say in a checkpoint directory of earlier runs that a job is starting, so that commands wait for it.

    What is wrong with the directory is reported when it is opened, after Spark has started.
    """
    mark: RunningMark | None = None
    with contextlib.suppress(OSError, HeadraceError):
        storage = _checkpoint_storage(configuration)
        if storage is not None and has_begun(storage):
            mark = RunningMark(storage.folder(REQUESTS), STARTING)
            mark.set()
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if mark is not None:
                mark.remove()
        raise


def effective_configuration(configuration: Configuration) -> Configuration:
    """The program's configuration with the command line's settings over it, checked.

    Raises:
        ConfigurationError: when an option is unknown or malformed.
    """
    effective = Configuration(configuration)
    for key, value in current_defaults().settings.items():
        # By its present name, which the program may have set: else that would win.
        effective.set(options.DEPRECATED.get(key, key), value)
    effective.validate()
    return effective


def plan_graph(graph: StreamGraph, configuration: Configuration, job_name: str | None, parallelism: int) -> JobPlan:
    """The plan of a graph under a configuration.

    Args:
        graph: what is to run.
        configuration: how.
        job_name: as of :func:`submit`.
        parallelism: that of operators that have none, where the configuration does not say it.

    Raises:
        InvalidProgramError: when the graph cannot be run, or has operators without uid where all need one.
        ConfigurationError: when there is no such state backend.
    """
    if not configuration.get(options.AUTO_GENERATE_UIDS):
        _require_uids(graph)
    is_batch, reason = mode_of(graph, configuration.get(options.RUNTIME_MODE))
    return plan_job(
        graph,
        PlanSettings(
            name=_name(configuration, job_name),
            parallelism=configuration.get(options.PARALLELISM) or parallelism,
            max_parallelism=configuration.get(options.MAX_PARALLELISM),
            is_batch=is_batch,
            mode_reason=reason,
            parameters=configuration.job_parameters(),
            fresh_instances=configuration.get(options.FRESH_FUNCTIONS),
            inline_threshold=configuration.get(options.CHECKPOINT_INLINE_THRESHOLD),
            state_backend=_state_backend(configuration),
            changed_windows=_changed_windows(configuration),
        ),
    )


def _name(configuration: Configuration, job_name: str | None) -> str:
    return job_name or configuration.get(options.PIPELINE_NAME) or "headrace job"


def _changed_windows(configuration: Configuration) -> dict[str, ChangedWindows]:
    """Return what becomes of what windows hold, by uid.

    Raises:
        ConfigurationError: when it is not one of the choices.
    """
    found = {}
    for uid, wanted in configuration.get(options.CHANGED_WINDOWS).items():
        try:
            found[uid] = ChangedWindows(wanted)
        except ValueError:
            known = ", ".join(each.value for each in ChangedWindows)
            raise ConfigurationError(
                f"{options.CHANGED_WINDOWS.key}: {uid}={wanted}: the choices are {known}"
            ) from None
    return found


def _state_backend(configuration: Configuration) -> StateBackendPlugin:
    name = configuration.get(options.STATE_BACKEND)
    if name.lower() == DEFAULT_BACKEND:  # looking for plugins takes some 50 ms, and most programs need none
        backend: StateBackendPlugin = HASHMAP
    else:
        backend = STATE_BACKENDS.load(ROCKSDB_BACKEND if name.lower() == ROCKSDB_BACKEND else name)
        backend = backend.configured(configuration)
    if backend.name != ROCKSDB_BACKEND:
        for option in ROCKSDB_OPTIONS:
            if configuration.contains_key(option.key):
                warn_caller(f"{option.key} has no effect: the state backend is {backend.name!r}")
    return backend


def blob_of(
    plan: JobPlan,
    storage: Folder,
    dependencies: JobDependencies = NOTHING,
    storage_options: Mapping[str, str] = MappingProxyType({}),
    logs: LogSettings = UNCONFIGURED,
) -> SerializedJob:
    """The job as it travels to the tasks.

    Raises:
        InvalidProgramError: when something of the program cannot be pickled.
    """
    return SerializedJob(
        plan=pickled(plan),
        name=plan.name,
        parallelism=tuple(map(attrgetter("parallelism"), plan.stages)),
        fresh_instances=plan.settings.fresh_instances,
        storage=storage,
        dependencies=dependencies,
        storage_options=dict(storage_options),
        logs=logs,
        ends_in_driver=_ends_in_driver(plan),
    )


def _ends_in_driver(plan: JobPlan) -> bool:
    """Return whether one task runs the last stage of a bounded job, and all it does is for the driver."""
    *before, last = plan.stages
    if not (plan.settings.is_batch and before and last.parallelism == 1):
        return False
    sinks = [each.node.spec.sink for each in last.operators if isinstance(each.node.spec, SinkSpec)]
    return bool(sinks) and all(isinstance(each, DriverSink) for each in sinks)


def open_store(configuration: Configuration) -> CheckpointStore | TemporaryStore:
    """Return where manifests are kept.

    Raises:
        CheckpointStorageError: when the checkpoint directory cannot be used, or is a savepoint.
    """
    storage = _checkpoint_storage(configuration)
    if storage is None:
        return TemporaryStore()
    _refuse_savepoint(storage)
    return CheckpointStore(storage, configuration.get(options.CHECKPOINTS_RETAINED))


def _checkpoint_storage(configuration: Configuration) -> Folder | None:
    location = configuration.get(options.CHECKPOINT_DIR)
    if location is None:
        return None
    return open_storage(location, configuration.get(options.CHECKPOINT_PERMISSIONS), configuration.storage_options())


def _refuse_savepoint(storage: Folder) -> None:
    """A job would start afresh in a savepoint that its user means to start from, and put its files between those."""
    try:
        would_be_mixed = is_savepoint(storage) and not has_begun(storage)
    except OSError:  # reported where the folder is opened
        return
    if would_be_mixed:
        raise CheckpointStorageError(
            f"{storage} is a savepoint, no checkpoint directory: to start from it, name it as "
            f"{options.RECOVERY_PATH.key} (headrace run -s), and give the job a checkpoint directory of its own"
        )


def open_runtime(
    configuration: Configuration, starting: Callable[[str], None] = lambda master: None
) -> tuple[Runtime, int]:
    """Return what executes epochs, and how many tasks it can run at the same time.

    Args:
        configuration: the job's.
        starting: is called with the master of a Spark session, before that takes its seconds to start.

    Raises:
        ConfigurationError: when Spark is to execute them, and is not installed.
    """
    if configuration.get(options.RUNTIME) == "local":
        runtime = LocalRuntime()
        return runtime, runtime.slots()
    _check_spark_is_installed()
    # Imported here so that the local runtime works where PySpark is not installed.
    from headrace.runtime.spark.runtime import SparkRuntime
    from headrace.runtime.spark.session import acquire_session
    from headrace.runtime.spark.settings import mismatch_table

    handle = acquire_session(
        configuration.spark_options(),
        configuration.get(options.SPARK_MASTER),
        configuration.get(options.PYTHON_EXECUTABLE),
        uses_class_archive=configuration.get(options.SPARK_CLASS_ARCHIVE),
        early=current_defaults().early_java,
        starting=starting,
    )
    if handle.warnings:
        logger.warning("%s", mismatch_table(handle.warnings))
    return SparkRuntime(handle), handle.default_parallelism


def _check_scheduler_mode(configuration: Configuration) -> None:
    if (
        configuration.get(scheduler_options.SCHEDULER_MODE) is not None
        and configuration.get(options.PARALLELISM) is not None
    ):
        raise ConfigurationError(
            f"{scheduler_options.SCHEDULER_MODE.key}=reactive has the cluster say the parallelism, and "
            f"{options.PARALLELISM.key} says another: leave one of them out; set_parallelism(...) of an operator holds "
            "in any mode"
        )


def _check_spark_is_installed() -> None:
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"Spark is to run the job, and there is no {' and no '.join(missing)} here: run pip install "
            "'headrace[spark]', or have the job run in this process: headrace run --runtime local "
            f"({options.RUNTIME.key}=local)"
        )


def _listeners(configuration: Configuration) -> Iterator[JobListener]:
    """The listener of the job; those that report to others take a while to import."""
    if (display := _display(configuration)) is not None:
        yield display
    reporters = ("metrics.reporter", "traces.reporter")  # behind that stand their names, or an `s` which is for all
    if any(key.startswith(reporters) for key in configuration.key_set()):
        from headrace.reporters.reporting import reporting_of

        if (reporting := reporting_of(configuration)) is not None:
            yield reporting
    if (archives := configuration.get(server_options.ARCHIVE_DIR)) is not None:
        from headrace.server.archives import archiving

        yield archiving(archives, configuration)
    if configuration.get(options.OPENLINEAGE_TRANSPORT):
        from headrace.lineage.openlineage import open_lineage_of

        yield open_lineage_of(configuration)


def _display(configuration: Configuration) -> JobListener | None:
    """The display of the job: the one that surrounds the program; else its notebook or terminal, if it has one."""
    listener, wanted = current_defaults().listener, configuration.get(options.PROGRESS)
    if listener is not None:
        return listener
    if wanted is not False and is_notebook():
        from headrace.client.progress import notebook_listener  # what draws takes a while to import

        return notebook_listener()
    if wanted is None:
        is_terminal = getattr(sys.stderr, "isatty", bool)()  # programs put streams of their own there, or nothing
        wanted = is_terminal and not hasattr(sys, "ps1")
    if not wanted:
        return None
    from headrace.client.displays import terminal_listener  # likewise

    return terminal_listener()


def _configure_logging(configuration: Configuration) -> None:
    if not LogSettings.of(configuration).apply():
        logger.warning(
            "%s and %s have no effect: the root logger has handlers already, as another job of this process has set, "
            "or of the program's own, which may have a headrace.common.logs.JsonFormatter",
            options.LOG_LEVEL.key,
            options.LOG_FORMAT.key,
        )


def _require_uids(graph: StreamGraph) -> None:
    missing = [_named(node) for node in graph if node.uid is None and _may_have_uid(node.spec)]
    if missing:
        raise InvalidProgramError(
            f"operators without uid(): {', '.join(missing)}; {options.AUTO_GENERATE_UIDS.key} is false, so all need one"
        )


def _named(node: Node) -> str:
    return f"{node.name!r} ({node.call_site})"


def _may_have_uid(spec: OperatorSpec) -> bool:
    """Return whether a program gets hold of the operator."""
    if isinstance(spec, MapSpec):
        return not spec.is_hidden
    return not (isinstance(spec, SinkSpec) and isinstance(spec.sink, CollectSink))


def _warnings(graph: StreamGraph) -> Iterator[str]:
    """Warnings about programs that run, though probably not as their author meant."""
    read = {edge.source for node in graph for edge in node.inputs}
    unseen, lost, early, gates = list[Node](), list[Node](), list[str](), list[str]()
    for node in graph:
        spec = node.spec
        if not node.is_sink and node.id not in read:  # forgotten in a program, or left by another cell
            unseen.append(node)
        if isinstance(spec, SourceSpec) and not spec.source.can_replay:
            lost.append(node)
        elif isinstance(spec, ExpectationSpec) and spec.on_violation in (OnViolation.FAIL, OnViolation.HOLD):
            gates.append(node.name)
        elif isinstance(spec, SinkSpec) and spec.sink.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            early.append(node.name)
    if unseen:
        where = with_cells(", ".join(map(_named, unseen)))
        yield (
            f"nothing takes the results of {where}, which runs all the same: end the stream in "
            "print() or sink_to(), or begin with a new environment, "
            "StreamExecutionEnvironment.get_execution_environment()"
        )
    if lost:  # until a checkpoint holds what came of it, it is nowhere
        where = with_cells(", source ".join(map(_named, lost)))
        yield (
            f"source {where} cannot be read again: when the job restarts, what was read of it since the "
            "last checkpoint is lost, so its records arrive at most once, whatever the sinks promise"
        )
    if gates and early:
        yield (
            f"{early[0]} is AT_LEAST_ONCE, and sends records before the expectations of their epoch "
            f"({', '.join(gates)}) are known to be met: with EXACTLY_ONCE it publishes none before"
        )


def _warn_of_derived_uids(plan: JobPlan) -> None:
    """Warn that the state of operators is found by uid, and that a uid derived from the topology changes with it."""
    names = [op.node.name for op in plan.operators() if not op.has_explicit_uid and _is_in_checkpoints(op)]
    if names:
        logger.warning(
            "operators without uid(): %s; their state, positions and output in progress are found again only while the "
            "program keeps its shape: a source that is put before another one is refused, or gets its position",
            ", ".join(repr(name) for name in names),
        )


def _is_in_checkpoints(operator: PlannedOperator) -> bool:
    spec = operator.node.spec
    is_user_sink = isinstance(spec, SinkSpec) and not isinstance(spec.sink, CollectSink)
    return bool(operator.state_kinds) or isinstance(spec, SourceSpec) or is_user_sink
