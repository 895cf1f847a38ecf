"""The site: built strictly from a snapshot of the tree, and looked at as a browser would find it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from gradlint.manual import witnesses
from gradlint.rule import Rule, all_rules

ROOT = Path(__file__).parents[2]
OWN = [rule for rule in all_rules() if rule.__module__.startswith("gradlint.rules.")]
#: what a page fetches by itself
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Links(HTMLParser):
    """What a page leads to, what it loads, and the places in it that can be led to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.led: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.led.append(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") not in ("next", "prev", "canonical"):
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(snapshot: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site that was built."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = run(*command, cwd=snapshot, NO_MKDOCS_2_WARNING="1")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    """Every page of the site, but the one for addresses that do not exist, which is shown anywhere."""
    return {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}


def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path, pages: dict[Path, Links]) -> None:
    broken = []
    for page, links in pages.items():
        for link in links.led:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (parts.fragment and parts.fragment not in pages[target].places):
                broken.append((page.relative_to(site), link))
    assert len(pages) > len(OWN)
    assert broken == []


def test_pages_ask_nothing_of_other_hosts(pages: dict[Path, Links]) -> None:
    loaded = {link for links in pages.values() for link in links.loaded}
    assert loaded
    assert [link for link in loaded if urlsplit(link).netloc] == []


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.code)
def test_a_rule_has_a_page_with_its_facts(rule: type[Rule], site: Path) -> None:
    text = (site / f"rules/{rule.name}.html").read_text(encoding="utf-8")
    assert f"{rule.name} ({rule.code})" in text
    for name, witness in {"linter": "static", "guard": "runtime"}.items():
        seen = "reports it" if witness in witnesses(rule) else "does not see it"
        assert f"<td>The {name}</td>\n<td>{seen}</td>" in text
    assert f"<td>Severity</td>\n<td>{rule.severity.value}</td>" in text
    assert "How well it is found" in text
    listed = (site / "rules/index.html").read_text(encoding="utf-8")
    assert f'href="{rule.name}.html">{rule.name}</a>' in listed


def test_the_search_finds_every_rule_by_its_code(site: Path) -> None:
    found = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    titles = {each["title"] for each in found["docs"]}
    assert {f"{rule.name} ({rule.code})" for rule in OWN} <= titles
    assert not any(each["location"].startswith("changelog") for each in found["docs"])


def test_nothing_that_only_builds_the_site_is_part_of_it(site: Path) -> None:
    assert not list(site.rglob("*.py"))
    assert not (site / "description.html").exists()


def test_the_page_for_contributors_shows_a_rule(site: Path) -> None:
    text = (site / "contributing.html").read_text(encoding="utf-8")
    assert "SoftmaxMissingDim" in text, "a formatter may have taken the line that includes the file for Python"
