# SPDX-License-Identifier: MIT
"""Refs of ours that hold nothing, and what becomes of them.

A ref is moved aside if it holds nothing: no object, a missing or damaged one, another ref's name.
Git itself fails on such a ref, at the next fetch or gc. It is written down before it goes, in
`ckpt/broken-refs`. A ref that holds something, though no checkpoint, may be all that holds it, and
stays. So does what `packed-refs` says of a ref whose own file is broken, as a power cut leaves it:
there, only the file goes. A ref of a checkpoint that was made here is put back, if the commit can
be read that the record of these names: git's gc takes what no ref holds. What was moved aside and
leads to something again is brought back.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from functools import cache
from shlex import quote

from ckpt import disk, jsontext, private, regular
from ckpt.engine.catalog import load
from ckpt.engine.flaws import Flaw
from ckpt.engine.recorded import Recorded
from ckpt.engine.verify_targets import Target, every_target, in_place_of_folders
from ckpt.errors import Busy, CkptError, is_want
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint
from ckpt.patterns import lazy_pattern
from ckpt.store import made_here
from ckpt.store.alternates import absent
from ckpt.store.kernel_lock import prune_lock
from ckpt.store.object_scan import damaged_packs, pack_stems, unindexed_packs
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.ref_names import is_ref_name
from ckpt.store.repository import Repository
from ckpt.store.temporaries import names_in
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BROKEN_REFS = "broken-refs"
_DAY = lazy_pattern(TRASH_PREFIX + "[0-9]{8}")
_FAN_OUT = lazy_pattern("[0-9a-f]{2}")
_PATIENCE = 10.0  # seconds, for another process that writes down or brings back


def broken_refs(repo: Repository) -> Iterator[Flaw]:
    try:
        targets = [*every_target(repo), *in_place_of_folders(repo)]
    except CkptError as error:  # of `packed-refs`, which are git's to mend
        yield Flaw("refs", True, error.message, by_hand=error.hint)
        return
    yield from _unreadable_notes(repo)  # first, as what is mended next is written down there
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
            yield _in_the_way(target) or _no_checkpoint(target)
    yield from _readable_again(repo, targets)


def _broken(repo: Repository, target: Target, problem: str, doubt: str | None) -> Flaw:
    hidden = repo.refs.hidden(_name_of(target))
    packed = replace(target, commit=hidden, problem=None)
    if hidden is not None and _holds_nothing(repo, packed) is None:
        told = f"the file of '{target.ref}' holds nothing: {problem}; 'packed-refs' has it still"
        mend = _uncover(repo, target, hidden)
    elif (noted := _noted(repo, target)) is not None:
        told = f"'{target.ref}' holds nothing: {problem}; its commit is known, and can be read"
        mend = _put_back(repo, target, hidden, noted)
    else:
        told = f"'{target.ref}' holds nothing: {problem}"
        mend = _move_aside(repo, target, hidden)
    return Flaw("refs", True, told, None if doubt else mend, by_hand=doubt)


def _no_checkpoint(target: Target) -> Flaw:
    told = f"'{target.ref}' holds something that is no checkpoint of this ckpt"
    name = quote(target.ref)
    by_hand = f"git show {name}; to let go of it: git update-ref -d {name}"
    return Flaw("refs", False, told, by_hand=by_hand)


def _in_the_way(target: Target) -> Flaw | None:
    """Of a ref that stands where a folder of refs has to be, what it stops."""
    ref = target.ref
    if ref + "/" == REF_PREFIX:
        subject, stopped = "checkpoints", "nothing can be saved"
    elif ref + "/" == TRASH_PREFIX:
        subject, stopped = "refs", "nothing can be dropped"
    elif _DAY.fullmatch(ref):
        subject, stopped = "refs", "nothing can be dropped on that day"
    else:
        return None
    told = f"while there is a ref '{ref}', {stopped}"
    kept = ref.replace("refs/", "refs/moved-aside/", 1)
    by_hand = f"git update-ref {kept} {ref} '' && git update-ref -d {ref}"
    return Flaw(subject, True, told, by_hand=by_hand)


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
    damaged = next(damaged_packs(repo.objects), None)
    if damaged is not None:
        return bring_pack_back(damaged)
    return None if _has_head(repo) else "git fsck"


def _has_head(repo: Repository) -> bool:
    """Whether HEAD's commit can be read, or a remote may have it."""
    head = repo.refs.head().commit
    if head is None:
        return True
    try:
        repo.objects.read(head, b"commit")
    except MissingObject:
        return repo.objects.is_partial and not repo.objects.has(head)
    return True


def bring_pack_back(pack: str) -> str:
    """What to do about one that cannot be opened."""
    return f"bring '{pack}' back from a copy of the repository, or else move it away"


def index_anew(pack: str) -> str:
    """The command after which what is in a pack can be found again."""
    return f"git index-pack {quote(pack)}"


def _inside(folder: str) -> Iterator[str]:
    """The folders and files of loose objects; anything else may lie among them."""
    for name in os.listdir(folder):
        if _FAN_OUT.fullmatch(name):
            path = os.path.join(folder, name)
            yield path
            yield from (os.path.join(path, inner) for inner in names_in(path))


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


def _noted(repo: Repository, target: Target) -> ObjectID | None:
    """The newest commit of a checkpoint that was made here, of those that can be read."""
    commits = made_here.commits_of(repo.common_dir, target.id) if target.id is not None else ()
    for value in filter(None, (repo.refs.named_by(commit.encode()) for commit in commits)):
        if _checkpoint(repo, replace(target, commit=value, problem=None)) is not None:
            return value
    return None


def _put_back(
    repo: Repository, target: Target, hidden: ObjectID | None, commit: ObjectID
) -> Callable[[], str]:
    def put() -> str:
        repo.check_writable()
        path = _write_down(repo, target, hidden, is_kept=True)
        if not repo.refs.replace_as(_name_of(target), target.said, hidden, commit):
            raise _changed(target)
        return f"put back, to {commit.decode()}; what the ref said went to '{path}'"

    return put


def _move_aside(repo: Repository, target: Target, hidden: ObjectID | None) -> Callable[[], str]:
    def move() -> str:
        repo.check_writable()
        path = _write_down(repo, target, hidden)
        if not repo.refs.remove_as(_name_of(target), target.said, hidden):
            raise _changed(target)
        return f"moved aside, to '{path}'; 'git ckpt rescue' lists what no ref holds any more"

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
    lines = [] if _fault_of_notes(repo) else _set_aside(repo)
    values = {ref: value for ref, value in map(_moved_aside, lines) if ref is not None}
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
        with prune_lock(repo.common_dir, timeout=_PATIENCE):
            _set(repo, [line for line in _set_aside(repo) if _moved_aside(line)[0] != ref])
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
        return regular.read(_aside(repo)).splitlines()
    except FileNotFoundError:
        return []


def _unreadable_notes(repo: Repository) -> Iterator[Flaw]:
    fault = _fault_of_notes(repo)
    if fault is not None:
        told = f"'{_aside(repo)}', where broken refs are written down, cannot be read: {fault}"
        yield Flaw("refs", True, told, _begin_notes_anew(repo))


def _fault_of_notes(repo: Repository) -> str | None:
    """Why the file cannot be read; None if it can, or is not there."""
    try:
        _set_aside(repo)
    except OSError as error:
        if is_want(error):
            raise
        return error.strerror or str(error)
    return None


def _begin_notes_anew(repo: Repository) -> Callable[[], str]:
    def begin() -> str:
        aside = disk.temporary_name(_aside(repo) + "-")
        with prune_lock(repo.common_dir, timeout=_PATIENCE):
            if _fault_of_notes(repo) is None:
                raise Busy("it changed meanwhile", hint="git ckpt doctor")
            private.move_aside(_aside(repo), aside)
        return f"moved aside, to '{aside}'"

    return begin


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
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        _set(repo, [*_set_aside(repo), jsontext.dump(line).replace(b"\n", b"")])
    return _aside(repo)


def _set(repo: Repository, lines: Iterable[bytes]) -> None:
    private.replace(_aside(repo), b"".join([line + b"\n" for line in lines]))
