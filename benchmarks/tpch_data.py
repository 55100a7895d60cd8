"""The tables of TPC-H with the keys, distributions and dependencies of its specification.

They are Parquet files whose decimals are integers, as Spark and DuckDB write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Longs = npt.NDArray[np.int64]

_SUPPLIERS, _PARTS, _CUSTOMERS, _ORDERS, _CLERKS = 10_000, 200_000, 150_000, 1_500_000, 1_000
"""The rows at scale 1."""
_SUPPLIERS_OF_PART: Final = 4
_CHUNK: Final = 250_000
"""The number of orders that are made at a time."""
_ROW_GROUP: Final = 1 << 17

_FIRST_DAY, _LAST_DAY = (date(1992, 1, 1).toordinal(), date(1998, 8, 2).toordinal())
_TODAY: Final = date(1995, 6, 17).toordinal()
_EPOCH: Final = date(1970, 1, 1).toordinal()

_REGIONS: Final = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS: Final = (
    *(("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3)),
    *(("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4)),
    *(("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3)),
    *(("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1)),
)


def _words(text: str) -> list[str]:
    return text.split()


_COLORS: Final = _words(
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse "
    "chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest "
    "frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light "
    "lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale "
    "papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky "
    "slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow"
)
_TYPES: Final = [
    f"{size} {finish} {metal}"
    for size in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for finish in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for metal in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
]
_CONTAINERS: Final = [
    f"{size} {kind}"
    for size in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for kind in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
]
_SEGMENTS: Final = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
_PRIORITIES: Final = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_INSTRUCTIONS: Final = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES: Final = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
_WORDS: Final = _words(
    "packages requests accounts deposits foxes ideas theodolites pinto beans instructions dependencies excuses "
    "platelets asymptotes courts dolphins multipliers sauternes warthogs frets dinos attainments somas sleep wake "
    "are cajole haggle nag use boost affix detect integrate special pending unusual express furious sly careful "
    "blithe quick fluffy slow quiet ruthless thin close dogged daring brave stealthy permanent enticing idle busy "
    "regular final ironic even bold silent"
)
_SENTENCES: Final = 20_000
"""The number of different comments of a length."""


@dataclass(frozen=True, slots=True)
class TpcH:
    """The tables at a scale.

    Attributes:
        scale: the scale factor; at 1 they take about a gigabyte as text.
    """

    scale: float

    @property
    def folder_name(self) -> str:
        """A folder name that identifies the data set."""
        return f"tpch-{self.scale:g}"

    def write(self, folder: Path) -> None:
        """Write each table into a folder of its name."""
        tables = _Tables(self.scale, np.random.default_rng(7))
        for name, table in tables.small().items():
            _write(folder, name, [table])
        orders, lines = [], []
        for first in range(0, tables.orders, _CHUNK):
            some, of_some = tables.orders_and_lines(first, min(first + _CHUNK, tables.orders))
            orders.append(some)
            lines.append(of_some)
        _write(folder, "orders", orders)
        _write(folder, "lineitem", lines)


def _write(folder: Path, name: str, parts: Sequence[pa.Table]) -> None:
    (folder / name).mkdir(parents=True)
    file = folder / name / f"{name}.parquet"
    pq.write_table(pa.concat_tables(parts), file, row_group_size=_ROW_GROUP, store_decimal_as_integer=True)


@dataclass(frozen=True)
class _Tables:
    """Makes the tables.

    Attributes:
        scale: the scale factor.
        random: what is random.
    """

    scale: float
    random: np.random.Generator

    @property
    def orders(self) -> int:
        """The number of orders."""
        return self._rows(_ORDERS)

    def _rows(self, at_scale_one: int) -> int:
        return max(round(at_scale_one * self.scale), 4)

    def small(self) -> dict[str, pa.Table]:
        """All tables but orders and their lines."""
        nations, regions = zip(*_NATIONS, strict=True)
        return {
            "region": pa.table(
                {"r_regionkey": range(5), "r_name": _REGIONS, "r_comment": self._comments(5, 12)},
                pa.schema({"r_regionkey": pa.int64(), "r_name": pa.string(), "r_comment": pa.string()}),
            ),
            "nation": pa.table(
                {
                    "n_nationkey": pa.array(range(25), pa.int64()),
                    "n_name": pa.array(nations),
                    "n_regionkey": pa.array(regions, pa.int64()),
                    "n_comment": self._comments(25, 12),
                }
            ),
            "supplier": self._supplier(),
            "customer": self._customer(),
            "part": self._part(),
            "partsupp": self._partsupp(),
        }

    def _supplier(self) -> pa.Table:
        count = self._rows(_SUPPLIERS)
        keys = np.arange(1, count + 1)
        comments = self._comments(count, 9).to_pylist()
        for number, word in enumerate(["Complaints", "Recommends"] * max(round(5 * self.scale), 1)):
            comments[self.random.integers(count)] = f"blithely Customer{' ' * (number % 3)}{word} sleep"
        nations = self.random.integers(0, 25, count)
        return pa.table(
            {
                "s_suppkey": keys,
                "s_name": _numbered("Supplier", keys),
                "s_address": self._comments(count, 3),
                "s_nationkey": nations,
                "s_phone": self._phones(nations),
                "s_acctbal": _money(self.random.integers(-99_999, 1_000_000, count)),
                "s_comment": comments,
            }
        )

    def _customer(self) -> pa.Table:
        count = self._rows(_CUSTOMERS)
        keys, nations = np.arange(1, count + 1), self.random.integers(0, 25, count)
        return pa.table(
            {
                "c_custkey": keys,
                "c_name": _numbered("Customer", keys),
                "c_address": self._comments(count, 3),
                "c_nationkey": nations,
                "c_phone": self._phones(nations),
                "c_acctbal": _money(self.random.integers(-99_999, 1_000_000, count)),
                "c_mktsegment": self._one_of(_SEGMENTS, count),
                "c_comment": self._comments(count, 10),
            }
        )

    def _part(self) -> pa.Table:
        count = self._rows(_PARTS)
        keys = np.arange(1, count + 1)
        makers, brands = self.random.integers(1, 6, count), self.random.integers(1, 6, count)
        colors = np.array(_COLORS)[np.argsort(self.random.random((count, len(_COLORS))), axis=1)[:, :5]]
        return pa.table(
            {
                "p_partkey": keys,
                "p_name": [" ".join(five) for five in colors.tolist()],
                "p_mfgr": [f"Manufacturer#{maker}" for maker in makers.tolist()],
                "p_brand": [f"Brand#{maker}{brand}" for maker, brand in zip(makers, brands, strict=True)],
                "p_type": self._one_of(_TYPES, count),
                "p_size": self.random.integers(1, 51, count).astype(np.int32),
                "p_container": self._one_of(_CONTAINERS, count),
                "p_retailprice": _money(_retail_prices(keys)),
                "p_comment": self._comments(count, 2),
            }
        )

    def _partsupp(self) -> pa.Table:
        parts = np.repeat(np.arange(1, self._rows(_PARTS) + 1), _SUPPLIERS_OF_PART)
        count = len(parts)
        return pa.table(
            {
                "ps_partkey": parts,
                "ps_suppkey": self._suppliers_of(parts, np.arange(count) % _SUPPLIERS_OF_PART),
                "ps_availqty": self.random.integers(1, 10_000, count).astype(np.int32),
                "ps_supplycost": _money(self.random.integers(100, 100_001, count)),
                "ps_comment": self._comments(count, 18),
            }
        )

    def _suppliers_of(self, parts: Longs, places: Longs) -> Longs:
        """The suppliers of parts, each of which has four."""
        count = self._rows(_SUPPLIERS)
        return (parts + places * (count // _SUPPLIERS_OF_PART + (parts - 1) // count)) % count + 1

    def orders_and_lines(self, first: int, end: int) -> tuple[pa.Table, pa.Table]:
        """The orders from one number up to another, and their lines."""
        random, count = self.random, end - first
        numbers = np.arange(first, end)
        keys = numbers // 8 * 32 + numbers % 8 + 1
        days = random.integers(_FIRST_DAY, _LAST_DAY - 151, count)
        of_order = np.repeat(np.arange(count), random.integers(1, 8, count))
        lines, prices, is_open = self._lines(keys, days, of_order)
        counts = np.bincount(of_order, minlength=count)
        open_lines = np.bincount(of_order, weights=is_open, minlength=count)
        status = np.where(open_lines == 0, 0, np.where(open_lines == counts, 1, 2))
        customers = random.integers(1, self._rows(_CUSTOMERS) + 1, count)
        customers -= customers % 3 == 0  # a third of the customers has no orders
        clerks = random.integers(1, self._rows(_CLERKS) + 1, count)
        orders = pa.table(
            {
                "o_orderkey": keys,
                "o_custkey": np.maximum(customers, 1),
                "o_orderstatus": _taken(("F", "O", "P"), status),
                "o_totalprice": _money(np.bincount(of_order, weights=prices, minlength=count).astype(np.int64)),
                "o_orderdate": _dates(days),
                "o_orderpriority": self._one_of(_PRIORITIES, count),
                "o_clerk": _numbered("Clerk", clerks),
                "o_shippriority": np.zeros(count, np.int32),
                "o_comment": self._comments(count, 7),
            }
        )
        return orders, lines

    def _lines(self, keys: Longs, days: Longs, of_order: Longs) -> tuple[pa.Table, Longs, npt.NDArray[np.bool_]]:
        """The lines of orders, the price of each, and which have not been shipped."""
        random, count = self.random, len(of_order)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(of_order)) + 1))
        parts = random.integers(1, self._rows(_PARTS) + 1, count)
        quantities = random.integers(1, 51, count)
        prices, discounts, taxes = (
            quantities * _retail_prices(parts),
            random.integers(0, 11, count),
            random.integers(0, 9, count),
        )
        ordered = days[of_order]
        shipped, promised = ordered + random.integers(1, 122, count), ordered + random.integers(30, 91, count)
        received = shipped + random.integers(1, 31, count)
        is_open = shipped > _TODAY
        flags = np.where(received <= _TODAY, random.integers(0, 2, count), 2)
        lines = pa.table(
            {
                "l_orderkey": keys[of_order],
                "l_partkey": parts,
                "l_suppkey": self._suppliers_of(parts, random.integers(0, _SUPPLIERS_OF_PART, count)),
                "l_linenumber": (np.arange(count) - starts[of_order] + 1).astype(np.int32),
                "l_quantity": _money(quantities * 100),
                "l_extendedprice": _money(prices),
                "l_discount": _money(discounts),
                "l_tax": _money(taxes),
                "l_returnflag": _taken(("R", "A", "N"), flags),
                "l_linestatus": _taken(("F", "O"), is_open.astype(np.int64)),
                "l_shipdate": _dates(shipped),
                "l_commitdate": _dates(promised),
                "l_receiptdate": _dates(received),
                "l_shipinstruct": self._one_of(_INSTRUCTIONS, count),
                "l_shipmode": self._one_of(_MODES, count),
                "l_comment": self._comments(count, 4),
            }
        )
        return lines, prices * (100 - discounts) * (100 + taxes) // 10_000, is_open

    def _one_of(self, values: Sequence[str], count: int) -> pa.Array:
        return _taken(values, self.random.integers(0, len(values), count))

    def _comments(self, count: int, words: int) -> pa.Array:
        """Texts of a number of words, of which a few are alike."""
        chosen = np.array(_WORDS)[self.random.integers(0, len(_WORDS), (min(count, _SENTENCES), words))]
        return self._one_of([" ".join(sentence) for sentence in chosen.tolist()], count)

    def _phones(self, nations: Longs) -> pa.Array:
        parts = [self.random.integers(low, high, len(nations)) for low, high in _PHONE_PARTS]
        rows = zip(nations + 10, *parts, strict=True)
        return pa.array([f"{nation}-{a}-{b}-{c}" for nation, a, b, c in rows])


_PHONE_PARTS: Final = ((100, 1_000), (100, 1_000), (1_000, 10_000))


def _retail_prices(parts: Longs) -> Longs:
    """The prices of parts in cents."""
    return 90_000 + parts // 10 % 20_001 + 100 * (parts % 1_000)


def _money(cents: Longs) -> pa.Array:
    """Amounts as DECIMAL(15, 2)."""
    words = np.stack([cents, cents >> 63], axis=1).astype(np.int64)
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), [None, pa.py_buffer(words)])


def _dates(ordinals: Longs) -> pa.Array:
    return pa.array((ordinals - _EPOCH).astype(np.int32)).cast(pa.date32())


def _taken(values: Sequence[str], places: Longs) -> pa.Array:
    return pa.array(values).take(pa.array(places))


def _numbered(word: str, numbers: Longs) -> pa.Array:
    return pa.array([f"{word}#{number:09d}" for number in numbers.tolist()])
