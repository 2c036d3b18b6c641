# SPDX-License-Identifier: MIT
"""Refs of ours that hold nothing, and what becomes of them.

A ref is moved aside if it holds nothing: no object, a missing or damaged one, another ref's name.
Git itself fails on such a ref, at the next fetch or gc. It is written down before it goes, in
`ckpt/broken-refs`. A ref that holds something, though no checkpoint, may be all that holds it, and
stays. So does what `packed-refs` says of a ref whose own file is broken, as a power cut leaves it:
there, only the file goes. What was moved aside and leads to something again is brought back.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from functools import cache
from shlex import quote

from ckpt import disk, jsontext
from ckpt.engine.catalog import load
from ckpt.engine.flaws import Flaw
from ckpt.engine.recorded import Recorded
from ckpt.engine.verify_targets import Target, every_target
from ckpt.errors import Busy, CkptError
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint
from ckpt.store.alternates import absent
from ckpt.store.object_scan import pack_stems, unindexed_packs
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.ref_names import is_ref_name
from ckpt.store.repository import Repository
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BROKEN_REFS = "broken-refs"


def broken_refs(repo: Repository) -> Iterator[Flaw]:
    try:
        targets = every_target(repo)
    except CkptError as error:  # of `packed-refs`, which are git's to mend
        yield Flaw("refs", True, error.message, by_hand=error.hint)
        return
    problems = {target: _holds_nothing(repo, target) for target in targets}
    doubt = cache(lambda: out_of_reach(repo))  # which may take a while
    for target, problem in problems.items():
        if problem is not None:
            yield _broken(repo, target, problem, doubt())
            continue
        checkpoint = _checkpoint(repo, target)
        lack = None if checkpoint is None else _lack(repo, checkpoint)
        if lack is not None:
            told = f"'{target.id}' cannot be gone back to: {lack}"
            by_hand = doubt() or f"git ckpt verify {target.id}"
            yield Flaw("checkpoints", True, told, by_hand=by_hand)
        if checkpoint is None:
            told = f"'{target.ref}' holds something that is no checkpoint of this ckpt"
            name = quote(target.ref)
            by_hand = f"git show {name}; to let go of it: git update-ref -d {name}"
            yield Flaw("refs", False, told, by_hand=by_hand)
    yield from _readable_again(repo, targets)


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


def _lack(repo: Repository, checkpoint: Checkpoint) -> str | None:
    """What is wrong with a checkpoint as far as a glance tells: with its tree, its state commit,
    and what it says of itself. The rest is for `verify`."""
    recorded = Recorded(repo, checkpoint)
    try:
        repo.objects.read(recorded.tree, b"tree")
        _ = recorded.manifest
    except MissingObject as error:
        return None if repo.objects.is_partial else error.message  # its remote may have it
    except CkptError as error:
        return error.message
    return None


def out_of_reach(repo: Repository) -> str | None:
    """What to see to first where objects may be missing only because they cannot be reached."""
    folder = repo.objects.path
    away = absent(folder)
    if away:
        return f"bring '{away[0]}' back, from which this repository borrows objects"
    packs = [stem + ending for ending in (".pack", ".idx") for stem in pack_stems(folder, ending)]
    closed = [path for path in (folder, *packs, *_inside(folder)) if not os.access(path, os.R_OK)]
    if closed:
        return f"make '{closed[0]}' readable"
    unindexed = next(unindexed_packs(repo.objects), None)
    if unindexed is not None:
        return index_anew(unindexed)
    head = repo.refs.head().commit
    return "git fsck" if head is not None and repo.objects.lacks(head) else None


def index_anew(pack: str) -> str:
    """The command after which what is in a pack can be found again."""
    return f"git index-pack {quote(pack)}"


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


def _checkpoint(repo: Repository, target: Target) -> Checkpoint | None:
    if target.problem is not None or target.commit is None or target.id is None:
        return None
    try:
        return load(repo, target.id, target.commit)
    except CkptError:
        return None


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
        path = _write_down(repo, target, hidden, is_kept=True)
        if not repo.refs.uncover(_name_of(target), target.said, hidden):
            raise _changed(target)
        return f"the file went, and what it said to '{path}'; the ref is whole again"

    return uncover


def _changed(target: Target) -> Busy:
    return Busy("it changed meanwhile", hint=f"git show {quote(target.ref)}")


def _name_of(target: Target) -> bytes:
    return target.ref.encode("utf-8", "surrogateescape")


# -- what was moved aside ----------------------------------------------------------


def _readable_again(repo: Repository, targets: Iterable[Target]) -> Iterator[Flaw]:
    """Refs that were moved aside, and lead to something by now: a pack has its index again, or
    another clone gave what was missing."""
    refs = {target.ref for target in targets}
    ids = {target.id for target in targets} - {None}
    values = {ref: value for ref, value in map(_moved_aside, _set_aside(repo)) if ref is not None}
    for ref, contents in values.items():
        if ref in refs or ref.rpartition("/")[2] in ids:
            continue
        for value in filter(None, map(repo.refs.named_by, contents)):
            if _holds_nothing(repo, Target(ref, None, value)) is None:
                told = f"'{ref}' was moved aside, and what it holds can be read again"
                yield Flaw("refs", True, told, _bring_back(repo, ref, value))
                break


def _bring_back(repo: Repository, ref: str, value: ObjectID) -> Callable[[], str]:
    def bring() -> str:
        repo.check_writable()
        if not repo.refs.create(ref.encode(), value):
            raise Busy("it has been made meanwhile", hint=f"git show {quote(ref)}")
        left = [line for line in _set_aside(repo) if _moved_aside(line)[0] != ref]
        _set(repo, left)
        return "brought back"

    return bring


def _moved_aside(line: bytes) -> tuple[str | None, tuple[bytes, ...]]:
    """The ref that a line tells of, and what it said; None if it was not moved, or is none of
    ours: the file may be damaged."""
    try:
        found = jsontext.load(line)
        ref, contents = found["ref"], (found["said"], found.get("packed") or "")
        is_ours = ref.startswith((REF_PREFIX, TRASH_PREFIX)) and is_ref_name(ref.encode())
        if is_ours and not found.get("kept"):
            return ref, tuple(each.encode() for each in contents)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    return None, ()


def _set_aside(repo: Repository) -> list[bytes]:
    try:
        with open(_aside(repo), "rb") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def _aside(repo: Repository) -> str:
    return os.path.join(repo.common_dir, "ckpt", BROKEN_REFS)


def _write_down(
    repo: Repository, target: Target, hidden: ObjectID | None, *, is_kept: bool = False
) -> str:
    """Add a line about a ref, durable before it or its file goes; where that is."""
    line: dict[str, object] = {
        "ref": _name_of(target).decode("utf-8", "backslashreplace"),
        "said": target.said.decode("utf-8", "backslashreplace").strip(),
        "packed": None if hidden is None else hidden.decode(),
        "kept": is_kept,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    _set(repo, [*_set_aside(repo), jsontext.dump(line).replace(b"\n", b"")])
    return _aside(repo)


def _set(repo: Repository, lines: Iterable[bytes]) -> None:
    disk.replace_private_file(_aside(repo), b"".join([line + b"\n" for line in lines]))
