from __future__ import annotations

import ast
import importlib.util
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from gradlint.finding import Location
from gradlint.source import SourceError, read_source, source_from_text
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.files import Module
from gradlint.static.text.nodes import Tree
from gradlint.static.text.units import StatementUnit, Unit

PATH = Path("/somewhere/file.py")


def load(text: str) -> Module:
    module = Module(source_from_text(text, PATH), "file")
    module.check()
    return module


def code(node: cst.CSTNode) -> str:
    """The code of a statement without the comments and blank lines around it, which belong to no unit."""
    if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        node = node.with_changes(leading_lines=())
    lines = cst.Module([]).code_for_node(node).strip().split("\n")
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "\n".join(lines)


def everything(units: Sequence[Unit]) -> Iterator[Unit]:
    for unit in units:
        yield unit
        if isinstance(unit, ClassUnit):
            yield from everything(unit.body)


def same(units: Sequence[Unit], body: Sequence[cst.CSTNode], whole: Tree) -> int:
    """Compare units that are parsed one by one with the statements of the whole file; returns their number."""
    assert len(units) == len(body)
    count = len(units)
    for unit, node in zip(units, body, strict=True):
        assert type(unit.node) is type(node)
        assert code(unit.node) == code(node)
        span, found = whole.span(node), unit.location
        assert span is not None
        assert (found.row, found.column) == span[:2]
        if isinstance(unit, ClassUnit) and isinstance(node, cst.ClassDef):
            assert [code(arg) for arg in unit.bases] == [code(arg) for arg in (*node.bases, *node.keywords)]
            assert unit.doc == node.get_docstring(clean=False)
            if isinstance(node.body, cst.IndentedBlock):
                count += same(unit.body, node.body.body, whole)
    return count


SNIPPETS = [
    "a = 1; b = 2\nc = 3\n",
    "a = 1; \\\nb = 2; \\\n  c = 3\nd = 4\n",
    "a = 1 \\\n\nb = 2\n",
    "a = 'é' \\\n  ; b = 2 ; \\\n\nc = 1\n",
    "a = 1  # not continued \\\nb = 2\n",
    "a = '''\n  b\n'''; c = 1\nd = 2\n",
    "@a\n@b(\n  1,\n)\n# why\n\ndef f(): pass\n",
    "@(\n  a\n  @ b\n)\nclass A: pass\n",
    "class A(B, metaclass=M): x = 1; y = 2\nz = 3\n",
    "class A(\n  B,\n): x = 1\n",
    "class A:  # why\n\n  # how\n  '''doc\n  '''\n  @p\n  def f(self): pass\n  class B(C):\n    x = 1\n",
    "class A:\n\tdef f(self):\n\t\treturn 1\n\tx = 1\n",
    "class A:\n    def f(self):\n        x = 1\n# odd\n        return '''\nx'''\n    y = (\n1)\n",
    "async def f():\n    async with a as b: pass\n    await c\n",
    "match x:\n  case {'a': [b, *_]} if b: pass\n  case _:\n    pass\n",
    "x = f'{a=} {b!r:>{w}}' f'''\n{c}'''\n",
    "if a: b\nelif c:\n  d\nelse: e\nfor x in y: z\nelse:\n  w\nwith (a as b, c): pass\n",
    "try:\n  a\nexcept* B: pass\nwhile a: b\n(a\n .b())\n",
    "def f(a, /, b: int = 1, *, c) -> int: return a  # type: ignore\n",
    "x = lambda: (yield)\ndel x, y\nglobal z\nassert a, b\n",
    "\x0c\nx = 1\n\x0c\nclass A:\n    x = 1\n\x0c\n    def f(self): pass\n",
    "x = 1",
    "",
    "# nothing\n",
    "class A:\n    @property\n    def x(self): return 1\n    @x.setter\n    def x(self, v): pass\n",
]


@pytest.mark.parametrize("text", SNIPPETS)
def test_units_are_the_statements_of_the_file(text: str) -> None:
    module = load(text)
    whole = Tree(cst.parse_module(module.source.text))
    same(module.units, whole.root.body, whole)
    for unit in module.units:
        assert unit.text == "\n".join(module.source.lines()[unit.row - 1 : unit.end_row]) + "\n"


@pytest.mark.parametrize("text", SNIPPETS)
def test_units_of_a_parsed_file_stand_where_the_index_puts_them(text: str) -> None:
    indexed = load(text)
    from gradlint.static.text.definition_units import units_of

    parsed = [(repr(u), u.row) for u in everything(units_of(indexed.tree.root, indexed, indexed.tree, None))]
    assert parsed == [(repr(unit), unit.row) for unit in everything(indexed.units)]


def test_a_backslash_before_a_statement() -> None:
    (unit,) = load("class A:\n    x = 1\n\\\n    y = 2\n    \\\nz = 3\n").units
    assert isinstance(unit, ClassUnit)
    assert [code(part.node).lstrip(" \\\n") for part in unit.body] == ["x = 1", "y = 2", "z = 3"]
    assert [part.row for part in unit.body] == [2, 4, 6]


def real_files() -> list[Path]:
    standard = Path(sysconfig.get_path("stdlib"))
    known = [
        standard / f"{name}.py" for name in ("argparse", "ast", "dataclasses", "enum", "inspect", "optparse", "this")
    ]
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return known
    torch = Path(spec.origin).parent
    return [
        *known,
        *sorted((torch / "optim").glob("[al]*.py")),
        *(torch / "nn" / "modules" / f"{name}.py" for name in ("container", "loss", "rnn")),
    ]


def test_on_real_files() -> None:
    units = 0
    for path in real_files():
        module = Module(read_source(path), path.stem)
        text = module.source.text
        covered = {row for unit in module.units for row in range(unit.row, unit.end_row + 1)}
        for statement in ast.parse(text).body:
            assert covered.issuperset(range(statement.lineno, (statement.end_lineno or 0) + 1)), path
        whole = Tree(cst.parse_module(text))
        units += same(module.units, whole.root.body, whole)
    assert units > 500


def test_positions_are_those_of_libcst() -> None:
    texts = [*SNIPPETS, *(read_source(path).text for path in real_files()[:6])]
    for text in texts:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        tree = Tree(wrapper.module)
        for node, expected in wrapper.resolve(PositionProvider).items():
            start, end = expected.start, expected.end
            if not isinstance(node, cst.Module):  # libcst itself is at odds over where a file ends
                assert tree.span(node) == (start.line, start.column + 1, end.line, end.column + 1)


def test_sites_of_indented_units() -> None:
    (unit,) = load("class A(Base):\n    @deco\n    def f(self):\n\n        return self.g(1)\n").units
    assert isinstance(unit, ClassUnit)
    method = unit.methods["f"]
    returned = method.node.body.body[0].body[0].value  # type: ignore[union-attr]
    assert method.site(returned).locate() == Location(str(PATH), 5, 16, 5, 25)
    assert method.site(method.decorators[0]).locate() == Location(str(PATH), 2, 6, 2, 10)
    assert unit.site(unit.bases[0]).locate() == Location(str(PATH), 1, 9, 1, 13)
    assert unit.site(cst.Name("other")).locate() == Location(str(PATH), 1, 1, 5, 25)
    assert method.site(cst.Name("other")).locate() == Location(str(PATH), 2, 5, 5, 25)


def test_sites_are_equal_by_node() -> None:
    (unit,) = load("f(a, a)\n").units
    first, second = unit.node.body[0].value.args  # type: ignore[attr-defined]
    assert unit.site(first) == unit.site(first)
    assert hash(unit.site(first)) == hash(unit.site(first))
    assert unit.site(first) != unit.site(second)
    assert len({unit.site(first), unit.site(first), unit.site(second)}) == 2


def test_nothing_is_parsed_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = cst.parse_module
    monkeypatch.setattr(cst, "parse_module", lambda text: parsed.append(text) or parse(text))  # type: ignore[func-returns-value]
    module = load("import a\nclass A(B):\n    '''d'''\n    def f(self): self.x = 1\n    @p\n    def g(self): 'long'\n")
    statement, unit = module.units
    assert isinstance(unit, ClassUnit)
    assert (statement.row, unit.row, unit.end_row, unit.doc) == (1, 2, 6, "d")
    assert "x" in unit.words
    assert unit.methods["f"].decorators == ()
    assert unit.methods["f"].assigned_attributes == {"x"}
    assert parsed == []
    assert [base.value.value for base in unit.bases] == ["B"]  # type: ignore[attr-defined]
    assert len(unit.methods["g"].decorators) == 1
    assert not any("long" in text for text in parsed)
    assert unit.methods["f"].node is unit.methods["f"].node
    assert len(parsed) == 3


@pytest.mark.parametrize(
    ("text", "is_text", "is_main"),
    [
        ("'doc'\n", True, False),
        ("'do' 'c'; 1\n", True, False),
        ("'doc'; x = 1\n", False, False),
        ("f'{x}'\n", False, False),
        ("x\n", False, False),
        ("if __name__ == '__main__':\n    x()\n", False, True),
        ("if '__main__' == __name__: x()\n", False, True),
        ("if __name__ == '__main__':\n    x()\nelse:\n    y()\n", False, False),
        ("if __name__ != '__main__':\n    x()\n", False, False),
        ("if __name__ == '__main__' == x:\n    x()\n", False, False),
        ("if __name__ == 'train':\n    x()\n", False, False),
        ("if a:\n    x()\n", False, False),
    ],
)
def test_statements_that_do_nothing(text: str, is_text: bool, is_main: bool) -> None:
    (unit,) = load(text).units
    assert isinstance(unit, StatementUnit)
    assert (unit.is_text, unit.is_main) == (is_text, is_main)


def test_classes() -> None:
    module = load(
        "class A:\n"
        "    '''doc'''\n"
        "    def f(self): pass\n"
        "    def f(self): return 1\n"
        "    @property\n"
        "    def x(self): return 1\n"
        "    @x.setter\n"
        "    def x(self, value): self._x = value\n"
        "    if True:\n"
        "        def g(self): pass\n"
        "    class B:\n"
        "        async def h(self): pass\n"
    )
    (unit,) = module.units
    assert isinstance(unit, ClassUnit)
    assert unit.doc == "doc"
    assert [part.row for part in unit.body] == [2, 3, 4, 5, 7, 9, 11]
    assert {name: method.row for name, method in unit.methods.items()} == {"f": 4, "x": 5}
    inner = unit.body[-1]
    assert isinstance(inner, ClassUnit)
    assert inner.methods["h"].qualname == "A.B.h"
    assert inner.methods["h"].is_async
    assert inner.methods["h"].class_unit is inner
    branch = unit.body[5]
    assert isinstance(branch.node, cst.If)
    method = FunctionUnit.from_node(branch.node.body.body[0], branch)  # type: ignore[arg-type]
    assert method.class_unit is unit
    assert (method.qualname, method.row) == ("A.g", 10)


def test_nested_definitions() -> None:
    module = load(
        "@deco\n"
        "def outer(x):\n"
        "    @other\n"
        "    def inner(me):\n"
        "        me.a = me.b, me.c = you.d = 1\n"
        "    class Local(Base, key=1):\n"
        "        '''doc'''\n"
        "        def f(self):\n"
        "            self.y: int = 0\n"
        "            return x\n"
        "    return inner\n"
    )
    (outer,) = module.units
    assert isinstance(outer, FunctionUnit)
    function, klass, _ = outer.node.body.body
    assert isinstance(function, cst.FunctionDef)
    assert isinstance(klass, cst.ClassDef)
    inner, local = FunctionUnit.from_node(function, outer), ClassUnit.from_node(klass, outer)
    assert inner is FunctionUnit.from_node(function, outer)
    assert (inner.qualname, inner.class_unit, inner.row, inner.end_row) == ("outer.<locals>.inner", None, 3, 5)
    assert inner.assigned_attributes == {"a", "b", "c"}
    assert [code(each) for each in inner.decorators] == ["other"]
    assert inner.site(function.name).locate() == Location(str(PATH), 4, 9, 4, 14)
    assert (local.qualname, local.doc, local.row, local.end_row) == ("outer.<locals>.Local", "doc", 6, 10)
    assert [code(base.value) for base in local.bases] == ["Base", "1"]
    assert local.methods["f"].assigned_attributes == {"y"}
    assert local.methods["f"].class_unit is local
    assert "y" in local.methods["f"].words
    assert local.methods["f"].site(local.methods["f"].node).locate().row == 8


def test_attributes_that_are_assigned() -> None:
    (unit,) = load(
        "class A:\n"
        "    def f(self, other):\n"
        "        self.a, (self.b, *self.c) = other.d = x\n"
        "        self.e: int = 1\n"
        "        for self.g in self.h: self.i.j = 1\n"
        "        with k as self.k: del self.l\n"
        "        'self.m = 1'\n"
        "        self.n[0] = 1\n"
    ).units
    assert isinstance(unit, ClassUnit)
    assert unit.methods["f"].assigned_attributes == {"a", "b", "c", "e", "g", "k"}


def test_syntax_that_is_newer_than_the_running_python() -> None:
    module = load(
        "type X = int\n"
        "@deco\n"
        "def f[T](a: T) -> T:\n"
        "    return f'{a['x']}'\n"
        "class A[T](B, m=1):\n"
        "    '''d'''\n"
        "    def g(self): self.y = 1\n"
    )
    statement, function, klass = module.units
    assert isinstance(statement, StatementUnit)
    assert isinstance(function, FunctionUnit)
    assert isinstance(klass, ClassUnit)
    assert [(unit.row, unit.end_row) for unit in module.units] == [(1, 1), (2, 4), (5, 7)]
    assert (klass.doc, len(klass.bases)) == ("d", 2)
    assert klass.methods["g"].assigned_attributes == {"y"}
    assert function.locate(function.decorators[0]) == Location(str(PATH), 2, 2, 2, 6)


@pytest.mark.parametrize(
    ("text", "row", "column", "reason"),
    [
        ("x = 1\nprint 'a'\n", 2, 1, "Python 2 syntax: Missing parentheses in call to 'print'"),
        ("x = 1\nexec 'a'\n", 2, 1, "Python 2 syntax"),
        ("x = (1,\n", 1, 5, "'(' was never closed"),
        ("if x:\ny\n", 2, 1, "expected an indented block"),
        ("x = 1\ny = '\0'\n", 2, 6, "source code cannot contain null bytes"),
        ("(" * 5000 + ")" * 5000, 1, 201, "too many nested parentheses"),
        ("x = " + "-" * 20_000 + "1", 1, 1, "the code is nested too deeply"),
        ("x = (\n" + "+1\n" * 20_000 + ")", 1, 1, "the code is nested too deeply"),
        ("x = a" + ".b" * 20_000, 1, 1, "the code is nested too deeply"),
        ("x = 1" + "+1" * 2000, 1, 1, "the code is nested too deeply"),
        ("x = 1\nx = 1" + "+1" * 600, 2, 1, "the code is nested too deeply"),
        ("x = 1\ny = x" + " and x" * 600, 2, 1, "the code is nested too deeply"),
        ("x = 1\nimport a" + ".b" * 600, 2, 1, "the code is nested too deeply"),
        ("if x:\n  y\n" + "elif x:\n  y\n" * 1000, 1900, 1, "the code is nested too deeply"),
        ("x = 1\nmatch x:\n case " + "(" * 30 + "a" + ")" * 30 + ": pass", 2, 1, "the code is nested too deeply"),
        ("print 1\nmatch x:\n case " + "(')'," * 30 + "a" + ")" * 30 + ": pass", 1, 1, "Python 2 syntax"),
        ("print 1\nx = a" + " and \\\n a" * 20_000, 1, 1, "Python 2 syntax"),
        ("x = 1\n" + "".join(" " * row + "if x:\n" for row in range(1500)), 102, 1, "too many levels of indentation"),
        ("print 1\nx = a" + ".b" * 20_000, 1, 1, "Python 2 syntax"),
        ("print 1\nx = (\n" + "+1\n" * 20_000 + ")", 1, 1, "Python 2 syntax"),
        ("print 1\nx = " + "[\n" * 5000, 5002, 2, "too many nested parentheses"),
    ],
)
def test_what_is_not_python_is_told_with_its_place(text: str, row: int, column: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        load(text)
    error = caught.value
    assert error.path == PATH
    assert error.reason.startswith(reason)
    assert (error.row, error.column) == (row, column) or "nested parentheses" in reason


def test_what_only_libcst_rejects_costs_one_statement() -> None:
    module = load("x = " + '"a" ' * 5000 + "\ny = 1\n")
    first, second = module.units
    with pytest.raises(SourceError):
        _ = first.node
    assert isinstance(second.node, cst.SimpleStatementLine)


def test_long_tables_are_not_deep() -> None:
    (unit,) = load("x = [\n" + "1,\n" * 2000 + "]\n").units
    assert unit.location.end_row == 2002


def test_deep_trees_are_located_by_their_unit() -> None:
    (unit,) = load("x = (\n" + "+1\n" * 450 + ")\n").units
    assert unit.location.row == 1
