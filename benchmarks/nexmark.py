"""Nexmark: an auction house's stream of persons, auctions and bids in files, and its queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.data import START_MILLIS, write_file
from benchmarks.sql import SqlWork, parquet

Numbers = npt.NDArray[np.int64]

_EVENTS_PER_MILLI = 10
_PER_ROUND, _PERSONS, _AUCTIONS = 50, 1, 3
"""The mix of events: of every fifty, one is a person, three are auctions, and the rest are bids."""
_FIRST_ID = 1_000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_ACTIVE_PERSONS, _OPEN_AUCTIONS, _AHEAD = 1_000, 100, 10
_HOT = 100
"""One in this many persons or auctions is a hot one."""
_CHANNELS = 10_000
_IN_FLIGHT = 1_666
"""The number of events between an auction's start and the middle of the range of its end."""
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


@dataclass(frozen=True, slots=True)
class Nexmark:
    """The events of an auction house.

    Attributes:
        files: the number of files.
        records_per_file: the number of events in each.
    """

    files: int
    records_per_file: int

    @property
    def records(self) -> int:
        """The number of events."""
        return self.files * self.records_per_file

    @property
    def span_millis(self) -> int:
        """The span of event time in milliseconds."""
        return self.records // _EVENTS_PER_MILLI

    @property
    def folder_name(self) -> str:
        """A folder name that identifies the data set."""
        return f"nexmark-{self.files}-{self.records_per_file}"

    def write(self, folder: Path) -> None:
        """Write the files."""
        random = np.random.default_rng(7)
        channels = _Channels(random)
        for number in range(self.files):
            first = number * self.records_per_file
            events = _Events(random, np.arange(first, first + self.records_per_file), channels)
            write_file(folder, number, events.table(), 10)


class _Channels:
    """The channels of bids: four large ones, and many small ones with a URL each."""

    def __init__(self, random: np.random.Generator) -> None:
        large = ["Google", "Facebook", "Baidu", "Apple"]
        small = [f"channel-{number}" for number in range(_CHANNELS)]
        words = texts(random, random.integers(3, 6, 3 * (_CHANNELS + len(large)))).to_pylist()
        urls = [
            f"https://www.nexmark.com/{'/'.join(words[at : at + 3])}/item.htm?query=1" for at in range(0, len(words), 3)
        ]
        told = random.random(_CHANNELS) < 0.9
        for number in np.flatnonzero(told).tolist():
            urls[len(large) + number] += f"&channel_id={int(f'{number:032b}'[::-1], 2) & 0x7FFFFFFF}"
        self.names, self.urls, self.large = pa.array(large + small), pa.array(urls), len(large)


class _Events:
    def __init__(self, random: np.random.Generator, numbers: Numbers, channels: _Channels) -> None:
        self._random, self._channels, self._size = random, channels, len(numbers)
        ids = numbers + 2
        self._round, self._rest = ids // _PER_ROUND, ids % _PER_ROUND
        self._is_person = self._rest < _PERSONS
        self._is_bid = self._rest >= _PERSONS + _AUCTIONS
        self._last_person = self._round
        before = np.where(self._is_bid, _AUCTIONS - 1, self._rest - _PERSONS)
        self._last_auction = self._round * _AUCTIONS + np.where(self._is_person, -1, before)
        self._millis = START_MILLIS + numbers // _EVENTS_PER_MILLI

    def table(self) -> pa.Table:
        """A table of events; each fills in only the fields of its own kind."""
        kind = np.where(self._is_person, 0, np.where(self._is_bid, 2, 1))
        parts = {"person": self._persons(), "auction": self._auctions(), "bid": self._bids()}
        columns = {"event_type": pa.array(kind.astype(np.int32)), "dateTime": _times(self._millis)}
        for number, (name, fields) in enumerate(parts.items()):
            at = pa.array(np.cumsum(kind == number) - 1, mask=kind != number)
            columns |= {f"{name}_{field}": values.take(at) for field, values in fields.items()}
        return pa.table(columns)

    def _persons(self) -> dict[str, pa.Array]:
        which = self._is_person
        count = int(which.sum())
        words = [self._words(count, longest).to_pylist() for longest in (7, 5)]
        cards = self._random.integers(0, 10_000, (count, 4)).tolist()
        return {
            "id": pa.array(self._last_person[which] + _FIRST_ID),
            "name": self._one_of(count, [f"{a} {b}" for a in _FIRST_NAMES for b in _LAST_NAMES]),
            "emailAddress": pa.array([f"{a}@{b}.com" for a, b in zip(*words, strict=True)]),
            "creditCard": pa.array([" ".join(f"{part:04d}" for part in card) for card in cards]),
            "city": self._one_of(count, _CITIES),
            "state": self._one_of(count, _STATES),
            "extra": self._extra(count, 100),
        }

    def _auctions(self) -> dict[str, pa.Array]:
        which = ~self._is_person & ~self._is_bid
        count = int(which.sum())
        start, first = self._millis[which], self._prices(count)
        horizon = max(2 * _IN_FLIGHT // _EVENTS_PER_MILLI, 1)
        sellers = self._mixed(0.75, self._last_person[which] // _HOT * _HOT, self._persons_at(which))
        return {
            "id": pa.array(self._last_auction[which] + _FIRST_ID),
            "itemName": self._words(count, 20),
            "description": self._words(count, 100),
            "initialBid": pa.array(first),
            "reserve": pa.array(first + self._prices(count)),
            "expires": _times(start + 1 + self._random.integers(0, horizon, count)),
            "seller": pa.array(sellers + _FIRST_ID),
            "category": pa.array(_FIRST_CATEGORY + self._random.integers(0, _CATEGORIES, count)),
            "extra": self._extra(count, 300),
        }

    def _bids(self) -> dict[str, pa.Array]:
        which = self._is_bid
        count, last = int(which.sum()), self._last_auction[which]
        oldest = np.maximum(last - _OPEN_AUCTIONS, 0)
        auctions = self._mixed(0.5, last // _HOT * _HOT, oldest + self._random.integers(0, last - oldest + 1 + _AHEAD))
        bidders = self._mixed(0.75, self._last_person[which] // _HOT * _HOT + 1, self._persons_at(which))
        channels = self._mixed(
            0.5,
            self._random.integers(0, self._channels.large, count),
            self._random.integers(self._channels.large, len(self._channels.names), count),
        )
        return {
            "auction": pa.array(auctions + _FIRST_ID),
            "bidder": pa.array(bidders + 2 * _FIRST_ID),  # twice, as in the original
            "price": pa.array(self._prices(count)),
            "channel": self._channels.names.take(pa.array(channels)),
            "url": self._channels.urls.take(pa.array(channels)),
            "extra": self._extra(count, 68),
        }

    def _persons_at(self, which: npt.NDArray[np.bool_]) -> Numbers:
        """Random recent persons, some of whom do not exist yet."""
        known = self._last_person[which] + 1
        active = np.minimum(known, _ACTIVE_PERSONS)
        return known - active + self._random.integers(0, active + _AHEAD)

    def _mixed(self, share: float, hot: Numbers, others: Numbers) -> Numbers:
        return np.where(self._random.random(len(others)) < share, hot, others)

    def _prices(self, count: int) -> Numbers:
        return np.rint(10 ** (self._random.random(count) * 6) * 100).astype(np.int64)

    def _one_of(self, count: int, choices: list[str]) -> pa.Array:
        return pa.array(choices).take(pa.array(self._random.integers(0, len(choices), count)))

    def _words(self, count: int, longest: int) -> pa.Array:
        return texts(self._random, self._random.integers(3, longest, count))

    def _extra(self, count: int, length: int) -> pa.Array:
        return texts(self._random, self._random.integers(length * 8 // 10, length * 12 // 10, count))


def texts(random: np.random.Generator, lengths: Numbers) -> pa.Array:
    """Random texts of these lengths."""
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    letters = _LETTERS[random.integers(0, len(_LETTERS), int(ends[-1]), dtype=np.uint8)]
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))


def _times(millis: Numbers) -> pa.Array:
    return pa.array(millis, pa.timestamp("ms"))


_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_CITIES = [
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent"),
    "Cheyenne",
]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]

_PERSON = "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, extra STRING"
_AUCTION = (
    "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, expires TIMESTAMP(3), "
    "seller BIGINT, category BIGINT, extra STRING"
)
_BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING"


def _of(name: str, columns: str) -> str:
    return ", ".join(f"{name}_{column}" for column in columns.split(", "))


_EVENTS = f"""CREATE TABLE events (
    event_type INT, `dateTime` TIMESTAMP(3),
    {_of("person", _PERSON)},
    {_of("auction", _AUCTION)},
    {_of("bid", _BID)},
    WATERMARK FOR `dateTime` AS `dateTime` - {{lateness}}
) {parquet()}"""

_BIDS = """CREATE VIEW bid AS
    SELECT bid_auction AS auction, bid_bidder AS bidder, bid_price AS price, bid_channel AS channel, bid_url AS url,
        `dateTime`, bid_extra AS extra
    FROM events WHERE event_type = 2"""

_PERSONS_VIEW = """CREATE VIEW person AS
    SELECT person_id AS id, person_name AS name, person_emailAddress AS emailAddress, person_creditCard AS creditCard,
        person_city AS city, person_state AS state, `dateTime`, person_extra AS extra
    FROM events WHERE event_type = 0"""

_AUCTIONS_VIEW = """CREATE VIEW auction AS
    SELECT auction_id AS id, auction_itemName AS itemName, auction_description AS description,
        auction_initialBid AS initialBid, auction_reserve AS reserve, `dateTime`, auction_expires AS expires,
        auction_seller AS seller, auction_category AS category, auction_extra AS extra
    FROM events WHERE event_type = 1"""

_OVERVIEW = """
    COUNT(*) AS total_bids,
    COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""

_DISTINCT = ",".join(
    f"""
    COUNT(DISTINCT {who}) AS total_{who}s,
    COUNT(DISTINCT {who}) FILTER (WHERE price < 10000) AS rank1_{who}s,
    COUNT(DISTINCT {who}) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{who}s,
    COUNT(DISTINCT {who}) FILTER (WHERE price >= 1000000) AS rank3_{who}s"""
    for who in ("bidder", "auction")
)

_BID_COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT"
_RANKED_COLUMNS = f"{_BID_COLUMNS}, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING"
_AUCTION_NAMES = "id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra"
_AUCTION_COLUMNS = (
    "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), "
    "expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING"
)
_BIDS_IN_TIME = "FROM auction A, bid B WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"
_HOPS = "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"


def _tumbling(table: str) -> str:
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"


def _counts(*names: str) -> str:
    return ", ".join(f"{name} BIGINT" for name in names)


_RANKS = ("total", "rank1", "rank2", "rank3")
_COUNTS = _counts(*(f"{rank}_bids" for rank in _RANKS))
_ALL_COUNTS = f"{_COUNTS}, " + _counts(*(f"{rank}_{who}s" for who in ("bidder", "auction") for rank in _RANKS))


def _work(query: str, sink: str, sums: str, **others: object) -> SqlWork:
    totals = {"rows": "COUNT(*)"} | {f"sum {number}": f"SUM({each})" for number, each in enumerate(sums.split(", "))}
    tables = (_EVENTS, _BIDS, _PERSONS_VIEW, _AUCTIONS_VIEW)
    return SqlWork(tables, query, sink, totals, **others)  # type: ignore[arg-type]


def _side_input(connector: str) -> str:
    return f"CREATE TABLE side_input (`key` BIGINT, weight DOUBLE, PRIMARY KEY (`key`) NOT ENFORCED) WITH ({connector})"


QUERIES: dict[str, SqlWork] = {
    "q0": _work(
        "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
        f"{_BID_COLUMNS}, `dateTime` TIMESTAMP(3), extra STRING",
        "auction, bidder, CHAR_LENGTH(extra)",
    ),
    "q1": _work(
        "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), `dateTime` TIMESTAMP(3), extra STRING",
        "auction, price, CHAR_LENGTH(extra)",
    ),
    "q2": _work(
        "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
        "auction BIGINT, price BIGINT",
        "auction, price",
    ),
    "q3": _work(
        "SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id "
        "WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')",
        "name STRING, city STRING, state STRING, id BIGINT",
        "id, CHAR_LENGTH(name), CHAR_LENGTH(city)",
    ),
    "q4": _work(
        "SELECT category, AVG(top_price) AS avg_price FROM (SELECT MAX(B.price) AS top_price, A.category "
        f"{_BIDS_IN_TIME} GROUP BY A.id, A.category) GROUP BY category",
        "category BIGINT, avg_price BIGINT",
        "category, avg_price",
    ),
    "q5": _work(
        "SELECT counted.auction, counted.num FROM (SELECT auction, COUNT(*) AS num, window_start AS starttime, "
        f"window_end AS endtime FROM {_HOPS} GROUP BY auction, window_start, window_end) AS counted JOIN ("
        "SELECT MAX(num) AS maxn, starttime, endtime FROM (SELECT COUNT(*) AS num, window_start AS starttime, "
        f"window_end AS endtime FROM {_HOPS} GROUP BY auction, window_start, window_end) GROUP BY starttime, endtime) "
        "AS most ON counted.starttime = most.starttime AND counted.endtime = most.endtime AND counted.num >= most.maxn",
        "auction BIGINT, num BIGINT",
        "auction, num",
    ),
    "q7": _work(
        "SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM bid B JOIN (SELECT MAX(price) AS maxprice, "
        f"window_end AS endtime FROM {_tumbling('bid')} GROUP BY window_start, window_end) B1 ON B.price = B1.maxprice "
        "WHERE B.`dateTime` BETWEEN B1.endtime - INTERVAL '10' SECOND AND B1.endtime",
        "auction BIGINT, price BIGINT, bidder BIGINT, `dateTime` TIMESTAMP(3), extra STRING",
        "auction, price, bidder, CHAR_LENGTH(extra)",
    ),
    "q8": _work(
        "SELECT P.id, P.name, P.starttime FROM (SELECT id, name, window_start AS starttime, window_end AS endtime "
        f"FROM {_tumbling('person')} GROUP BY id, name, window_start, window_end) P JOIN (SELECT seller, "
        f"window_start AS starttime, window_end AS endtime FROM {_tumbling('auction')} "
        "GROUP BY seller, window_start, window_end) A ON P.id = A.seller AND P.starttime = A.starttime "
        "AND P.endtime = A.endtime",
        "id BIGINT, name STRING, starttime TIMESTAMP(3)",
        "id, CHAR_LENGTH(name), EXTRACT(SECOND FROM starttime)",
    ),
    "q9": _work(
        f"SELECT {_AUCTION_NAMES}, auction, bidder, price, bid_time, bid_extra FROM (SELECT A.*, B.auction, B.bidder, "
        "B.price, B.`dateTime` AS bid_time, B.extra AS bid_extra, ROW_NUMBER() OVER (PARTITION BY A.id "
        f"ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum {_BIDS_IN_TIME}) WHERE rownum <= 1",
        f"{_AUCTION_COLUMNS}, {_BID_COLUMNS}, bid_time TIMESTAMP(3), bid_extra STRING",
        "id, category, auction, price, CHAR_LENGTH(extra)",
    ),
    "q10": _work(
        "SELECT auction, bidder, price, `dateTime`, extra, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS dt, "
        "DATE_FORMAT(`dateTime`, 'HH:mm') AS hm FROM bid",
        f"{_BID_COLUMNS}, `dateTime` TIMESTAMP(3), extra STRING, dt STRING, hm STRING",
        "auction, CHAR_LENGTH(extra), CHAR_LENGTH(dt || hm)",
        partitions="(dt, hm)",
        sink_options="'connector' = 'filesystem', 'path' = '{work}', 'format' = 'csv', "
        "'sink.rolling-policy.rollover-interval' = '1min', 'sink.rolling-policy.check-interval' = '1min'",
    ),
    "q11": _work(
        "SELECT bidder, COUNT(*) AS bid_count, SESSION_START(`dateTime`, INTERVAL '10' SECOND) AS starttime, "
        "SESSION_END(`dateTime`, INTERVAL '10' SECOND) AS endtime FROM bid "
        "GROUP BY bidder, SESSION(`dateTime`, INTERVAL '10' SECOND)",
        "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        "bidder, bid_count, EXTRACT(SECOND FROM endtime)",
    ),
    "q12": _work(
        "SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM TABLE(TUMBLE("
        "TABLE timed_bid, DESCRIPTOR(p_time), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end",
        "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
        "bidder",
        views=("CREATE VIEW timed_bid AS SELECT *, PROCTIME() AS p_time FROM bid",),
        checked="SELECT bidder FROM timed_bid",  # when windows end depends on the clock
    ),
    "q13": _work(
        "SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.weight FROM (SELECT *, PROCTIME() AS p_time FROM bid) B "
        "JOIN side_input FOR SYSTEM_TIME AS OF B.p_time AS S ON MOD(B.auction, 10000) = S.`key`",
        f"{_BID_COLUMNS}, `dateTime` TIMESTAMP(3), weight DOUBLE",
        "auction, price, weight",
        views=(
            _side_input(
                "'connector' = 'function', 'function' = 'benchmarks.weights.weight_at_once', "
                "'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '10000'"
            ),
        ),
    ),
    "q14": _work(
        "SELECT auction, bidder, 0.908 * price AS price, CASE "
        "WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime' "
        "WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType, "
        "`dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts FROM bid "
        "WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bidTimeType STRING, `dateTime` TIMESTAMP(3), "
        "extra STRING, c_counts BIGINT",
        "auction, price, CHAR_LENGTH(bidTimeType), c_counts",
    ),
    "q15": _work(
        f"SELECT DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`,{_OVERVIEW},{_DISTINCT} FROM bid "
        "GROUP BY DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')",
        f"`day` STRING, {_ALL_COUNTS}",
        "total_bids, rank1_bids, total_bidders, rank3_bidders, rank2_auctions",
    ),
    "q16": _work(
        "SELECT channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, "
        f"MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`,{_OVERVIEW},{_DISTINCT} FROM bid "
        "GROUP BY channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')",
        f"channel STRING, `day` STRING, `minute` STRING, {_ALL_COUNTS}",
        "total_bids, rank1_bids, total_bidders, rank3_bidders, rank2_auctions",
    ),
    "q17": _work(
        f"SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`,{_OVERVIEW}, MIN(price) AS min_price, "
        "MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price FROM bid "
        "GROUP BY auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')",
        f"auction BIGINT, `day` STRING, {_COUNTS}, " + _counts("min_price", "max_price", "avg_price", "sum_price"),
        "auction, total_bids, rank2_bids, min_price, max_price, avg_price, sum_price",
    ),
    "q18": _work(
        "SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (SELECT *, ROW_NUMBER() OVER ("
        "PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number FROM bid) WHERE rank_number <= 1",
        _RANKED_COLUMNS,
        "auction, bidder",
    ),
    "q19": _work(
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number "
        "FROM bid) WHERE rank_number <= 10",
        f"{_RANKED_COLUMNS}, rank_number BIGINT",
        "auction, price, rank_number",
    ),
    "q20": _work(
        "SELECT auction, bidder, price, channel, url, B.`dateTime` AS bid_time, B.extra AS bid_extra, itemName, "
        "description, initialBid, reserve, A.`dateTime` AS auction_time, expires, seller, category, "
        "A.extra AS auction_extra FROM bid AS B JOIN auction AS A ON B.auction = A.id WHERE A.category = 10",
        f"{_BID_COLUMNS}, channel STRING, url STRING, bid_time TIMESTAMP(3), bid_extra STRING, itemName STRING, "
        "description STRING, initialBid BIGINT, reserve BIGINT, auction_time TIMESTAMP(3), expires TIMESTAMP(3), "
        "seller BIGINT, category BIGINT, auction_extra STRING",
        "auction, bidder, price, reserve, CHAR_LENGTH(auction_extra)",
    ),
    "q21": _work(
        "SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0' "
        "WHEN LOWER(channel) = 'google' THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2' "
        "WHEN LOWER(channel) = 'baidu' THEN '3' ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END "
        "AS channel_id FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL OR "
        "LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')",
        f"{_BID_COLUMNS}, channel STRING, channel_id STRING",
        "auction, price, CHAR_LENGTH(channel_id)",
    ),
    "q22": _work(
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, "
        "SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid",
        f"{_BID_COLUMNS}, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
        "auction, CHAR_LENGTH(dir1), CHAR_LENGTH(dir2 || dir3)",
    ),
}
"""The queries by their Nexmark names; ``q14`` counts characters with built-in functions.

``q6`` orders a window by a column that changes, which Flink refuses. ``q13`` looks rows up in files, which it refuses
as well: here the query asks a table that computes them, with a cache.
"""

FLINKS: dict[str, SqlWork] = {
    "q13": replace(QUERIES["q13"], views=(_side_input("'connector' = 'slow', 'millis' = '0', 'cache' = '10000'"),))
}
"""Queries whose tables have another connector in Flink, one in Java."""
