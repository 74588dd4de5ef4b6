"""A headless Chromium, spoken to over a pipe: pages are opened as a reader's browser opens them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (path := shutil.which(name))
    ),
    None,
)
# A browser in a container has neither a sandbox nor a GPU, and nothing to update.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Page:
    """A page, and what it said and asked for.

    Attributes:
        complaints: errors and messages of its console, in order.
        requests: the addresses that it asked for, its own first.
    """

    def __init__(self, write: int, read: int) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._write, self._read = write, read
        self._pending = b""
        self._count = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path: Path, width: int = 1280, dark: bool = False) -> None:
        """Show a file, and wait until all of it is there."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        loaded = "new Promise(done => addEventListener('load', () => done(1)))"
        self.run(f"document.readyState === 'complete' || {loaded}")

    def run(self, program: str) -> Any:
        """The value of a JavaScript expression; of a promise, what it comes to."""
        found = self.call(
            "Runtime.evaluate", expression=program, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers to a command of its DevTools protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], 60)
            assert ready, "the browser says nothing any more"
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has gone"
            self._pending += more
        first, _, self._pending = self._pending.partition(b"\0")
        answer: dict[str, Any] = json.loads(first)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A page of a browser of its own, which ends with the block."""
    if CHROMIUM is None:
        pytest.fail("needs Chromium or Chrome on the PATH; leave it out with -m 'not browser'")
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    # The browser reads from 3 and writes to 4, whatever numbers the pipes have here.
    program = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", program, "bash", *words],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            page = Page(write, read)
            yield page
            page.call("Browser.close")
            process.wait(timeout=60)
        finally:
            os.close(write)
            os.close(read)
            process.kill()
            process.wait()
