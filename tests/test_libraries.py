"""A made-up library is taught by its data file alone; a file that is wrong is told where, and why."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from gradlint.static.knowledge import torch_table
from gradlint.static.knowledge.library import FOLDERS, KEYS, LibraryError, load

MADE_UP = """
    [madeup]
    inner = "core"
    optimizers = "Slow"

    [madeup.models]
    build = "build_net"
    heads = "top"
    parameters = true

    [madeup.handlers.Conductor]
    passes_all = "ready"
    backward = "walk"

    [madeup.writers.Diary]
    shows = "note"
"""

#: checks a file with more data files than there are
CHECK = """
import sys
from pathlib import Path
from gradlint.static.knowledge import library

library.FOLDERS.extend(map(Path, sys.argv[2:]))
from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

file = Path(sys.argv[1])
rules = [rule for rule in all_rules() if rule.listens()]
for finding in analyze(Project([file.parent]), [file], rules).findings:
    print(finding.code, finding.location.row)
"""

HEAD = """
    import madeup
    import torch
    import torch.nn.functional as F
    from torch import nn

    loader = [(torch.randn(4, 2), torch.randn(4, 3)) for _ in range(3)]
"""

PROGRAMS = {
    "a model that a factory builds": """
        net = madeup.build_net()
        net.top = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1))
        for x, y in loader:
            F.cross_entropy(net(x), y)  # GL301
    """,
    "a backward pass of a handler": """
        model = nn.Linear(2, 3)
        conductor = madeup.Conductor()
        model, optimizer = conductor.ready(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in loader:
            conductor.walk(F.mse_loss(model(x), y))  # GL201
            optimizer.step()
    """,
    "an optimizer around another one": """
        model = nn.Linear(2, 3)
        updating = madeup.Slow(torch.optim.SGD(model.parameters(), lr=0.1), k=5)
        for x, y in loader:
            F.mse_loss(model(x), y).backward()  # GL201
            updating.step()
    """,
    "a writer, which clears nothing": """
        model = nn.Linear(2, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        diary = madeup.core.Diary()
        for x, y in loader:
            F.mse_loss(model(x), y).backward()  # GL201
            optimizer.step()
            diary.note("optimizer", optimizer)
    """,
    "a writer, in what is right": """
        model = nn.Linear(2, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        diary = madeup.Diary()
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            diary.note("optimizer", optimizer)
    """,
    "a handler, in what is right": """
        model = nn.Linear(2, 3)
        conductor = madeup.Conductor()
        model, optimizer = conductor.ready(model, madeup.Slow(torch.optim.SGD(model.parameters(), lr=0.1)))
        for x, y in loader:
            conductor.walk(F.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    """,
}


@pytest.fixture
def madeup(tmp_path: Path) -> Path:
    """A folder with the data file of a library that there is not."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "madeup.toml").write_text(dedent(MADE_UP))
    return folder


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_library_is_taught_by_its_file_alone(case: str, madeup: Path, tmp_path: Path) -> None:
    text = dedent(HEAD) + dedent(PROGRAMS[case])
    file = tmp_path / "project" / "program.py"
    file.parent.mkdir()
    file.write_text(text)

    def found(*folders: Path) -> list[str]:
        command = [sys.executable, "-c", CHECK, file, *folders]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    lines = enumerate(text.splitlines(), 1)
    assert found(madeup) == [f"{line.rpartition('# ')[2]} {row}" for row, line in lines if "# GL" in line]
    assert found() == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[house", "Expected ']' at the end of a table declaration (at end of document)"),
        ("[house]\noptimisers = 'Slow'", "house: 'optimisers' is none of: inner, aliases, "),
        ("[house]\noptimizers = ['Slow']", "house: optimizers: expected names, separated by blanks"),
        (
            "[house]\ntouches_nothing = false",
            "house: touches_nothing: expected names, separated by blanks, or true for",
        ),
        ("[house]\ntransforms = 'all'", "house: transforms: expected true or false"),
        ("house = 'optimizers'", "house: expected a table for each namespace"),
        ("[house]\nnamespaces = 3", "house: namespaces: expected names, separated by blanks"),
        ("[house.models]\nhead = 'fc'", "house: models: 'head' is none of: build, pretrained, others, heads, "),
        ("[house.models]\npretrained = 'yes'", "house: models: pretrained: expected true or false"),
        ("[house.handlers]\nHost = 'prepare'", "house: handlers: Host: expected a table"),
        (
            "[house.handlers.Host]\nstep = 'go'",
            "house: handlers: Host: 'step' is none of: passes, passes_all, backward",
        ),
        (
            "[house.tries]\nsweep = { function = ['f', 0], given = 1 }",
            "house: tries: sweep: function: expected the pos",
        ),
        (
            "[house.tries]\nsweep = { given = 1 }",
            "house: tries: sweep: it missing 1 required positional argument: 'func",
        ),
        ("[house.downloads]\nfetch = 'path'", "house: downloads: fetch: expected a whole number"),
        ("[house]\nfunctions = 'f'", "house: functions: expected rows, each below the key in double brackets"),
        ("[[house.functions]]\nsaves = ''", "house: functions: names: expected names, separated by blanks"),
        ("[[house.functions]]\nnames = 'f'\nsave = ''", "house: functions: 'save' is none of: result, grad, "),
        ("[[house.functions]]\nnames = 'f'\nsaves = 'all'", "house: functions: saves: 'all' is none of: '', 'input', "),
        (
            "[[house.layers]]\nnames = 'F'\nop = { size = 'all' }",
            "house: layers: op: size: 'all' is none of: 'keeps', ",
        ),
        ("[[house.layers]]\nnames = 'F'\nparameters = 'yes'", "house: layers: parameters: expected true or false"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "house.toml"
    file.write_text(text)
    with pytest.raises(LibraryError) as raised:
        load(tmp_path)
    assert str(raised.value).startswith(f"{file}: {reason}")


def test_a_namespace_has_one_file(tmp_path: Path) -> None:
    for name in ("house", "hut"):
        (tmp_path / f"{name}.toml").write_text("[house]\ntouches_nothing = true\n")
    with pytest.raises(LibraryError, match=r"hut\.toml: house: .*house\.toml speaks for house already"):
        load(tmp_path)


def test_names_are_canonical() -> None:
    libraries = load(*FOLDERS)
    lists = [key for key in KEYS if key not in ("inner", "aliases", "same_as", "gives_itself", "models", "hosted")]
    for key in lists:
        values = libraries.spaces(key).values()
        named = libraries.names(key) if all(isinstance(one, tuple) for one in values) else frozenset[str]()
        assert {name for name in named if torch_table.canonical(name) not in named} == set(), key


def test_each_key_says_what_it_means() -> None:
    assert all(key.meaning.strip() for key in KEYS.values())


def test_the_documentation_speaks_of_keys_that_there_are(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "contributing.md").read_text()
    section = page.partition("### A library")[2].partition("\n## ")[0]
    example, rows = section.partition("```toml")[2].partition("```")[::2]
    (tmp_path / "madeup.toml").write_text(example.partition("\n")[2])
    assert load(tmp_path).names("optimizers") == {"madeup.Slow", "madeup.Slower"}
    named = {key for row in re.findall(r"^\|.*\|(.*)\|$", rows, re.MULTILINE) for key in re.findall("`(.*?)`", row)}
    assert named
    assert named <= KEYS.keys()
