# SPDX-License-Identifier: MIT
"""Which changes since a checkpoint are the agent's to take back, and which a person's to keep.

The ledger tells what the agent left at each path that it wrote. What is still so goes back;
what differs from it was edited by somebody else since, and stays; and so does what changed at
a path that the agent never wrote. Pure: from the three states of each path to a decision.
Everything else about such a rollback is that of one with paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ckpt.engine.session_state import NO_FILE, Content, SessionState, Write
from ckpt.errors import UsageError
from ckpt.models import Checkpoint
from ckpt.paths import folders_above
from ckpt.values import value_class

NOT_WRITTEN = "not written by the agent"
EDITED = "edited since the agent wrote it"
REMOVED = "removed since the agent wrote it"
MADE_BEFORE = "made by somebody else before the agent wrote it"
UNREADABLE = "unreadable"
IN_ITS_PLACE = "what is in its place is kept"

# A limit that no path is within: where all is kept, nothing may change.
NOWHERE = (b"/",)


@value_class
class Decision:
    """The paths that go back, and why the others stay as they are."""

    back: frozenset[bytes]
    kept: dict[bytes, str]

    @property
    def limits(self) -> tuple[bytes, ...]:
        return tuple(sorted(self.back)) or NOWHERE


def session_of(target: Checkpoint, named: str | None, usual: str | None = None) -> str:
    """Whose writes count: those of a session that is named, of the checkpoint's, or the usual."""
    session = named or target.session or usual
    if session is None:
        raise UsageError(
            f"checkpoint '{target.id}' belongs to no session, so nobody knows what an agent wrote",
            hint="name the session with --session, or roll back without --keep-edits",
        )
    return session


def ledger_of(
    private_dir: str, target: Checkpoint, named: str | None, usual: str | None = None
) -> Mapping[bytes, Write]:
    return SessionState(private_dir, session_of(target, named, usual)).writes()


def decide(
    changing: Collection[bytes],
    ledger: Mapping[bytes, Write],
    look: Callable[[bytes], Content],
    always: Iterable[bytes] = (),
    going: Collection[bytes] = (),
) -> Decision:
    """`changing` are the paths that a rollback would touch, `going` those of them that it would
    remove; `look` tells what is there now.

    Paths of `always` go back whoever changed them. A path that does not change may go back
    all the same: it can be staged otherwise.
    """
    back, kept = set(always), {}
    for path in {*changing, *ledger.keys()} - back:
        write = ledger.get(path)
        reason = NOT_WRITTEN if write is None else _reason(write, path, look)
        if reason is None and write is not None and write.created is False and path in going:
            reason = MADE_BEFORE
        if reason is None:
            back.add(path)
        elif path in changing:
            kept[path] = reason
    for path in [*kept]:
        for folder in back.intersection(folders_above(path)):  # a file was there, or is to be
            back.remove(folder)
            if folder in changing:
                kept[folder] = IN_ITS_PLACE
    return Decision(frozenset(back), kept)


def _reason(write: Write, path: bytes, look: Callable[[bytes], Content]) -> str | None:
    """Why a path stays that the agent has written; None if it goes back."""
    try:
        now = look(path)
    except OSError:
        return UNREADABLE
    if now == write.content:
        return None
    return REMOVED if now == NO_FILE else EDITED
