"""Windows of processing time, and results before windows end and for late rows, by a clock of the test."""

from __future__ import annotations

from typing import Any

from headrace.common import Types
from headrace.table import Schema, StreamTableEnvironment
from headrace.testing import JobHarness

BIDS = Types.ROW_NAMED(["item", "n", "at"], [Types.STRING(), Types.INT(), Types.LONG()])


def changes(query: str, steps: list[Any], **settings: str) -> list[list[str]]:
    """What a query emits in each epoch.

    Args:
        query: the query, over ``bids``.
        steps: rows, each with the second at which it arrives, which are an epoch each.
        settings: settings, with ``_`` in place of dots.
    """

    def build(harness: JobHarness) -> None:
        tables = StreamTableEnvironment.create(harness.env)
        for key, value in settings.items():
            name = key if "." in key else f"table.exec.emit.{key.replace('__', '-').replace('_', '.')}"
            tables.get_config().set(name, value)
        schema = (
            Schema.new_builder()
            .column("item", "STRING")
            .column("n", "INT")
            .column("at", "BIGINT")
            .column_by_expression("ts", "TO_TIMESTAMP_LTZ(`at`, 3)")
            .column_by_expression("pt", "PROCTIME()")
            .watermark("ts", "ts")
            .build()
        )
        tables.create_temporary_view("bids", tables.from_data_stream(harness.add_source("bids", BIDS), schema))
        harness.add_sink("out", tables.to_changelog_stream(tables.sql_query(query)))

    found = []
    with JobHarness(build) as harness:
        for second, *bid in steps:
            harness.set_processing_time(second * 1000)
            if bid:
                harness.push("bids", (bid[0], bid[1], bid[2] * 1000))
            harness.run_epoch()
            taken = harness.take("out")
            found.append([f"{row.get_row_kind()}[{', '.join(map(str, row))}]" for row in taken])
    return found


def test_windows_of_the_clock() -> None:
    steps = [(1, "a", 1, 0), (3, "b", 2, 0), (12, "a", 3, 0), (16,), (40,)]
    sliding = changes(
        "SELECT item, SUM(n) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(pt), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end, item",
        steps,
    )
    assert sorted(sliding[2]) == ["+I[a, 1]", "+I[a, 1]", "+I[b, 2]", "+I[b, 2]"]
    assert sliding[3:] == [["+I[a, 3]"], ["+I[a, 3]"]]
    growing = changes(
        "SELECT SUM(n) AS s FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(pt), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
        " GROUP BY window_start, window_end",
        steps,
    )
    assert growing == [[], [], ["+I[3]", "+I[3]"], ["+I[3]"], ["+I[3]"]]


def test_sessions_of_the_clock() -> None:
    steps = [(1, "a", 1, 0), (3, "b", 2, 0), (5, "a", 3, 0), (9,), (12, "a", 4, 0), (40,)]
    by_function = (
        "SELECT item, SUM(n) FROM TABLE(SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(pt), INTERVAL '5' SECOND)) "
        "GROUP BY window_start, window_end, item"
    )
    by_group = "SELECT item, SUM(n) AS s FROM bids GROUP BY item, SESSION(pt, INTERVAL '5' SECOND)"
    for query in (by_function, by_group):
        assert changes(query, steps) == [[], [], [], ["+I[b, 2]"], ["+I[a, 4]"], ["+I[a, 4]"]]


def test_rows_with_windows_of_the_clock() -> None:
    query = "SELECT n, window_end FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(pt), INTERVAL '10' SECOND))"
    assert changes(query, [(3, "a", 1, 0), (13, "a", 2, 0)]) == [
        ["+I[1, 1970-01-01 00:00:10]"],
        ["+I[2, 1970-01-01 00:00:20]"],
    ]


QUERY = "SELECT item, SUM(n) AS s FROM bids GROUP BY item, TUMBLE({}, INTERVAL '10' SECOND)"


def test_results_before_a_window_ends() -> None:
    steps = [(1, "a", 1, 1), (2, "a", 2, 3), (4, "b", 5, 2), (7, "a", 0, 4), (8, "b", 1, 12), (20,)]
    each_row = changes(QUERY.format("ts"), steps, early__fire_enabled="true")
    assert each_row == [["+I[a, 1]"], ["-U[a, 1]", "+U[a, 3]"], ["+I[b, 5]"], [], ["+I[b, 1]"], []]
    by_clock = changes(QUERY.format("ts"), steps, early__fire_enabled="true", early__fire_delay="5 s")
    assert by_clock == [[], [], [], ["+I[a, 3]"], ["+I[b, 5]"], ["+I[b, 1]"]]
    of_clock = changes(QUERY.format("pt"), steps, early__fire_enabled="true")
    assert of_clock == [["+I[a, 1]"], ["-U[a, 1]", "+U[a, 3]"], ["+I[b, 5]"], [], ["-U[b, 5]", "+U[b, 6]"], []]


def test_results_for_late_rows() -> None:
    steps = [(1, "a", 1, 1), (2, "b", 1, 15), (3, "a", 2, 3), (4, "a", 3, 4), (9, "b", 1, 16), (20, "a", 1, 50)]
    late = {"late__fire_enabled": "true", "allow__lateness": "30 s"}
    each_row = changes(QUERY.format("ts"), steps, **late)
    assert each_row[:4] == [[], ["+I[a, 1]"], ["-U[a, 1]", "+U[a, 3]"], ["-U[a, 3]", "+U[a, 6]"]]
    by_clock = changes(QUERY.format("ts"), steps, late__fire_delay="5 s", **late)
    assert by_clock == [[], ["+I[a, 1]"], [], [], ["-U[a, 1]", "+U[a, 6]"], ["+I[b, 2]"]]


COUNTS = "SELECT {hint} item, COUNT(*) FROM bids AS b GROUP BY item"


def test_state_is_forgotten_after_its_time_to_live() -> None:
    steps = [(1, "a", 1, 0), (8, "a", 1, 0), (17, "a", 1, 0), (60, "a", 1, 0)]
    hinted = COUNTS.format(hint="/*+ STATE_TTL('b' = '10 s') */")
    of_statement = [["+I[a, 1]"], ["-U[a, 1]", "+U[a, 2]"], ["-U[a, 2]", "+U[a, 3]"], ["+I[a, 1]"]]
    for_ever = [*of_statement[:3], ["-U[a, 3]", "+U[a, 4]"]]
    assert changes(hinted, steps) == of_statement
    assert changes(COUNTS.format(hint=""), steps) == for_ever
    assert changes(COUNTS.format(hint=""), steps, **{"table.exec.state.ttl": "10 s"}) == of_statement
    kept = COUNTS.format(hint="/*+ STATE_TTL('b' = 'PT2M') */")
    assert changes(kept, steps, **{"table.exec.state.ttl": "10 s"}) == for_ever
