"""``ExecutionConfig``: settings of an environment's jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.common import options
from headrace.common.other_names import other_names, without_effect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.config_options import ConfigOption
    from headrace.common.configuration import Configuration

__all__ = ["ExecutionConfig"]

_NO_JAVA_TYPES = "no record is ever a Java object"
_NO_SHARING = "operators hand whole batches on, and never copy records"


@other_names()
@without_effect(
    {
        "set_auto_watermark_interval": "a watermark is in force from the record on that makes it, not at intervals",
        "set_latency_tracking_interval": "no markers travel among the records",
        "enable_closure_cleaner": "functions travel as they are",
        "disable_closure_cleaner": "functions travel as they are",
        "enable_object_reuse": _NO_SHARING,
        "disable_object_reuse": _NO_SHARING,
        "enable_force_kryo": _NO_JAVA_TYPES,
        "disable_force_kryo": _NO_JAVA_TYPES,
        "enable_force_avro": _NO_JAVA_TYPES,
        "disable_force_avro": _NO_JAVA_TYPES,
        "enable_generic_types": _NO_JAVA_TYPES,
        "disable_generic_types": _NO_JAVA_TYPES,
        "set_use_snapshot_compression": "state files are columns, written as they are mapped",
    }
)
class ExecutionConfig:
    """The settings of an environment's jobs: each is an option of its configuration.

    Args:
        configuration: what is read and written.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_parallelism(self) -> int:
        """How many subtasks an operator has that does not say otherwise; this machine's cores when it was not set."""
        return self._configuration.get(options.PARALLELISM) or os.cpu_count() or 1

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets how many subtasks an operator has that does not say otherwise.

        Raises:
            ConfigurationError: when the number is not between 1 and 32768.
        """
        return self._set(options.PARALLELISM, parallelism)

    def get_max_parallelism(self) -> int:
        """How many key groups a job has: the highest parallelism that it can be rescaled to."""
        return self._configuration.get(options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Sets how many key groups a job has; it is fixed by the first run.

        Raises:
            ConfigurationError: when the number is not between 1 and 32768.
        """
        return self._set(options.MAX_PARALLELISM, max_parallelism)

    def get_global_job_parameters(self) -> dict[str, str]:
        """What functions can ask for with ``RuntimeContext.get_job_parameter``.

        It is the whole configuration, but for that of the storage, which holds secrets.
        """
        return self._configuration.job_parameters()

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Adds parameters that functions can ask for with ``RuntimeContext.get_job_parameter``.

        Raises:
            ConfigurationError: when a value is neither text nor a number, a boolean or a duration.
        """
        for key, value in global_job_parameters_dict.items():
            self._configuration.set(key, value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and other._configuration == self._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def _set(self, option: ConfigOption[Any], value: Any) -> ExecutionConfig:
        before = self._configuration.get(option.key)
        self._configuration.set(option, value)
        try:
            self._configuration.get(option)
        except ValueError:
            self._configuration.remove_config(option.key)
            if before is not None:
                self._configuration.set(option, before)
            raise
        return self
