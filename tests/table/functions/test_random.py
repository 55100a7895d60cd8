"""Random functions give other values for each row and call, within their bounds."""

from __future__ import annotations

from tests.table.connectors.session import rows, session


def test_values_differ_and_keep_their_bounds() -> None:
    query = "SELECT RAND(), RAND(), RAND_INTEGER(10), UUID(), RAND(7) FROM (VALUES 1, 2, 3, 4) AS t(k)"
    found = rows(session(), query)
    doubles = [value for row in found for value in (row[0], row[1], row[4])]
    assert len(set(doubles)) == 12
    assert all(0 <= value < 1 for value in doubles)
    assert all(0 <= row[2] < 10 for row in found)
    assert len({row[3] for row in found}) == 4
    assert {(len(row[3]), row[3][14]) for row in found} == {(36, "4")}
