"""The page on the functions of SQL names all of them."""

from __future__ import annotations

import pytest

from tests.docs import functions_table
from tests.docs.documents import between

PAGE = functions_table.PAGE.read_text()


@pytest.mark.parametrize("group", functions_table.GROUPS)
def test_the_tables_are_up_to_date(group: str) -> None:
    assert between(PAGE, group) == functions_table.table(group), "run `python -m tests.docs.functions_table`"
