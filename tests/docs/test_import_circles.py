"""No module needs a module that needs it, directly or by others; annotations may name each other, here and there."""

from __future__ import annotations

import grimp

LARGEST = 11
"""The environment and its streams: plain, partitioned, keyed, connected, joined and cut into windows, and the ends of
streams. Their methods return each other. No other circle is as large."""

MOST = 7
"""Definitions that name each other, mostly two of a package, each of which is a subject of its own."""


def circles(*, with_annotations: bool) -> list[set[str]]:
    """Sets of modules each of which leads to all the others, by what they import when they are loaded or later."""
    built = grimp.build_graph("headrace", exclude_type_checking_imports=not with_annotations, cache_dir=None)
    graph = core_of({name: built.find_modules_directly_imported_by(name) for name in built.modules})
    reached = {name: reachable(name, graph) for name in graph}
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(circle) for circle in found if circle]


def core_of(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is left without the modules that lead nowhere or that nothing leads to."""
    while True:
        targets = set().union(*graph.values())
        core = {name: others & graph.keys() for name, others in graph.items() if others and name in targets}
        if core == graph:
            return graph
        graph = core


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    stack = [start]
    while stack:
        new = graph[stack.pop()] - found
        found |= new
        stack += new
    return found


def test_no_circles_when_the_program_runs() -> None:
    assert circles(with_annotations=False) == []


def test_annotations_go_in_circles_only_among_a_few_of_a_package() -> None:
    found = circles(with_annotations=True)
    assert max(map(len, found)) == LARGEST, "the environment and its streams"
    assert len(found) == MOST, "a definition that two others need belongs into a module below both"
    packages = [{".".join(name.split(".")[:2]) for name in circle} for circle in found]
    assert [package for package in packages if len(package) > 1] == []
