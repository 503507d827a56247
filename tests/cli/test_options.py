"""What the words of a command line mean: positions, ages, dates, tags, directories."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rollout_cli import options, units

from rollout.errors import UsageError
from tests.builders import log, session_meta, user
from tests.cli import run, write_session


@pytest.fixture(autouse=True)
def eastern_europe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two hours ahead of Greenwich, without a summer."""
    monkeypatch.setenv("TZ", "EET-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_arguments_keep_their_order_around_a_position(tmp_path: Path) -> None:
    thread = write_session(tmp_path, 1, log(session_meta(), user("q")))
    home = ["--home", str(tmp_path)]
    for args in ([*home, "-1", "first"], ["-1", *home, "first"], ["-1", "--json", "first", *home]):
        ran = run("name", *args)
        assert (ran.code, ran.err) == (0, "")
    assert run("name", "-1", "--json", "first", "--home", tmp_path).json["id"] == thread


def test_an_option_without_its_value_is_wrong_usage_beside_a_position() -> None:
    ran = run("reconstruct", "-1", "--home")
    assert ran.code == 2
    assert "--home" in ran.err


@pytest.mark.parametrize(
    ("text", "hours"), [("30d", 720), ("12h", 12), ("2w", 336), ("90m", 1.5), ("5 s", 5 / 3600), ("1D", 24)]
)
def test_an_age_is_a_number_and_a_unit(text: str, hours: float) -> None:
    assert options.age(text) == datetime.timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "3y", "3d\n4d", "1234567d", "٣d x"])
def test_what_is_no_age_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError):
        options.age(text)


def test_the_largest_age_is_still_a_time() -> None:
    assert options.moment("99999w") is not None


def test_a_date_is_meant_in_the_local_zone_and_ends_with_its_day() -> None:
    at = datetime.datetime(2026, 3, 19, 22, tzinfo=datetime.UTC)
    assert options.moment("2026-03-20") == at
    assert options.moment("2026-03-20", ends=True) == at + datetime.timedelta(days=1)
    assert options.moment("2026-03-20T10:00") == at + datetime.timedelta(hours=10)
    assert options.moment("2026-03-20T10:00Z", ends=True) == at + datetime.timedelta(hours=12)
    assert options.moment(None) is None


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "9999-12-31", "0001-01-01T00:00"])
def test_a_date_that_is_none_or_has_no_moment_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError):
        options.moment(text, ends=True)


def test_an_age_counts_back_from_now() -> None:
    then = options.moment("1h")
    assert then is not None
    assert 3599 < (datetime.datetime.now(datetime.UTC) - then).total_seconds() < 3700


def test_a_tag_has_a_key_and_a_value_that_may_hold_more_equals_signs() -> None:
    assert options.tags(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    assert options.tags(None) is None
    with pytest.raises(UsageError):
        options.tags(["a"])


def test_a_directory_is_meant_as_the_shell_means_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/h")
    assert options.directory(".") == str(tmp_path.resolve())
    assert options.directory("~/p") == "/h/p"
    assert options.directory("/nowhere/at/all") == "/nowhere/at/all"


@pytest.mark.parametrize(
    ("show", "text", "shown"),
    [
        (units.local_time, "2026-03-20T22:30:00.000Z", "2026-03-21 00:30"),
        (units.local_time, "2026-03-20T10:00:00", "2026-03-20 12:00"),
        (units.local_time, "not a time at all", "not a time at al"),
        (units.local_time, "0001-01-01T00:00:00+14:00", "0001-01-01T00:00"),
        (units.local_time, None, ""),
        (units.recent_time, "2026-03-20T22:30:00.000Z", "2026-03-21"),
        (units.recent_time, None, ""),
    ],
)
def test_a_moment_is_shown_in_the_local_zone(show: Callable[[Any], str], text: str | None, shown: str) -> None:
    assert show(text) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "now"), (59, "now"), (60, "1 min ago"), (3600, "1 h ago"), (86399, "23 h ago"), (6 * 86400, "6 d ago")],
)
def test_a_moment_of_the_last_days_is_shown_as_an_age(seconds: int, shown: str) -> None:
    now = datetime.datetime(2026, 3, 20, 10, tzinfo=datetime.UTC).timestamp()
    assert units.recent_time("2026-03-20T10:00:00Z", now + seconds) == shown


def test_a_moment_to_come_and_one_of_long_ago_are_shown_as_dates() -> None:
    now = datetime.datetime(2026, 3, 20, 10, tzinfo=datetime.UTC).timestamp()
    for away in (-7200, 8 * 86400):
        assert units.recent_time("2026-03-20T10:00:00Z", now + away) == "2026-03-20"
