"""The state of a pattern: what may change with the program, how large it is, and that it does not grow."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.cep import CEP, Pattern
from headrace.common import Types
from headrace.common.errors import StateMigrationError
from headrace.datastream import DataStream
from headrace.expressions import col
from headrace.operators.pattern import found_matches, shared_buffer
from headrace.operators.pattern.found_matches import FoundMatches
from headrace.testing import JobHarness
from tests.cep.conformance.operator_driver import OperatorDriver


def two_stages(amount: str = "amount", *, most: float = 1.0, then: str = "large", seconds: int = 10) -> Pattern[Any]:
    begun: Pattern[Any] = Pattern.begin("small").where(col(amount) < most)
    return begun.followed_by(then).where(col(amount) > 500.0).within(seconds * 1_000)


def job(pattern: Pattern[Any], fields: dict[str, Any], renamed: dict[str, str] | None = None) -> Any:
    def build(harness: JobHarness) -> None:
        payments = harness.add_source("payments", Types.ROW_NAMED([*fields], [*fields.values()])).key_by("card")
        found: DataStream = CEP.pattern(payments, pattern).select(lambda match: str([*match.values()]), str)
        found = found.uid("pattern")
        harness.add_sink("found", found.set_renamed_fields(renamed) if renamed else found)

    return build


def begun() -> Any:
    """A partial match, and an event that waits."""
    with JobHarness(job(two_stages(), {"card": str, "amount": float})) as harness:
        harness.push("payments", ("ann", 0.5), timestamp=1_000)
        harness.advance_watermark("payments", 1_500)
        harness.push("payments", ("bob", 0.25), timestamp=2_000)
        harness.run_epoch()
        return harness.checkpoint()


def test_fields_may_be_added_and_renamed() -> None:
    changed = job(two_stages("price"), {"card": str, "price": float, "note": Types.STRING()}, {"amount": "price"})
    with JobHarness(changed, restore=begun()) as harness:
        harness.push_all("payments", [("ann", 900.0, "x"), ("bob", 800.0, "y")], [3_000, 3_000])
        harness.finish()
        assert sorted(harness.results("found")) == [
            "[[Row(card='ann', price=0.5, note=None)], [Row(card='ann', price=900.0, note='x')]]",
            "[[Row(card='bob', price=0.25, note=None)], [Row(card='bob', price=800.0, note='y')]]",
        ]


def test_conditions_and_windows_may_change() -> None:
    changed = job(two_stages(most=0.1, seconds=60), {"card": str, "amount": float})
    with JobHarness(changed, restore=begun()) as harness:
        harness.push_all("payments", [("ann", 900.0), ("bob", 800.0)], [30_000, 30_000])
        harness.finish()
        assert len(harness.results("found")) == 1  # what waited is judged by the new condition


def test_matches_of_many_keys_go_on_after_a_restart_at_another_parallelism() -> None:
    cards = [f"card {number}" for number in range(1_000)]
    fields = {"card": str, "amount": float}
    with JobHarness(job(two_stages(), fields), parallelism=2) as harness:
        harness.push_all("payments", [(card, 0.5) for card in cards], [1_000] * len(cards))
        harness.advance_watermark("payments", 1_500)
        harness.run_epoch()
        assert len(harness.partial_matches("pattern")) == len(cards)
        checkpoint = harness.checkpoint()
    with JobHarness(job(two_stages(), fields), parallelism=3, restore=checkpoint) as harness:
        harness.push_all("payments", [(card, 900.0) for card in cards[::2]], [2_000] * 500)
        harness.advance_watermark("payments", 2_000)
        harness.run_epoch()
        assert sorted(held.key for held in harness.partial_matches("pattern")) == sorted(cards[1::2])
        assert sorted(harness.results("found")) == sorted(
            f"[[Row(card={card!r}, amount=0.5)], [Row(card={card!r}, amount=900.0)]]" for card in cards[::2]
        )


def test_other_stages_are_refused() -> None:
    changed = job(two_stages(then="huge"), {"card": str, "amount": float})
    with (
        pytest.raises(StateMigrationError, match=r"states of the pattern(.|\n)*uid"),
        JobHarness(changed, restore=begun()) as harness,
    ):
        harness.run_epoch()


def test_state_of_another_operator_is_refused() -> None:
    def other(harness: JobHarness) -> None:
        payments = harness.add_source("payments", Types.ROW_NAMED(["card", "amount"], [str, float])).key_by("card")
        harness.add_sink("found", payments.max_by("amount").uid("pattern"))

    with JobHarness(other) as harness:
        harness.push("payments", ("ann", 0.5), timestamp=1_000)
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with (
        pytest.raises(StateMigrationError, match="another kind of operator"),
        JobHarness(job(two_stages(), {"card": str, "amount": float}), restore=checkpoint) as harness,
    ):
        harness.run_epoch()


def test_nothing_grows_where_there_is_a_window() -> None:
    """Many windows after one another: what the last one holds is there, and nothing else."""
    stages = [
        {"op": "begin", "name": "small", "calls": [["where", ["price", "<", 5]]]},
        {"op": "followedBy", "name": "large", "calls": [["where", ["price", ">", 7]], ["within", 10]]},
    ]
    events = [["e", f"k{time % 7}", f"e{time}", time, "e", time * 7 % 10] for time in range(1, 400)]
    items = [item for event in events for item in (event, ["w", event[3]])]
    driver = OperatorDriver({"pattern": stages, "input": items}, cut=80)
    driver.run()
    assert len([told for told in driver.out if told[0] == "m"]) > 20
    assert sum(partial for partial, _, _ in driver.left().values()) <= 10
    rows = {name: sum(run.rows for run in store.runs) for name, store in driver._stores.items()}
    assert rows["pattern-matches"] < 80, "at most what one epoch has written"
    assert rows["pattern-timers"] <= 80


def test_a_partial_match_takes_few_bytes() -> None:
    count = 2_000
    stages = [{"op": "begin", "name": "a", "calls": []}, {"op": "next", "name": "b", "calls": [["within", 10_000]]}]
    events = [["e", f"key {number}", "event", 1_000, "e", 1] for number in range(count)]
    driver = OperatorDriver({"pattern": stages, "input": [*events, ["w", 1_000]]})
    driver.run()
    batches = [run.section.slice(0, run.rows) for store in driver._stores.values() for run in store.runs]
    columns = [column for batch in batches for column in zip(batch.schema.names, batch.columns, strict=True)]
    own = sum(column.nbytes for name, column in columns if "record" not in name)
    assert own / count < 150 - 25, "beside the event itself"


MANY = [
    "small followed_by large within 12 ms",
    "small followed_by_any large followed_by middle within 20 ms",
    "small followed_by large{2} consecutive",
    "small not_followed_by large followed_by middle within 15 ms",
    "small followed_by_any more:small+ combinations followed_by large within 9 ms",
    "small+ followed_by_any middle? followed_by large within 9 ms skip_to_next",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", MANY)
def test_many_rows_are_as_few(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows of a key are left unread unless they change, few are decoded and written anew."""
    conditions = {"small": "amount < 4.0", "large": "amount >= 8.0", "middle": "amount > 4.0 and amount < 8.0"}
    pattern = Pattern.parse(text, {name: said for name, said in conditions.items() if name in text})
    chance = random.Random(text)
    payments = [(chance.choice("ab"), float(chance.choice([1, 2, 2, 3, 3, 5, 9]))) for _ in range(60)]
    left: list[int] = []
    additions, begun_until = FoundMatches.additions, FoundMatches.begun_until

    def noted_additions(found: FoundMatches, is_wanted: Any, unread: Any) -> Any:
        left.append(len(found.unread))
        return additions(found, is_wanted, unread)

    def noted_begun_until(found: FoundMatches, is_wanted: Any, time: int) -> Any:
        left.append(is_wanted.sum())
        return begun_until(found, is_wanted, time)

    monkeypatch.setattr(FoundMatches, "additions", noted_additions)
    monkeypatch.setattr(FoundMatches, "begun_until", noted_begun_until)
    found = []
    for many_rows, few_rows in ((1, 0), (1 << 30, 1 << 30)):
        monkeypatch.setattr(found_matches, "MANY", many_rows)
        monkeypatch.setattr(shared_buffer, "_FEW_ROWS", few_rows)
        with JobHarness(job(pattern, {"card": str, "amount": float})) as harness:
            held = []
            for start in range(0, len(payments), 4):
                times = [1_000 + 2 * number - number % 3 for number in range(start, start + 4)]
                harness.push_all("payments", payments[start : start + 4], times)
                harness.advance_watermark("payments", 1_000 + 2 * start)
                harness.run_epoch()
                held.append([str(match) for match in harness.partial_matches("pattern")])
            harness.finish()
            found.append((harness.results("found"), held))
    assert found[0] == found[1]
    assert found[0][0]
    assert sum(left) or "skip" in text
