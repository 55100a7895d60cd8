"""The logical graph as text, Mermaid and JSON."""

from __future__ import annotations

from operator import itemgetter

import pytest

from headrace.common.typeinfo import Types
from headrace.graph import specs
from headrace.graph.diagram import draw_mermaid, draw_text, escape, graph_diagram, graph_document
from headrace.graph.partitioning import KeySelection
from headrace.graph.stream_graph import Edge, StreamGraph
from headrace.state.keys import KeyCodec
from tests.graph.conftest import TwoInputs, add_source


def test_text_is_a_tree_from_the_sources_down(payments: StreamGraph) -> None:
    assert (
        draw_text(graph_diagram(payments))
        == """\
7 operators

[0] Source: payments  (uid payments)
└─ [1] Timestamps/Watermarks
   ├─ HASH(card) → [2] Card rule  (uid card-rule)
   │  └─ [4] Sink: alerts
   └─ HASH(merchant) → [3] Totals  (parallelism 1)
      ├─ [5] Sink: totals
      └─ side output late → [6] Sink: late
"""
    )


def test_text_refers_to_what_was_drawn_above(union: StreamGraph) -> None:
    assert (
        draw_text(graph_diagram(union))
        == """\
3 operators

[0] Left
└─ [2] Both
[1] Right
└─ [2] Both (see above)
"""
    )


def test_mermaid(payments: StreamGraph) -> None:
    assert (
        draw_mermaid(graph_diagram(payments))
        == """\
flowchart TB
    op0(["Source: payments<br/>uid payments"])
    op1["Timestamps/Watermarks"]
    op2["Card rule<br/>uid card-rule"]
    op3["Totals<br/>parallelism 1"]
    op4[["Sink: alerts"]]
    op5[["Sink: totals"]]
    op6[["Sink: late"]]
    op0 -->|"FORWARD"| op1
    op1 -->|"HASH(card)"| op2
    op1 -->|"HASH(merchant)"| op3
    op2 -->|"FORWARD"| op4
    op3 -->|"FORWARD"| op5
    op3 -->|"FORWARD, side output late"| op6
"""
    )


def test_json_has_the_shape_of_flinks_execution_plan(payments: StreamGraph) -> None:
    nodes = graph_document(payments)["nodes"]
    assert nodes[0] == {
        "id": 0,
        "type": "Source: payments",
        "pact": "Data Source",
        "contents": "card payments of the demo",
        "parallelism": None,
        "uid": "payments",
    }
    assert nodes[3] == {
        "id": 3,
        "type": "Totals",
        "pact": "Operator",
        "contents": "Totals",
        "parallelism": 1,
        "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "first"}],
    }
    assert nodes[6]["pact"] == "Data Sink"
    assert nodes[6]["predecessors"] == [{"id": 3, "ship_strategy": "FORWARD", "side": "first", "side_output": "late"}]


def test_json_names_the_side_of_an_input() -> None:
    graph = StreamGraph()
    left, right = add_source(graph, "left"), add_source(graph, "right")
    graph.add(TwoInputs(), "join", (Edge(left), Edge(right, input_index=1)))
    assert [edge["side"] for edge in graph_document(graph)["nodes"][2]["predecessors"]] == ["first", "second"]


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain name 1", "plain name 1"),
        ('a "quoted" name', "a #34;quoted#34; name"),
        ("list[int]", "list#91;int#93;"),
        ("{a} | <b> & c; #d", "#123;a#125; #124; #60;b#62; #38; c#59; #35;d"),
        ("`code` \\ ~%^@$", "#96;code#96; #92; #126;#37;#94;#64;#36;"),
        ("two\nlines\tand a tab", "two<br/>lines and a tab"),
        ("Zähler, 計数, счёт, 🚰", "Zähler, 計数, счёт, 🚰"),
        ("snake_case", "snake#95;case"),
    ],
)
def test_mermaid_names_mean_nothing_to_mermaid(name: str, escaped: str) -> None:
    assert escape(name) == escaped


def test_names_stay_on_one_line_of_the_text() -> None:
    graph = StreamGraph()
    add_source(graph, "two\nlines \x1b[31m")
    assert draw_text(graph_diagram(graph)).splitlines()[2] == r"[0] two\nlines \x1b[31m"


def test_hostile_names_survive_in_json() -> None:
    graph = StreamGraph()
    name = 'a "b"\n{c} 計数'
    add_source(graph, name)
    assert graph_document(graph)["nodes"][0]["type"] == name


@pytest.mark.slow
def test_a_graph_deeper_than_pythons_stack_is_drawn() -> None:
    graph = StreamGraph()
    add_source(graph, "start")
    for number in range(1, 1500):
        graph.add(specs.MapSpec(None, Types.LONG()), "next", (Edge(number - 1),))
    assert draw_text(graph_diagram(graph)).count("\n") == 1502


class ByCard:
    def get_key(self, record: dict[str, str]) -> str:
        return record["card"]


class FieldLike:
    field = "amount"


def by_name(record: dict[str, str]) -> str:
    return record["name"]


@pytest.mark.parametrize(
    ("selector", "label"),
    [
        (lambda record: record, "lambda"),
        (by_name, "by_name"),
        (ByCard().get_key, "ByCard"),
        (FieldLike(), "amount"),
        (itemgetter(0), "itemgetter"),
    ],
)
def test_a_key_is_named_by_its_function_when_its_fields_are_not_known(selector: object, label: str) -> None:
    assert KeySelection(KeyCodec.for_type(Types.STRING()), selector, None).label == label


def test_a_key_is_named_by_its_fields_when_they_are_known() -> None:
    assert KeySelection(KeyCodec.for_type(Types.STRING()), None, ("card", 1)).label == "card, 1"
