"""The catalogue of cheats is whole, names what exists, and is what the document shows."""

from __future__ import annotations

import copy

import pytest

from tests.exploits import _catalogue as catalogue


def test_every_known_way_is_held_or_explained():
    assert catalogue.mistakes(catalogue.read()) == []


def test_the_document_shows_it():
    text = catalogue.DOCUMENT.read_text()
    assert catalogue.BEGIN in text
    assert text == catalogue.document(text, catalogue.read()), "python -m tests.exploits --document"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda item: item.update(number=2), "number 1 is there 0 times"),
        (lambda item: item.update(exploits=["is_not_there"]), "no exploit is_not_there"),
        (lambda item: item.update(tests=["view::test_not_there"]), "no test view::test_not_there"),
        (lambda item: item.update(tests=["nowhere::test_x"]), "no test nowhere::test_x"),
        (lambda item: item.pop("exploits"), "nothing holds it"),
        (lambda item: item.update(exploit="x"), "exploit is no field"),
    ],
)
def test_it_complains_about(change, complaint):
    changed = copy.deepcopy(catalogue.read())
    change(changed["group"][0]["items"][0])
    assert any(complaint in mistake for mistake in catalogue.mistakes(changed))


def test_it_misses_an_exploit_that_nobody_names():
    changed = copy.deepcopy(catalogue.read())
    changed["honest"][0]["items"] = changed["honest"][0]["items"][1:]
    assert "tests/exploits/control_right.py is named by no item" in catalogue.mistakes(changed)
