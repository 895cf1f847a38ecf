"""The values of literals are those that Python gives them."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from gradlint.static.text.nodes import value_of


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
