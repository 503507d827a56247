"""The exported page in a real browser: it is silent, sends nothing, can be searched, folded and walked by keys.

Skipped, and said so, where there is no Chromium.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import (
    assistant,
    assistant_item,
    compacted,
    event,
    log,
    output,
    rolled_back,
    session_meta,
    user,
    user_item,
)
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

UNNAMED = """[...document.querySelectorAll('a, button, input, summary, img, nav, form')].filter((el) =>
  !(el.getAttribute('aria-label') || el.alt || el.textContent.trim())).map((el) => el.outerHTML)"""
"""What a person who hears the page would know nothing of."""
SMALL = """[...document.querySelectorAll('button, input, summary, nav li, .turn > summary > a')]
  .filter((el) => el.checkVisibility()).map((el) => [el.outerHTML.slice(0, 60), el.getBoundingClientRect()])
  .filter(([, box]) => box.height && Math.min(box.width, box.height) < 39.9).map(([name]) => name)"""
"""What a finger would miss: less than 40 pixels high or wide."""
FAINT = """(() => {
  const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (el) => {
    const color = getComputedStyle(el).backgroundColor;
    return color.startsWith('rgba') && el.parentElement ? ground(el.parentElement) : color;
  };
  const opacity = (el) => (el ? getComputedStyle(el).opacity * opacity(el.parentElement) : 1);
  return [...document.querySelectorAll('body *')].filter((el) => !['SCRIPT', 'STYLE'].includes(el.tagName))
    .filter((el) => [...el.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).filter((el) => {
      const [a, b] = [light(getComputedStyle(el).color), light(ground(el))];
      return opacity(el) < 1 || (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
    }).map((el) => el.outerHTML.slice(0, 80));
})()"""
"""Texts with less than the contrast of 4.5 that WCAG asks for (AA)."""


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
    raise AssertionError("nothing was shown")


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
    assert search(browser, "turns taken back") == "1 found"


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


def test_escape_leaves_the_search_with_its_hits_which_keys_go_on_to(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("/")
    assert search(browser, "needle") == "3 found"
    browser.press("Enter")
    browser.press("Escape")
    assert browser.run("document.activeElement === document.body")
    browser.press("n")
    assert browser.run("document.querySelector('#found').textContent") == "2 of 3"
    browser.press("N")
    browser.press("N")
    assert browser.run("document.querySelector('#found').textContent") == "3 of 3"
    browser.press("/")
    browser.press("x")  # what is there was selected, so it is written over
    assert browser.run("document.querySelector('#search').value") == "x"


def test_a_hit_far_down_a_long_page_is_on_the_screen(browser: Browser, tmp_path: Path) -> None:
    text = "a line\n" * 50
    turns = [turn(f"t{n}", *(assistant(f"{text}answer {n}.{m}.") for m in range(9))) for n in range(40)]
    browser.open(exported(write(tmp_path, *turns)))
    assert search(browser, "answer 30.8.") == "1 found"
    browser.run("document.querySelector('#next').click()")
    browser.run("new Promise((done) => setTimeout(done, 150))")
    top = browser.run("[...CSS.highlights.get('here')][0].getBoundingClientRect().top")
    assert abs(top - 400) < 3


def test_a_link_to_a_turn_is_copied_by_a_key_and_leads_there_again(browser: Browser, page: Path) -> None:
    browser.open(page, "#turn-t3")
    browser.press("j")
    browser.press("y")
    assert browser.run("location.hash") == "#turn-t4"
    browser.run("new Promise((done) => setTimeout(done, 50))")
    shown = browser.run("document.querySelector('#found').textContent")
    assert shown in {"link copied", "link is in the address bar"}
    browser.run("document.querySelector('#turn-t4').open = false; window.scrollTo(0, 0); 0")
    browser.run("document.querySelector('nav details').open = true; 0")
    browser.run("document.querySelector('nav a[href=\"#turn-t4\"]').click()")
    assert is_open(browser, "#turn-t4")
    assert browser.messages == []


def test_the_keys_are_told_by_a_key_and_the_tab_key_goes_in_the_order_of_the_page(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert not browser.run("document.querySelector('.keys').hidden || document.querySelector('.bar').hidden")
    browser.press("?")
    assert is_open(browser, ".keys")
    kbd = "[...document.querySelectorAll('kbd')].map((key) => key.innerText)"
    assert set(browser.run(kbd)) == {*"/nNjkuceyw?", "Enter", "Esc"}
    browser.open(page)
    order = []
    for _ in range(8):
        browser.press("Tab")
        order.append(browser.run("document.activeElement.id || document.activeElement.innerText.split('\\n')[0]"))
        assert float(browser.run("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")) >= 2
    assert order == [
        "To the session",
        "search",
        "back",
        "next",
        "folds",
        "4 turns",
        "Keys",
        "2 turns, 3 items, replaced by the compaction in line 10",
    ]
    assert browser.run("document.querySelector('#found').getAttribute('aria-live')") == "polite"
    assert browser.run(UNNAMED) == []


def test_on_paper_all_folds_are_open_and_the_ink_is_dark(browser: Browser, page: Path) -> None:
    browser.show(width=900, height=1200, dark=True, printed=True)
    browser.open(page)
    assert browser.run("[...document.querySelectorAll('main pre')].every((pre) => pre.checkVisibility())")
    assert browser.run("getComputedStyle(document.querySelector('.bar')).display") == "none"
    assert browser.run("getComputedStyle(document.body).color") == "rgb(28, 32, 36)"
    browser.show(width=900, height=1200, dark=False)


def test_a_finger_hits_what_it_can_do_on_a_phone_in_one_row(browser: Browser, page: Path) -> None:
    browser.show(width=390, height=844, dark=False)
    browser.open(page)
    browser.run("document.querySelector('nav details').open = true; 0")
    assert search(browser, "needle") == "3 found"
    for width in (320, 390):
        browser.show(width=width, height=844, dark=False)
        assert browser.run(SMALL) == []
        assert browser.run("document.documentElement.scrollWidth") <= width
        tops = "[...document.querySelectorAll('.bar input, .bar button')].map((el) => el.getBoundingClientRect().top)"
        assert len(set(browser.run(tops))) == 1
    browser.show(width=900, height=1200, dark=False)


def test_all_text_stands_out_from_its_ground(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("e")
    for dark in (True, False):
        browser.show(width=900, height=1200, dark=dark)
        assert browser.run(FAINT) == []


def test_long_lines_wrap_or_stay_whole_and_never_make_the_page_wider(browser: Browser, tmp_path: Path) -> None:
    row = "│ " + "修复解析器 │ " * 60
    strange = user("תודה " * 200 + "a" * 900)
    browser.open(exported(write(tmp_path, turn("t", strange, output(text=row), event("error", message="e" * 900)))))
    pre = "document.querySelector('.output pre')"
    assert browser.run("document.documentElement.scrollWidth") <= 900
    for box in (pre, "document.querySelector('.note')", "document.querySelector('.user pre')"):
        assert browser.run(f"{box}.scrollWidth <= {box}.clientWidth")
    browser.press("w")
    assert browser.run(f"{pre}.scrollLeft = 50, {pre}.scrollLeft") == 50
    assert browser.run("document.documentElement.scrollWidth") <= 900


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
