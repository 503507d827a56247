"""What the keys of a replay do: a state that knows no terminal and no clock of its own.

`press` takes a key, `tick` the time; `page` shows what is to be seen. What can take long (a search, the next compaction
of a large file) is `pending`: `work` does a little of it, and any key ends it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rollout_cli.replay.printed import wait_seconds
from rollout_cli.replay.words import describe_step
from rollout_cli.terminal import Line

if TYPE_CHECKING:
    import rollout

FOLLOW_S = 0.25
"""How often a file is looked at again."""
_SEEN_ITEMS = 200
_MOST_SPEED, _LEAST_SPEED = 1024.0, 1 / 16
HELP = """\
n, down      next step
p, up        step before
t, T         next turn, or back
c, C         next compaction, back
r, R         next rollback, or back
g, G         first step, last step
/, ?, .      search on, back, again
enter        whole text of the step
m            what the model saw
f            fold or unfold
a            events and settings too
space, +, -  play; faster, slower
q            quit

A step that was taken back is struck through. \
What a compaction stands for is folded away: behind it the model sees it no more. \
All is as of the moment at which the current step was written."""


@dataclasses.dataclass(slots=True)
class Sheet:
    """A text over the whole screen: titled, shown from row `top` on. `more` gives a longer one, None if it is all."""

    title: str
    blocks: list[tuple[str, str, str]]
    """Label, text, style."""
    top: int = 0
    at_end: bool = False
    more: Callable[[], Sheet] | None = None
    laid_out: tuple[int, list[Line]] | None = None
    """Its rows, for so many columns."""


class Player:
    """A replay: the `scene` it has come to, and what lies over it. `rows` is how many the screen has for steps."""

    def __init__(
        self,
        playback: rollout.Playback,
        *,
        speed: float | None = None,
        follows: bool = False,
        at_end: bool = False,
        folds: bool = True,
        everything: bool = False,
    ) -> None:
        self.playback, self.follows, self.folds, self.everything = playback, follows, folds, everything
        self.speed, self.is_playing = speed or 1.0, speed is not None
        self.rows = 20
        self.scene: rollout.PlaybackView | None = None
        self.sheet: Sheet | None = None
        self.typed: str | None = None
        """What is being typed to search for."""
        self.message = ""
        self.is_done = False
        self.pending: Iterator[rollout.StepPosition | None] | None = None
        self._sought, self._back, self._seeks_back = "", False, False
        self._due: float | None = None
        self._looked_at = 0.0
        begin = playback.last if follows or at_end else playback.first
        self._go(begin(everything=everything))

    @property
    def is_busy(self) -> bool:
        """Whether there is work that waits for no key."""
        return self.pending is not None

    def wait_seconds(self, now: float) -> float | None:
        """How long nothing happens without a key; None for ever."""
        waits = [0.0 if self._due is None else self._due - now] if self.is_playing and self.sheet is None else []
        if self.follows:
            waits.append(self._looked_at + FOLLOW_S - now)
        return max(min(waits), 0.0) if waits else None

    def fit(self, rows: int) -> None:
        """The screen has so many rows for steps."""
        if rows != self.rows:
            self.rows = rows
            self._again()

    def press(self, key: str) -> None:
        """A key: a character, or the name of another one (`up`, `enter`, `escape`, …)."""
        self.pending, self.message = None, ""
        if self.typed is not None:
            self._type(key)
        elif self.sheet is not None:
            self._turn_over(self.sheet, key)
        elif key in _KEYS:
            if key not in _PLAYING:
                self.is_playing, self._due = False, None
            _KEYS[key](self)
        else:
            self.message = "h shows the keys"

    def tick(self, now: float) -> bool:
        """What time has brought: the next step of what plays, what was written. Whether anything is new."""
        is_due = self.follows and now - self._looked_at >= FOLLOW_S
        changed = is_due and not self.is_busy and self._look_again(now)  # what is pending reads the files that are open
        if not self.is_playing or self.sheet is not None:
            return changed
        if self.scene is None:
            self.is_playing = self.follows
            self._due = now + FOLLOW_S
            return changed
        upcoming = self.playback.after(self.scene.step.position, everything=self.everything)
        if upcoming is None:
            self._due, self.is_playing = now + FOLLOW_S, self.follows
            return True
        if self._due is None:
            later = self.playback.scene(upcoming, 1, everything=True).step.record.timestamp
            self._due = now + wait_seconds(self.scene.step.record.timestamp, later, self.speed)
        if now < self._due:
            return changed
        self._due = None
        self._go(upcoming)
        return True

    def work(self) -> None:
        """A little of what is pending."""
        if self.pending is None:
            return
        try:
            found = next(self.pending)
        except StopIteration:
            self.pending, self.message = None, f"not found {'before' if self._seeks_back else 'behind'} this step"
            return
        if found is not None:
            self.pending = None
            self._go(found)

    def _go(self, place: rollout.StepPosition | None) -> None:
        if place is None:
            self.message = self.message or "there is no more"
            return
        self.scene = self.playback.scene(place, self.rows, everything=self.everything, fold=self.folds)

    def _again(self) -> None:
        if self.scene is not None:
            self._go(self.scene.step.position)

    def _look_again(self, now: float) -> bool:
        from rollout.errors import SourceError

        self._looked_at = now
        try:
            if not self.playback.refresh():
                return False
            self.message = self.playback.notice or self.message
            self._go_along()
        except SourceError as error:
            is_news, self.message = self.message != error.message, error.message
            return is_news
        return True

    def _go_along(self) -> None:
        """To the newest step; what plays goes on from where it is, if that is still there."""
        at = None if self.scene is None else self.scene.step.position
        is_held = at is not None and self.playback.holds(at)
        if self.is_playing and is_held:
            self._again()
            return
        last = self.playback.last(everything=self.everything)
        if last is not None:
            self._go(last)
        elif not is_held:
            self.scene = None

    def _type(self, key: str) -> None:
        typed = self.typed or ""
        if key == "enter":
            self.typed, self._sought = None, typed or self._sought
            self._search()
        elif key == "escape":
            self.typed = None
        elif key == "backspace":
            self.typed = typed[:-1] if typed else None
        elif len(key) == 1:
            self.typed = typed + key

    def _turn_over(self, sheet: Sheet, key: str) -> None:
        """The keys of a text: `page` keeps `top` within it."""
        moves = {"up": -1, "k": -1, "p": -1, "down": 1, "j": 1, "n": 1, "pageup": -self.rows, "pagedown": self.rows}
        moves |= {" ": self.rows, "b": -self.rows}
        if key in moves:
            if moves[key] < 0 and sheet.top == 0 and sheet.more is not None:
                self.sheet = sheet.more()
                return
            sheet.top, sheet.at_end = max(sheet.top + moves[key], 0), False
        elif key in ("g", "home"):
            sheet.top, sheet.at_end = 0, False
        elif key in ("G", "end"):
            sheet.at_end = True
        else:
            self.sheet = None

    # What the keys are for

    def step(self, *, back: bool = False) -> None:
        """To the next step, or the one before."""
        if self.scene is not None:
            go = self.playback.before if back else self.playback.after
            self._go(go(self.scene.step.position, everything=self.everything))

    def leap(self, *, back: bool = False) -> None:
        """A screen of steps at once."""
        for _ in range(max(self.rows // 2, 1)):
            if not self.message:
                self.step(back=back)

    def turn(self, *, back: bool = False) -> None:
        """To where the next turn begins; back to where this one does, or the one before."""
        if self.scene is None:
            return
        if back:
            self._go(self.playback.turn_before(self.scene.step.position))
        else:
            self._seek(self.playback.next_turn(self.scene.step.position))

    def jump(self, kind: str, *, back: bool = False) -> None:
        """To the next step of a kind."""
        if self.scene is not None:
            self._seek(self.playback.jump(self.scene.step.position, {kind}, back=back), back=back)

    def end(self, *, back: bool = False) -> None:
        """To the last step, or the first."""
        self._go((self.playback.first if back else self.playback.last)(everything=self.everything))

    def ask(self, *, back: bool = False) -> None:
        """Ask for what to search."""
        self.typed, self._back = "", back

    def search_again(self) -> None:
        """The next hit."""
        if self._sought:
            self._search()
        else:
            self.ask()

    def _search(self) -> None:
        if self._sought and self.scene is not None:
            self._seek(self.playback.search(self.scene.step.position, self._sought, back=self._back), back=self._back)

    def _seek(self, pending: Iterator[rollout.StepPosition | None], *, back: bool = False) -> None:
        self.pending, self._seeks_back = pending, back

    def show_text(self) -> None:
        """The whole text of the step."""
        if self.scene is not None:
            told = describe_step(self.scene.step)
            self.sheet = Sheet("the whole step", [(told.label, told.text, "")])

    def show_seen(self) -> None:
        """What the model saw."""
        if self.scene is not None:
            self.sheet = self._seen(self.scene.step.position, _SEEN_ITEMS)

    def _seen(self, place: rollout.StepPosition, count: int) -> Sheet:
        from rollout_cli.items import describe_at

        items, is_all = self.playback.seen(place, count)
        told = [describe_at(items, i) for i in range(len(items))]
        title = f"what the model saw: {'all' if is_all else 'the newest'} {len(told):,} items"
        more = None if is_all else lambda: self._seen(place, 4 * count)
        return Sheet(title, [(each.label, each.text, each.style) for each in told], at_end=True, more=more)

    def show_help(self) -> None:
        """The keys."""
        self.sheet = Sheet("keys", [("", HELP, "")])

    def fold(self) -> None:
        """Fold, or unfold."""
        self.folds = not self.folds
        self._again()

    def show_all(self) -> None:
        """All lines, or those that tell the story."""
        self.everything = not self.everything
        self._again()

    def play(self) -> None:
        """Play, or pause."""
        self.is_playing, self._due = not self.is_playing, None

    def hurry(self, *, back: bool = False) -> None:
        """Faster, or slower."""
        self.speed = min(max(self.speed * (0.5 if back else 2.0), _LEAST_SPEED), _MOST_SPEED)
        self._due = None

    def quit(self) -> None:
        """The end."""
        self.is_done = True


_PLAYING = frozenset({" ", "+", "-", "=", "f", "a", "h", "m"})
_KEYS: dict[str, Callable[[Player], None]] = {
    **dict.fromkeys(("n", "j", "down", "right"), Player.step),
    **dict.fromkeys(("p", "k", "up", "left"), lambda player: player.step(back=True)),
    "pagedown": Player.leap,
    "pageup": lambda player: player.leap(back=True),
    **dict.fromkeys(("t", "tab"), Player.turn),
    "T": lambda player: player.turn(back=True),
    "c": lambda player: player.jump("compaction"),
    "C": lambda player: player.jump("compaction", back=True),
    "r": lambda player: player.jump("rollback"),
    "R": lambda player: player.jump("rollback", back=True),
    **dict.fromkeys(("G", "end"), Player.end),
    **dict.fromkeys(("g", "home"), lambda player: player.end(back=True)),
    "/": Player.ask,
    "?": lambda player: player.ask(back=True),
    ".": Player.search_again,
    "enter": Player.show_text,
    "m": Player.show_seen,
    "f": Player.fold,
    "a": Player.show_all,
    "h": Player.show_help,
    " ": Player.play,
    **dict.fromkeys(("+", "="), Player.hurry),
    "-": lambda player: player.hurry(back=True),
    **dict.fromkeys(("q", "interrupt"), Player.quit),
}
