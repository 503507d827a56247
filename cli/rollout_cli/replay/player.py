"""What the keys of a replay do: a state that knows no terminal and no clock of its own.

`press` takes a key, `tick` the time; `screen.page` shows what is to be seen. What can take long (a search, the next
compaction of a large file) is `pending`: `work` does a little of it, and any key ends it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import rollout
from rollout_cli.items import describe_at
from rollout_cli.replay.steps import describe_step, wait_seconds
from rollout_cli.terminal import Line

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
_PLAYING = frozenset({" ", "+", "-", "=", "f", "a", "h", "m"})
"""The keys that do not end what plays."""


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

    def wait_seconds(self, now: float) -> float:
        """How long nothing happens without a key."""
        if self.is_busy:
            return 0.0
        is_due = 0.0 if self._due is None else self._due - now
        plays = is_due if self.is_playing and self.sheet is None else math.inf
        return max(min(plays, self._looked_at + FOLLOW_S - now if self.follows else math.inf), 0.0)

    def fit(self, rows: int) -> None:
        """The screen has so many rows for steps."""
        if rows != self.rows:
            self.rows = rows
            self._again()

    def press(self, key: str) -> None:
        """A key: a character, or the name of another one (`up`, `enter`, `escape`, …)."""
        self.pending, self.message = None, ""
        if self.typed is not None:
            self._type(self.typed, key)
        elif self.sheet is not None:
            self._turn_over(self.sheet, key)
        else:
            if key not in _PLAYING:
                self.is_playing, self._due = False, None
            self._act(key)

    def tick(self, now: float) -> None:
        """What time has brought: what was written, the next step of what plays."""
        if self.follows and now - self._looked_at >= FOLLOW_S and not self.is_busy:  # which reads the files as they are
            self._look_again(now)
        if not self.is_playing or self.sheet is not None:
            return
        after = None
        if self.scene is not None:
            after = self.playback.after(self.scene.step.position, everything=self.everything)
        if self.scene is None or after is None:
            self._due, self.is_playing = now + FOLLOW_S, self.follows
            return
        if self._due is None:
            later = self.playback.scene(after, 1, everything=True).step.record.timestamp
            self._due = now + wait_seconds(self.scene.step.record.timestamp, later, self.speed)
        if now >= self._due:
            self._due = None
            self._go(after)

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

    def _act(self, key: str) -> None:
        """What a key does where no text is typed and no sheet shown."""
        match key:
            case "q" | "interrupt":
                self.is_done = True
            case "h":
                self.sheet = Sheet("keys", [("", HELP, "")])
            case "/" | "?":
                self.typed, self._back = "", key == "?"
            case "f":
                self.folds = not self.folds
                self._again()
            case "a":
                self.everything = not self.everything
                self._again()
            case " ":
                self.is_playing, self._due = not self.is_playing, None
            case "+" | "=" | "-":
                speed = self.speed / 2 if key == "-" else self.speed * 2
                self.speed, self._due = min(max(speed, _LEAST_SPEED), _MOST_SPEED), None
            case "g" | "home":
                self._go(self.playback.first(everything=self.everything))
            case "G" | "end":
                self._go(self.playback.last(everything=self.everything))
            case _ if self.scene is not None:
                self._act_at(self.scene.step, key)

    def _act_at(self, step: rollout.Step, key: str) -> None:
        """What a key does with the step that is shown."""
        at, playback = step.position, self.playback
        match key:
            case "n" | "j" | "down" | "right":
                self._go(playback.after(at, everything=self.everything))
            case "p" | "k" | "up" | "left":
                self._go(playback.before(at, everything=self.everything))
            case "pagedown" | "pageup":
                for _ in range(max(self.rows // 2, 1)):
                    if self.scene is not None and not self.message:
                        self._act_at(self.scene.step, "n" if key == "pagedown" else "p")
            case "t" | "tab":
                self._seek(playback.next_turn(at))
            case "T":
                self._go(playback.turn_before(at))
            case "c" | "C":
                self._seek(playback.jump(at, {"compaction"}, back=key == "C"), back=key == "C")
            case "r" | "R":
                self._seek(playback.jump(at, {"rollback"}, back=key == "R"), back=key == "R")
            case "." if self._sought:
                self._seek(playback.search(at, self._sought, back=self._back), back=self._back)
            case ".":
                self.typed, self._back = "", False
            case "enter":
                told = describe_step(step)
                self.sheet = Sheet("the whole step", [(told.label, told.text, "")])
            case "m":
                self.sheet = self._seen(at, _SEEN_ITEMS)
            case _:
                self.message = "h shows the keys"

    def _type(self, typed: str, key: str) -> None:
        if key == "enter":
            self.typed, self._sought = None, typed or self._sought
            if self._sought:
                self._act(".")
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
        if moves.get(key, 0) < 0 and sheet.top == 0 and sheet.more is not None:
            self.sheet = sheet.more()
        elif key in moves:
            sheet.top, sheet.at_end = max(sheet.top + moves[key], 0), False
        elif key in ("g", "home"):
            sheet.top, sheet.at_end = 0, False
        elif key in ("G", "end"):
            sheet.at_end = True
        else:
            self.sheet = None

    def _go(self, place: rollout.StepPosition | None) -> None:
        if place is None:
            self.message = self.message or "there is no more"
            return
        self.scene = self.playback.scene(place, self.rows, everything=self.everything, fold=self.folds)

    def _again(self) -> None:
        if self.scene is not None:
            self._go(self.scene.step.position)

    def _seek(self, pending: Iterator[rollout.StepPosition | None], *, back: bool = False) -> None:
        self.pending, self._seeks_back = pending, back

    def _seen(self, place: rollout.StepPosition, count: int) -> Sheet:
        """What the model saw: the newest items."""
        items, is_all = self.playback.seen(place, count)
        told = [describe_at(items, i) for i in range(len(items))]
        title = f"what the model saw: {'all' if is_all else 'the newest'} {len(told):,} items"
        more = None if is_all else lambda: self._seen(place, 4 * count)
        return Sheet(title, [(each.label, each.text, each.style) for each in told], at_end=True, more=more)

    def _look_again(self, now: float) -> None:
        """To the newest step; what plays goes on from where it is, if that is still there."""
        self._looked_at = now
        try:
            if not self.playback.refresh():
                return
            self.message = self.playback.notice or self.message
            at = None if self.scene is None else self.scene.step.position
            is_held = at is not None and self.playback.holds(at)
            last = at if self.is_playing and is_held else self.playback.last(everything=self.everything)
            if last is not None:
                self._go(last)
            elif not is_held:
                self.scene = None
        except rollout.SourceError as error:
            self.message = error.message
