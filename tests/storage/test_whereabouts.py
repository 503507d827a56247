"""Where a file is while others move it: the rest is told by those who go after it (`test_tailing`, `test_playback`)."""

from __future__ import annotations

from pathlib import Path

from rollout.files.disk import AnyPath, RealFileSystem
from rollout.files.file_watch import Whereabouts
from rollout.files.port import Status


class _Refusing(RealFileSystem):
    def status(self, path: AnyPath) -> Status:
        raise PermissionError(13, "no")


def test_a_file_that_may_not_be_looked_at_is_not_lost_and_whoever_opens_it_says_what_is_wrong(tmp_path: Path) -> None:
    assert Whereabouts(tmp_path / "rollout.jsonl", tmp_path, _Refusing(), lambda: 0.0).look() is None
