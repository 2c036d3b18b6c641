# SPDX-License-Identifier: MIT
"""What callers of the API pass, checked where it comes in.

A wrong type is said at once and by the name of the argument, not by a traceback from
below. What the values mean, and whether they are any good, is for those who use them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from ckpt.errors import Refused, UsageError
from ckpt.git.record import snapshot_path
from ckpt.models import Checkpoint, FeatureState, Kind, SaveResult, Scope
from ckpt.paths import to_bytes

Which = str | Checkpoint | SaveResult


def check_type(what: str, value: object, expected: type | tuple[type, ...], called: str) -> None:
    """Refuse a value that is neither None nor of the expected type."""
    if value is not None and not isinstance(value, expected):
        raise UsageError(
            f"{what} must be {called}, not {type(value).__name__}", hint=f"pass {called}"
        )


def check_texts(**values: object) -> None:
    for what, value in values.items():
        check_type(what, value, str, "a string")


def check_mappings(**values: object) -> None:
    for what, value in values.items():
        check_type(what, value, Mapping, "a mapping")


def check_keep_edits(
    keep_edits: bool, session: object, *, head: bool = False, recurse: bool = False
) -> None:
    """Refuse what makes no sense together: commits and other repositories have no ledger."""
    check_texts(session=session)
    if keep_edits and (head or recurse):
        other = "--head" if head else "--recurse"
        raise UsageError(
            f"--keep-edits and {other} exclude each other", hint="leave one of them out"
        )
    if session is not None and not keep_edits:
        raise UsageError("a session is for --keep-edits only", hint="add --keep-edits")


def check_has_files(checkpoint: Checkpoint) -> None:
    if checkpoint.scope is Scope.STATE:
        raise UsageError(
            f"checkpoint '{checkpoint.id}' holds agent state only, no files",
            hint=f"git ckpt show {checkpoint.id}",
        )


def check_has_worktree(scope: Scope) -> None:
    if scope is Scope.STATE:
        raise Refused(
            "this manager keeps state only and touches no files",
            hint="open CheckpointManager(path) without worktree=False",
        )


def as_path(path: object) -> str:
    """A path as text; bytes are not taken, because names in the repository are not always UTF-8
    and text has its own way to hold them."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str):
        raise UsageError(
            f"a path must be a string or a Path, not {type(path).__name__}",
            hint="os.fsdecode(path)",
        )
    try:
        is_path = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:  # half a character
        is_path = False
    if not is_path:
        raise UsageError(f"{name!r} is no path", hint="check the path")
    return name


def check_paths(paths: object) -> None:
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        kind = "one string" if isinstance(paths, str) else type(paths).__name__
        raise UsageError(f"paths must be a list of paths, not {kind}", hint="[path]")


def as_kind(kind: Kind | str) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        known = ", ".join(k.value for k in Kind)
        raise UsageError(f"unknown kind '{kind}'", hint=f"one of {known}") from None


def as_features(
    features: FeatureState | Mapping[str, Any] | None, state_files: Sequence[bytes] = ()
) -> FeatureState | None:
    """The features; their snapshot is a state file, unless said otherwise the first."""
    if features is None:
        return None
    if not isinstance(features, FeatureState):
        check_mappings(features=features)
        try:
            features = FeatureState(**features)
        except TypeError:
            raise UsageError(
                "features has current, completed and snapshot_path, and nothing else",
                hint="pass what belongs to them as data",
            ) from None
    check_texts(current=features.current, snapshot_path=features.snapshot_path)
    path = features.snapshot_path
    names: object = features.completed or ()
    completed = tuple(names) if isinstance(names, Iterable) else (None,)
    if isinstance(names, str) or not all(isinstance(name, str) for name in completed):
        raise UsageError("completed must be a list of strings", hint="completed=[name]")
    wanted = state_files[0] if path is None and state_files else to_bytes(path or "")
    if wanted in state_files:  # where in the checkpoint it is
        path = snapshot_path(wanted)
    return replace(features, completed=completed, snapshot_path=path)


def as_word(which: Which) -> str:
    if isinstance(which, str):
        return which
    if not isinstance(which, Checkpoint | SaveResult):
        raise UsageError(
            f"a checkpoint must be named by a string, not {type(which).__name__}",
            hint="pass an id, a name, or what create() or list() gave",
        )
    if which.id is None:
        raise UsageError("this result holds no checkpoint", hint="look at its .outcome")
    return which.id


def as_moment(moment: datetime) -> datetime:
    """A moment with its time zone, the local one if it names none."""
    if not isinstance(moment, datetime):
        raise UsageError(
            f"a moment must be a datetime, not {type(moment).__name__}",
            hint="pass a datetime, such as checkpoint.timestamp",
        )
    if moment.tzinfo is not None:
        return moment
    try:
        return moment.astimezone()
    except (OverflowError, ValueError):  # at the ends of time, where zones do not matter
        return moment.replace(tzinfo=timezone.utc)
