"""A headless Chromium, driven over its pipe: what a page does, as far as a browser tells.

Nothing but the standard library: commands and events are JSON, each ended by a NUL (`--remote-debugging-pipe`).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --disable-dev-shm-usage --remote-debugging-pipe"
).split()
_WAIT_S = 30.0


class Browser:
    """One browser with one page. `messages` are the errors and warnings of its pages, `requests` their addresses."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.mkdtemp()
        to_read, self._commands = os.pipe()
        self._answers, to_write = os.pipe()
        # The browser reads its descriptor 3 and writes to 4, so a shell puts the pipes there.
        line = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = ["bash", "-c", line, "bash", CHROMIUM, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._count, self._loaded = b"", 0, 0
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._session = None
        with contextlib.suppress(OSError, TimeoutError):
            self._call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path: Path, anchor: str = "") -> None:
        """Load a file, and wait until it is there."""
        self.messages.clear()
        self.requests.clear()
        loaded = self._loaded
        self._call("Page.navigate", url="about:blank")
        self._wait(loaded + 1)
        self._call("Page.navigate", url=path.as_uri() + anchor)
        self._wait(loaded + 2)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page, which this policy of its own does not bind."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """One key, as a person presses it."""
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def show(self, *, width: int, height: int, dark: bool, printed: bool = False) -> None:
        """How the page is looked at; `printed`: as on paper."""
        phone = width < 600
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])

    def picture(self) -> bytes:
        """What is to be seen, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot")["data"])

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        for answer in self._read():
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                found: dict[str, Any] = answer["result"]
                return found
        raise AssertionError("unreachable")

    def _wait(self, loaded: int) -> None:
        if self._loaded < loaded:
            next(event for event in self._read() if self._loaded >= loaded and event)

    def _read(self) -> Iterator[dict[str, Any]]:
        until = time.monotonic() + _WAIT_S
        while True:
            while b"\0" not in self._buffer:
                if not select.select([self._answers], [], [], max(0.0, until - time.monotonic()))[0]:
                    raise TimeoutError("the browser does not answer")
                found = os.read(self._answers, 1 << 16)
                if not found:
                    raise TimeoutError("the browser has gone")
                self._buffer += found
            data, _, self._buffer = self._buffer.partition(b"\0")
            message = json.loads(data)
            self._note(message)
            yield message

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded += 1
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.messages.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.messages.append(str(params["args"]))
            case "Log.entryAdded":
                self.messages.append(params["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.messages.append(f"dialog: {params['message']}")
