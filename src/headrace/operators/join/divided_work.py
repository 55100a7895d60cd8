"""Work that every task needs the results of, divided among the tasks on one machine.

Each task computes parts that no other one has begun, and writes them to files in a folder that all of them share. It
finds the others there. Files get their names when they are complete, so a task that ends, or is run again, leaves
nothing that is wrong: the results of a part are the same in every task. A part that another task has begun and does not
complete is computed again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

_POLLS: Final = 0.0005
"""The seconds between two looks for a file."""
_LEAST_PATIENCE: Final = 0.1
"""The least seconds that a task waits for the others."""

Compute = Callable[[int], Iterator[pa.RecordBatch]]


def files_in(folder: str) -> list[Path]:
    """The files of divided work, complete or not."""
    return list(Path(folder).glob("divided-*"))


class DividedWork:
    """The work of an operator.

    Args:
        folder: the folder that the tasks share.
        uid: the operator.
    """

    def __init__(self, folder: Path, uid: str) -> None:
        self._folder = folder
        self._prefix = f"divided-{hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()}"

    def results(self, number: int, parts: int, compute: Compute) -> Iterator[pa.RecordBatch]:
        """The results of all parts of a piece of work, in order.

        Args:
            number: which piece of the operator's work.
            parts: the number of its parts.
            compute: computes a part.
        """
        files = [self._folder / f"{self._prefix}-{number}-{part}.arrow" for part in range(parts)]
        began, own = time.monotonic(), set[int]()
        for part, file in enumerate(files):
            if _claim(file):
                own.add(part)
                _write(file, compute(part))
        patience = max(time.monotonic() - began, _LEAST_PATIENCE)
        for part, file in enumerate(files):
            found = _read(file, 0.0 if part in own else patience)
            yield from compute(part) if found is None else found


def _claim(file: Path) -> bool:
    """Return whether no task has begun a part; then it is this task's."""
    try:
        os.close(os.open(file.with_suffix(".begun"), os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:  # also where nothing can be written: then every task computes all for itself
        return False
    return True


def _write(file: Path, batches: Iterator[pa.RecordBatch]) -> None:
    unfinished = file.with_suffix(f".{os.getpid()}")
    try:
        first = next(batches, None)
        schema = pa.schema([]) if first is None else first.schema
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in () if first is None else chain((first,), batches):
                writer.write_batch(batch)
        unfinished.rename(file)
    except OSError:  # the disk is full, say: it is computed once more where it is needed
        with suppress(OSError):
            unfinished.unlink()


def _read(file: Path, patience: float) -> list[pa.RecordBatch] | None:
    """The batches of a part, which stay in the file; None where it is not complete in time, or damaged."""
    until = time.monotonic() + patience
    while not file.exists():
        if time.monotonic() >= until:
            return None
        time.sleep(_POLLS)
    try:
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_file(source)
            return [reader.get_batch(number) for number in range(reader.num_record_batches)]
    except (OSError, pa.ArrowInvalid):  # the epoch is over for others, and its files are removed, say
        return None
