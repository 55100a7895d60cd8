"""What only a program's own process can import travels by value, cached and generic functions too."""

from __future__ import annotations

import base64
import operator
import pickle
import subprocess
import sys
import textwrap
from functools import cached_property, lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import cloudpickle
import pytest

from headrace.common import pickling
from headrace.common.pickling import pickle_by_value
from tests.common import importable_functions


def of_a_script(text: str, name: str) -> Any:
    """What a program defines, unpickled by a process that does not have it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(text), names)
    return elsewhere(pickle_by_value(names[name]))


def elsewhere(data: bytes) -> Any:
    """What another process makes of bytes: one that has defined none of the classes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickling, "_DEFINED_HERE", WeakSet())
        patch.setattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", WeakValueDictionary())
        patch.setattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", WeakKeyDictionary())
        return pickle.loads(data)


def test_a_function_that_remembers_and_calls_itself() -> None:
    fib = of_a_script(
        """
        from functools import lru_cache
        @lru_cache(maxsize=300)
        def fib(number):
            "A number."
            return number if number < 2 else fib(number - 1) + fib(number - 2)
        """,
        "fib",
    )
    assert fib(200) == 280571172992510140037611932413038677189525
    assert fib.cache_info().misses == 201  # each number once: it finds the same cache again
    assert fib.cache_parameters() == {"maxsize": 300, "typed": False}
    assert (fib.__name__, fib.__doc__) == ("fib", "A number.")
    again = pickle.loads(pickle_by_value(fib))
    assert again.cache_info().currsize == 0  # results stay where they are
    assert again(10) == 55


def test_a_function_that_uses_one_and_a_method_that_is_one() -> None:
    program = """
        import functools
        @functools.cache
        def scale(name):
            return len(name)
        class Price:
            factor = 2
            @functools.lru_cache(maxsize=None)
            def of(self, name):
                return self.factor * scale(name)
        def price(name):
            return Price().of(name)
        """
    price = of_a_script(program, "price")
    assert price("abc") == price("abc") == 6


def test_a_generic_function_and_a_generic_method() -> None:
    program = """
        from functools import singledispatch, singledispatchmethod
        class Own: pass
        @singledispatch
        def text(value):
            "Anything."
            return "?"
        @text.register
        def _(value: int):
            return f"int {value}"
        @text.register(list)
        def _(value):
            return [text(item) for item in value]
        @text.register(Own)
        def _(value):
            return "own"
        class Texts:
            @singledispatchmethod
            def of(self, value):
                return text(value)
            @of.register
            def _(self, value: str):
                return value
        def all_texts():
            return [text([1, "a", Own()]), Texts().of("b"), Texts().of(2), text.__doc__, len(text.registry)]
        """
    expected = [["int 1", "?", "own"], "b", "int 2", "Anything.", 4]
    assert of_a_script(program, "all_texts")() == expected


def test_a_cached_property() -> None:
    program = """
        from functools import cached_property
        class Circle:
            calls = 0
            def __init__(self, radius):
                self.radius = radius
            @cached_property
            def area(self):
                "Its area."
                self.calls += 1
                return 3 * self.radius ** 2
        """
    circle = of_a_script(program, "Circle")(2)
    assert (circle.area, circle.area, circle.calls) == (12, 12, 1)
    assert type(circle).area.__doc__ == "Its area."
    assert isinstance(type(circle).area, cached_property)


@pytest.mark.parametrize("called", [partial(operator.add, 3), (3).__add__])
def test_what_has_no_name_of_its_own_is_remembered_as_well(called: Any) -> None:
    assert pickle.loads(pickle_by_value(lru_cache(called)))(4) == 7


def test_inside_a_function_there_are_others_each_time() -> None:
    def made(step: int) -> Any:
        @lru_cache
        def add(number: int) -> int:
            return number + step

        return add

    one, ten = pickle.loads(pickle_by_value((made(1), made(10))))
    assert (one(1), ten(1)) == (2, 11)


@pytest.mark.parametrize("function", [importable_functions.remembered, importable_functions.generic])
def test_what_can_be_imported_stays_the_same(function: Any) -> None:
    """Its cache, and what others have registered, are those of the process."""
    assert pickle.loads(pickle_by_value(function)) is function
    assert b"importable_functions" in pickle_by_value(function)


NOTEBOOK = """
    import enum
    limit = 1
    def helper(value):
        return value * limit
    class Base:
        step = 1
        def of(self, value):
            return helper(value) + limit + self.step
    class Function(Base):
        def of(self, value):
            return super().of(value)
    class Color(enum.Enum):
        RED = 1
        def of(self, value):
            return helper(value)
    """


def test_a_class_that_comes_back_is_the_one_that_was_defined_and_stays_as_it_is() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(NOTEBOOK), names)
    function = names["Function"]()
    for limit in (1, 2):
        names["limit"] = limit
        back, red = pickle.loads(pickle_by_value((function, names["Color"].RED)))
        assert type(back) is type(function)
        assert red is names["Color"].RED
        assert function.of(10) == back.of(10) == 10 * limit + limit + 1
        assert red.of(10) == 10 * limit
    exec("def helper(value): return 0", names)  # another cell
    assert pickle.loads(pickle_by_value(function)).of(10) == 3
    names["Base"].step = 5
    assert pickle.loads(pickle_by_value(function)).of(10) == 7
    assert type(function).of.__globals__ is names


def test_in_another_process_the_later_definition_of_a_class_counts() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(NOTEBOOK), names)
    first = pickle_by_value(names["Function"]())
    names["limit"] = 2
    second = pickle_by_value(names["Function"]())
    code = (
        "import base64, pickle, sys\n"
        "from headrace.common.pickling import pickle_by_value\n"
        "one, two = (pickle.loads(base64.b64decode(each)) for each in sys.argv[1:])\n"
        "pickle_by_value(one)\n"  # a record of this class that is stored
        "again = pickle.loads(base64.b64decode(sys.argv[2]))\n"
        "print(type(one) is type(two) is type(again), again.of(10))"
    )
    arguments = [base64.b64encode(each).decode() for each in (first, second)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "23"]


def test_code_keeps_the_name_of_its_file() -> None:
    """By whatever version of cloudpickle: messages name the line of the program."""

    def outer(step: int) -> Any:
        return lambda number: number + step

    unpickled = pickle.loads(pickle_by_value(outer))
    assert (unpickled.__code__.co_filename, unpickled(3).__code__.co_filename, unpickled(3)(4)) == (
        __file__,
        __file__,
        7,
    )
