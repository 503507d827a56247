"""The exported page in a real browser: it is silent, sends nothing, can be searched, folded and walked by keys.

Skipped, and said so, where there is no Chromium.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import assistant, assistant_item, compacted, log, output, rolled_back, session_meta, user, user_item
from tests.cli import run, turn, write
from tests.cli.browser import CHROMIUM, Browser
from tests.cli.test_hostile import ALL, hostile_log

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
ATTACKS = [
    "</pre></details><script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\"><svg onload=\"document.title='run'\">",
    "[x](javascript:document.title='run') <a href=\"javascript:document.title='run'\">y</a>",
    '<meta http-equiv="refresh" content="0;url=https://evil.example"><base href="https://evil.example">',
    "<style>@import 'https://evil.example/x.css'; body{background:url(https://evil.example/y)}</style>",
    "<iframe src='https://evil.example'></iframe><form action='https://evil.example'><button id=bar>",
    ALL + "\u202e\x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        started.show(width=900, height=1200, dark=False)
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = write(
        folder,
        log(session_meta()),
        turn("t1", user("the first needle"), output(text="\n".join(f"row {n}" for n in range(200)) + "\nNeedle")),
        turn("t2", user("second"), compacted([user_item("kept"), assistant_item("summary")])),
        turn("t3", user("an undone needle"), assistant("regretted")),
        log(rolled_back(1)),
        turn("t4", user("last"), assistant("the end (.*)")),
    )
    return exported(path)


def exported(path: Path) -> Path:
    target = path.with_suffix(".html")
    assert run("export", path, "-o", target, "--images").code == 0
    return target


def is_open(browser: Browser, selector: str) -> bool:
    found: bool = browser.run(f"document.querySelector({selector!r}).open")
    return found


def search(browser: Browser, words: str) -> str:
    """What the page says that it found."""
    browser.run("document.querySelector('#found').textContent = ''")
    browser.run(f"document.querySelector('#search').value = {words!r}; 0")
    browser.run("document.querySelector('#search').dispatchEvent(new Event('input')); 0")
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found: str = browser.run("document.querySelector('#found').textContent")
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("nothing was told")


def test_the_page_is_silent_and_asks_for_nothing_but_itself(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("e")
    assert browser.messages == []
    assert browser.requests == [page.as_uri()]


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_a_hostile_rollout_does_nothing_in_the_page(browser: Browser, attack: str, tmp_path: Path) -> None:
    path = write(tmp_path, hostile_log(attack), turn(attack, user(attack), assistant(attack)))
    target = exported(path)
    browser.open(target)
    browser.press("e")
    assert (
        browser.run("document.querySelectorAll('main script, main style, main iframe, main svg, main form').length")
        == 0
    )
    assert browser.run("document.querySelectorAll('script, style').length") == 2
    assert browser.run("[...document.links].filter((a) => a.protocol !== 'file:').length") == 0
    assert browser.run("document.title") != "run"
    assert browser.messages == []
    assert browser.requests == [target.as_uri()]


def test_the_policy_stops_a_script_that_would_come_in_all_the_same(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    evil = (
        "<script>document.title='run'</script><img src=https://evil.example/x onerror=\"document.title='run'\"></main>"
    )
    broken.write_text(page.read_text("utf-8").replace("</main>", evil), "utf-8")
    browser.open(broken)
    assert browser.run("document.title") != "run"
    assert len([message for message in browser.messages if "Content Security Policy" in message]) >= 2


def test_search_finds_without_case_and_opens_the_folds_around_a_hit(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert search(browser, "NEEDLE") == "3 found"
    assert not is_open(browser, ".before")
    browser.run("document.querySelector('#search').focus()")
    browser.press("Enter")
    assert is_open(browser, ".before")
    browser.press("Enter")
    assert is_open(browser, "#turn-t1 article.output details")
    assert not is_open(browser, "#turn-t3")
    browser.press("Enter")
    assert is_open(browser, "#turn-t3")
    assert browser.run("document.querySelector('#found').textContent") == "3 of 3"
    assert browser.run("CSS.highlights.get('here').size") == 1
    assert search(browser, "(.*)") == "1 found"
    assert search(browser, "nowhere") == "0 found"


def test_a_link_to_a_turn_opens_what_it_lies_in_and_goes_there(browser: Browser, page: Path) -> None:
    browser.show(width=900, height=200, dark=False)
    browser.open(page, "#turn-t2")
    assert is_open(browser, ".before")
    top = browser.run("document.querySelector('#turn-t2').getBoundingClientRect().top")
    assert 0 <= top < 100
    browser.show(width=900, height=1200, dark=False)
    browser.run("location.hash = '#turn-t3'")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    assert is_open(browser, "#turn-t3")
    browser.open(page, "#%E0%A4%A")
    assert browser.messages == []


def test_keys_walk_turns_undone_ones_and_compactions(browser: Browser, page: Path) -> None:
    browser.open(page)
    here = "document.activeElement.closest('.turn, .compaction')?.id"
    browser.press("u")
    assert browser.run(here) == "turn-t3"
    browser.press("j")
    assert browser.run(here) == "turn-t4"
    browser.press("k")
    browser.press("k")
    assert browser.run(here) == "turn-t2"
    browser.press("c")
    assert browser.run("document.activeElement.className").startswith("compaction")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "search"
    browser.press("j")
    assert browser.run("document.querySelector('#search').value") == "j"
    browser.press("Escape")
    assert browser.run("document.activeElement === document.body")


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("light", 1000, False), ("dark", 1000, True), ("phone", 360, False)]
)
def test_it_fits_a_phone_and_follows_light_and_dark(
    browser: Browser, page: Path, name: str, width: int, dark: bool
) -> None:
    browser.show(width=width, height=900, dark=dark)
    browser.open(page, "#turn-t2")
    assert browser.run("document.documentElement.scrollWidth") <= width
    red = int(browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"))
    assert (red < 60) is dark
    picture = browser.picture()
    assert picture.startswith(b"\x89PNG")
    if folder := os.environ.get("ROLLOUT_SCREENSHOTS"):
        Path(folder, f"export-{name}.png").write_bytes(picture)
    browser.show(width=900, height=1200, dark=False)
