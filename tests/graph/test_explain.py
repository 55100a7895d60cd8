"""The physical plan as text, Mermaid and JSON."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import PrintSink
from headrace.graph import specs
from headrace.graph.diagram import draw_mermaid, draw_text
from headrace.graph.partitioning import HASH, KeySelection
from headrace.graph.process_specs import KeyedProcessSpec
from headrace.graph.stream_graph import Edge, StreamGraph
from headrace.plan.explain import plan_diagram, plan_document
from headrace.plan.job_plan import PlanSettings
from headrace.plan.planner import plan_job
from headrace.state.keys import KeyCodec
from tests.graph.conftest import add_source

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan

UID = re.compile(r"[0-9a-f]{16}")


def with_fixed_uids(text: str) -> str:
    """Derived uids change with what they are derived from; only that they are shown matters."""
    return UID.sub("0123456789abcdef", text)


def test_text_shows_stages_as_boxes_and_exchanges_between_them(payments_plan: JobPlan) -> None:
    assert (
        with_fixed_uids(draw_text(plan_diagram(payments_plan)))
        == """\
Card fraud: 2 stages, 128 key groups, streaming mode

┌─ Stage 0, parallelism 2 ──────────────────────────────────────────────────────────────────────────┐
│ [0] Source: payments          uid payments                                                        │
│ └─ [1] Timestamps/Watermarks  uid 0123456789abcdef (derived)                                      │
└───────────────────────────────────────────────────────────────────────────────────────────────────┘
   │ HASH(card)      [1] → [2]
   │ HASH(merchant)  [1] → [3]
   ▼
┌─ Stage 1, parallelism 2 ──────────────────────────────────────────────────────────────────────────┐
│ [2] Card rule                         uid card-rule, keyed state                                  │
│ └─ [4] Sink: alerts                   uid 0123456789abcdef (derived)                              │
│ [3] Totals                            uid 0123456789abcdef (derived), keyed state, columnar,      │
│ │                                     TumblingEventTimeWindows(60000 ms), late records to 'late', │
│ │                                     parallelism 1                                               │
│ ├─ [5] Sink: totals                   uid 0123456789abcdef (derived), parallelism 1               │
│ └─ side output late → [6] Sink: late  uid 0123456789abcdef (derived), parallelism 1               │
└───────────────────────────────────────────────────────────────────────────────────────────────────┘
"""
    )


def test_text_boxes_close_around_wide_characters(payments_plan: JobPlan) -> None:
    stage = payments_plan.stages[0]
    source = replace(stage.operators[0], node=replace(stage.operators[0].node, name="計数\n🚰"))
    stages = (replace(stage, operators=(source, *stage.operators[1:])), *payments_plan.stages[1:])
    lines = draw_text(plan_diagram(replace(payments_plan, stages=stages))).splitlines()
    assert r"│ [0] 計数\n🚰                  uid payments" in lines[3]
    assert len(lines[3]) + 3 == len(lines[4])  # three characters that take two columns each


def test_mermaid_has_a_subgraph_for_each_stage(payments_plan: JobPlan) -> None:
    assert (
        with_fixed_uids(draw_mermaid(plan_diagram(payments_plan)))
        == """\
flowchart TB
    subgraph stage0["Stage 0, parallelism 2"]
        op0(["Source: payments<br/>uid payments"])
        op1["Timestamps/Watermarks<br/>uid 0123456789abcdef (derived)"]
        op0 -->|"FORWARD"| op1
    end
    subgraph stage1["Stage 1, parallelism 2"]
        op2["Card rule<br/>uid card-rule<br/>keyed state"]
        op3["Totals<br/>uid 0123456789abcdef (derived)<br/>keyed state<br/>columnar\
<br/>TumblingEventTimeWindows(60000 ms)<br/>late records to #39;late#39;<br/>parallelism 1"]
        op4[["Sink: alerts<br/>uid 0123456789abcdef (derived)"]]
        op5[["Sink: totals<br/>uid 0123456789abcdef (derived)<br/>parallelism 1"]]
        op6[["Sink: late<br/>uid 0123456789abcdef (derived)<br/>parallelism 1"]]
        op2 -->|"FORWARD"| op4
        op3 -->|"FORWARD"| op5
        op3 -->|"FORWARD, side output late"| op6
    end
    op1 ==>|"HASH(card)"| op2
    op1 ==>|"HASH(merchant)"| op3
"""
    )


def test_json_documents_operators_and_edges(payments_plan: JobPlan) -> None:
    document = plan_document(payments_plan)
    assert list(document) == ["name", "mode", "mode_reason", "max_parallelism", "stages", "edges"]
    assert (document["name"], document["mode"], document["max_parallelism"]) == ("Card fraud", "STREAMING", 128)
    assert [[op["id"] for op in stage["operators"]] for stage in document["stages"]] == [[0, 1], [2, 3, 4, 5, 6]]
    source, rule = document["stages"][0]["operators"][0], document["stages"][1]["operators"][0]
    assert (source["uid"], source["uid_derived"], source["pact"], source["kind"]) == (
        "payments",
        False,
        "Data Source",
        "Source",
    )
    assert (source["state"], rule["state"]) == ([], ["keyed"])
    assert rule["call_site"].startswith(__file__.replace("test_explain", "conftest"))
    assert document["edges"][1] == {
        "source": 1,
        "target": 2,
        "input": 0,
        "ship_strategy": "HASH",
        "exchange": True,
        "key": "card",
        "side_output": None,
    }


def test_an_exchange_that_skips_a_stage_says_so() -> None:
    graph = StreamGraph()
    key = KeySelection(KeyCodec.for_type(Types.LONG()), None, (0,))
    first, second = (Edge(number, HASH, key=key) for number in (0, 1))
    add_source(graph, "start")
    graph.add(KeyedProcessSpec(None, Types.LONG()), "once", (first,))
    graph.add(KeyedProcessSpec(None, Types.LONG()), "twice", (second, first))
    graph.add(specs.SinkSpec(PrintSink()), "sink", (Edge(2),))
    text = draw_text(plan_diagram(plan_job(graph, PlanSettings("skips", 2, 128, is_batch=True))))
    assert "   │ HASH(0)  [0] → [2] (passes through stage 1)\n" in text
    assert text.startswith("skips: 3 stages, 128 key groups, batch mode\n")
