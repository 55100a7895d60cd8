"""Messages of record batches: buffers with the same bytes are written once, and read as if each had its own."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import StateCorruptedError
from headrace.state.runs.sections import BLOCK, SMALL, Section, written_once
from headrace.storage.file_system import MappedFile
from tests.draws import draws

ROWS = 3_000


def column(seed: int, kind: str, rows: int = ROWS) -> pa.Array:
    """Columns of the same seed and kind are equal."""
    numbers = np.random.default_rng(seed).integers(-(2**62), 2**62, rows)
    mask = numbers % 5 == 0
    if kind == "struct":
        inner = [pa.array(numbers, mask=mask), column(seed, "text", rows)]
        return pa.StructArray.from_arrays(inner, names=["a", "b"], mask=pa.array(numbers % 3 == 0))
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) // 2 * 2, pa.int32()), pa.array(numbers))
    made = {
        "long": lambda: pa.array(numbers),
        "unsigned": lambda: pa.array(numbers).view(pa.uint64()),
        "nullable": lambda: pa.array(numbers, mask=mask),
        "boolean": lambda: pa.array(numbers % 2 == 0),
        "text": lambda: pa.array([None if number % 7 == 0 else f"ä{number % 1000}" for number in numbers.tolist()]),
        "nothing": lambda: pa.nulls(rows),
        "missing": lambda: pa.nulls(rows, pa.string()),
    }
    return made[kind]()


KINDS = ("long", "unsigned", "nullable", "boolean", "text", "nothing", "missing", "struct", "list")


def encoded(batch: pa.RecordBatch) -> bytes:
    return b"".join(piece.to_pybytes() for piece in written_once(batch.serialize()))


def batch_of(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[str(number) for number in range(len(columns))])


@settings(max_examples=draws(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(KINDS)), min_size=1, max_size=6), st.integers(0, ROWS - 1))
def test_what_is_read_is_what_was_written(columns: list[tuple[int, str]], start: int) -> None:
    batch = batch_of(*(column(*each) for each in columns)).slice(start)
    found = pa.ipc.read_record_batch(pa.py_buffer(encoded(batch)), batch.schema)
    found.validate(full=True)
    assert found.equals(batch)
    assert encoded(batch) == encoded(found), "the same rows make the same bytes"


@pytest.mark.parametrize("kind", ["long", "nullable", "boolean", "text", "struct", "list"])
def test_columns_that_are_equal_take_the_room_of_one(kind: str) -> None:
    one, other, same = (column(seed, kind, 40_000) for seed in (1, 2, 1))
    alone, with_other, with_same = (len(encoded(batch_of(one, *more))) for more in ([], [other], [same]))
    assert with_same - alone < 400, "metadata of one more column"
    assert with_other > with_same + (alone - 400) // 2


def test_a_key_that_is_a_field_of_its_record_takes_no_room() -> None:
    numbers = column(1, "long")
    record = pa.StructArray.from_arrays([column(2, "long"), numbers, column(3, "long")], names=["time", "id", "value"])
    both, alone = encoded(batch_of(numbers, record)), encoded(batch_of(record))
    assert len(both) - len(alone) < 400


def test_buffers_that_differ_in_one_byte_anywhere_are_written_both() -> None:
    numbers = np.arange(ROWS)
    randomness = random.Random(5)
    for place in (0, ROWS // 2, ROWS - 1, *(randomness.randrange(ROWS) for _ in range(50))):
        changed = numbers.copy()
        changed[place] += 1
        batch = batch_of(pa.array(numbers), pa.array(changed), pa.array(numbers))
        found = pa.ipc.read_record_batch(pa.py_buffer(encoded(batch)), batch.schema)
        assert found.equals(batch)
        assert 2 * 8 * ROWS <= len(encoded(batch)) < 3 * 8 * ROWS


@pytest.mark.parametrize("rows", [0, 1, 2, SMALL // 32])
def test_small_messages_stay_as_they_are(rows: int) -> None:
    batch = batch_of(column(1, "long", rows), column(1, "long", rows))
    assert encoded(batch) == batch.serialize().to_pybytes()


def test_many_columns_of_nothing_have_no_body() -> None:
    batch = batch_of(*(pa.nulls(3) for _ in range(300)))
    assert batch.serialize().size > SMALL
    assert pa.ipc.read_record_batch(pa.py_buffer(encoded(batch)), batch.schema).equals(batch)


def test_a_section_checks_shared_bytes_for_each_column_that_has_them() -> None:
    rows = BLOCK // 8 * 3
    numbers = column(1, "long", rows)
    section = Section(batch_of(numbers, column(2, "long", rows), numbers))
    image = bytearray(b"".join(piece.to_pybytes() for piece in section.encoded()))
    entry = section.describe(0)
    assert len(image) < 2 * 8 * rows + 2_000
    image[entry["head"] + 10] ^= 1
    damaged = Section.stored(entry, "file", lambda: MappedFile(pa.py_buffer(bytes(image))))
    assert damaged.rows_of("1", 0, 10).equals(column(2, "long", rows)[:10])
    for name in ("0", "2"):
        with pytest.raises(StateCorruptedError, match="damaged at byte"):
            damaged.rows_of(name, 0, 10)
