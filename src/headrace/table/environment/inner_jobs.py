"""Settings of jobs that are started beside the jobs of a program: refreshes of tables, copies of their rows."""

from __future__ import annotations

from typing import Final

from headrace.client.defaults import current_defaults
from headrace.common import options
from headrace.common.errors import ConfigurationError

_OF_ONE_JOB: Final = (options.CHECKPOINT_DIR.key, options.RECOVERY_PATH.key)
_OF_RECOVERY: Final = (options.UID_MAPPING.key, options.CHANGED_WINDOWS.key)


def batch_settings(name: str | None) -> dict[str, str | None]:
    """The changes to the settings of a session for a job in batch mode, which shares no state with other jobs.

    Args:
        name: the name of the job; None for that of its statement.
    """
    return {
        options.PIPELINE_NAME.key: name,
        options.RUNTIME_MODE.key: "BATCH",
        **dict.fromkeys((*_OF_ONE_JOB, *_OF_RECOVERY)),
    }


def refuse_places_of_program(reason: str) -> None:
    """Refuse to start a job beside others where the whole program was given the place of one job's state.

    Args:
        reason: says that the job is one of its own.

    Raises:
        ConfigurationError: naming the options.
    """
    given = [key for key in _OF_ONE_JOB if key in current_defaults().settings]
    if given:
        raise ConfigurationError(
            f"{' and '.join(given)} was given to the whole program, and {reason}: "
            f"SET '{given[0]}' = '...' in the program, or set it on its TableEnvironment"
        )
