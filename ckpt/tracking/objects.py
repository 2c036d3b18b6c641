# SPDX-License-Identifier: MIT
"""Live objects that are saved with every checkpoint and put back with it.

Each is captured as a value that `state` can hold, and it is tried out at once whether the
object could be made of that again: what cannot come back is refused at the save. To put
objects back, all are validated first; then each is changed in place, so that everybody who
holds it sees it, and if one fails, all are made again what they were. How an object of some
kind is taken apart and put together is in `kinds`.
"""

from __future__ import annotations

from ckpt.errors import CkptError, RollbackError, UsageError
from ckpt.store import agent_state
from ckpt.tracking.fields import NotLike
from ckpt.tracking.kinds import Tracked, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_LONGEST_NAME = 100


class TrackedObjects:
    """The objects that one manager tracks, by name."""

    def __init__(self) -> None:
        self._tracked: dict[str, Tracked] = {}
        self._turns: dict[str, str] = {}
        self._tried: dict[str, bytes] = {}

    def add(self, name: str, thing: Any, turn: str | None) -> None:
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"'{name}' is no name for an object",
                hint=f"pass printable text of at most {_LONGEST_NAME} characters",
            )
        kind = kind_of(name, thing)
        if turn is not None:
            _turn_of(name, thing, turn)
        self.remove(name)
        self._tracked[name] = kind
        if turn is not None:
            self._turns[name] = turn

    def remove(self, name: str) -> None:
        for known in (self._tracked, self._turns, self._tried):
            known.pop(name, None)

    def turn(self) -> int | None:
        """The turn that an object says it is in, of several the first's."""
        for name, word in self._turns.items():
            return _turn_of(name, self._tracked[name].thing, word)
        return None

    def texts(self) -> agent_state.Texts:
        """All of them as they will be stored; UsageError names what could not come back."""
        found: agent_state.Texts = {}
        for name, tracked in self._tracked.items():
            found |= self._text(name, tracked)
        return found

    def texts_if_possible(self) -> agent_state.Texts:
        """The same without those that cannot be stored: they may be what is being undone."""
        found: agent_state.Texts = {}
        for name, tracked in self._tracked.items():
            try:
                found |= self._text(name, tracked)
            except Exception:  # of the object's own code, too
                continue
        return found

    def _text(self, name: str, tracked: Tracked) -> agent_state.Texts:
        from ckpt import state

        refused: CkptError | None = None
        for value in tracked.captures():
            try:
                texts = agent_state.tracked_text(name, value)
                (text,) = texts.values()
                if self._tried.get(name) != text:
                    _try_out(name, tracked, state.load(text))
            except UsageError as error:
                refused = refused or error
                continue
            self._tried[name] = text
            return texts
        raise refused or UsageError(f"'{name}' gives no state", hint="see what capture() returns")

    def prepare(self, states: Mapping[str, Any]) -> Restoration:
        """Validate what shall be put back; objects of which nothing was saved stay as they are."""
        from ckpt import state

        changes = []
        texts: agent_state.Texts = {}
        for name, tracked in self._tracked.items():
            if name in states:
                stored = agent_state.tracked_text(name, states[name])
                texts |= stored
                (text,) = stored.values()  # for a copy that nobody else holds
                changes.append((name, tracked, _prepared(name, tracked, state.load(text))))
        # What can fail comes before what cannot.
        changes.sort(key=lambda change: not change[1].may_fail)
        return Restoration(changes, texts)


class Restoration:
    """Validated states on their way into objects: all of them, or none."""

    def __init__(
        self, changes: list[tuple[str, Tracked, Callable[[], None]]], texts: agent_state.Texts
    ) -> None:
        self._changes = changes
        self._texts = texts
        self._ways_back: list[tuple[str, Callable[[], None]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, _, _ in self._changes))

    def differs(self, now: agent_state.Texts) -> bool:
        """Whether an object will change, all of which are as these texts tell now."""
        return any(now.get(path) != text for path, text in self._texts.items())

    def apply(self) -> None:
        """Put all of them back; if one fails, none has changed."""
        name = ""
        try:
            for name, tracked, put in self._changes:
                self._ways_back.append((name, tracked.way_back()))
                put()
        except BaseException as error:
            lost = self.revert()
            if not isinstance(error, Exception):
                raise
            raise RollbackError(
                f"cannot put '{name}' back: {_said(error)}",
                hint=f"'{lost[0]}' could not be returned to what it was"
                if lost
                else "nothing was changed; track(…) again, or leave the object out",
                details={"object": name, "lost": lost},
            ) from error

    def revert(self) -> list[str]:
        """Make all what they were before; returns those that would not be."""
        lost = []
        while self._ways_back:
            name, put = self._ways_back.pop()
            try:
                put()
            except BaseException:  # of the object's own code, or Ctrl-C: the others go back first
                lost.append(name)
        return lost


def _turn_of(name: str, thing: Any, word: str) -> int:
    found = thing.get(word) if isinstance(thing, dict) else getattr(thing, word, None)
    if not isinstance(found, int):
        raise UsageError(
            f"'{name}.{word}' is no number", hint="turn= names the attribute that counts turns"
        )
    return found


def _try_out(name: str, tracked: Tracked, value: Any) -> None:
    """Refuse a value that the object could not be made of again, exactly."""
    try:
        tracked.check(value)
    except NotLike as error:
        raise UsageError(
            f"'{name}{error.where}' would not come back as it is: {error.reason}",
            hint="leave it out of what is tracked, or give the object capture() and restore()",
            details={"key": name + error.where},
        ) from None


def _prepared(name: str, tracked: Tracked, value: Any) -> Callable[[], None]:
    try:
        return tracked.prepare(value)
    except Exception as error:  # whatever a validator of the object's class raises
        raise RollbackError(
            f"the saved state of '{name}' does not fit it: {_said(error)}",
            hint="nothing was touched",
            details={"object": name},
        ) from error


def _said(error: Exception) -> str:
    if isinstance(error, NotLike):
        return f"{error.where.lstrip('.') or 'it'}: {error.reason}"
    return str(error).partition("\n")[0] or type(error).__name__
