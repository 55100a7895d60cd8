"""The page on damaged files says what the tests of damage find."""

from __future__ import annotations

from headrace.common import errors
from tests.docs import damage_table
from tests.docs.documents import between, tables

PAGE = damage_table.PAGE.read_text()


def test_the_table_is_up_to_date() -> None:
    assert between(PAGE, damage_table.NAME) == damage_table.table(), "run `python -m tests.docs.damage_table`"


def test_every_kind_and_every_word_is_explained() -> None:
    files, outcomes = PAGE.split("## What happens")
    assert [row[0] for row in tables(files)] == list(damage_table.KINDS)
    for error, word in damage_table.WORDS.items():
        assert f"**{word}**" in outcomes
        assert f"`{error}`" in outcomes
        assert hasattr(errors, error)
