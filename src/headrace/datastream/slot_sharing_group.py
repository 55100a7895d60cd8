"""``SlotSharingGroup`` and ``MemorySize``: what an operator's slots need, which programs may declare."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from headrace.common.errors import InvalidProgramError
from headrace.common.public_module import public_module

__all__ = ["MemorySize", "SlotSharingGroup"]

_MEBI: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class MemorySize:
    """An amount of memory.

    Attributes:
        bytes_size: bytes, zero or more.

    Raises:
        InvalidProgramError: when it is less.

    Examples:
        >>> from headrace.datastream import MemorySize
        >>> print(MemorySize.of_mebi_bytes(2_048))
        2 gb
    """

    bytes_size: int

    def __post_init__(self) -> None:
        if self.bytes_size < 0:
            raise InvalidProgramError(f"a memory size is zero bytes or more, not {self.bytes_size}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """A size of ``mebi_bytes`` MiB."""
        return MemorySize(mebi_bytes * _MEBI)

    def get_bytes(self) -> int:
        """Its bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """The whole KiB in it."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """The whole MiB in it."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """The whole GiB in it."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """The whole TiB in it."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        units = ((40, "tb"), (30, "gb"), (20, "mb"), (10, "kb"))
        whole = (f"{self.bytes_size >> bits} {unit}" for bits, unit in units if self.bytes_size % (1 << bits) == 0)
        return next(whole, f"{self.bytes_size} bytes") if self.bytes_size else "0 bytes"


_NO_MEMORY: Final = MemorySize(0)


@dataclass(frozen=True, slots=True)
class SlotSharingGroup:
    """Operators that share slots, and what each slot needs; kept as it was declared, for Spark places the tasks.

    Examples:
        >>> from headrace.datastream import SlotSharingGroup
        >>> heavy = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
        >>> heavy.get_name(), heavy.get_task_heap_memory().get_mebi_bytes()
        ('heavy', 512)
    """

    _name: str
    _cpu_cores: float | None = None
    _task_heap_memory: MemorySize | None = None
    _task_off_heap_memory: MemorySize | None = None
    _managed_memory: MemorySize | None = None
    _external_resources: tuple[tuple[str, float], ...] = field(default=())

    def get_name(self) -> str:
        """The name of the group."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """The cores of a slot."""
        return self._cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        """The memory of a slot within Java's heap."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """The memory of a slot outside of Java's heap."""
        return self._task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        """The memory of a slot that Flink manages."""
        return self._managed_memory

    def get_external_resources(self) -> dict[str, float]:
        """Return what else a slot needs, by name."""
        return dict(self._external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begins the declaration of a group."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Puts a group together.

        Args:
            name: the name of the group.
        """

        def __init__(self, name: str) -> None:
            self._group = SlotSharingGroup(name)

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Sets the cores of a slot."""
            return self._set(_cpu_cores=cpu_cores)

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory of a slot within Java's heap."""
            return self._set(_task_heap_memory=task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the same in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory of a slot outside of Java's heap."""
            return self._set(_task_off_heap_memory=task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the same in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory of a slot that Flink manages."""
            return self._set(_managed_memory=managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the same in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Sets how much of something else a slot needs."""
            others = {**self._group.get_external_resources(), name: value}
            return self._set(_external_resources=tuple(sorted(others.items())))

        def build(self) -> SlotSharingGroup:
            """The group; where it says something of a slot, what it does not say of memory is zero.

            Raises:
                InvalidProgramError: when it says something of a slot but not its cores and its memory within Java's
                    heap, or one of these is not above 0.
            """
            group = self._group
            if group == SlotSharingGroup(group.get_name()):
                return group
            cores, heap = group.get_cpu_cores() or 0, group.get_task_heap_memory() or _NO_MEMORY
            if cores <= 0 or heap <= _NO_MEMORY:
                raise InvalidProgramError(
                    f"the slot sharing group {group.get_name()!r} needs set_cpu_cores and set_task_heap_memory, both "
                    "above 0, when it says what a slot needs"
                )
            return replace(
                group,
                _task_off_heap_memory=group.get_task_off_heap_memory() or _NO_MEMORY,
                _managed_memory=group.get_managed_memory() or _NO_MEMORY,
            )

        def _set(self, **values: Any) -> SlotSharingGroup.Builder:
            self._group = replace(self._group, **values)
            return self


public_module(__name__)
