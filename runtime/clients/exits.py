"""What a process exits with, known while it still can tell others: `sys.exit` of another status.

Python calls nobody for a SystemExit that nobody catches, and forgets it before it calls what was
registered with atexit. So `sys.exit` raises one that hears when the interpreter reads its status.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

_code: Any = SystemExit.__dict__["code"]


class Exit(SystemExit):
    """What `sys.exit` raises, by which the process ends unless somebody catches it."""

    heard: Callable[[Exit], object] | None = None

    @property
    def code(self) -> Any:
        """The status; where no Python asks for it, the interpreter does, and ends the process."""
        if self.heard is not None and _is_asked_by_interpreter():
            self.heard(self)
        return _code.__get__(self)

    @code.setter
    def code(self, status: Any) -> None:
        _code.__set__(self, status)

    @property
    def status(self) -> int:
        """The exit status of the process."""
        given = _code.__get__(self)
        if given is None:
            return 0
        return given & 0xFF if isinstance(given, int) else 1

    @property
    def text(self) -> str:
        """The status, and what `sys.exit` was given instead of one."""
        given = _code.__get__(self)
        said = "" if given is None or isinstance(given, int) else f": {given}"
        return f"exit status {self.status}{said}"


def hear_exit(heard: Callable[[Exit], object]) -> None:
    """Call `heard` when the process is about to end by `sys.exit`, before what atexit calls."""

    def exit(status: Any = None, /) -> NoReturn:
        given = status if isinstance(status, tuple) else () if status is None else (status,)
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit(*given)  # ends the thread
        error = Exit(*given)
        error.heard = heard
        raise error

    exit.__doc__ = sys.exit.__doc__
    sys.exit = exit


def _is_asked_by_interpreter() -> bool:
    try:
        sys._getframe(2)
    except ValueError:  # nothing of Python is left to return to
        return True
    return False
