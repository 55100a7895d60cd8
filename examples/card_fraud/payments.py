"""Payments: a program that puts them into a topic, as fast as it is told.

    python examples/card_fraud/payments.py card-fraud.log

They are out of order by up to four seconds, a few are a minute late, and here and there a thief tries a stolen card
with a small payment before a large one. The payment of a number is always the same, so whoever knows how many there are
knows what has to be found. What is in the topic says where to go on: killed at any moment, the program is started again
and neither leaves a payment out nor sends one twice.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.log import Log, Producer

TOPIC = "payments"
RESULTS = ("alerts", "totals", "late")
"""Topics that the job writes."""

NOON = 1_748_779_200_000
"""1 June 2025, 12:00 UTC: when the first payment is made; two milliseconds later the next one."""

MINUTE = 60_000
TOGETHER = 1_000
"""How many payments are appended at once; the log shows all of them or none."""

CARDS, MERCHANTS = 20_000, 50
THEFT_EVERY, LARGE_AFTER = 20_000, 2_000
CAREFUL_EVERY = 5
"""Every so many thieves one is careful: the first version of the job does not find him."""


def payments(first: int) -> pa.Table:
    """The records of so many payments from a number on, keyed by card; the time of a payment is its timestamp."""
    numbers = np.arange(first, first + TOGETHER)
    rng = np.random.default_rng([7, first])
    cards = rng.integers(CARDS, size=TOGETHER)
    merchants = rng.integers(MERCHANTS, size=TOGETHER)
    amounts = rng.lognormal(3.0, 1.0, TOGETHER).clip(2.00, 400.00)  # none looks like a thief's by chance
    delays = rng.integers(4_000, size=TOGETHER) + (rng.random(TOGETHER) < 0.0005) * MINUTE

    theft, step = np.divmod(numbers, THEFT_EVERY)
    stolen = stolen_card(theft)
    is_small, is_large = step == 0, step == LARGE_AFTER
    is_theft = is_small | is_large
    cards = np.where(is_theft, stolen, np.where(cards == stolen, (cards + 1) % CARDS, cards))
    is_careful = theft % CAREFUL_EVERY == CAREFUL_EVERY - 1
    amounts = np.where(is_small, np.where(is_careful, 1.50, 0.99), amounts)
    amounts = np.where(is_large, np.where(is_careful, 450.00, 899.00), amounts).round(2)
    times = NOON + 2 * numbers - np.where(is_theft, 0, delays)

    keys = [f"card-{card:05}" for card in cards.tolist()]
    columns = zip(keys, merchants.tolist(), amounts.tolist(), times.tolist(), strict=True)
    values = [
        f'{{"card":"{card}","merchant":"merchant-{merchant:02}","amount":{amount},"time":{at}}}'
        for card, merchant, amount, at in columns
    ]
    return pa.table({"key": keys, "value": values, "timestamp": times.astype("datetime64[ms]")})


def stolen_card(theft: np.ndarray) -> np.ndarray:
    """The number of the card of each theft; its owner pays nothing meanwhile."""
    return theft * 7919 % CARDS


def thefts(count: int) -> Iterator[tuple[str, int]]:
    """Card and time of every large payment of a careless thief among so many payments."""
    for theft, number in enumerate(range(LARGE_AFTER, count, THEFT_EVERY)):
        if theft % CAREFUL_EVERY < CAREFUL_EVERY - 1:
            yield f"card-{stolen_card(np.int64(theft)):05}", NOON + 2 * number


def open_log(location: str, version: str = "") -> Log:
    """The log, with payments and the results of a version of the job; what there is not is made."""
    log = Log.open(location, create=True)
    known = log.topics()
    for topic in (TOPIC, *(f"{each}{version}" for each in RESULTS)):
        if topic not in known:
            log.create_topic(topic, partitions=2)
    return log


def count_of(log: Log, topic: str = TOPIC) -> int:
    """How many records were ever appended to a topic."""
    return sum(log.end_offsets(log.partitions_of(topic)).values())


def read(log: Log, topic: str) -> list[dict[str, Any]]:
    """The records of a topic."""
    return [json.loads(value) for value in log.read(topic).read_all().column("value").to_pylist()]


def lag(log: Log, group: str) -> int:
    """How many payments a consumer group has yet to read, by the offsets that it has committed."""
    return count_of(log) - sum(log.committed(group).values())


def produce(log: Log, count: int, rate: int) -> None:
    """Append payments until there are so many.

    Args:
        log: the log, with its topics.
        count: how many there are to be, those of earlier runs included.
        rate: how many in a second; 0 for as many as possible.
    """
    first, began = count_of(log), time.monotonic()
    with Producer(log) as producer:
        for number in range(first - first % TOGETHER, count, TOGETHER):
            if rate:
                time.sleep(max(0.0, began + (number - first) / rate - time.monotonic()))
            producer.append(TOPIC, payments(number)[max(first - number, 0) : count - number])


def main() -> None:
    """Append what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", help="the folder of the log, which is made where there is none")
    parser.add_argument("--payments", type=int, default=2_000_000, help="how many there are to be")
    parser.add_argument("--rate", type=int, default=100_000, help="how many in a second; 0 for as many as possible")
    arguments = parser.parse_args()
    produce(open_log(arguments.log), arguments.payments, arguments.rate)


if __name__ == "__main__":
    main()
