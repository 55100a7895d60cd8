"""Patterns are parsed from text, and errors show where it is wrong."""

from __future__ import annotations

import re
from random import Random

import pytest

from headrace.cep import AfterMatchSkipStrategy, Pattern, WithinType
from headrace.common.errors import HeadraceError, InvalidProgramError
from headrace.expressions import col
from tests.cep.conformance.draws import draw_case
from tests.cep.conformance.patterns import pattern, skip_strategy

SMALL, LARGE = col("amount") < 1.0, col("amount") > 500.0


def test_the_text_of_the_catalogue() -> None:
    parsed = Pattern.parse("start:small followed_by+ end:large within 10 min", {"small": SMALL, "large": LARGE})
    built = Pattern.begin("start").where(SMALL).followed_by("end").where(LARGE).one_or_more().within(600_000)
    assert parsed.explain() == built.explain()
    assert str(parsed) == "start followed_by end+ within 10 min"


def test_every_word() -> None:
    ends = col("kind") == "end"
    parsed = Pattern.parse(
        """a:small{2,3} greedy
           not_next n
           followed_by_any (b next c gap 2 s)* consecutive
           followed_by d{2,}? until ends
           followed_by? e within 1 h skip_to_first d""",
        {"small": SMALL, "ends": ends},
    )
    group = Pattern.begin("b").next("c").within(2000, WithinType.PREVIOUS_AND_CURRENT)
    built = (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("d"))
        .where(SMALL)
        .times(2, 3)
        .greedy()
        .not_next("n")
        .followed_by_any(group)
        .one_or_more()
        .consecutive()
        .optional()
        .followed_by("d")
        .times_or_more(2)
        .until(ends)
        .optional()
        .followed_by("e")
        .optional()
        .within(3_600_000)
    )
    assert parsed.explain() == built.explain()
    assert str(parsed) == str(built)


def test_a_condition_has_the_name_of_its_stage() -> None:
    parsed = Pattern.parse("small next other", {"small": SMALL})
    assert parsed.explain() == Pattern.begin("small").where(SMALL).next("other").explain()


def test_a_text_is_the_pattern_that_it_came_from() -> None:
    told = 0
    for seed in range(300):
        case = draw_case(Random(seed), "")
        try:
            built = pattern(case["pattern"], skip_strategy(case.get("skip")))
        except HeadraceError:
            continue
        assert str(Pattern.parse(str(built))) == str(built)
        told += 1
    assert told > 150


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("", "name of a stage", 0),
        ("a b", "expected next, followed_by, within or the end", 2),
        ("a followedBy b", "the end: did you mean followed_by?", 2),
        ("a next", "name of a stage", 6),
        ("a next within 5 s", "name of a stage", 7),
        ("a:smal next b", "there is no condition 'smal': did you mean small", 2),
        ("a{2 next b", "expected }", 4),
        ("a{,2}", "expected a number", 2),
        ("a within 5 weeks", "unit of time: d, h, min, s, ms", 11),
        ("(a next b", "expected )", 9),
        ("a & b", "no part of a pattern", 1),
        ("a{0} next b", "a positive number greater than 0", 5),
        ("a next b skip past last row", "did you mean skip_past_last_event", 9),
        ("a within 5 s next b", "the end: within is about the whole pattern", 13),
        ("a skip_to_next within 5 s", "a skip strategy is the last", 15),
        ("a greedy", "singleton quantifier", 8),
        ("a+ greedy greedy", "greedy stands twice", 16),
        ("a? not_next b", "optional path to NOT", 13),
        ("a until small", "only applicable to looping states", 13),
    ],
)
def test_errors_show_where(text: str, message: str, at: int) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(message)) as refusal:
        Pattern.parse(text, {"small": SMALL})
    lines = str(refusal.value).splitlines()
    assert lines[1:3] == [f"  {text}", f"  {' ' * at}^"]
    assert __file__ in lines[3]


def test_a_condition_that_is_not_named_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="names no condition large"):
        Pattern.parse("a:small", {"small": SMALL, "large": LARGE})
