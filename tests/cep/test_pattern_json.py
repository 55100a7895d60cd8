"""Patterns as JSON: what is told becomes the pattern that calls would make, and comes back as it was."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from headrace.cep import AfterMatchSkipStrategy, Pattern, WithinType
from headrace.cep.compiler import compile_pattern
from headrace.common.errors import HeadraceError, InvalidProgramError
from headrace.expressions import col
from tests.cep.conformance.cases import cases
from tests.cep.conformance.patterns import pattern as made_by_calls
from tests.cep.conformance.patterns import skip_strategy

INNER: Pattern[Any] = (
    Pattern.begin("a").where(col("x") > 1).or_("y is None").next("b").within(5, WithinType.PREVIOUS_AND_CURRENT)
)
WHOLE = (
    Pattern.begin(
        INNER.next("c").times(2, 3, window_time=10).consecutive(),
        AfterMatchSkipStrategy.skip_to_last("d").throw_exception_on_miss(),
    )
    .one_or_more()
    .followed_by("d")
    .where("z in (1, 2) and not w")
    .times_or_more(2)
    .greedy()
    .until("z == 9")
    .followed_by_any("e")
    .times(0, 2)
    .allow_combinations()
    .followed_by("f")
    .not_followed_by("g")
    .where("w")
    .within(1000)
)


def test_a_pattern_comes_back_as_it_was() -> None:
    again = Pattern.from_json(WHOLE.to_json())
    assert str(again) == str(WHOLE)
    assert '● a: (col("x") > 1) | col("y").is_null()' in again.explain()
    assert again.to_json() == WHOLE.to_json()


def shape(pattern: Pattern[Any]) -> list[Any]:
    """The automaton without its conditions."""
    automaton = compile_pattern(pattern)
    states = [
        (state.name, state.kind, state.gap, [(way.action, way.target) for way in state.transitions])
        for state in automaton.states
    ]
    return [states, automaton.start, automaton.window, automaton.skip, len(automaton.event_conditions)]


def in_words(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Stages with texts in the place of conditions, all of them different."""
    told = []
    for number, stage in enumerate(stages):
        in_text = {name: value for name, value in stage.items() if name != "group_skip"}
        in_text["calls"] = [
            [call[0], f"x > {number} and y < {index}"] if call[0] in ("where", "or", "until") else call
            for index, call in enumerate(stage.get("calls", ()))
        ]
        if "group" in stage:
            in_text["group"] = in_words(stage["group"])
        told.append(in_text)
    return told


def test_what_flink_was_asked_is_json_of_a_pattern() -> None:
    """Under Flink's names: the automaton is that of the calls, and a round trip changes nothing of it."""
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases("random")[::12]:
            if "subtype" in json.dumps(case["pattern"]):
                continue
            told = {"stages": in_words(case["pattern"]), "skip": case.get("skip")}
            try:
                expected = shape(made_by_calls(case["pattern"], skip_strategy(case.get("skip"))))[:-1]
            except HeadraceError:
                with pytest.raises(HeadraceError):
                    shape(Pattern.from_json(told))
                continue
            pattern = Pattern.from_json(json.dumps(told))
            assert shape(pattern)[:-1] == expected
            assert shape(Pattern.from_json(pattern.to_json())) == shape(pattern)
            compared += 1
    assert compared > 50


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("{", "this is no JSON"),
        ({"stage": []}, "no field 'stage': did you mean stages"),
        ([], "a list of at least one"),
        ([1], "a stage is an object"),
        ([{"op": "next", "name": "a"}], "begin stands before the first stage"),
        ([{"name": "a"}, {"op": "begin", "name": "b"}], "begin stands before the first stage"),
        (
            [{"name": "a"}, {"op": "followed", "name": "b"}],
            "'followed' is not an op of a stage: did you mean followed_by",
        ),
        (
            [{"op": "start", "name": "a"}],
            "not an op of a stage: write begin, followed_by, followed_by_any, next, not_followed_by, not_next",
        ),
        ([{"name": 1}], "begin"),
        ([{"name": "a", "calls": ["where"]}], "a call is a list of a method"),
        ([{"name": "a", "calls": [["getName"]]}], "'getName' is not a method of patterns"),
        ([{"name": "a", "calls": [["where", 1]]}], "where takes the text of an expression"),
        ([{"name": "a", "calls": [["where", "x <"]]}], "in the expression"),
        ([{"name": "a", "calls": [["times"]]}], "times"),
        ([{"name": "a", "calls": [["within", 5, "LAST"]]}], "'LAST' is not a kind of window"),
        ([{"name": "a", "calls": [["optional"], ["optional"]]}], "Optional already applied"),
        ({"stages": [{"name": "a"}], "skip": ["skipTo"]}, "is not a skip strategy"),
        ({"stages": [{"name": "a"}], "skip": ["skipToFirst"]}, "skipToFirst"),
    ],
)
def test_what_is_no_pattern_is_refused(told: Any, message: str) -> None:
    with pytest.raises(HeadraceError, match=message):
        Pattern.from_json(told)


def test_a_condition_that_is_no_expression_has_no_json() -> None:
    with pytest.raises(InvalidProgramError, match=r"the condition <lambda> of a is no expression"):
        Pattern.begin("a").where(lambda event: event > 1).to_json()
