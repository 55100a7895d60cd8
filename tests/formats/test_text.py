"""Writing text."""

from __future__ import annotations

import pytest

from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.formats.text import TextLineEncoder, split_lines
from tests.connectors.harness import batch_of


@pytest.mark.parametrize("columnar", [False, True])
def test_strings_are_written_as_lines(columnar: bool) -> None:
    batch = batch_of(Types.STRING(), ["a", "é", "", "d"], columnar=columnar)
    assert TextLineEncoder().encode_batch(batch) == "a\né\n\nd\n".encode()
    assert TextLineEncoder().encode_batch(batch.slice(1, 3)) == "é\n\n".encode()
    assert TextLineEncoder("latin-1").encode_batch(batch) == "a\né\n\nd\n".encode("latin-1")


def test_other_records_are_written_as_text() -> None:
    assert TextLineEncoder().encode_batch(batch_of(Types.STRING(), ["a", None], columnar=True)) == b"a\nnull\n"
    assert TextLineEncoder().encode_batch(batch_of(Types.ROW([int, str]), [Row(1, "a")])) == b"+I[1, a]\n"
    assert TextLineEncoder().encode_batch(batch_of(Types.TUPLE([int, bool]), [(1, True)])) == b"(1,true)\n"
    with pytest.raises(TypeError, match="batches"):
        TextLineEncoder().encode("a")


def test_lines_are_split() -> None:
    assert split_lines(b"a\r\n\n\xc3\xa9\rb").to_pylist() == ["a", "", "é\rb"]
    assert split_lines(b"").to_pylist() == []
    with pytest.raises(UnicodeDecodeError):
        split_lines(b"\xff")
