"""The operators that the guide writes work, and so do the tests that the guide writes for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from tests.docs.documents import DOCS, example

GUIDE = DOCS / "writing-an-operator.md"


@pytest.fixture
def guide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Makes a module of some of the guide's code; the harness pickles what is in it."""

    def module_of(*examples: str) -> ModuleType:
        module = ModuleType("operator_guide")
        monkeypatch.setitem(sys.modules, "operator_guide", module)
        for name in examples:
            exec(compile(example(GUIDE, name), f"{GUIDE}: {name}", "exec", dont_inherit=True), module.__dict__)
        return module

    return module_of


def test_the_guides_own_test(guide: Callable[..., ModuleType]) -> None:
    guide("operator", "test").test_the_first_record_of_each_key_comes_through()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_guides_own_test_of_two_inputs(guide: Callable[..., ModuleType], parallelism: int) -> None:
    guide("inputs", "inputs test").test_payments_of_cards_that_are_known_come_through(parallelism)


def test_keys_of_both_inputs_are_of_one_type(guide: Callable[..., ModuleType]) -> None:
    module = guide("inputs")
    env = StreamExecutionEnvironment.get_execution_environment()
    words, numbers = env.from_collection(["a"]), env.from_collection([1])
    keyed = words.key_by(lambda word: word, key_type=Types.STRING())
    with pytest.raises(InvalidProgramError, match=r"'Allowed' have keys of different types, String and Long"):
        module.allowed(keyed, numbers.key_by(lambda number: number, key_type=Types.LONG()), OutputTag("refused"))
