"""The pictures of the README are what the program shows now, and need nothing from elsewhere."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from docs.screenshot import FOLDER, PICTURES, ROOT, draw

NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_program_shows_now(name: str) -> None:
    assert FOLDER.joinpath(f"{name}.svg").read_text(encoding="utf-8") == draw(name), "just snapshots draws it anew"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_well_formed_and_refers_to_nothing(name: str) -> None:
    text = FOLDER.joinpath(f"{name}.svg").read_text(encoding="utf-8")
    tags = {element.tag.removeprefix(f"{{{NAMESPACE}}}") for element in ElementTree.fromstring(text).iter()}
    assert tags == {"svg", "title", "rect", "circle", "text"}
    assert not re.search(r"(?i)//|href|url\(|@import|data:|on\w+=", text.replace(NAMESPACE, ""))


def test_every_picture_stands_on_a_page() -> None:
    pages = [ROOT.joinpath("README.md"), *FOLDER.glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"\]\((?:docs/)?(\w+)\.svg\)", page.read_text("utf-8"))}
    assert shown == set(PICTURES)
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)
