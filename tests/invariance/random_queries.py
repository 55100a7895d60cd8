"""Queries that are drawn at random, each in Flink's dialect and in DuckDB's.

A query is a chain of views. Both dialects mean the same by it; where they write or compute something in other ways
(division, order of nulls, event time), the texts differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from headrace.table.connectors import ChangelogMode
from tests.invariance.random_expressions import Column, Expressions, Text, text
from tests.invariance.table_inputs import InputTable, random_table

INPUT: Final = [
    Column("id", "int"), Column("k", "str"), Column("n", "int"), Column("e", "edge"), Column("d", "dec"),
    Column("q", "edge"), Column("x", "str"), Column("dt", "date"), Column("xd", "edge"), Column("f", "bool"),
]  # fmt: skip


@dataclass(frozen=True)
class View:
    """A relation that other ones may read.

    Attributes:
        name: its name.
        body: the query.
        columns: its columns that expressions may use.
        is_insert_only: whether rows only come.
        is_timed: whether it still has ``rt``, ``p`` and ``id`` as the table had them, in order of arrival.
        in_order: whether rows come in a known order.
    """

    name: str
    body: Text
    columns: list[Column]
    is_insert_only: bool
    is_timed: bool = False
    in_order: bool = False

    def of(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]


@dataclass
class Query:
    """A query, and the tables that it reads.

    Attributes:
        tables: the tables.
        views: the views, the last of which is the result.
    """

    tables: list[InputTable]
    views: list[View] = field(default_factory=list)

    def statements(self) -> Iterator[Text]:
        """What creates the views."""
        for view in self.views:
            yield text(f"CREATE TEMPORARY VIEW {view.name} AS {{}}", view.body)

    def __repr__(self) -> str:
        tables = "\n".join(
            f"{table.name} ({table.mode}): {[[(str(kind), row) for kind, row in split] for split in table.splits]}"
            for table in self.tables
        )
        return "\n".join([tables, *(f"{one.flink}\n  -- {one.duck}" for one in self.statements())])


Step = Callable[["Drawing", View, str], "View | None"]
"""Makes a view of one that is there, or of two."""


@dataclass
class Drawing:
    """Draws a query."""

    chance: Random
    query: Query
    is_batch: bool

    def source(self, view: View) -> Text:
        """A view in FROM: by its name, or its body in place."""
        if self.chance.random() < 0.5 or view.name.startswith("t"):
            return Text(view.name, view.name)
        return text(f"({{}}) AS {view.name}", view.body)

    def expressions(self, view: View) -> Expressions:
        return Expressions(self.chance, view.columns)

    def some(self, columns: Sequence[Column], most: int) -> list[Column]:
        return self.chance.sample(columns, min(len(columns), self.chance.randint(0, most)))

    def order(self, view: View) -> Text:
        """A total order, but for equal rows."""
        columns = self.chance.sample(view.columns, len(view.columns))
        parts = [(column.name, self.chance.choice(["ASC", "DESC"])) for column in columns]
        return Text(
            ", ".join(f"{name} {way}" for name, way in parts),
            ", ".join(f"{name} {way} NULLS {'FIRST' if way == 'ASC' else 'LAST'}" for name, way in parts),
        )

    def aggregates(self, view: View, *, filters: bool = True) -> list[tuple[Text, str]]:
        return [self._aggregate(view, filters=filters) for _ in range(self.chance.randint(1, 3))]

    def _aggregate(self, view: View, *, filters: bool) -> tuple[Text, str]:
        forms = [form for form in AGGREGATES if form[1] is None or view.of(form[1])]
        template, kind, result, duck = self.chance.choice(forms)
        column = self.chance.choice(view.of(kind)) if kind else None
        condition = Text("", "")
        if filters and self.chance.random() < 0.25:
            condition = text(" FILTER (WHERE {})", self.expressions(view).draw("bool", 1))
        given = column.text if column else Text("", "")
        return text(template, given, condition, duck=duck), result or (column.kind if column else "int")


AGGREGATES: Final[list[tuple[str, str | None, str | None, str | None]]] = [
    ("COUNT(*){1}", None, "int", None),
    *[("COUNT({0}){1}", kind, "int", None) for kind in ("str", "edge", "bool")],
    *[("COUNT(DISTINCT {0}){1}", kind, "int", None) for kind in ("str", "int", "edge", "date")],
    ("SUM({0}){1}", "int", "int", "CAST(SUM({0}){1} AS BIGINT)"),
    ("SUM(DISTINCT {0}){1}", "int", "int", "CAST(SUM(DISTINCT {0}){1} AS BIGINT)"),
    ("AVG({0}){1}", "int", "int", "CAST(SUM({0}){1} // COUNT({0}){1} AS BIGINT)"),
    ("CAST(SUM({0}){1} AS DECIMAL(20, 3))", "dec", "dec", None),
    *[(f"{name}({{0}}){{1}}", kind, None, None) for name in ("MIN", "MAX") for kind in ("int", "str", "edge", "date")],
]  # fmt: skip


def named(texts: Sequence[Text], start: int = 0) -> Text:
    """Select items with the names c0, c1 and so on."""
    parts = [text(f"{{}} AS c{start + number}", each) for number, each in enumerate(texts)]
    return Text(", ".join(part.flink for part in parts), ", ".join(part.duck for part in parts))


def listed(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


def project(drawing: Drawing, view: View, name: str) -> View:
    """Expressions, perhaps with a filter."""
    drawn = drawing.expressions(view)
    kinds = drawing.chance.choices(["int", "dec", "str", "date", "bool"], k=drawing.chance.randint(1, 4))
    items = named([drawn.draw(kind) for kind in kinds])
    kept = view.is_timed and drawing.chance.random() < 0.7
    where = text(" WHERE {}", drawn.draw("bool")) if drawing.chance.random() < 0.5 else Text("", "")
    body = text(f"SELECT {'id, rt, p, ' if kept else ''}{{}} FROM {{}}{{}}", items, drawing.source(view), where)
    columns = [Column(f"c{number}", kind) for number, kind in enumerate(kinds)]
    columns += [Column("id", "int")] if kept else []
    return View(name, body, columns, view.is_insert_only, kept, view.in_order)


def group(drawing: Drawing, view: View, name: str) -> View:
    """GROUP BY columns or an expression, perhaps with HAVING."""
    keys = [column.text for column in drawing.some(view.columns, 2)]
    kinds = [next(column.kind for column in view.columns if column.text == key) for key in keys]
    if drawing.chance.random() < 0.2:
        keys.append(text("MOD({}, 3)", drawing.expressions(view).draw("int", 1)))
        kinds.append("int")
    calls = drawing.aggregates(view)
    body = text("SELECT {} FROM {}", named([*keys, *(call for call, _ in calls)]), drawing.source(view))
    having = []
    if keys:
        grouping = Text(", ".join(key.flink for key in keys), ", ".join(key.duck for key in keys))
        body = text("{} GROUP BY {}", body, grouping)
    elif not drawing.is_batch:
        having.append(Text("", "COUNT(*) > 0"))
    if drawing.chance.random() < 0.3:
        having.append(text("{} IS NOT NULL AND COUNT(*) < 5", calls[0][0]))
    body = Text(*(_having(written, [each[side] for each in having]) for side, written in enumerate(body)))
    columns = [Column(f"c{number}", kind) for number, kind in enumerate([*kinds, *(kind for _, kind in calls)])]
    return View(name, body, columns, drawing.is_batch and view.is_insert_only)


def _having(body: str, conditions: list[str]) -> str:
    wanted = [each for each in conditions if each]
    return f"{body} HAVING {' AND '.join(wanted)}" if wanted else body


def grouping_sets(drawing: Drawing, view: View, name: str) -> View | None:
    """GROUPING SETS, ROLLUP and CUBE."""
    keys = drawing.chance.sample(view.columns, min(2, len(view.columns)))
    if len(keys) < 2:
        return None
    one, other = (key.name for key in keys)
    sets = drawing.chance.choice(
        [f"GROUPING SETS (({one}, {other}), ({one}), ())", f"ROLLUP ({one}, {other})", f"CUBE ({one}, {other})",
         f"GROUPING SETS (({one}), ({other}))"]
    )  # fmt: skip
    calls = drawing.aggregates(view)
    marks = Text(f"CAST(GROUPING({one}) AS BIGINT)", f"CAST(GROUPING({one}) AS BIGINT)")
    items = named([*(key.text for key in keys), marks, *(call for call, _ in calls)])
    body = text(f"SELECT {{}} FROM {{}} GROUP BY {sets} HAVING COUNT(*) > 0", items, drawing.source(view))
    kinds = [*(key.kind for key in keys), "int", *(kind for _, kind in calls)]
    columns = [Column(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return View(name, body, columns, drawing.is_batch)


def distinct(drawing: Drawing, view: View, name: str) -> View:
    """SELECT DISTINCT."""
    columns = drawing.some(view.columns, 3) or view.columns[:1]
    body = text(f"SELECT DISTINCT {listed(columns)} FROM {{}}", drawing.source(view))
    return View(name, body, columns, drawing.is_batch)


def top(drawing: Drawing, view: View, name: str) -> View:
    """The first rows of each partition, with or without their numbers; or QUALIFY."""
    keys = drawing.some(view.columns, 2)
    by = f"PARTITION BY {listed(keys)} " if keys else ""
    number = text(f"ROW_NUMBER() OVER ({by}ORDER BY {{}})", drawing.order(view))
    last, rank = drawing.chance.randint(1, 3), Column(f"r{name}", "int")
    if drawing.chance.random() < 0.2:
        body = text(f"SELECT {listed(view.columns)} FROM {{}} QUALIFY {{}} <= {last}", drawing.source(view), number)
        return View(name, body, view.columns, drawing.is_batch)
    condition = drawing.chance.choice([f"<= {last}", f"< {last + 1}", f"= {last}", f"BETWEEN 2 AND {last + 1}"])
    shown = [*view.columns, rank] if drawing.chance.random() < 0.5 else view.columns
    inner = text(f"(SELECT *, {{}} AS {rank.name} FROM {{}}) AS ranked", number, drawing.source(view))
    body = text(f"SELECT {listed(shown)} FROM {{}} WHERE {rank.name} {condition}", inner)
    return View(name, body, shown, drawing.is_batch)


def limit(drawing: Drawing, view: View, name: str) -> View:
    """ORDER BY with LIMIT, perhaps with OFFSET."""
    offset = drawing.chance.choice(["", "", " OFFSET 1", " OFFSET 2"])
    template = f"SELECT {listed(view.columns)} FROM {{}} ORDER BY {{}} LIMIT {drawing.chance.randint(1, 4)}{offset}"
    return View(name, text(template, drawing.source(view), drawing.order(view)), view.columns, drawing.is_batch)


def deduplicate(drawing: Drawing, view: View, name: str) -> View | None:
    """The first or last row of each key, by event time or by arrival."""
    if not (view.is_timed and view.in_order and view.is_insert_only):
        return None
    keys = drawing.some([column for column in view.columns if column.name != "id"], 1)
    if not keys:
        return None
    way, time = drawing.chance.choice(["ASC", "DESC"]), "rt" if drawing.is_batch else drawing.chance.choice(["rt", "p"])
    whole = f"rt {way}, id {way}" if time == "rt" else f"id {way}"
    # In batch mode a time is a column like any other, and which of equal rows comes first is nobody's promise.
    order = Text(whole if drawing.is_batch else f"{time} {way}", whole)
    number = text(f"ROW_NUMBER() OVER (PARTITION BY {listed(keys)} ORDER BY {{}}) AS rn", order)
    inner = text("(SELECT *, {} FROM {}) AS ranked", number, drawing.source(view))
    stays = drawing.is_batch or way == "ASC"
    return View(name, text(f"SELECT {listed(view.columns)} FROM {{}} WHERE rn = 1", inner), view.columns, stays)


def over_time(drawing: Drawing, view: View, name: str) -> View | None:
    """OVER in order of event time."""
    if not (view.is_timed and view.in_order and view.is_insert_only) or drawing.is_batch:
        return None
    keys = drawing.some([column for column in view.columns if column.name != "id"], 1)
    by = f"PARTITION BY {listed(keys)} " if keys else ""
    frame = drawing.chance.choice(
        [
            Text("ORDER BY rt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ORDER BY rt, id ROWS 2 PRECEDING"),
            Text("ORDER BY rt ROWS UNBOUNDED PRECEDING", "ORDER BY rt, id ROWS UNBOUNDED PRECEDING"),
            Text("ORDER BY rt", "ORDER BY rt"),
            Text(
                "ORDER BY rt RANGE BETWEEN INTERVAL '0.030' SECOND PRECEDING AND CURRENT ROW",
                "ORDER BY rt RANGE BETWEEN INTERVAL 30 MILLISECONDS PRECEDING AND CURRENT ROW",
            ),
        ]
    )
    calls = [call for call in drawing.aggregates(view, filters=False) if "DISTINCT" not in call[0].flink]
    if not calls:
        return None
    window = text(f"({by}{{}})", frame)
    over = [_over(call, window) for call, _ in calls]
    body = text("SELECT id, rt, p, {} FROM {}", named(over), drawing.source(view))
    columns = [Column("id", "int"), *(Column(f"c{number}", kind) for number, (_, kind) in enumerate(calls))]
    return View(name, body, columns, is_insert_only=True)


def _over(call: Text, window: Text) -> Text:
    """A call of an aggregate over a window: behind each bracket that closes one."""
    return Text(*(_AGGREGATE.sub(rf"\1 OVER {frame}", written) for written, frame in zip(call, window, strict=True)))


_AGGREGATE: Final = re.compile(r"((?:COUNT|SUM|AVG|MIN|MAX)\([^)]*\))")


def over_anything(drawing: Drawing, view: View, name: str) -> View | None:
    """OVER from the first row of a partition, in a total order, or with peers."""
    keys = drawing.some(view.columns, 1)
    by = f"PARTITION BY {listed(keys)} " if keys else ""
    calls = [call for call in drawing.aggregates(view, filters=False) if "DISTINCT" not in call[0].flink]
    if not calls:
        return None
    frame = drawing.chance.choice(["ROWS UNBOUNDED PRECEDING", "RANGE UNBOUNDED PRECEDING", ""])
    order = drawing.order(view)
    if not drawing.is_batch:
        column = drawing.chance.choice(view.columns)
        order = Text(column.name, f"{column.name} NULLS FIRST")
        frame = frame if column.name == "id" else "RANGE UNBOUNDED PRECEDING"
    window = text(f"({by}ORDER BY {{}} {frame})", order)
    shown = drawing.some(view.columns, 2)
    items = named([*(column.text for column in shown), *(_over(call, window) for call, _ in calls)])
    kinds = [*(column.kind for column in shown), *(kind for _, kind in calls)]
    columns = [Column(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return View(name, text("SELECT {} FROM {}", items, drawing.source(view)), columns, drawing.is_batch)


MILLIS: Final = "epoch_ms(rt)"


def windows(drawing: Drawing, view: View, name: str) -> View | None:
    """GROUP BY windows of event time."""
    if not (view.is_timed and view.is_insert_only):
        return None
    assigned = drawing.chance.choice(WINDOWS)
    keys = drawing.some([column for column in view.columns if column.name != "id"], 1)
    calls = drawing.aggregates(view)
    by = f", {listed(keys)}" if keys else ""
    inner = Text(f"TABLE({assigned.flink.format(view.name)})", f"({assigned.duck.format(view.name)})")
    items = named([*(key.text for key in keys), *(call for call, _ in calls)])
    body = text(f"SELECT window_start, window_end, {{}} FROM {{}} GROUP BY window_start, window_end{by}", items, inner)
    kinds = [*(key.kind for key in keys), *(kind for _, kind in calls)]
    columns = [Column("window_start", "time"), *(Column(f"c{number}", kind) for number, kind in enumerate(kinds))]
    return View(name, body, columns, is_insert_only=True)


WINDOWS: Final = [
    Text(
        "TUMBLE(TABLE {0}, DESCRIPTOR(rt), INTERVAL '0.050' SECOND)",
        f"SELECT *, epoch_ms({MILLIS} // 50 * 50) AS window_start, epoch_ms({MILLIS} // 50 * 50 + 50) AS window_end "
        "FROM {0}",
    ),
    Text(
        "TUMBLE(TABLE {0}, DESCRIPTOR(rt), INTERVAL '0.050' SECOND, INTERVAL '0.010' SECOND)",
        f"SELECT *, epoch_ms(({MILLIS} + 40) // 50 * 50 - 40) AS window_start, "
        f"epoch_ms(({MILLIS} + 40) // 50 * 50 + 10) AS window_end FROM {{0}}",
    ),
    Text(
        "HOP(TABLE {0}, DESCRIPTOR(rt), INTERVAL '0.020' SECOND, INTERVAL '0.060' SECOND)",
        f"SELECT *, epoch_ms({MILLIS} // 20 * 20 - back) AS window_start, epoch_ms({MILLIS} // 20 * 20 - back + 60) AS "
        "window_end FROM {0}, (VALUES (0), (20), (40)) AS hops(back)",
    ),
    Text(
        "CUMULATE(TABLE {0}, DESCRIPTOR(rt), INTERVAL '0.020' SECOND, INTERVAL '0.060' SECOND)",
        f"SELECT *, epoch_ms({MILLIS} // 60 * 60) AS window_start, epoch_ms({MILLIS} // 60 * 60 + until) AS window_end "
        f"FROM {{0}}, (VALUES (20), (40), (60)) AS steps(until) WHERE {MILLIS} % 60 < until",
    ),
]  # fmt: skip


def unnest(drawing: Drawing, view: View, name: str) -> View | None:
    """CROSS JOIN UNNEST of an array of numbers."""
    drawn = drawing.expressions(view)
    numbers = view.of("int")
    if not numbers:
        return None
    one, other = drawing.chance.choice(numbers).text, drawn.draw("int", 1)
    body = text(
        "SELECT {0}.*, u.y FROM {1} CROSS JOIN UNNEST(ARRAY[{2}, {3}]) AS u(y)",
        Text(view.name, view.name), drawing.source(view), one, other,
        duck="SELECT * FROM (SELECT {0}.*, unnest([{2}, {3}]) AS y FROM {1})",
    )  # fmt: skip
    if any(column.name == "y" for column in view.columns):
        return None
    return View(name, body, [*view.columns, Column("y", "int")], view.is_insert_only)


def combine(drawing: Drawing, view: View, name: str) -> View | None:
    """UNION, INTERSECT, EXCEPT of two views, with or without ALL."""
    other = drawing.chance.choice(drawing.query.views)
    operator = drawing.chance.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
    kinds = [drawing.chance.choice(["int", "str", "date", "bool"]) for _ in range(drawing.chance.randint(1, 2))]
    sides = [
        text("SELECT {} FROM {}", named([drawn.draw(kind, 1) for kind in kinds]), drawing.source(each))
        for each, drawn in ((each, drawing.expressions(each)) for each in (view, other))
    ]
    stays = drawing.is_batch or (operator == "UNION ALL" and view.is_insert_only and other.is_insert_only)
    columns = [Column(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return View(name, text(f"{{}} {operator} {{}}", *sides), columns, stays)


def matched(drawing: Drawing, view: View, other: View) -> Text | None:
    """A condition on rows of ``l`` and ``r``: columns are equal, and perhaps something else holds."""
    pairs = [(own.name, its.name) for own in view.columns for its in other.columns if _are_alike(own, its)]
    if not pairs:
        return None
    chosen = drawing.chance.sample(pairs, min(len(pairs), drawing.chance.choice([1, 1, 2])))
    parts = [f"l.{own} {drawing.chance.choice(_EQUAL)} r.{its}" for own, its in chosen]
    numbers = [(own.name, its.name) for own in view.of("int") for its in other.of("int")]
    if numbers and drawing.chance.random() < 0.3:
        own, its = drawing.chance.choice(numbers)
        parts.append(f"l.{own} < r.{its}")
    return Text(*[" AND ".join(parts)] * 2)


def _are_alike(one: Column, other: Column) -> bool:
    """Whether two columns have the same type; those at the edges are of several."""
    return one.kind == other.kind and (one.kind != "edge" or one.name == other.name)


_EQUAL: Final = ["=", "=", "=", "IS NOT DISTINCT FROM"]


def join(drawing: Drawing, view: View, name: str) -> View | None:
    """A join of two views."""
    other = drawing.chance.choice(drawing.query.views)
    kind = drawing.chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    condition = matched(drawing, view, other)
    if condition is None:
        return None
    own, its = drawing.some(view.columns, 3) or view.columns[:1], drawing.some(other.columns, 3)
    items = named([Text(*[f"{side}.{column.name}"] * 2) for side, each in (("l", own), ("r", its)) for column in each])
    sides = [text(f"(SELECT {listed(each.columns)} FROM {{}})", drawing.source(each)) for each in (view, other)]
    body = text(f"SELECT {{}} FROM {{}} AS l {kind} {{}} AS r ON {{}}", items, *sides, condition)
    stays = drawing.is_batch or (kind == "JOIN" and view.is_insert_only and other.is_insert_only)
    columns = [Column(f"c{number}", column.kind) for number, column in enumerate([*own, *its])]
    return View(name, body, columns, stays)


def membership(drawing: Drawing, view: View, name: str) -> View | None:
    """The rows of a view that are, or are not, in another one."""
    other, has = drawing.chance.choice(drawing.query.views), drawing.chance.choice(["", "NOT "])
    sides = [text(f"(SELECT {listed(each.columns)} FROM {{}})", drawing.source(each)) for each in (view, other)]
    condition = matched(drawing, view, other)
    if condition is None:
        return None
    where = text(f"{has}EXISTS (SELECT 1 FROM {{}} AS r WHERE {{}})", sides[1], condition)
    if drawing.chance.random() < 0.4:
        pairs = [(own.name, its.name) for own in view.columns for its in other.columns if _are_alike(own, its)]
        left, right = drawing.chance.choice(pairs)
        where = text(f"l.{left} {has}IN (SELECT r.{right} FROM {{}} AS r)", sides[1])
    body = text(f"SELECT {listed(view.columns)} FROM {{}} AS l WHERE {{}}", sides[0], where)
    stays = drawing.is_batch or (not has and view.is_insert_only and other.is_insert_only)
    return View(name, body, view.columns, stays)


STEPS: Final[list[Step]] = [
    project, project, group, group, group, grouping_sets, distinct, top, top, limit, deduplicate, deduplicate,
    over_time, over_time, over_anything, windows, windows, unnest, combine, combine, join, join,
    membership,
]  # fmt: skip


def random_query(chance: Random) -> tuple[Query, bool]:
    """A query, and whether it runs in batch mode; the same for the same numbers."""
    is_batch = chance.random() < 0.3
    modes = [ChangelogMode.INSERT, ChangelogMode.INSERT, ChangelogMode.ALL, ChangelogMode.UPSERT]
    query = Query([])
    for number in range(chance.choice([1, 1, 2])):
        mode, splits = chance.choice(modes[: 1 if is_batch else None]), chance.choice([1, 1, 2])
        table = random_table(chance, f"t{number}", mode, splits)
        query.tables.append(table)
        body = Text(*[f"SELECT {listed(INPUT)}, rt, p FROM {table.name}"] * 2)
        query.views.append(
            View(f"v{number}", body, INPUT, table.is_insert_only, True, splits == 1 and table.is_insert_only)
        )
    drawing = Drawing(chance, query, is_batch)
    for _ in range(chance.randint(1, 4)):
        view = chance.choice(query.views[-2:])
        made = chance.choice(STEPS)(drawing, view, f"v{len(query.views)}")
        if made is not None:
            query.views.append(made)
    last = query.views[-1]
    result = text(f"SELECT {listed(last.columns)} FROM {{}}", drawing.source(last))
    query.views.append(View("answer", result, last.columns, last.is_insert_only))
    return query, is_batch
