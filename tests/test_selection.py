"""Selection: which rules take part."""

from __future__ import annotations

import pytest

from gradlint.finding import Effect
from gradlint.refusal import Refusal
from gradlint.rule import Rule, all_rules
from gradlint.selection import Choice, Selection, matching, resolve

DEFAULT = frozenset(rule.code for rule in all_rules() if rule.default())
HIDDEN = frozenset(rule.code for rule in all_rules() if not rule.default())


def shown(*choices: Choice) -> frozenset[str]:
    return resolve(choices, all_rules()).shown


def test_the_default_is_what_is_neither_style_nor_opt_in() -> None:
    assert resolve([], all_rules()) == Selection(DEFAULT, HIDDEN)
    assert "GL201" in DEFAULT
    assert "GL102" in HIDDEN


@pytest.mark.parametrize("selector", ["GL201", "gl201", "missing-zero-grad", "Missing-Zero-Grad"])
def test_a_code_or_a_slug_means_one_rule(selector: str) -> None:
    assert matching(selector, all_rules()) == {"GL201"}


def test_a_prefix_means_all_codes_that_begin_so() -> None:
    assert matching("GL2", all_rules()) == {rule.code for rule in all_rules() if rule.code.startswith("GL2")}
    assert len(matching("GL2", all_rules())) > 1


@pytest.mark.parametrize("effect", Effect)
def test_an_effect_means_the_rules_that_have_it(effect: Effect) -> None:
    selected = matching(f"effect:{effect.value}", all_rules())
    assert selected == {rule.code for rule in all_rules() if rule.effect is effect}
    assert len(selected) > 3


def test_an_effect_is_broader_than_a_code_or_prefix() -> None:
    assert shown(Choice(select=("effect:raises",), ignore=("GL5", "GL203"))).isdisjoint({"GL501", "GL203"})
    assert shown(Choice(select=("ALL",), ignore=("effect:style",), extend_select=("GL102",))) >= {"GL102", "GL201"}
    with pytest.raises(Refusal, match="no rule is called 'effect:wrong'; did you mean 'effect:wrong-result'"):
        shown(Choice(select=("effect:wrong",)))


def test_all_means_every_rule() -> None:
    assert matching("all", all_rules()) == DEFAULT | HIDDEN


def test_select_starts_afresh_and_hides_nothing() -> None:
    assert resolve([Choice(select=("GL201",))], all_rules()) == Selection(frozenset({"GL201"}))


def test_extend_select_adds() -> None:
    assert shown(Choice(extend_select=("GL102",))) == DEFAULT | {"GL102"}


def test_what_is_ignored_is_not_counted_either() -> None:
    selection = resolve([Choice(ignore=("GL102", "GL201"))], all_rules())
    assert selection.shown == DEFAULT - {"GL201"}
    assert "GL102" not in selection.counted


def test_the_more_specific_selector_wins() -> None:
    assert "GL201" in shown(Choice(select=("GL201",), ignore=("GL2",)))
    assert "GL201" not in shown(Choice(select=("GL2",), ignore=("GL201",)))
    assert shown(Choice(select=("missing-zero-grad",), ignore=("ALL",))) == {"GL201"}
    assert "GL201" not in shown(Choice(select=("GL201",), ignore=("GL201",)))


def test_a_later_choice_wins_over_an_earlier_one() -> None:
    file = Choice(select=("GL1",), ignore=("GL201",))
    assert shown(file, Choice(select=("GL201",))) == {"GL201"}
    assert shown(file, Choice(extend_select=("GL201",))) == matching("GL1", all_rules()) | {"GL201"}


@pytest.mark.parametrize("key", ["select", "ignore", "extend_select"])
@pytest.mark.parametrize("selector", ["GL299", "missing-zero-gard", "GL20100", ""])
def test_an_unknown_selector_is_told_with_its_place(key: str, selector: str) -> None:
    with pytest.raises(Refusal, match=f"here: {key.replace('_', '-')}: no rule is called"):
        resolve([Choice("here: ", **{key: (selector,)})], all_rules())


def test_a_misspelled_name_gets_a_suggestion() -> None:
    with pytest.raises(Refusal, match="did you mean 'missing-zero-grad'"):
        resolve([Choice(select=("missing-zero-gard",))], all_rules())


def test_rules_know_their_place() -> None:
    assert all(issubclass(rule, Rule) for rule in all_rules())
