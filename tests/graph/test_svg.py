"""Diagrams as SVG: everything is there, nothing overlaps, names mean nothing."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.graph.diagram import Arrow, Box, Diagram, DiagramFrame, draw_text, graph_diagram
from headrace.graph.diagram_svg import LABEL_HEIGHT, DiagramLayout, draw_svg
from headrace.graph.stream_graph import StreamGraph
from headrace.plan.explain import plan_diagram

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan

SVG = "{http://www.w3.org/2000/svg}"
NAMES = st.text(max_size=60)


@st.composite
def diagrams(draw: st.DrawFn) -> Diagram:
    """Any job: frames of boxes, arrows that chain within a frame or leave it for a later one."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    frame_of = [frame for frame, size in enumerate(sizes) for _ in range(size)]
    notes = st.lists(NAMES, max_size=3).map(tuple)
    roles = st.sampled_from(["Data Source", "Operator", "Data Sink"])
    boxes = [Box(number, draw(NAMES), draw(roles), draw(notes)) for number in range(len(frame_of))]
    pairs = [*combinations(range(len(boxes)), 2)]
    ends = draw(st.lists(st.sampled_from(pairs), max_size=10)) if pairs else []
    labels = st.sampled_from(["FORWARD", "FORWARD, side output late", "HASH(card)"])
    arrows = tuple(Arrow(a, b, draw(labels), is_exchange=frame_of[a] != frame_of[b]) for a, b in ends)
    titled = draw(st.booleans()) or len(sizes) > 1
    frames = tuple(
        DiagramFrame(f"Stage {n}, parallelism 2" if titled else None, tuple(b for b in boxes if frame_of[b.id] == n))
        for n in range(len(sizes))
    )
    return Diagram(draw(NAMES), frames, arrows)


def rectangles(layout: DiagramLayout) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of boxes and labels."""
    boxes = [
        (box.top.x - box.width / 2, box.top.y, box.top.x + box.width / 2, box.top.y + box.height)
        for box in layout.boxes
    ]
    labels = [
        (at.x - arrow.label_width / 2, at.y - LABEL_HEIGHT / 2, at.x + arrow.label_width / 2, at.y + LABEL_HEIGHT / 2)
        for arrow in layout.arrows
        if arrow.text and (at := arrow.label)
    ]
    return boxes + labels


@given(diagrams())
def test_nothing_lies_on_anything_else(diagram: Diagram) -> None:
    layout = DiagramLayout(diagram)
    found = rectangles(layout)
    for left, top, right, bottom in found:
        assert 0 < left < right < layout.width
        assert 0 < top < bottom < layout.height
    for one, other in combinations(found, 2):
        beside = one[2] <= other[0] + 1e-6 or other[2] <= one[0] + 1e-6
        assert beside or one[3] <= other[1] or other[3] <= one[1]
    for upper, lower in combinations(layout.bands, 2):
        assert upper.bottom < lower.top


@given(diagrams())
def test_records_go_down(diagram: Diagram) -> None:
    layout = DiagramLayout(diagram)
    for placed in layout.arrows:
        heights = [point.y for point in placed.points]
        assert heights == sorted(heights)
    bands = {box.id: band for frame, band in zip(diagram.frames, layout.bands, strict=False) for box in frame.boxes}
    for placed_box in layout.boxes:
        if placed_box.box.id in bands:
            band = bands[placed_box.box.id]
            assert band.top < placed_box.top.y < placed_box.top.y + placed_box.height < band.bottom


@given(diagrams())
def test_any_name_makes_a_document(diagram: Diagram) -> None:
    root = ElementTree.fromstring(draw_svg(diagram))
    boxes = [box for frame in diagram.frames for box in frame.boxes]
    assert len(root.findall(f"{SVG}g")) == len(boxes)


@given(diagrams())
def test_the_same_diagram_gives_the_same_bytes(diagram: Diagram) -> None:
    assert draw_svg(diagram) == draw_svg(diagram)


def test_a_plan_shows_what_its_text_shows(payments_plan: JobPlan) -> None:
    diagram = plan_diagram(payments_plan)
    root = ElementTree.fromstring(draw_svg(diagram))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[0] == "Card fraud: 2 stages, 128 key groups, streaming mode"
    for expected in ("Stage 0", "Stage 1", "parallelism 2", "Card rule", "uid card-rule", "keyed state", "HASH(card)"):
        assert expected in texts
    assert "side output late" in texts
    assert not [text for text in texts if text and "FORWARD" in text]


def test_derived_uids_are_in_tooltips_alone(payments_plan: JobPlan) -> None:
    root = ElementTree.fromstring(draw_svg(plan_diagram(payments_plan)))
    boxes = {group.findtext(f"{SVG}text"): group for group in root.findall(f"{SVG}g")}
    sink = boxes["Sink: alerts"]
    assert [text.text for text in sink.iter(f"{SVG}text")] == ["Sink: alerts"]
    assert "(derived)" in (sink.findtext(f"{SVG}title") or "")


def test_it_is_read_out_as_title_and_text(payments_plan: JobPlan) -> None:
    diagram = plan_diagram(payments_plan)
    root = ElementTree.fromstring(draw_svg(diagram))
    assert root.get("role") == "img"
    assert (root[0].tag, root[0].text) == (f"{SVG}title", diagram.headline)
    assert (root[1].tag, root[1].text) == (f"{SVG}desc", draw_text(diagram))


def test_names_mean_nothing_to_a_page() -> None:
    name = '<script>alert("1")</script> & \x00 ]]>'
    svg = draw_svg(Diagram(name, (DiagramFrame(None, (Box(0, name, "Operator", (name,)),)),), ()))
    assert "<script" not in svg
    assert "\x00" not in svg
    ElementTree.fromstring(svg)


def test_it_asks_nobody_for_anything(payments_plan: JobPlan) -> None:
    svg = draw_svg(plan_diagram(payments_plan), standalone=False)
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg\")|url\(|@import|<script|<image|href|\bon\w+=", svg)


def test_a_picture_alone_asks_the_reader_and_one_in_a_page_the_page(payments_plan: JobPlan) -> None:
    diagram = plan_diagram(payments_plan)
    assert "prefers-color-scheme:dark" in draw_svg(diagram)
    inside = draw_svg(diagram, standalone=False)
    assert "prefers-color-scheme" not in inside
    assert 'body[data-jp-theme-light="false"]' in inside


@pytest.mark.parametrize("standalone", [True, False])
def test_what_is_drawn_has_a_colour_for_dark_pages(payments_plan: JobPlan, standalone: bool) -> None:
    svg = draw_svg(plan_diagram(payments_plan), standalone=standalone)
    used = set(re.findall(r'class="(headrace-[a-z-]+)" fill', svg))
    styled = set(re.findall(r"\.(headrace-[a-z-]+)\{fill", svg))
    assert used
    assert used <= styled


def test_a_marked_box_stands_out(payments_plan: JobPlan) -> None:
    diagram = plan_diagram(payments_plan)
    assert draw_svg(diagram, {2}) != draw_svg(diagram)
    assert draw_svg(diagram, {2}).count('font-weight="700"') == 1


def test_long_names_are_cut_in_the_box_and_whole_in_its_tooltip() -> None:
    name = "a very " * 20 + "long name"
    root = ElementTree.fromstring(draw_svg(Diagram("one", (DiagramFrame(None, (Box(7, name, "Operator"),)),), ())))
    group = root.find(f"{SVG}g")
    assert group is not None
    assert group.findtext(f"{SVG}title") == f"[7] {name}"
    shown = group.findtext(f"{SVG}text")
    assert shown is not None
    assert shown.endswith("…")
    assert len(shown) == 40


def test_an_empty_graph_has_a_picture() -> None:
    ElementTree.fromstring(draw_svg(graph_diagram(StreamGraph())))
