"""Which values fit which type, what becomes of them, and what the errors say."""

from __future__ import annotations

import array
import collections
import datetime
import enum
import re
from decimal import Decimal
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.columns import array_to_values, layout_of, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import decimal
from headrace.common.time import Instant
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind
from headrace.common.values import handler_of

NOON = datetime.datetime(2024, 2, 29, 12)
NOON_UTC = NOON.replace(tzinfo=datetime.UTC)
UTC = datetime.UTC
EAST, WEST = (datetime.timezone(datetime.timedelta(hours=hours)) for hours in (1, -1))
PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
NAMED = Types.ROW_NAMED(["id", "age"], [Types.LONG(), Types.BYTE()])


class Point(TypedDict):
    x: int


class Odd:
    """Has no truth value for whether it is equal to something, like ``pandas.NA``."""

    def __eq__(self, other: object) -> bool:
        raise TypeError

    def __hash__(self) -> int:
        return 1


ODD = Odd()


class Level(enum.IntEnum):
    HIGH = 3


class Name(str, enum.Enum):  # noqa: UP042 - its __str__ differs from StrEnum's
    ANN = "ann"


class Moment(datetime.datetime):
    pass


class NanoMoment(datetime.datetime):
    nanosecond = 7


@pytest.mark.parametrize(
    ("info", "given", "stored"),
    [
        (Types.LONG(), np.int64(5), 5),
        (Types.LONG(), np.uint8(5), 5),
        (Types.LONG(), Level.HIGH, 3),
        (Types.BIG_INT(), np.int64(5), 5),
        (Types.DOUBLE(), 3, 3.0),
        (Types.DOUBLE(), np.float32(0.5), 0.5),
        (Types.DOUBLE(), np.int8(3), 3.0),
        (Types.DOUBLE(), 2**60, float(2**60)),
        (Types.DOUBLE(), np.longdouble(0.5), 0.5),
        (Types.FLOAT(), 0.1, float(np.float32(0.1))),
        (Types.BOOLEAN(), np.bool_(True), True),
        (Types.STRING(), np.str_("a"), "a"),
        (Types.STRING(), Name.ANN, "ann"),
        (Types.BYTES(), bytearray(b"a"), b"a"),
        (Types.BYTES(), memoryview(b"a"), b"a"),
        (Types.BIG_DEC(), 3, Decimal(3)),
        (Types.SQL_TIMESTAMP(), np.datetime64("2024-02-29T12:00", "s"), NOON),
        (Types.SQL_TIMESTAMP(), Moment(2024, 2, 29, 12), NOON),
        (Types.TIMESTAMP_LTZ(), datetime.datetime(2024, 2, 29, 13, tzinfo=ZoneInfo("Europe/Berlin")), NOON_UTC),
        (Types.LIST(int), (1, 2), [1, 2]),
        (Types.LIST(int), np.array([1, 2]), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.LONG()), array.array("l", [1, 2]), [1, 2]),
        (Types.MAP(str, int), collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (PAIR, [1, 2.0], (1, 2.0)),
        (PAIR, Row(1, 2.0), (1, 2.0)),
        (NAMED, Row(age=2, id=1), Row(id=1, age=2)),
        (NAMED, Row(1, 2), Row(id=1, age=2)),
        (NAMED, (1, 2), Row(id=1, age=2)),
        (NAMED, {"age": 2}, Row(id=None, age=2)),
        (Types.ROW([int]), Row(f0=1), Row(1)),
    ],
)
def test_what_fits_is_given_back_as_the_declared_class(info: TypeInformation, given: Any, stored: Any) -> None:
    (restored,) = array_to_values(info, values_to_array(info, [given]))
    assert restored == stored
    assert type(restored) is type(stored)
    assert layout_of(info).columns_to_rows(layout_of(info).rows_to_columns([given])) == [stored]


@pytest.mark.parametrize(
    ("info", "value", "expected"),
    [
        (Types.BYTE(), 128, "an int from -128 to 127"),
        (Types.SHORT(), 43878, "an int from -32768 to 32767"),
        (Types.INT(), 2**31, "an int from -2147483648 to 2147483647"),
        (Types.LONG(), 2**63, "an int from -9223372036854775808 to"),
        (Types.LONG(), np.uint64(2**64 - 1), "an int from"),
        (Types.LONG(), True, "an int from"),
        (Types.LONG(), np.bool_(True), "an int from"),
        (Types.LONG(), 1.0, "an int from"),
        (Types.LONG(), "1", "an int from"),
        (Types.DOUBLE(), True, "a float, or an int"),
        (Types.DOUBLE(), 2**53 + 1, "a float, or an int that a float holds exactly"),
        (Types.DOUBLE(), 10**400, "a float, or an int that a float holds exactly"),
        (Types.DOUBLE(), Decimal(1), "a float"),
        (Types.DOUBLE(), "1.0", "a float"),
        (Types.FLOAT(), 1e300, "a float of 32 bits"),
        (Types.BOOLEAN(), 1, "a bool"),
        (Types.STRING(), b"a", "a str that UTF-8 can encode"),
        (Types.STRING(), "\ud800", "a str that UTF-8 can encode"),
        (Types.STRING(), 1, "a str"),
        (Types.CHAR(), "ab", "a str of one character"),
        (Types.CHAR(), "", "a str of one character"),
        (Types.BYTES(), "a", "bytes"),
        (Types.BIG_INT(), 1.5, "an int"),
        (Types.BIG_DEC(), 1.5, "a decimal.Decimal or an int"),
        (Types.of(decimal(2)), Decimal("1.5"), r"DECIMAL\(2, 0\) holds"),
        (Types.SQL_DATE(), NOON, "a datetime.date, not a datetime"),
        (Types.SQL_TIME(), datetime.time(1, tzinfo=datetime.UTC), "without time zone"),
        (Types.SQL_TIMESTAMP(), NOON_UTC, r"Annotated\[datetime, Types.TIMESTAMP_LTZ\(\)\]"),
        (Types.SQL_TIMESTAMP(), np.datetime64(1, "ns"), "a datetime without time zone"),
        (Types.SQL_TIMESTAMP(), np.datetime64("NaT", "us"), "a datetime without time zone"),
        (Types.SQL_TIMESTAMP(), NanoMoment(2024, 1, 1), "a datetime without time zone"),
        (Types.TIMESTAMP_LTZ(), NOON, r"declare Types.SQL_TIMESTAMP\(\)"),
        (Types.TIMESTAMP_LTZ(), datetime.datetime.min.replace(tzinfo=EAST), "in the years 1 to 9999 of UTC"),
        (Types.TIMESTAMP_LTZ(), datetime.datetime.max.replace(tzinfo=WEST), "in the years 1 to 9999 of UTC"),
        (Types.INSTANT(), NOON_UTC, "Instant from the years 1678 to 2261"),
        (Types.INSTANT(), Instant(10**11, 0), "Instant from the years 1678 to 2261"),
        (Types.LIST(int), "ab", "a list"),
        (Types.LIST(int), {1, 2}, "a list"),
        (Types.PRIMITIVE_ARRAY(Types.LONG()), [1, None], "a value of type Long NOT NULL"),
        (Types.MAP(str, int), [1], "a dict"),
        (Types.MAP(str, int), {None: 1}, "no None among its keys"),
        (Types.PICKLED_BYTE_ARRAY(), (item for item in ()), "an object that can be pickled"),
        (PAIR, (1,), "it has 1 values"),
        (PAIR, "ab", "a tuple of 2 values"),
        (PAIR, Row.of_kind(RowKind.DELETE, 1, 2.0), "a tuple of 2 values"),
        (NAMED, Row(1), "it has 1 values"),
        (NAMED, Row(id=1, size=2), "a Row with the fields id, age"),
        (NAMED, {"id": 1, "aeg": 2}, "a Row with the fields id, age"),
        (NAMED, 5, "a Row of 2 values"),
        (NAMED, Row.of_kind(RowKind.DELETE, id=1, age=2), "changelog=True"),
        (Types.ROW([int]), Row(id=1), "a Row with the fields f0"),
    ],
)
def test_what_does_not_fit_is_refused(info: TypeInformation, value: Any, expected: str) -> None:
    with pytest.raises(InvalidTypeError, match=expected):
        values_to_array(info, [None, value])
    with pytest.raises(InvalidTypeError, match=expected):
        layout_of(info).rows_to_columns([value])


def test_the_error_names_row_field_and_value() -> None:
    rows = [(1, "a", [(1, 1)]), (2, "b", [(2, 2), (3, "x")]), (3, 4, [])]
    info = Types.of(tuple[int, str, list[tuple[int, int]]])
    with pytest.raises(InvalidTypeError) as caught:
        layout_of(info).rows_to_columns(rows)
    assert str(caught.value) == (
        "row 1, field 'f2'[1], field 'f1': got 'x' (str), expected an int from -9223372036854775808 to"
        " 9223372036854775807 (Types.BIG_INT() takes larger ones)"
    )


def test_the_error_names_keys_of_maps() -> None:
    with pytest.raises(InvalidTypeError, match="row 0, value 1: got 'x'"):
        values_to_array(Types.MAP(str, int), [{"a": 1, "b": "x"}])
    with pytest.raises(InvalidTypeError, match="row 0, key 0: got 1"):
        values_to_array(Types.MAP(str, int), [{1: 1}])


def test_long_values_are_cut_in_errors() -> None:
    with pytest.raises(InvalidTypeError) as caught:
        values_to_array(Types.LONG(), ["x" * 10_000])
    assert len(str(caught.value)) < 400


def test_a_value_whose_repr_fails_is_still_reported() -> None:
    with pytest.raises(InvalidTypeError, match="expected an int from -128 to 127"):
        values_to_array(Types.BYTE(), [10**5000])


@pytest.mark.parametrize("info", [PAIR, NAMED, Types.of(collections.namedtuple("P", "a b"))])
def test_a_missing_record_is_refused(info: TypeInformation) -> None:
    with pytest.raises(InvalidTypeError, match="row 1: got None, expected a record of type"):
        layout_of(info).rows_to_columns([(1, 2), None])


def test_columns_of_another_type_are_cast_without_loss() -> None:
    table = {"f1": pa.array([1.5], pa.float32()), "more": pa.array(["x"]), "f0": pa.array([7], pa.int8())}
    assert layout_of(PAIR).columns_to_rows(pa.RecordBatch.from_pydict(table)) == [(7, 1.5)]
    encoded = pa.array(["a", "b", "a", None]).dictionary_encode()
    assert array_to_values(Types.STRING(), encoded) == ["a", "b", "a", None]
    assert array_to_values(Types.STRING(), pa.array(["a"], pa.string_view())) == ["a"]


def test_columns_that_cannot_be_read_are_told() -> None:
    layout = layout_of(PAIR)
    with pytest.raises(InvalidTypeError, match=r"needs one column 'f1'; it has \['f0'\]"):
        layout.columns_to_rows(pa.RecordBatch.from_pydict({"f0": [1]}))
    with pytest.raises(InvalidTypeError, match="cannot be read as int64"):
        layout.columns_to_rows(pa.RecordBatch.from_pydict({"f0": [1.5], "f1": [1.5]}))
    with pytest.raises(InvalidTypeError, match="text is neither parsed nor made of numbers"):
        array_to_values(Types.LONG(), pa.array(["12"]))
    with pytest.raises(InvalidTypeError, match="text is neither parsed nor made of numbers"):
        array_to_values(Types.STRING(), pa.array([12]))


def test_layouts() -> None:
    assert layout_of(Types.LONG()).schema == pa.schema([("value", pa.int64())])
    assert layout_of(Types.PICKLED_BYTE_ARRAY()).schema == pa.schema([("value", pa.binary())])
    assert layout_of(NAMED).schema == pa.schema([("id", pa.int64()), ("age", pa.int8())])
    assert layout_of(NAMED) is layout_of(Types.ROW_NAMED(["id", "age"], [Types.LONG(), Types.BYTE()]))


@pytest.mark.parametrize("info", [PAIR, NAMED, Types.LONG(), Types.LIST(int), Types.MAP(str, int)])
def test_no_rows_make_an_empty_batch(info: TypeInformation) -> None:
    batch = layout_of(info).rows_to_columns([])
    assert batch.num_rows == 0
    assert layout_of(info).columns_to_rows(batch) == []


def test_objects_of_the_main_module_are_pickled_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    made = type("Scripted", (), {"__module__": "__main__", "__qualname__": "Scripted"})
    monkeypatch.setattr(__main__, "Scripted", made, raising=False)
    value = made()
    value.number = 5
    stored = values_to_array(Types.PICKLED_BYTE_ARRAY(), [value])
    monkeypatch.delattr(__main__, "Scripted")
    (restored,) = array_to_values(Types.PICKLED_BYTE_ARRAY(), stored)
    assert restored.number == 5


@pytest.mark.parametrize(
    ("info", "value", "path"),
    [
        (Types.of(Point), {ODD: 1}, ""),
        (Types.of(Point), {"x": ODD}, ", field 'x'"),
        (Types.MAP(Types.STRING(), Types.LONG()), {ODD: 1}, ", key 0"),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": ODD}, ", value 0"),
        (Types.PRIMITIVE_ARRAY(Types.LONG()), [ODD], "[0]"),
        (Types.ROW_NAMED(["x"], [Types.LONG()]), {"x": ODD}, ", field 'x'"),
        (Types.LONG(), ODD, ""),
    ],
)
def test_a_value_that_cannot_even_be_compared_is_refused_like_any_other(
    info: TypeInformation, value: Any, path: str
) -> None:
    with pytest.raises(InvalidTypeError, match=re.escape(f"the value{path}: got ")):
        handler_of(info).coerce(value)
    with pytest.raises(InvalidTypeError, match=re.escape(f"row 0{path}: got ")):
        layout_of(info).coerced_rows([value])


DAY = datetime.date(2026, 1, 31)
LATER = datetime.datetime(2026, 1, 31, 12, 30)
TEXTS: list[tuple[TypeInformation, str, Any]] = [
    (Types.SQL_DATE(), "2026-01-31", DAY),
    (Types.SQL_TIME(), "12:30", LATER.time()),
    (Types.SQL_TIME(), "12:30:00.1234567", LATER.time().replace(microsecond=123456)),
    (Types.SQL_TIMESTAMP(), "2026-01-31", datetime.datetime(2026, 1, 31)),
    (Types.SQL_TIMESTAMP(), "2026-01-31 12:30", LATER),
    (Types.SQL_TIMESTAMP(), "2026-01-31T12:30:00.123456789", LATER.replace(microsecond=123456)),
    (Types.TIMESTAMP_LTZ(), "2026-01-31 13:30:00.1234567+0100", LATER.replace(microsecond=123456, tzinfo=UTC)),
    (Types.TIMESTAMP_LTZ(), "9999-12-31T23:59:59.999999999Z", datetime.datetime.max.replace(tzinfo=UTC)),
    (Types.INSTANT(), "1970-01-01T00:00:01.123456789Z", Instant(1, 123456789)),
    (Types.INT(), "+007", 7),
    (Types.BIG_INT(), "-" + "9" * 30, -int("9" * 30)),
    (Types.DOUBLE(), "1e400", float("inf")),
    (Types.FLOAT(), "-1e39", float("-inf")),
    (Types.BIG_DEC(), "+.5e1", Decimal("5")),
    (Types.BIG_DEC(), "-1.5e-1000", Decimal("-1.5e-1000")),
    (Types.BIG_DEC(), f"0.{'0' * 2000}1", Decimal("1e-2001")),
    (Types.BOOLEAN(), "True", True),
    (Types.CHAR(), "\n", "\n"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "YQ==", b"a"),
]
NO_TEXTS = [
    (Types.SQL_DATE(), ["2026-W01-1", "20260131", "2026-1-1", "0000-01-01", "2026-01-31 ", "2026-02-30"]),
    (Types.SQL_TIME(), ["12", "24:00", "12:30:60", "12:30Z", "12:30:00.", "12:30:00.1234567890", "12:30:00,5"]),
    (Types.SQL_TIMESTAMP(), ["2026-01-31X12:30", "2026-01-31T12:30Z", "0000-12-31T00:00", "2026-01-31t12:30"]),
    (Types.TIMESTAMP_LTZ(), ["2026-01-31T12:30", "2026-01-31Z", "0001-01-01T00:00:00+01:00", "0000-12-31T23:59-01:00"]),
    (Types.INSTANT(), ["2300-01-01T00:00:00Z", "2026-01-31T12:30:00z"]),
    (Types.SHORT(), ["0x10", "0X10", "1_0", "٣", " 1", "1.0", "32768", ""]),
    (Types.BIG_INT(), ["0x10", "1_0", "٣", " 1", "1.0", "9" * 5000]),
    (Types.DOUBLE(), ["0x10", "1_0", "1,5", " 1", ""]),
    (
        Types.BIG_DEC(),
        [
            "0x10",
            "1_0",
            "1,5",
            " 1",
            "1e",
            ".",
            "sNaN",
            "1e300000000",
            "-1e-2000",
            "0e300000000",
            "1e99999999999999999999",
        ],
    ),
    (Types.BOOLEAN(), ["1", "yes", ""]),
    (Types.CHAR(), ["", "ab"]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), ["YQ", "?"]),
]


@pytest.mark.parametrize(("kind", "text", "value"), TEXTS)
def test_a_text_is_read_alike_alone_and_in_a_column(kind: TypeInformation, text: str, value: Any) -> None:
    handler = handler_of(kind)
    beside = ["12:30:00", "2026-01-31", "2026-01-31T12:30:00Z", "1", "x", "1.5", "true", "2026-01-31T12:30:00"]
    fits = [other for other in beside if _fits(kind, other)]

    assert handler.parse(text) == value
    for texts in ([text], [text, None], *([text, other] for other in fits), *([other, text] for other in fits)):
        found = handler.decode(handler.parse_all(pa.array(texts)))
        assert found[texts.index(text)] == value


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in NO_TEXTS for text in texts])
def test_a_text_of_another_form_is_told_with_the_one_that_is_expected(kind: TypeInformation, text: str) -> None:
    handler = handler_of(kind)
    expected = f"{text!r} is not" if len(text) < 100 else "9... is not"
    with pytest.raises(ValueError, match=re.escape(expected)):
        handler.parse(text)
    with pytest.raises(ValueError, match=re.escape(expected)):
        handler.parse_all(pa.array([None, text]))


def _fits(kind: TypeInformation, text: str) -> bool:
    try:
        handler_of(kind).parse(text)
    except ValueError:
        return False
    return True
