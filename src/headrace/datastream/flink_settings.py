"""Settings of environments that PyFlink's programs make and that have nothing to act on here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from headrace.common import flink_options, options
from headrace.common.arguments import expect
from headrace.common.call_site import warn_caller
from headrace.datastream.slot_sharing_group import SlotSharingGroup

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration
    from headrace.common.flink_options import FlinkOption


class FlinkSettings:
    """Keeps what was set, gives it back, and warns at the program's line that it is without effect, and why."""

    _configuration: Configuration
    _local_parallelism: int | None = None

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Keeps how long records may wait in buffers, in milliseconds; without effect."""
        expect(timeout_millis, int, "set_buffer_timeout")
        return self._keep(flink_options.BUFFER_TIMEOUT, timeout_millis)

    def get_buffer_timeout(self) -> int:
        """Gives back how long records may wait in buffers, in milliseconds."""
        return int(self._configuration.get(flink_options.BUFFER_TIMEOUT))

    def disable_operator_chaining(self) -> Self:
        """Keeps that operators are not to be chained; without effect."""
        return self._keep(flink_options.OPERATOR_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """Gives back whether operators are to be chained."""
        return bool(self._configuration.get(flink_options.OPERATOR_CHAINING))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Gives back whether operators with different key groups are to be chained; an option of the configuration."""
        return bool(self._configuration.get(flink_options.CHAIN_DIFFERENT_MAX_PARALLELISM))

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Keeps whether changes of state are to be logged; without effect."""
        expect(enabled, bool, "enable_changelog_state_backend")
        return self._keep(flink_options.CHANGELOG, enabled)

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Gives back whether changes of state are to be logged; None where nothing was said of it."""
        option = flink_options.CHANGELOG
        is_set = any(map(self._configuration.contains_key, (option.key, *option.deprecated_keys)))
        return bool(self._configuration.get(option)) if is_set else None

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Where the directories of savepoints are made, unless who asks for one says it."""
        expect(directory, str, "set_default_savepoint_directory")
        self._configuration.set(options.SAVEPOINT_DIR, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory in which those of savepoints are made; None for none."""
        return self._configuration.get(options.SAVEPOINT_DIR)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Gives back whether checkpoints are to be unaligned; set with the checkpoint configuration."""
        return bool(self._configuration.get(flink_options.UNALIGNED))

    def is_force_unaligned_checkpoints(self) -> bool:
        """Gives back whether checkpoints are to be unaligned in loops, too; set with the checkpoint configuration."""
        return bool(self._configuration.get(flink_options.FORCE_UNALIGNED))

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Keeps a parallelism for local environments; without effect, as in Flink for one that is there already."""
        expect(parallelism, int, "set_default_local_parallelism")
        self._local_parallelism = parallelism
        warn_caller("the default local parallelism has no effect: use set_parallelism(...)")

    def get_default_local_parallelism(self) -> int:
        """Gives back the parallelism for local environments; this machine's cores when none was set."""
        return self._local_parallelism or os.cpu_count() or 1

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Accepts what the slots of a group need; without effect."""
        expect(slot_sharing_group, SlotSharingGroup, "register_slot_sharing_group")
        warn_caller(f"the slot sharing group {slot_sharing_group.get_name()!r} has no effect: Spark places the tasks")
        return self

    def _keep(self, option: FlinkOption[Any], value: Any) -> Self:
        self._configuration.set_checked(option, value)
        return self
