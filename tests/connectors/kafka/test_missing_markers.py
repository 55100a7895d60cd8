"""What counts as published of a ``KafkaSink`` whose markers are lost."""

from __future__ import annotations

import pytest

from headrace.common import SimpleStringSchema
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.connectors.kafka.clients import ClientSettings, TransactionSettings
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream.connectors.kafka import KafkaSink, MissingMarker

WAITING = (5, 6, 9)
CLIENT = ClientSettings({"bootstrap.servers": "localhost:9092"})
UNTIL_SAID = TransactionSettings(CLIENT, "t")


def said(epoch: int) -> TransactionSettings:
    return TransactionSettings(CLIENT, "t", published_up_to={None: epoch})


def test_nobody_knows_until_somebody_has_said_it() -> None:
    assert UNTIL_SAID.last_published("t-0", 5, WAITING) is None
    publishing = TransactionSettings(CLIENT, "t", MissingMarker.PUBLISH)
    assert publishing.last_published("t-0", 6, WAITING) == 5


@pytest.mark.parametrize("epoch", [4, 5, 6, 7, 9])
def test_what_was_said_is_about_all_epochs_that_wait(epoch: int) -> None:
    assert [said(epoch).last_published("t-0", each, WAITING) for each in WAITING] == [epoch] * 3


@pytest.mark.parametrize("epoch", [0, 3, 10])
def test_what_was_said_about_other_epochs_does_not_count(epoch: int) -> None:
    assert said(epoch).last_published("t-0", 5, WAITING) is None
    assert f"set_published_up_to({epoch}) is about" in said(epoch).advice("t-0", 5, WAITING)


def test_a_marker_that_is_lost_later_is_missed_although_something_was_said_about_earlier_epochs() -> None:
    assert said(6).last_published("t-0", 12, WAITING) is None
    assert said(6).last_published("t-0", 12, ()) is None
    assert said(6).advice("t-0", 12, WAITING).startswith("Start the job again")


def test_ids_may_have_come_to_different_epochs() -> None:
    by_id = TransactionSettings(CLIENT, "t", published_up_to={None: 6, "t-1": 5})
    assert [by_id.last_published(f"t-{each}", 6, WAITING) for each in range(2)] == [6, 5]


def test_the_error_says_which_epochs_wait_and_what_to_answer() -> None:
    text = UNTIL_SAID.advice("t-0", 5, WAITING)
    for part in ("These epochs wait: 5, 6, 9.", "set_published_up_to(9) if all", "set_published_up_to(4) if none"):
        assert part in text


def test_what_a_builder_takes() -> None:
    builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092")
    builder.set_record_serializer(MessageSerializationSchema("t", SimpleStringSchema()))
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_published_up_to(7).set_published_up_to(6, "p-1")
    with pytest.raises(InvalidProgramError, match=r"not negative, got -1\n  at .*test_missing_markers.py"):
        builder.set_published_up_to(-1)
    with pytest.raises(InvalidTypeError, match="set_published_up_to takes an int"):
        builder.set_published_up_to("7")  # type: ignore[arg-type]
    transactions = builder.build()._transactions
    assert transactions == TransactionSettings(CLIENT, "t", MissingMarker.FAIL, {None: 7, "p-1": 6})


def test_what_is_said_about_transactions_is_warned_of_where_there_are_none() -> None:
    builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_published_up_to(7)
    builder.set_record_serializer(MessageSerializationSchema("t", SimpleStringSchema())).set_marker_topic("t")
    with pytest.warns(UserWarning, match="has no effect") as told:
        builder.build()
    assert [str(each.message).split("(")[0] for each in told] == ["set_published_up_to", "set_marker_topic"]
    assert "a KafkaSink that is AT_LEAST_ONCE has no transactions" in str(told[0].message)
