"""JUnit XML, which most CI systems show: a test suite for each file, a failing test for each finding."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from gradlint.finding import Finding
from gradlint.output.reports import Material
from gradlint.output.style import Style, shown_path
from gradlint.output.text import full

#: what XML 1.0 cannot hold, escaped or not
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(material: Material) -> str:
    """All findings; a file without any is a test that passes, and what could not be done is an error."""
    by_file: dict[str, list[Finding]] = {str(path): [] for path in material.files}
    for finding in material.findings:
        by_file.setdefault(finding.location.filename, []).append(finding)
    tests = sum(max(len(found), 1) for found in by_file.values()) + len(material.troubles)
    totals = {"tests": tests, "failures": len(material.findings), "errors": len(material.troubles)}
    root = _element(None, "testsuites", name="gradlint", **totals)
    for filename, found in sorted(by_file.items()):
        _suite(root, shown_path(filename, material.cwd), found, material)
    if material.troubles:
        count = len(material.troubles)
        suite = _element(root, "testsuite", name="gradlint", tests=count, failures=0, errors=count)
        for trouble in material.troubles:
            case = _element(suite, "testcase", name=trouble, classname="gradlint")
            _element(case, "error", message=trouble)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, path: str, found: list[Finding], material: Material) -> None:
    classname = str(Path(path).with_suffix(""))
    suite = _element(root, "testsuite", name=path, tests=max(len(found), 1), failures=len(found), errors=0)
    if not found:
        _element(suite, "testcase", name="gradlint", classname=classname, file=path)
    for finding in found:
        where = finding.location
        cell = "" if where.cell is None else f"cell {where.cell}:"
        name = f"{finding.code} {finding.name} {cell}{where.row}:{where.column}"
        case = _element(suite, "testcase", name=name, classname=classname, file=path, line=where.row)
        failure = _element(case, "failure", message=finding.message, type=finding.severity.value)
        failure.text = _writable(full(finding, Style(), material.cwd, material.line))


def _element(parent: ElementTree.Element | None, tag: str, **attributes: object) -> ElementTree.Element:
    written = {name: _writable(str(value)) for name, value in attributes.items()}
    return ElementTree.Element(tag, written) if parent is None else ElementTree.SubElement(parent, tag, written)


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
