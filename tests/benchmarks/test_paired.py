from __future__ import annotations

from math import inf

from benchmarks.paired import PairedRatio, paired_ratio


def test_the_interval_of_a_median_is_that_of_tables_of_the_binomial_distribution() -> None:
    ones = [float(number) for number in range(1, 21)]
    assert paired_ratio(ones, [1.0] * 20) == PairedRatio(10.5, 6.0, 15.0, 20)
    assert paired_ratio(ones[:6], [1.0] * 6) == PairedRatio(3.5, 1.0, 6.0, 6)
    assert paired_ratio(ones[:9], [1.0] * 9) == PairedRatio(5.0, 2.0, 8.0, 9)


def test_of_few_pairs_no_interval_is_known() -> None:
    found = paired_ratio([1.0, 4.0, 3.0], [1.0, 2.0, 1.0])
    assert found == PairedRatio(2.0, 0.0, inf, 3)
    assert found.uncertainty == inf


def test_what_changes_in_both_of_a_pair_changes_nothing() -> None:
    others = [1.0, 5.0, 2.0, 9.0, 4.0, 3.0]
    found = paired_ratio([1.5 * each for each in others], others)
    assert (found.value, found.low, found.high, found.uncertainty) == (1.5, 1.5, 1.5, 0.0)
