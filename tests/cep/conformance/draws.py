"""Random patterns and events, in the form of the cases."""

from __future__ import annotations

from random import Random
from typing import Any

_NAMES = "abcd"
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")


def draw_case(random: Random, name: str) -> dict[str, Any]:
    """A case without an answer."""
    stages: list[str] = []
    case: dict[str, Any] = {"id": name, "pattern": _sequence(random, stages, depth=0)}
    if random.random() < 0.5:
        case["skip"] = _skip(random, stages)
    if random.random() < 0.1:
        case["time"] = "processing"
    if random.random() < 0.12:
        case["comparator"] = random.choice(["", "-"]) + random.choice(["price", "name", "id"])
    case["input"] = _input(random, is_processing_time="time" in case)
    return case


# --- patterns --------------------------------------------------------------------------------------------------------


def _sequence(random: Random, stages: list[str], depth: int) -> list[dict[str, Any]]:
    sequence: list[dict[str, Any]] = []
    for at in range(random.choice([1, 2, 2, 3, 3, 4] if depth == 0 else [1, 2, 2, 3])):
        is_group = depth < 2 and random.random() < (0.18 if depth == 0 else 0.1)
        op = "begin" if at == 0 else _op(random, is_group)
        if is_group:
            sequence.append({"op": op, "group": _sequence(random, stages, depth + 1)})
        else:
            stages.append(f"s{len(stages)}")
            sequence.append({"op": op, "name": stages[-1]})
        calls = [] if is_group else _conditions(random, stages)
        if not op.startswith("not") or random.random() < 0.03:
            calls += _quantifier(random, is_group)
        if random.random() < (0.25 if depth == 0 else 0.05):
            calls.append(_window(random))
        if calls:
            sequence[-1]["calls"] = calls
    return sequence


def _op(random: Random, is_group: bool) -> str:
    ops = ["next", "followedBy", "followedBy", "followedByAny"]
    return random.choice(ops if is_group else [*ops, *ops, "notNext", "notFollowedBy"])


def _conditions(random: Random, stages: list[str]) -> list[list[Any]]:
    calls = [["where", _condition(random, stages)]] if random.random() < 0.95 else []
    if random.random() < 0.15:
        calls.append([random.choice(["or", "where"]), _condition(random, stages)])
    if random.random() < 0.03:
        calls.append(["subtype", random.choice(["Sub", "SubSub"])])
    return calls


def _condition(random: Random, stages: list[str]) -> list[Any]:
    stage = random.choice(stages)
    compare = random.choice(_COMPARE)
    kinds: list[list[Any]] = [
        ["name", random.choice(_NAMES)],
        ["name", random.choice(_NAMES)],
        ["name", random.choice(_NAMES)],
        ["name_in", random.sample(_NAMES, 2)],
        ["price", random.choice("<>"), random.randint(2, 8)],
        ["not", ["name", random.choice(_NAMES)]],
        random.choice(
            [
                ["sum", stage, compare, random.randint(5, 30)],
                ["last", stage, compare, random.random() < 0.5],
                ["first", stage, compare, random.random() < 0.5],
                ["count", stage, compare, random.randint(0, 3)],
                ["true"],
            ]
        ),
    ]
    condition = random.choice(kinds)
    if random.random() < 0.15:
        return [random.choice(["and", "or"]), condition, random.choice(kinds)]
    return condition


def _quantifier(random: Random, is_group: bool) -> list[list[Any]]:
    calls: list[list[Any]] = []
    if random.random() < 0.45:
        low = random.randint(1, 3)
        times = random.choice(
            [["oneOrMore"], ["oneOrMore"], ["times", low], ["times", low % 3, low + 1], ["timesOrMore", low]]
        )
        calls.append(times + ([{"gap": random.randint(1, 6)}] if random.random() < 0.15 else []))
        if random.random() < 0.35:
            calls.append([random.choice(["consecutive", "allowCombinations"])])
        if not is_group and random.random() < 0.25:
            calls.append(["greedy"])
        if times[0] != "times" and random.random() < 0.15:
            calls.append(["until", ["name", random.choice(_NAMES)]])
    if random.random() < 0.2:
        calls.append(["optional"])
    return calls


def _window(random: Random) -> list[Any]:
    span = random.choice([1, 2, 3, 5, 10, 15, 30])
    return ["within", span, "PREVIOUS_AND_CURRENT"] if random.random() < 0.25 else ["within", span]


def _skip(random: Random, stages: list[str]) -> list[Any]:
    kind = random.choice(["skipToNext", "skipPastLastEvent", "skipToFirst", "skipToLast", "noSkip"])
    if not kind.startswith("skipTo") or kind == "skipToNext":
        return [kind]
    return [kind, random.choice(stages), *(["throw"] if random.random() < 0.15 else [])]


# --- events ----------------------------------------------------------------------------------------------------------


def _input(random: Random, *, is_processing_time: bool) -> list[list[Any]]:
    items: list[list[Any]] = []
    time = random.choice([0, 1, 5, 100] if is_processing_time else [-5, 0, 1, 5, 100])
    keys = random.choice([["k"], ["k"], ["k1", "k2"]])
    pace = random.choice([1, 2, 4])
    counts = dict.fromkeys(_NAMES, 0)
    for _ in range(random.randint(4, 18)):
        time += random.randint(0, pace)
        name = random.choice(_NAMES)
        counts[name] += 1
        # What is older than what was matched before a restart, Flink may mistake for it: it has no watermark then.
        late = 0 if ["s"] in items else random.choice([0, 0, 0, 0, 0, 2])
        kind = [random.choice(["Sub", "SubSub"])] if random.random() < 0.1 else []
        items.append(
            ["e", random.choice(keys), f"{name}{counts[name]}", time - late, name, random.randint(1, 9), *kind]
        )
        if random.random() < 0.4:
            items.append(["p", time] if is_processing_time else ["w", time - random.randint(0, 1)])
        if random.random() < 0.02:
            items.append(["s"])
    if is_processing_time:
        return [*items, ["p", time + 100]]
    return [*items, ["w", time + random.choice([0, 10])], *([["w", "max"]] if random.random() < 0.6 else [])]
