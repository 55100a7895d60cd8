"""``ExecutionConfig``: settings of an environment's jobs."""

import os
from collections.abc import Mapping
from typing import Any, Final, Self

from headrace.common import flink_options, options
from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.errors import expect
from headrace.common.public_module import public

__all__ = ["ExecutionConfig"]


@public
class ExecutionConfig:
    """The settings of an environment's jobs: each is an option of its configuration.

    Args:
        configuration: what is read and written.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> config = StreamExecutionEnvironment.get_execution_environment().get_config()
        >>> config.set_parallelism(2).get_parallelism()
        2
    """

    PARALLELISM_DEFAULT: Final = -1
    """The value for as many subtasks as the runtime has cores."""

    PARALLELISM_UNKNOWN: Final = -2
    """Leaves the number of subtasks as it is."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_parallelism(self) -> int:
        """Return how many subtasks an operator has unless it says otherwise; this machine's cores when not set."""
        return self._configuration.get(options.PARALLELISM) or os.cpu_count() or 1

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets how many subtasks an operator has that does not say otherwise.

        Args:
            parallelism: the number; or ``PARALLELISM_DEFAULT``, or ``PARALLELISM_UNKNOWN``.

        Raises:
            ConfigurationError: when the number is not between 1 and 32768.
        """
        expect(parallelism, int, "set_parallelism")
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.PARALLELISM.key)
            return self
        return self._set(options.PARALLELISM, parallelism)

    def get_max_parallelism(self) -> int:
        """Return how many key groups a job has: the highest parallelism that it can be rescaled to."""
        return self._configuration.get(options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets how many key groups a job has; it is fixed by the first run.

        Raises:
            ConfigurationError: when the number is not between 1 and 32768.
        """
        expect(max_parallelism, int, "set_max_parallelism")
        return self._set(options.MAX_PARALLELISM, max_parallelism)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return what functions can ask for with ``RuntimeContext.get_job_parameter``.

        It is the whole configuration, but for that of the storage, which holds secrets.
        """
        return self._configuration.job_parameters()

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> Self:
        """Adds parameters that functions can ask for with ``RuntimeContext.get_job_parameter``.

        Raises:
            ConfigurationError: when a value is neither text nor a number, a boolean or a duration.
        """
        expect(global_job_parameters_dict, Mapping, "set_global_job_parameters")
        for key, value in global_job_parameters_dict.items():
            self._configuration.set(key, value)
        return self

    def enable_auto_generated_uids(self) -> Self:
        """Lets operators do without ``uid()``; theirs are derived from the program's shape. So it is at first."""
        return self._set(options.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> Self:
        """Refuses jobs with operators without ``uid()``."""
        return self._set(options.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return whether operators may do without ``uid()``."""
        return self._configuration.get(options.AUTO_GENERATE_UIDS)

    # --- without effect, with a warning that says why ----------------------------------------------------------------

    def set_auto_watermark_interval(self, interval: int) -> Self:
        """Keeps an interval of watermarks, in milliseconds; without effect."""
        expect(interval, int, "set_auto_watermark_interval")
        return self._set(flink_options.AUTO_WATERMARK_INTERVAL, interval)

    def get_auto_watermark_interval(self) -> int:
        """Gives an interval of watermarks back, in milliseconds."""
        return int(self._configuration.get(flink_options.AUTO_WATERMARK_INTERVAL))

    def set_latency_tracking_interval(self, interval: int) -> Self:
        """Keeps an interval of latency markers, in milliseconds; without effect."""
        expect(interval, int, "set_latency_tracking_interval")
        return self._set(flink_options.LATENCY_INTERVAL, interval)

    def get_latency_tracking_interval(self) -> int:
        """Gives an interval of latency markers back, in milliseconds."""
        return int(self._configuration.get(flink_options.LATENCY_INTERVAL))

    def set_task_cancellation_interval(self, interval: int) -> Self:
        """Keeps the time between two attempts to interrupt a task, in milliseconds; without effect."""
        expect(interval, int, "set_task_cancellation_interval")
        return self._set(flink_options.CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_interval(self) -> int:
        """Gives the time between two attempts to interrupt a task back, in milliseconds."""
        return int(self._configuration.get(flink_options.CANCELLATION_INTERVAL))

    def set_task_cancellation_timeout(self, timeout: int) -> Self:
        """Keeps the time that a cancelled task has to end, in milliseconds; without effect."""
        expect(timeout, int, "set_task_cancellation_timeout")
        return self._set(flink_options.CANCELLATION_TIMEOUT, timeout)

    def get_task_cancellation_timeout(self) -> int:
        """Gives the time that a cancelled task has to end back, in milliseconds."""
        return int(self._configuration.get(flink_options.CANCELLATION_TIMEOUT))

    def enable_closure_cleaner(self) -> Self:
        """Keeps that functions are to be cleaned; without effect."""
        return self._set(flink_options.CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> Self:
        """Keeps the opposite of :meth:`enable_closure_cleaner`; without effect."""
        return self._set(flink_options.CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Gives back which of the two was set."""
        return bool(self._configuration.get(flink_options.CLOSURE_CLEANER) != "NONE")

    def enable_object_reuse(self) -> Self:
        """Keeps that records are to be handed on uncopied; without effect."""
        return self._set(flink_options.OBJECT_REUSE, True)

    def disable_object_reuse(self) -> Self:
        """Keeps the opposite of :meth:`enable_object_reuse`; without effect."""
        return self._set(flink_options.OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Gives back which of the two was set."""
        return bool(self._configuration.get(flink_options.OBJECT_REUSE))

    def enable_force_kryo(self) -> Self:
        """Keeps that Kryo is to write records; without effect."""
        return self._set(flink_options.FORCE_KRYO, True)

    def disable_force_kryo(self) -> Self:
        """Keeps the opposite of :meth:`enable_force_kryo`; without effect."""
        return self._set(flink_options.FORCE_KRYO, False)

    def is_force_kryo_enabled(self) -> bool:
        """Gives back which of the two was set."""
        return bool(self._configuration.get(flink_options.FORCE_KRYO))

    def enable_force_avro(self) -> Self:
        """Keeps that Avro is to write records; without effect."""
        return self._set(flink_options.FORCE_AVRO, True)

    def disable_force_avro(self) -> Self:
        """Keeps the opposite of :meth:`enable_force_avro`; without effect."""
        return self._set(flink_options.FORCE_AVRO, False)

    def is_force_avro_enabled(self) -> bool:
        """Gives back which of the two was set."""
        return bool(self._configuration.get(flink_options.FORCE_AVRO))

    def enable_generic_types(self) -> Self:
        """Keeps that types that Flink does not know are allowed; without effect."""
        return self._set(flink_options.GENERIC_TYPES, True)

    def disable_generic_types(self) -> Self:
        """Keeps the opposite of :meth:`enable_generic_types`; without effect."""
        return self._set(flink_options.GENERIC_TYPES, False)

    def has_generic_types_disabled(self) -> bool:
        """Gives back which of the two was set."""
        return not self._configuration.get(flink_options.GENERIC_TYPES)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> Self:
        """Keeps whether state is to be compressed; without effect."""
        expect(use_snapshot_compression, bool, "set_use_snapshot_compression")
        return self._set(flink_options.SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def is_use_snapshot_compression(self) -> bool:
        """Gives back whether state was to be compressed."""
        return bool(self._configuration.get(flink_options.SNAPSHOT_COMPRESSION))

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Always empty: no record is ever a Java object."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Always empty: no record is ever a Java object."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Always empty: no record is ever a Java object."""
        return []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and other._configuration == self._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def _set(self, option: ConfigOption, value: Any) -> Self:
        self._configuration.set_checked(option, value)
        return self
