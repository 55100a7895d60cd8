"""Lengths of time and instants."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import InvalidTypeError
from headrace.common.time import Duration, Instant, Time, to_millis


@pytest.mark.parametrize(
    ("value", "millis"),
    [
        (Duration.of_days(1), 86_400_000),
        (Duration.of_hours(2), 7_200_000),
        (Duration.of_minutes(3), 180_000),
        (Duration.of_seconds(4), 4_000),
        (Duration.of_millis(5), 5),
        (Duration.of_nanos(6_000_000), 6),
        (Duration.of_millis(-5), -5),
        (Time.days(1), 86_400_000),
        (Time.hours(2), 7_200_000),
        (Time.minutes(3), 180_000),
        (Time.seconds(4), 4_000),
        (Time.milliseconds(5), 5),
        (datetime.timedelta(seconds=1, milliseconds=1), 1_001),
        (datetime.timedelta(seconds=-1), -1_000),
        (7, 7),
    ],
)
def test_to_millis(value: Any, millis: int) -> None:
    assert to_millis(value) == millis


@pytest.mark.parametrize("value", [True, 1.5, "10 s", None])
def test_what_is_no_length_of_time(value: Any) -> None:
    with pytest.raises(InvalidTypeError, match="expected a Duration"):
        to_millis(value)


def test_text_is_told_what_to_write() -> None:
    with pytest.raises(InvalidTypeError, match=r"got '1 minute': write Time\.minutes\(5\), say"):
        to_millis("1 minute")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"^timeout: expected(.|\n)* at .*test_time.py:\d+ in test_text"):
        to_millis("1 minute", "timeout")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [Duration.of_nanos(1), datetime.timedelta(microseconds=1)])
def test_fractions_of_a_millisecond_are_refused(value: Any) -> None:
    with pytest.raises(InvalidTypeError, match="not a whole number of milliseconds"):
        to_millis(value)


def test_lengths_are_values() -> None:
    assert Duration.of_seconds(60) == Duration.of_minutes(1)
    assert Duration.of_seconds(1) < Duration.of_seconds(2)
    assert Duration.of_nanos(1_999_999).to_millis() == 1
    assert Time.seconds(60) == Time.minutes(1)
    assert str(Time.seconds(1)) == "1000 ms"
    assert str(Duration.of_millis(1500)) == "1.5 s"
    assert pickle.loads(pickle.dumps(Time.seconds(1))) == Time.seconds(1)


@given(st.integers(-(2**50), 2**50))
def test_instants_and_milliseconds(millis: int) -> None:
    assert Instant.of_epoch_milli(millis).to_epoch_milli() == millis


def test_instants() -> None:
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
    assert Instant(1, 2) < Instant(1, 3)
    with pytest.raises(InvalidTypeError, match="from 0 to 999999999"):
        Instant(0, -1)
