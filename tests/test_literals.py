"""The values of literals are those that Python gives them."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from gradlint.static.text.nodes import parse_module, value_of


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "00",
        "7",
        "1_000",
        "0x1F",
        "0o17",
        "0b1_01",
        "1.5",
        ".5",
        "1.",
        "1_0.0_1e-1_0",
        "1e400",
        "2j",
        "''",
        '""',
        "'a'",
        "'\"'",
        '"it\'s"',
        '"""a "quoted" word"""',
        "'''two\nlines'''",
        '"""two\r\nlines"""',
        '"""two\rlines"""',
        '""""""',
        r"'a\nb'",
        r"'\x41\u00e9\N{BULLET}'",
        r"r'\d'",
        "b'ab'",
        "u'ab'",
        "Rb'a'",
    ],
)
def test_a_literal_has_the_value_that_python_gives_it(text: str) -> None:
    node = cst.parse_expression(text)
    assert isinstance(node, (cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString))
    expected = ast.literal_eval(text)
    value = value_of(node)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("text", [r"'\x4'", "1" * 5000])
def test_a_literal_without_a_value_raises(text: str) -> None:
    node = cst.SimpleString(text) if "'" in text else cst.Integer(text)
    with pytest.raises((ValueError, SyntaxError)):
        value_of(node)


@pytest.mark.parametrize("item", ["1, ", "-2.5e3,\n", "'a b',  ", '"c",\r\n    '])
def test_of_a_long_list_the_first_items_are_parsed_and_all_else_stays_in_its_place(item: str) -> None:
    text = f"x = [{item * 3000}last]; y = f(x)\nz = [{item * 10}]\n"
    module = parse_module(text)
    line = cst.ensure_type(module.body[0], cst.SimpleStatementLine)
    items = cst.ensure_type(cst.ensure_type(line.body[0], cst.Assign).value, cst.List).elements
    assert len(items) == 256 + 2
    assert isinstance(items[-2], cst.StarredElement)
    assert cst.ensure_type(items[-1].value, cst.Name).value == "last"
    assert len(module.code) == len(text)
    assert module.code.count("\n") == text.count("\n")
    assert module.code.endswith(text[text.index("last") :])


@pytest.mark.parametrize("text", ["x = [" + "1, " * 1999 + "]\n", "x = [" + "a, " * 3000 + "]\n", "x = 1\n" * 3000])
def test_of_others_nothing_is_left_out(text: str) -> None:
    assert parse_module(text).code == text
