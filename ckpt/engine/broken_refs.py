# SPDX-License-Identifier: MIT
"""Refs of ours that hold nothing, and what becomes of them.

A ref is moved aside if it holds nothing: no object, a missing or damaged one, another ref's name.
Git itself fails on such a ref, at the next fetch or gc. It is written down before it goes, in
`ckpt/broken-refs`. A ref that holds something, though no checkpoint, may be all that holds it, and
stays. So does what `packed-refs` says of a ref whose own file is broken, as a power cut leaves it:
there, only the file goes.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone

from ckpt import disk, jsontext
from ckpt.engine.catalog import load
from ckpt.engine.flaws import Flaw
from ckpt.engine.verify_targets import Target, every_target
from ckpt.errors import Busy, CkptError
from ckpt.store.alternates import absent
from ckpt.store.object_scan import pack_stems
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BROKEN_REFS = "broken-refs"


def broken_refs(repo: Repository) -> Iterator[Flaw]:
    try:
        targets = every_target(repo)
    except CkptError as error:  # of `packed-refs`, which are git's to mend
        yield Flaw("refs", True, error.message, by_hand=error.hint)
        return
    problems = {target: _holds_nothing(repo, target) for target in targets}
    doubt = _doubt(repo) if any(problems.values()) else None
    for target, problem in problems.items():
        if problem is not None:
            yield _broken(repo, target, problem, doubt)
        elif not _is_checkpoint(repo, target):
            told = f"'{target.ref}' holds something that is no checkpoint of this ckpt"
            by_hand = f"git show {target.ref}; to let go of it: git update-ref -d {target.ref}"
            yield Flaw("refs", False, told, by_hand=by_hand)


def _broken(repo: Repository, target: Target, problem: str, doubt: str | None) -> Flaw:
    hidden = repo.refs.hidden(_name_of(target))
    packed = replace(target, commit=hidden, problem=None)
    if hidden is not None and _holds_nothing(repo, packed) is None:
        told = f"the file of '{target.ref}' holds nothing: {problem}; 'packed-refs' has it still"
        mend = _uncover(repo, target, hidden)
    else:
        told = f"'{target.ref}' holds nothing: {problem}"
        mend = _move_aside(repo, target, hidden)
    return Flaw("refs", True, told, None if doubt else mend, by_hand=doubt)


def _doubt(repo: Repository) -> str | None:
    """What to see to first where objects may be missing only because they cannot be reached."""
    folder = repo.objects.path
    away = absent(folder)
    if away:
        return f"bring '{away[0]}' back, from which this repository borrows objects"
    places = [folder, *(stem + ".pack" for stem in pack_stems(folder)), *_inside(folder)]
    closed = [path for path in places if not os.access(path, os.R_OK)]
    if closed:
        return f"make '{closed[0]}' readable"
    head = repo.refs.head().commit
    return "git fsck" if head is not None and repo.objects.lacks(head) else None


def _inside(folder: str) -> Iterator[str]:
    """The folders and files of loose objects."""
    for name in os.listdir(folder):
        if len(name) == 2:
            path = os.path.join(folder, name)
            yield path
            if os.access(path, os.R_OK):
                yield from (os.path.join(path, inner) for inner in os.listdir(path))


def _holds_nothing(repo: Repository, target: Target) -> str | None:
    """Why a ref leads to no object that can be read; None if it leads to one."""
    if target.commit is None:
        return target.problem
    kind = repo.objects.kind(target.commit)
    try:
        repo.objects.read(target.commit, kind or b"commit")
    except MissingObject as error:
        return error.message
    return None


def _is_checkpoint(repo: Repository, target: Target) -> bool:
    if target.problem is not None or target.commit is None or target.id is None:
        return False
    try:
        load(repo, target.id, target.commit)
    except CkptError:
        return False
    return True


def _move_aside(repo: Repository, target: Target, hidden: ObjectID | None) -> Callable[[], str]:
    def move() -> str:
        repo.check_writable()
        path = _write_down(repo, target, hidden)
        if not repo.refs.remove_as(_name_of(target), target.said, hidden):
            raise _changed(target)
        return f"moved aside, to '{path}'"

    return move


def _uncover(repo: Repository, target: Target, hidden: ObjectID) -> Callable[[], str]:
    def uncover() -> str:
        repo.check_writable()
        path = _write_down(repo, target, hidden)
        if not repo.refs.uncover(_name_of(target), target.said, hidden):
            raise _changed(target)
        return f"the file went, and what it said to '{path}'; the ref is whole again"

    return uncover


def _changed(target: Target) -> Busy:
    return Busy("it changed meanwhile", hint=f"git show {target.ref}")


def _name_of(target: Target) -> bytes:
    return target.ref.encode("utf-8", "surrogateescape")


def _write_down(repo: Repository, target: Target, hidden: ObjectID | None) -> str:
    """Add a line about a ref, durable before the ref goes; where that is."""
    path = os.path.join(repo.common_dir, "ckpt", BROKEN_REFS)
    line: dict[str, object] = {
        "ref": _name_of(target).decode("utf-8", "backslashreplace"),
        "said": target.said.decode("utf-8", "backslashreplace").strip(),
        "packed": None if hidden is None else hidden.decode(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    try:
        with open(path, "rb") as file:
            before = file.read()
    except FileNotFoundError:
        before = b""
    disk.replace_private_file(path, before + jsontext.dump(line).replace(b"\n", b"") + b"\n")
    return path
