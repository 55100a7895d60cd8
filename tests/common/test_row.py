"""Row and RowKind behave as PyFlink's, but for the corners where that contradicts itself."""

from __future__ import annotations

import copy
import pickle

import pytest

from headrace.common.errors import InvalidTypeError
from headrace.common.types import Row, RowKind

NAMED = Row(name="Alice", age=11)
POSITIONAL = Row("Alice", 11)


def of_kind(kind: RowKind, row: Row) -> Row:
    changed = copy.copy(row)
    changed.set_row_kind(kind)
    return changed


@pytest.mark.parametrize("key", ["age", 1, -1])
def test_a_field_is_reached_by_name_and_position(key: str | int) -> None:
    assert NAMED[key] == 11


def test_slices_and_attributes() -> None:
    assert NAMED[0:2] == ["Alice", 11]
    assert NAMED.age == 11


def test_a_field_is_set_as_it_is_read() -> None:
    row = Row(name="Alice", age=11, _id=1, as_dict=2)
    row.age += 1
    row["_id"] = 7
    assert row == Row(name="Alice", age=12, _id=7, as_dict=2)
    for name in ("_id", "as_dict"):
        with pytest.raises(AttributeError, match=rf"the field '{name}' is reached as row\['{name}'\]"):
            setattr(row, name, 3)
    with pytest.raises(AttributeError, match="the row has no field 'amount': its fields are name, age, _id, as_dict"):
        row.amount = 3
    with pytest.raises(AttributeError, match=r"no field 'amount': its fields have no names: write row\[0\] = \.\.\."):
        POSITIONAL.amount = 3
    with pytest.raises(AttributeError, match="the row has no field 'amount': its fields are name, age"):
        _ = NAMED.amount


def test_a_changed_row_can_be_copied_and_pickled() -> None:
    row = Row(name="Alice", age=11)
    row.age = 12
    assert pickle.loads(pickle.dumps(row)) == copy.copy(row) == copy.deepcopy(row) == Row(name="Alice", age=12)


def test_iteration_length_and_containment() -> None:
    assert list(NAMED) == ["Alice", 11]
    assert len(NAMED) == 2
    assert "name" in NAMED
    assert "Alice" not in NAMED
    assert "Alice" in POSITIONAL


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (NAMED, "Row(name='Alice', age=11)"),
        (POSITIONAL, "<Row('Alice', 11)>"),
        (Row(), "<Row()>"),
        (of_kind(RowKind.UPDATE_BEFORE, POSITIONAL), "<-U Row('Alice', 11)>"),
        (of_kind(RowKind.DELETE, NAMED), "-D Row(name='Alice', age=11)"),
    ],
)
def test_repr(row: Row, shown: str) -> None:
    assert repr(row) == shown


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("Alice", 11) == NAMED
    with pytest.raises(InvalidTypeError, match="names 2 fields but got 1"):
        person("Alice")


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (Row(1, 2), Row(1, 2), True),
        (Row(1, 2), Row(1, 3), False),
        (Row(a=1, b=2), Row(b=2, a=1), True),
        (Row(a=1, b=2), Row(1, 2), False),
        (Row(1, 2), Row(a=1, b=2), False),
        (Row(a=1), Row(a=1, b=2), False),
        (Row(a=1), Row(b=1), False),
        (Row(1, 2), (1, 2), False),
        (Row(1), Row.of_kind(RowKind.DELETE, 1), False),
    ],
)
def test_equality_and_hash_agree(left: Row, right: object, equal: bool) -> None:
    assert (left == right) is equal
    if equal:
        assert hash(left) == hash(right)


@pytest.mark.parametrize("row", [NAMED, POSITIONAL, Row.of_kind(RowKind.UPDATE_AFTER, a=1), Row(Row(x=[1]))])
def test_pickle_and_copy(row: Row) -> None:
    assert pickle.loads(pickle.dumps(row)) == row
    assert copy.deepcopy(row) == row
    duplicate = copy.copy(row)
    duplicate[0] = "changed"
    assert duplicate != row


def test_as_dict() -> None:
    row = Row(key=1, inner=Row(a=[Row(b=2)], c={"d": Row(e=3)}))
    assert row.as_dict()["inner"] == row.inner
    assert row.as_dict(True) == {"key": 1, "inner": {"a": [{"b": 2}], "c": {"d": {"e": 3}}}}
    with pytest.raises(InvalidTypeError, match="no field names"):
        POSITIONAL.as_dict()


def test_field_names_can_be_set() -> None:
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row == Row(a=1, b=2)
    with pytest.raises(InvalidTypeError, match="needs as many different names"):
        row.set_field_names(["a"])
    with pytest.raises(InvalidTypeError, match="needs as many different names"):
        row.set_field_names(["a", "a"])


def test_fields_by_names() -> None:
    assert NAMED.get_fields_by_names(["age", "name"]) == [11, "Alice"]
    assert NAMED.get_fields_by_names(["name", "age"]) == ["Alice", 11]
    assert POSITIONAL.get_fields_by_names(["anything"]) == ["Alice", 11]
    with pytest.raises(InvalidTypeError, match="no field 'size': its fields are name, age"):
        NAMED.get_fields_by_names(["size"])


def test_values_can_be_set() -> None:
    row = Row(a=1, b=2)
    row["a"] = 3
    row[1] = 4
    assert row == Row(a=3, b=4)
    with pytest.raises(KeyError, match="its fields are a, b"):
        row["c"] = 1


def test_what_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="its fields are name, age"):
        NAMED["size"]
    with pytest.raises(KeyError, match="have no names"):
        POSITIONAL["size"]
    with pytest.raises(AttributeError, match="size"):
        _ = NAMED.size
    with pytest.raises(AttributeError):
        NAMED.size = 1  # type: ignore[attr-defined]


def test_values_come_by_position_or_by_name_not_both() -> None:
    with pytest.raises(InvalidTypeError, match="not both"):
        Row(1, a=2)


@pytest.mark.parametrize(
    ("kind", "symbol"),
    [(RowKind.INSERT, "+I"), (RowKind.UPDATE_BEFORE, "-U"), (RowKind.UPDATE_AFTER, "+U"), (RowKind.DELETE, "-D")],
)
def test_row_kinds(kind: RowKind, symbol: str) -> None:
    assert str(kind) == symbol
    row = Row.of_kind(kind, a=1)
    assert row.get_row_kind() is kind
    assert pickle.loads(pickle.dumps(row)).get_row_kind() is kind


def test_names_that_stand_for_none() -> None:
    assert Row(f0=1, f1="a") == Row(1, "a")
    assert hash(Row(f0=1, f1="a")) == hash(Row(1, "a"))
    assert Row(f1="a", f0=1) != Row("a", 1)
    assert Row(f0=1, f1="a") == Row(f1="a", f0=1)
    assert hash(Row(f0=1, f1="a")) == hash(Row(f1="a", f0=1))
