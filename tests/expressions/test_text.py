"""Expressions as text: what Python's words say of fields, and nothing else."""

from __future__ import annotations

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.expressions import last
from headrace.expressions.text import parse_expression


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amount < 1.0", 'col("amount") < 1.0'),
        ("a == 'x' and b != 2 or not c", '(col("a") == "x") & (col("b") != 2) | ~col("c")'),
        ("1 < a <= 5", '(1 < col("a")) & (col("a") <= 5)'),
        ("country in ['DE', 'FR']", 'col("country").is_in(["DE", "FR"])'),
        ("country not in ('DE',)", '~col("country").is_in(["DE"])'),
        ("a is None or b is not None", 'col("a").is_null() | col("b").is_not_null()'),
        ("-a + 2 * b // 3 > -1", '-col("a") + 2 * col("b") // 3 > -1'),
        ("payment.card.upper().starts_with('A')", 'col("payment").field("card").upper().starts_with("A")'),
        ("col('f0').cast(Types.LONG()) % 2 == 0", 'col("f0").cast(Types.LONG()) % 2 == 0'),
        (
            "when(a > 1).then('x').when(b).then('y').otherwise('z') == 'x'",
            'when(col("a") > 1).then("x").when(col("b")).then("y").otherwise("z") == "x"',
        ),
        ("coalesce(a, b) > lit(0)", 'coalesce(col("a"), col("b")) > lit(0)'),
        ("price < last('fall').price", 'col("price") < last("fall").price'),
        ("price < last().field('unit price')", 'col("price") < last().field("unit price")'),
        ("first('a', 'b', offset=1).name.upper() == 'X'", 'first("a", "b", offset=1).name.upper() == "X"'),
        (
            "count_of('a') > 1 and sum_of('a', price * 2) < avg_of('b', 'price')",
            '(count_of("a") > 1) & (sum_of("a", col("price") * 2) < avg_of("b", col("price")))',
        ),
    ],
)
def test_words_of_python(text: str, shown: str) -> None:
    assert repr(parse_expression(text)) == shown
    assert repr(parse_expression(shown)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amount <", "invalid syntax"),
        ("", "invalid syntax"),
        ("__import__('os').system('x')", "there is no function '__import__'"),
        ("a.__class__()", "there is no method '__class__'"),
        ("a.shout()", "there is no method 'shout'"),
        ("colx('a')", "there is no function 'colx': did you mean col"),
        ("[x for x in y]", "this is no expression over fields"),
        ("lambda: 1", "this is no expression over fields"),
        ("a if b else c", "this is no expression over fields"),
        ("a[0] > 1", "this is no expression over fields"),
        ("(lambda: a)()", "functions are called by their names"),
        ("a in b", "in takes a list of values"),
        ("a == None", "None in an expression"),
        ("when(a)", "wants .then"),
        ("price < last('a')", "is a whole event: name a field of it"),
        ("price < last('a', 'price')", r'one of the stages a and price: name a field of it, as in last\("a"\).price'),
        ("last(a).price > 1", "takes the name of a stage in quotes"),
        ("last('a').price() > 1", "there is no method 'price'"),
        ("last('a', offset=-1).price > 1", "offset cannot be negative"),
        ("sum_of('a', last('b').price) > 1", "computes of the fields of each event"),
        ("a.substring(x=1)", "unexpected keyword argument"),
        ("1 +" * 20_000 + "1", "characters is too long"),
    ],
)
def test_what_is_no_expression_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        parse_expression(text)


def test_the_place_is_shown() -> None:
    with pytest.raises(InvalidProgramError) as caught:
        parse_expression("amount < 1 and\n  name.shout()")
    *_, line, mark = str(caught.value).splitlines()
    assert line[mark.index("^") :] == "name.shout()"


def test_a_field_of_an_event_in_brackets_is_told_how_it_is_written() -> None:
    with pytest.raises(InvalidProgramError, match=r"a field is last\(\"a\"\).price or last\(\"a\"\).field\('price'\)"):
        last("a")["price"]
