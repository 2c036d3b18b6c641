# SPDX-License-Identifier: MIT
"""What is broken in a repository of ours and can be put right without losing anything.

Each flaw is found by looking only, and comes with what would mend it. Refs have a module of their
own, `broken_refs`. Git's own locks stay: nothing proves that nobody needs them.
"""

from __future__ import annotations

import os
import time
from shlex import quote

from ckpt import disk, private
from ckpt.engine import journal, left_over, scan_cache
from ckpt.engine.broken_refs import bring_pack_back, broken_refs, index_anew, out_of_reach
from ckpt.engine.flaws import Flaw
from ckpt.engine.pending import JOURNAL, is_interrupted, journal_exists
from ckpt.engine.private_files import no_files, no_folders, open_to_others
from ckpt.engine.way_out import open_ways
from ckpt.errors import Busy, CkptError, DiskError, is_want
from ckpt.store.kernel_lock import worktree_lock
from ckpt.store.lock import clear_dead_locks, dead_locks
from ckpt.store.object_scan import damaged_packs, unindexed_packs
from ckpt.store.objects import MissingObject
from ckpt.store.repository import Repository
from ckpt.store.roots import git_dirs, in_worktree, worktree_of
from ckpt.store.staging import read_staged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_GIT_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock")
_OLD = 3600.0  # seconds; no git command holds one of these for so long


def find_flaws(repo: Repository) -> list[Flaw]:
    """All that is found, what is worst first."""
    in_place = [*no_folders(repo)]
    if in_place:  # of what is not there nothing else can be told, or mended
        return [*in_place, *_objects(repo), *_index(repo)]
    found = [
        *broken_refs(repo),
        *_objects(repo),
        *_index(repo),
        *_journals(repo),
        *_locks(repo),
        *_files(repo),
    ]
    return sorted(found, key=lambda flaw: not flaw.is_wrong)


# -- objects -----------------------------------------------------------------------


def _objects(repo: Repository) -> Iterator[Flaw]:
    head = repo.refs.head().commit
    try:
        if head is not None:
            repo.objects.read(head, b"commit")
    except MissingObject as error:
        told = f"its commit cannot be read; what is saved does not know it: {error.message}"
        yield Flaw("HEAD", True, told, by_hand=out_of_reach(repo) or "git fsck")
    yield from _branch(repo)
    for pack in unindexed_packs(repo.objects):
        told = f"what is in '{pack}' cannot be found: its index is missing or damaged"
        yield Flaw("objects", False, told, by_hand=index_anew(pack))
    for pack in damaged_packs(repo.objects):
        told = f"what is in '{pack}' cannot be read: the file is damaged"
        yield Flaw("objects", True, told, by_hand=bring_pack_back(pack))


def _branch(repo: Repository) -> Iterator[Flaw]:
    """Work goes on without it, as git's does; so nobody else would tell."""
    broken = repo.refs.broken_branch()
    if broken is None:
        return
    path, last = broken
    told = f"the file of its branch, '{path}', is damaged: what is saved says that it has no commit"
    if last is not None and repo.objects.has(last):
        by_hand = f"if that was its last commit: echo {last.decode()} > {quote(path)}"
    else:
        by_hand = f"echo ID > {quote(path)}, of its last commit, which 'git ckpt rescue' may list"
    yield Flaw("HEAD", True, told, by_hand=by_hand)


def _index(repo: Repository) -> Iterator[Flaw]:
    try:
        read_staged(repo)
    except (CkptError, OSError) as error:
        if isinstance(error, OSError) and is_want(error):
            raise
        found = error if isinstance(error, CkptError) else DiskError(error)
        told = f"it cannot be read, without which nothing is saved: {found.message}"
        yield Flaw("index", True, told, by_hand=found.hint)


# -- journals ----------------------------------------------------------------------


def _journals(repo: Repository) -> Iterator[Flaw]:
    """Of all worktrees: one that cannot be read keeps each of them from dropping anything."""
    for git_dir in git_dirs(repo):
        is_dead = is_interrupted(os.path.join(git_dir, "ckpt"))
        found = _journal(repo, git_dir) if is_dead else None
        if found is not None:
            yield found


def _journal(repo: Repository, git_dir: str) -> Flaw | None:
    """What is wrong with the journal that is there."""
    is_own = git_dir == repo.git_dir
    subject, where = (JOURNAL, "") if is_own else ("worktrees", in_worktree(git_dir))
    try:
        record = journal.read(os.path.join(git_dir, "ckpt"))
    except (journal.NewerJournal, journal.Doubtful) as error:
        return Flaw(subject, True, error.message + where, by_hand=error.hint)
    except CkptError as error:
        told = error.message + where
        listed = "git ckpt list --kind safety" if is_own else _list_elsewhere(git_dir)
        then = f"the state before that rollback is the newest of '{listed}'"
    else:
        if open_ways(repo, record):
            return None
        told = (
            f"an interrupted rollback needs checkpoint '{record.target}' or '{record.safety}', "
            f"and both are gone{where}; 'git ckpt rescue' may find them"
        )
        then = "all files stay as they are, some of before that rollback and some of after it"
    return Flaw(subject, True, told, _put_journal_aside(repo, git_dir, told, then))


def _list_elsewhere(git_dir: str) -> str:
    place = worktree_of(git_dir)
    if place is None or not os.path.isdir(place):
        return "git ckpt list --all-worktrees --kind safety"
    return f"git -C {quote(place)} ckpt list --kind safety"


def _put_journal_aside(repo: Repository, git_dir: str, told: str, then: str) -> Callable[[], str]:
    """`then` is what that means for whoever the rollback was for."""
    private_dir = os.path.join(git_dir, "ckpt")

    def put() -> str:
        aside = os.path.join(private_dir, disk.temporary_name("broken-journal-"))
        with worktree_lock(private_dir, exclusive=True, timeout=0.0):
            # Somebody else may have mended it, and another rollback may have died since.
            found = _journal(repo, git_dir) if journal_exists(private_dir) else None
            if found is None or found.detail != told:
                raise Busy("it changed meanwhile", hint="git ckpt doctor")
            private.move_aside(os.path.join(private_dir, JOURNAL), aside)
            disk.fsync_dir(private_dir)
        return f"moved aside, to '{aside}'; {then}"

    return put


# -- locks -------------------------------------------------------------------------


def _locks(repo: Repository) -> Iterator[Flaw]:
    for git_dir in git_dirs(repo):
        private_dir = os.path.join(git_dir, "ckpt")
        dead = dead_locks(private_dir)
        if dead:
            told = f"{_count(len(dead), 'lock')} of ckpt commands that were killed"
            yield Flaw("locks", False, told, _clear_locks(repo, git_dir))
        for name in _GIT_LOCKS:
            lock = os.path.join(git_dir, name)
            age = _age(lock)
            if age is not None and age > _OLD and not _is_ours(lock, dead):
                told = f"'{lock}' is {age / 3600:.0f} hours old, and stops git"
                yield Flaw("locks", False, told, by_hand=f"if no git is running: rm {quote(lock)}")


def _clear_locks(repo: Repository, git_dir: str) -> Callable[[], str]:
    private_dir = os.path.join(git_dir, "ckpt")

    def clear() -> str:
        clear_dead_locks(private_dir, lambda: [*_locked_files(repo, git_dir)])
        # What is left has become the file that it was to lock, before its process died.
        for lock in dead_locks(private_dir):
            disk.unlink(lock)
        return "taken away"

    return clear


def _locked_files(repo: Repository, git_dir: str) -> Iterator[str]:
    """Every file of git's that has a lock, whosever that is."""
    for top in dict.fromkeys((git_dir, repo.common_dir)):
        places = [(top, os.listdir(top))]
        places += [(at, names) for at, _, names in os.walk(os.path.join(top, "refs"))]
        for folder, names in places:
            for name in names:
                if name.endswith(".lock"):
                    yield os.path.join(folder, name.removesuffix(".lock"))


def _is_ours(lock: str, dead: list[str]) -> bool:
    return any(os.path.samefile(lock, second) for second in dead if os.path.exists(second))


def _age(path: str) -> float | None:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return None


# -- private files -----------------------------------------------------------------


def _files(repo: Repository) -> Iterator[Flaw]:
    unfinished = left_over.unfinished(repo)
    if unfinished:
        told = f"{_count(len(unfinished), 'unfinished file')} of ckpt commands that were killed"
        yield Flaw("leftovers", False, told, _clear_unfinished(repo))
    if scan_cache.is_damaged(repo):
        told = "what the last save found is damaged; the next one finds it anew"
        yield Flaw("cache", False, told, _forget_cache(repo))
    yield from no_files(repo)
    yield from open_to_others(repo)


def _clear_unfinished(repo: Repository) -> Callable[[], str]:
    def clear() -> str:
        gone = left_over.clear(repo)
        _check_gone(left_over.unfinished(repo))
        return f"took away {_count(len(gone), 'file')}"

    return clear


def _forget_cache(repo: Repository) -> Callable[[], str]:
    def forget() -> str:
        scan_cache.forget(repo)
        _check_gone([scan_cache.path_of(repo)] if scan_cache.is_damaged(repo) else [])
        return "taken away"

    return forget


def _check_gone(paths: Sequence[str]) -> None:
    if paths:
        told = f"'{paths[0]}' cannot be taken away"
        if os.path.isdir(paths[0]):
            raise CkptError(f"{told}: it is a folder", hint=f"rm -r {quote(paths[0])}")
        raise CkptError(told, hint=f"rm -f {quote(paths[0])}")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
