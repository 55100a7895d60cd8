"""Time to live: what expires when, who can still see it, and that merges drop it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.common.time import Duration, Time
from headrace.common.typeinfo import Types
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.state.harness import Job

TTL = 100


EVENT_TIME = StateTtlConfig.TtlTimeCharacteristic.EventTime


def config(*, on_read: bool = False, return_expired: bool = False, in_event_time: bool = False) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    if in_event_time:
        builder.use_event_time()
    if on_read:
        builder.update_ttl_on_read_and_write()
    if return_expired:
        builder.return_expired_if_not_cleaned_up()
    return builder.build()


class Sum:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


def value() -> Any:
    return ValueStateDescriptor("s", Types.LONG())


def several() -> Any:
    return ListStateDescriptor("s", Types.LONG())


def entries() -> Any:
    return MapStateDescriptor("s", Types.STRING(), Types.LONG())


def reducing() -> Any:
    return ReducingStateDescriptor("s", lambda left, right: left + right, Types.LONG())


def aggregating() -> Any:
    return AggregatingStateDescriptor("s", Sum(), Types.LONG())


METHODS: dict[str, tuple[Callable[[Any, Any], None], Callable[[Any], Any], Any]] = {
    "value": (lambda state, item: state.update(item), lambda state: state.value(), None),
    "list": (lambda state, item: state.add(item), lambda state: (state.get() or [None])[-1], None),
    "map": (lambda state, item: state.put("k", item), lambda state: state.get("k"), None),
    "reducing": (lambda state, item: state.add(item), lambda state: state.get(), None),
    "aggregating": (lambda state, item: state.add(item), lambda state: state.get(), None),
}
KINDS = [value, several, entries, reducing, aggregating]


class Epochs:
    """Runs one action per epoch on the state of one key, at a given time."""

    def __init__(self, make: Callable[[], Any], ttl: StateTtlConfig | None, *, keep: bool = False) -> None:
        self.job = Job(keep=keep)
        self.make = make
        self.ttl = ttl

    def at(self, clock: int, action: Callable[[Any], Any]) -> Any:
        if self.ttl is not None and self.ttl.get_ttl_time_characteristic() is EVENT_TIME:
            self.job.watermark = clock
        else:
            self.job.clock = clock
        (operator,) = self.job.begin()
        descriptor = self.make()
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self.kind = descriptor.kind
        state = operator.keyed.state(descriptor)
        operator.keyed.current = operator.keyed.bind(self.job.codec.encode([1]))[0]
        result = action(state)
        self.job.end()
        return result

    def write(self, clock: int, item: int) -> None:
        self.at(clock, lambda state: METHODS[self.make().kind][0](state, item))

    def read(self, clock: int) -> Any:
        return self.at(clock, METHODS[self.make().kind][1])

    @property
    def rows(self) -> int:
        task = self.job._open(0)
        return task.store("operator", "state/s").rows


@pytest.mark.parametrize("in_event_time", [False, True])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("make", KINDS)
def test_an_element_expires_when_its_time_has_passed(make: Callable[[], Any], keep: bool, in_event_time: bool) -> None:
    epochs = Epochs(make, config(in_event_time=in_event_time), keep=keep)
    epochs.write(1000, 7)
    assert epochs.read(1000 + TTL - 1) == 7
    assert epochs.read(1000 + TTL) is None
    assert epochs.read(1000 + TTL - 1) is None  # it is gone
    epochs.write(2000, 8)
    assert epochs.read(2001) == 8


@pytest.mark.parametrize("make", KINDS)
def test_writing_prolongs_life_and_reading_does_not(make: Callable[[], Any]) -> None:
    epochs = Epochs(make, config())
    epochs.write(0, 1)
    epochs.write(60, 1)
    assert epochs.read(120) is not None
    assert epochs.read(160) is None


@pytest.mark.parametrize("make", KINDS)
def test_reading_prolongs_life_when_asked_to(make: Callable[[], Any]) -> None:
    epochs = Epochs(make, config(on_read=True))
    epochs.write(0, 1)
    for clock in (90, 180, 270):
        assert epochs.read(clock) == 1
    assert epochs.read(370) is None


@pytest.mark.parametrize(
    "look",
    [
        lambda state: state.get("k"),
        lambda state: "k" in state,
        lambda state: list(state.keys()),
        lambda state: list(state.values()),
        lambda state: list(state.items()),
    ],
)
def test_whatever_looks_at_an_entry_reads_it(look: Callable[[Any], Any]) -> None:
    epochs = Epochs(entries, config(on_read=True))
    epochs.write(0, 1)
    assert epochs.at(60, look)
    assert epochs.read(120) == 1
    epochs = Epochs(entries, config(return_expired=True))
    epochs.write(0, 1)
    assert epochs.at(200, look)
    assert not epochs.at(200, look)


def test_asking_whether_a_map_is_empty_reads_nothing() -> None:
    epochs = Epochs(entries, config(on_read=True))
    epochs.write(0, 1)
    assert not epochs.at(60, lambda state: state.is_empty())
    assert epochs.read(120) is None
    assert epochs.at(120, lambda state: state.is_empty())


@pytest.mark.parametrize("make", KINDS)
def test_an_expired_element_can_be_seen_once_when_asked_to(make: Callable[[], Any]) -> None:
    epochs = Epochs(make, config(return_expired=True))
    epochs.write(0, 1)
    assert epochs.read(500) == 1
    assert epochs.read(501) is None


def test_folding_begins_anew_after_expiry() -> None:
    for make in (reducing, aggregating):
        for visible in (False, True):
            epochs = Epochs(make, config(return_expired=visible))
            epochs.write(0, 5)
            epochs.write(50, 5)
            assert epochs.read(60) == 10
            epochs.write(500, 1)
            assert epochs.read(501) == 1


def test_elements_of_lists_and_entries_of_maps_expire_one_by_one() -> None:
    epochs = Epochs(several, config())
    for clock in (0, 40, 80):
        epochs.write(clock, clock)
    assert epochs.at(110, lambda state: state.get()) == [40, 80]
    assert epochs.at(150, lambda state: state.get()) == [80]
    epochs = Epochs(entries, config())
    epochs.at(0, lambda state: state.put_all({"a": 1, "b": 2}))
    epochs.at(50, lambda state: state.put("b", 3))
    assert epochs.at(120, lambda state: state.items()) == [("b", 3)]
    assert epochs.at(120, lambda state: ("a" in state, "b" in state, state.keys(), state.values())) == (
        False,
        True,
        ["b"],
        [3],
    )
    assert epochs.at(200, lambda state: state.is_empty())


@pytest.mark.parametrize("make", KINDS)
def test_a_time_to_live_can_be_turned_on_and_off_again(make: Callable[[], Any]) -> None:
    epochs = Epochs(make, None)
    epochs.write(0, 1)
    epochs.ttl = config()
    assert epochs.read(10_000) == 1  # what was stored without an expiry has none until it is written
    epochs.write(10_000, 1)
    epochs.ttl = None
    assert epochs.read(20_000) is not None
    epochs.ttl = config()
    epochs.write(30_000, 2)
    # An element of a list that never had an expiry stays; everything else was written anew.
    assert epochs.read(40_000) == (1 if make is several else None)


@pytest.mark.parametrize("make", KINDS)
def test_merges_drop_what_has_expired(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 0)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    epochs = Epochs(make, config())
    epochs.write(0, 1)
    epochs.write(10, 2)
    assert epochs.rows == 2
    assert epochs.job.compact(now=10 + TTL) == 1
    epochs.at(20, lambda state: None)  # adopts it
    assert epochs.rows == 0


def test_disabled_means_no_time_to_live() -> None:
    disabled = StateTtlConfig.new_builder(1).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    epochs = Epochs(value, disabled)
    epochs.write(0, 1)
    assert epochs.read(10**9) == 1


def test_a_configuration_says_what_was_asked_for() -> None:
    builder = StateTtlConfig.new_builder(Duration.of_days(1)).use_processing_time()
    builder.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
    for setting, arguments in {
        "cleanup_full_snapshot": (),
        "cleanup_incrementally": (7, True),
        "cleanup_in_rocksdb_compact_filter": (1000,),
        "disable_cleanup_in_background": (),
    }.items():
        with pytest.warns(UserWarning, match=rf"{setting}\(\) has no effect: every merge") as caught:
            assert getattr(builder, setting)(*arguments) is builder
        assert caught[0].filename == __file__
    built = builder.build()
    assert built.get_ttl() == Duration.of_days(1)
    assert built.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert built.is_enabled()
    cleanup = built.get_cleanup_strategies()
    assert cleanup.in_full_snapshot()
    assert not cleanup.is_cleanup_in_background()
    incremental, compact = (
        cleanup.get_incremental_cleanup_strategy(),
        cleanup.get_rocksdb_compact_filter_cleanup_strategy(),
    )
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (7, True)
    assert compact is not None
    assert compact.get_query_time_after_num_entries() == 1000
    assert compact.get_periodic_compaction_time() == Duration.of_days(30)
    plain = StateTtlConfig.new_builder(dt.timedelta(seconds=1)).build().get_cleanup_strategies()
    assert plain.get_incremental_cleanup_strategy() is not None


@pytest.mark.parametrize(
    ("setter", "given", "told"),
    [
        ("set_update_type", "OnReadAndWrite", "UpdateType.OnReadAndWrite"),
        ("set_update_type", None, "UpdateType.OnCreateAndWrite"),
        ("set_state_visibility", 0, "StateVisibility.NeverReturnExpired"),
        ("set_ttl_time_characteristic", "event", "TtlTimeCharacteristic.EventTime"),
    ],
)
def test_a_setting_that_is_none_of_its_kind_is_refused_and_not_ignored(setter: str, given: Any, told: str) -> None:
    builder = getattr(StateTtlConfig.new_builder(1), setter)(given)
    with pytest.raises(InvalidProgramError, match=rf"must be one of .*StateTtlConfig\.{told}.*, not {given!r}"):
        builder.build()


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="positive"):
        StateTtlConfig.new_builder(0).build()
    with pytest.raises(InvalidProgramError, match="enable_time_to_live takes a StateTtlConfig, not 5"):
        value().enable_time_to_live(5)
    with pytest.raises(InvalidProgramError, match=r"not a StateTtlConfigBuilder: call its build\(\)"):
        value().enable_time_to_live(StateTtlConfig.new_builder(1))
    with pytest.raises(InvalidProgramError, match="create_accumulator"):
        AggregatingStateDescriptor("a", object())
    with pytest.raises(InvalidProgramError, match="reduce"):
        ReducingStateDescriptor("a", 5)
    with pytest.raises(InvalidProgramError, match="name"):
        ValueStateDescriptor("", int)
    with pytest.raises(InvalidProgramError, match="must be a string, not 5"):
        ValueStateDescriptor(5, int)  # type: ignore[arg-type]
