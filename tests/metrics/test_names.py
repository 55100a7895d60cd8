"""Under which names functions measure: no two metrics of an operator are shown under one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.metrics import MetricGroup
from headrace.metrics.registry import OWN_NAMES, MetricRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    Register = Callable[[MetricGroup], object]


@pytest.fixture
def group() -> MetricGroup:
    return MetricGroup(MetricRegistry())


SAME_NAME: list[tuple[Register, Register]] = [
    (lambda group: group.counter("x.count"), lambda group: group.meter("x")),
    (lambda group: group.counter("x.count"), lambda group: group.distribution("x")),
    (lambda group: group.add_group("x").counter("max"), lambda group: group.distribution("x")),
    (lambda group: group.meter("x.sum"), lambda group: group.distribution("x")),
    (lambda group: group.add_group("0").counter("x"), lambda group: group.gauge("x", lambda: 1)),
    (lambda group: group.add_group("12").distribution("x"), lambda group: group.gauge("x.mean", lambda: 1)),
]


@pytest.mark.parametrize(("one", "other"), SAME_NAME)
def test_what_would_be_shown_under_one_name_is_refused(one: Register, other: Register) -> None:
    for first, second in ((one, other), (other, one)):
        group = MetricGroup(MetricRegistry())
        first(group)
        first(group)
        with pytest.raises(
            InvalidProgramError, match=r"would be shown under the same name as an? \w+ '[\w.]+': give"
        ) as caught:
            second(group)
        assert __file__ in str(caught.value)


def test_who_goes_on_after_a_refusal_has_taken_no_name(group: MetricGroup) -> None:
    group.counter("x.count")
    with pytest.raises(InvalidProgramError):
        group.meter("x")
    group.counter("x").inc()


def test_what_only_looks_alike_is_told_apart(group: MetricGroup) -> None:
    group.meter("x")
    group.counter("x.counted")
    group.counter("y.x.count")
    group.distribution("x.y")
    group.gauge("z", lambda: 1)
    group.counter("0z")
    group.add_group("a0").counter("z")


def test_a_meter_has_one_time_span(group: MetricGroup) -> None:
    assert group.meter("m", 10) is group.meter("m", 10)
    with pytest.raises(InvalidProgramError, match="'m' has a time span of 10 seconds already: ask for it with that"):
        group.meter("m")


@pytest.mark.parametrize("name", sorted(OWN_NAMES))
def test_names_of_headrace_are_refused_but_in_groups(group: MetricGroup, name: str) -> None:
    with pytest.raises(InvalidProgramError, match=f"'{name}' cannot be the name of a metric, since headrace itself"):
        group.counter(name)
    group.add_group("mine").counter(name)


@pytest.mark.parametrize("names", [("",), ("", "x"), ("x", "")])
def test_groups_without_a_name_are_refused(group: MetricGroup, names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidProgramError, match="'' cannot be the name of a group, since it has no letter"):
        group.add_group(*names)
