"""A session stepped through: replay."""

import os
import sys
import time
from typing import Annotated

import typer

import rollout
from rollout_cli import terminal
from rollout_cli.failures import FINE
from rollout_cli.homes import point, reference
from rollout_cli.options import At, Home, Json, Source
from rollout_cli.replay.steps import paced, steps_json, steps_rows
from rollout_cli.terminal import Output, progress
from rollout_cli.views import show


def replay(
    source: Source,
    home: Home = None,
    json: Json = False,
    at: At = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", metavar="N", help="Play in recorded time, N times as fast; pauses of 5 s at most."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Start at the end, and go on as it is written, in another file too.")
    ] = False,
    no_input: Annotated[bool, typer.Option("--no-input", help="Print it: as in a pipe.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Printed: whole texts.")] = False,
    unfold: Annotated[bool, typer.Option("--unfold", help="What compactions stand for, too.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Events and settings, too.")] = False,
) -> int:
    """Step through a session, item by item, as the model saw it at that moment.

    Keys: n next, p back, t turn, c compaction, r rollback, / search, m what the model saw, space plays, h help, q quit.
    In a pipe it prints every step. Example: rollout replay -1 --speed 4
    """
    if speed is not None and not 0 < speed <= 1e6:
        raise rollout.UsageError("--speed takes a number above 0", remedy="give --speed 4 for four times as fast")
    if follow and at is not None:
        raise rollout.UsageError("--follow goes on at the end, --at looks back", remedy="give one of them")
    out = Output()
    with rollout.replay(reference(source, home), home=home, at=point(at)) as playback:
        if json or no_input or not _has_screen(out):
            if follow:
                raise rollout.UsageError(
                    "--follow is for the screen", remedy="use rollout tail -f to print what is written"
                )
            with progress() as advance:
                steps = paced(playback.steps(progress=advance), None if json else speed, time.sleep, terminal.flush)
                told = steps_json((step for step in steps if everything or step.is_story), playback)
                shows = {"full": full, "unfold": unfold, "everything": everything}
                show(json, told, lambda columns: steps_rows(steps, columns, **shows), out)
        else:
            from rollout_cli.replay.player import Player
            from rollout_cli.replay.screen import run

            at_end = at is not None and speed is None
            player = Player(
                playback, speed=speed, follows=follow, at_end=at_end, folds=not unfold, everything=everything
            )
            run(player)
    return FINE


def _has_screen(out: Output) -> bool:
    """Whether there is somebody to press keys, and a terminal that can draw over what it has drawn."""
    is_asked = sys.stdin is not None and sys.stdin.isatty()
    return out.is_terminal and is_asked and os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
