# SPDX-License-Identifier: MIT
"""What is wrong in a repository: refs, objects, index, journals, locks, private files.

`doctor --fix` mends what loses nothing: stale locks and unfinished files of ours, a damaged cache,
and refs of ours that name nothing (put back where the commit is known, else removed and written
down in `ckpt/broken-refs`). All else is reported with the command that mends it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from shlex import join, quote
from typing import NamedTuple

from ckpt import disk, jsontext
from ckpt.engine import gc, journal, scan_cache
from ckpt.engine.catalog import load
from ckpt.engine.journal import JOURNAL, is_interrupted
from ckpt.engine.recorded import Recorded
from ckpt.engine.recovery import open_ways
from ckpt.engine.verify import Target, every_target
from ckpt.errors import Busy, CkptError, DiskError, claim, is_others, is_want
from ckpt.git import record as made_here
from ckpt.git.config import GitConfig, parse_bool
from ckpt.git.formats import ObjectID
from ckpt.git.index import read_staged
from ckpt.git.loose import names_in
from ckpt.git.objects import MissingObject, absent, damaged_packs
from ckpt.git.operation import ROOM
from ckpt.git.reachability import git_dirs, in_worktree
from ckpt.git.refspecs import Refspec, is_left_out, origin_of, parse, star, target_of
from ckpt.git.repository import Repository
from ckpt.locks import SECOND_NAME, dead_locks, prune_lock
from ckpt.models import REF_PREFIX, TRASH_PREFIX, Checkpoint

_GIT_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock")
_OLD = 3600.0  # seconds; no git command holds a lock for so long
_PATIENCE = 10.0  # seconds, for another process that writes down broken refs
_BROKEN_REFS = "broken-refs"
_FILES = ("lock", "last-rollback", "prune-lock", "made-here")
_FOLDERS_OF_REFS = ("checkpoints", "checkpoints-trash")


class Flaw(NamedTuple):
    """`mend` puts it right and returns what it did; where there is none, `by_hand` is the
    command to type."""

    subject: str
    is_wrong: bool
    detail: str
    mend: Callable[[], str] | None = None
    by_hand: str | None = None


def find_flaws(repo: Repository) -> list[Flaw]:
    """All that is found, problems before warnings."""
    blocked = [*_no_folders(repo)]
    if blocked:  # nothing else can be looked at or mended
        return [*blocked, *_objects(repo), *_index(repo)]
    parts = (_refs, _objects, _index, _journals, _locks, _files)
    return sorted((flaw for part in parts for flaw in part(repo)), key=lambda f: not f.is_wrong)


# -- refs --------------------------------------------------------------------------


def _refs(repo: Repository) -> Iterator[Flaw]:
    try:
        targets = every_target(repo)
        in_the_way = {*_FOLDERS_OF_REFS} & {*repo.refs.contents_below("refs/")}
    except CkptError as error:  # in packed-refs, which is git's to mend
        yield Flaw("refs", True, error.message, by_hand=error.hint)
        return
    for name in sorted(in_the_way):
        told = f"while there is a ref 'refs/{name}', nothing can be saved or dropped"
        by_hand = f"git update-ref refs/moved-aside/{name} refs/{name} ''"
        yield Flaw("refs", True, told, by_hand=f"{by_hand} && git update-ref -d refs/{name}")
    doubt = cache(lambda: _out_of_reach(repo))  # which may take a while
    for target in targets:
        problem = _names_nothing(repo, target)
        if problem is not None:
            told = f"'{target.ref}' names nothing: {problem}"
            mend = None if doubt() else _mend_ref(repo, target)
            yield Flaw("refs", True, told, mend, by_hand=doubt())
            continue
        checkpoint = _checkpoint(repo, target)
        if checkpoint is None:
            name = quote(target.ref)
            by_hand = f"git show {name}; to remove it: git update-ref -d {name}"
            yield Flaw("refs", False, f"'{target.ref}' is not a checkpoint", by_hand=by_hand)
            continue
        lack = _lack(repo, checkpoint)
        if lack is not None:
            told = f"'{target.id}' cannot be gone back to: {lack}"
            by_hand = doubt() or f"git ckpt verify {target.id}"
            yield Flaw("checkpoints", True, told, by_hand=by_hand)


def _names_nothing(repo: Repository, target: Target) -> str | None:
    """Why a ref leads to no object that can be read; None if it leads to one."""
    if target.commit is None or target.problem is not None:
        return target.problem
    try:
        repo.objects.read(target.commit, repo.objects.kind(target.commit) or b"commit")
    except MissingObject as error:
        return error.message
    return None


def _checkpoint(repo: Repository, target: Target) -> Checkpoint | None:
    try:
        return None if target.commit is None else load(repo, target.id, target.commit)
    except CkptError:
        return None


def _lack(repo: Repository, checkpoint: Checkpoint) -> str | None:
    """What a glance tells: tree, state commit and manifest; the rest is for `verify`."""
    recorded = Recorded(repo, checkpoint)
    try:
        repo.objects.read(recorded.tree, b"tree")
        _ = recorded.manifest
    except MissingObject as error:
        return None if repo.objects.is_partial else error.message  # its remote may have it
    except CkptError as error:
        return error.message
    return None


def _out_of_reach(repo: Repository) -> str | None:
    """What to see to first where objects may be missing only because they cannot be reached."""
    folder = repo.objects.path
    for away in absent(folder):
        return f"bring '{away}' back, from which this repository borrows objects"
    packs = os.path.join(folder, "pack")
    for path in (folder, *(os.path.join(packs, n) for n in names_in(packs)), *_loose(folder)):
        if not os.access(path, os.R_OK):
            return f"make '{path}' readable"
    unindexed, damaged = damaged_packs(repo.objects)
    for pack in unindexed:
        return f"git index-pack {quote(pack)}"
    for pack in damaged:
        return f"restore '{pack}' from a copy of the repository, or move it away"
    head = repo.refs.head().commit
    if head is not None:
        try:
            repo.objects.read(head, b"commit")
        except MissingObject:
            return None if repo.objects.is_partial and not repo.objects.has(head) else "git fsck"
    return None


def _loose(folder: str) -> Iterator[str]:
    for child in os.scandir(folder):
        if len(child.name) == 2 and child.is_dir(follow_symlinks=False):
            yield child.path
            if os.access(child.path, os.R_OK | os.X_OK):
                yield from (inner.path for inner in os.scandir(child.path))


def _mend_ref(repo: Repository, target: Target) -> Callable[[], str]:
    """Put the ref back to what the record of checkpoints made here says, if that
    can be read, or else remove it; its old content is written down first."""
    name = target.ref.encode("utf-8", "surrogateescape")

    def mend() -> str:
        repo.check_writable()
        noted = map(str.encode, made_here.commits_of(repo.common_dir, target.id))
        known = [repo.refs.named_by(commit) for commit in noted]
        fitting = [each for each in known if each is not None and _is_good(each)]
        path = _write_down(repo, target)
        if fitting:
            done = repo.refs.mend(name, target.said, fitting[0])
            told = f"put back, to {fitting[0].decode()}; its old content is in '{path}'"
        else:
            done = repo.refs.mend(name, target.said, None)
            told = f"removed, and written down in '{path}'; 'git ckpt rescue' lists lost commits"
        if not done:
            raise Busy("it changed meanwhile", hint=f"git show {quote(target.ref)}")
        return told

    def _is_good(commit: ObjectID) -> bool:
        return _checkpoint(repo, Target(target.ref, target.id, commit)) is not None

    return mend


def _write_down(repo: Repository, target: Target) -> str:
    """Add a durable line about a ref before it changes; returns the file."""
    path = os.path.join(repo.common_dir, "ckpt", _BROKEN_REFS)
    line = {
        "ref": target.ref.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
        "said": target.said.decode("utf-8", "backslashreplace").strip(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    with prune_lock(repo.common_dir, timeout=_PATIENCE):
        try:
            before = disk.read(path)
        except FileNotFoundError:
            before = b""
        disk.replace(path, before + jsontext.dump(line).replace(b"\n", b"") + b"\n")
    return path


# -- objects and index -------------------------------------------------------------


def _objects(repo: Repository) -> Iterator[Flaw]:
    head = repo.refs.head().commit
    try:
        if head is not None:
            repo.objects.read(head, b"commit")
    except MissingObject as error:
        told = f"its commit cannot be read; what is saved does not know it: {error.message}"
        yield Flaw("HEAD", True, told, by_hand=_out_of_reach(repo) or "git fsck")
    broken = repo.refs.broken_branch()
    if broken is not None:
        path, log = broken
        told = f"'{path}' is damaged: checkpoints record that the branch has no commit"
        last = f"tail -n 1 {quote(log)} | cut -d' ' -f2"
        by_hand = f"if its reflog ends with its last commit: {last} > {quote(path)}"
        yield Flaw("HEAD", True, told, by_hand=by_hand)
    unindexed, damaged = damaged_packs(repo.objects)
    for pack in unindexed:
        told = f"what is in '{pack}' cannot be found: its index is missing or damaged"
        yield Flaw("objects", False, told, by_hand=f"git index-pack {quote(pack)}")
    for pack in damaged:
        by_hand = f"restore '{pack}' from a copy of the repository, or move it away"
        told = f"what is in '{pack}' cannot be read: the file is damaged"
        yield Flaw("objects", True, told, by_hand=by_hand)


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
    """Of all worktrees: while one cannot be read nothing is dropped in any of them."""
    for git_dir in git_dirs(repo):
        private_dir = os.path.join(git_dir, "ckpt")
        if not is_interrupted(private_dir):
            continue
        is_own = git_dir == repo.git_dir
        subject, where = (JOURNAL, "") if is_own else ("worktrees", in_worktree(git_dir))
        path = os.path.join(private_dir, JOURNAL)
        away = join(["mv", path, path + ".broken"])
        try:
            record = journal.read(private_dir)
        except (journal.NewerJournal, journal.Doubtful) as error:
            yield Flaw(subject, True, error.message + where, by_hand=error.hint)
        except CkptError as error:
            told = f"{error.message}{where}; the state before that rollback is the newest of "
            told += "'git ckpt list --all-worktrees --kind safety'"
            yield Flaw(subject, True, told, by_hand=away)
        else:
            if not open_ways(repo, record):
                told = (
                    f"an interrupted rollback needs checkpoint '{record.target}' or "
                    f"'{record.safety}', and both are gone{where}; 'git ckpt rescue' may find them"
                )
                yield Flaw(subject, True, told, by_hand=f"to give that rollback up: {away}")


# -- locks -------------------------------------------------------------------------


def _locks(repo: Repository) -> Iterator[Flaw]:
    for git_dir in git_dirs(repo):
        dead = dead_locks(os.path.join(git_dir, "ckpt"))
        if dead:
            told = f"{_count(len(dead), 'stale lock')} of ckpt commands that were killed"
            yield Flaw("locks", False, told, lambda: _clear_locks(repo))
        for name in _GIT_LOCKS:
            lock = os.path.join(git_dir, name)
            try:
                age = time.time() - os.lstat(lock).st_mtime
            except OSError:
                continue
            is_ours = any(os.path.exists(one) and os.path.samefile(lock, one) for one in dead)
            if age > _OLD and not is_ours:
                told = f"'{lock}' is {age / 3600:.0f} hours old, and stops git"
                yield Flaw("locks", False, told, by_hand=f"if no git is running: rm {quote(lock)}")


def _clear_locks(repo: Repository) -> str:
    repo.refs.clear_dead_locks()
    return "removed"


# -- private files -----------------------------------------------------------------


def _no_folders(repo: Repository) -> Iterator[Flaw]:
    for folder in (os.path.join(git_dir, "ckpt") for git_dir in git_dirs(repo)):
        if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
            told = f"'{folder}' is not a directory, so nothing can be saved or rolled back"
            by_hand = f"{join(['mv', folder, folder + '.away'])} && git ckpt doctor"
            yield Flaw("private files", True, told, by_hand=by_hand)


def _files(repo: Repository) -> Iterator[Flaw]:
    unfinished = gc.unfinished(repo)
    if unfinished:
        told = f"{_count(len(unfinished), 'unfinished file')} of ckpt commands that were killed"
        yield Flaw("leftovers", False, told, _clear_unfinished(repo))
    if scan_cache.is_damaged(repo):
        told = "the cache of the last save is damaged; the next one makes it anew"
        yield Flaw("cache", False, told, _forget_cache(repo))
    for git_dir in git_dirs(repo):
        folder = os.path.join(git_dir, "ckpt")
        for path in (os.path.join(folder, name) for name in _FILES):
            if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
                told = f"'{path}' is not a file, so commands may fail"
                yield Flaw("private files", True, told, by_hand=join(["mv", path, path + ".away"]))
        yield from _modes(folder)


def _modes(folder: str) -> Iterator[Flaw]:
    """Private files that other users can read or write, or own."""
    paths = [*_below(folder)]
    found = [path for path in paths if disk.is_open(path)]
    written = [p for p in found if disk.is_writable(p) and not os.path.isdir(p)]
    readable = [path for path in found if path not in written]
    if readable:
        told = f"{_named(readable)} can be read by other users"
        yield Flaw("private files", False, told, by_hand=join(["chmod", "go=", *readable]))
    if written:
        told = f"other users could write to {_named(written)}, so it is not used"
        by_hand = f"if nobody else has written there: {join(['chmod', '600', *written])}"
        yield Flaw("private files", False, told, by_hand=by_hand)
    git_dir = os.path.dirname(folder)
    others = [path for path in paths if os.path.lexists(path) and _is_others(path, git_dir)]
    if others:
        told = f"{_named(others)} belongs to another user, so it is not used"
        by_hand = f"if nobody else has written there: {claim(others, git_dir)}"
        yield Flaw("private files", False, told, by_hand=by_hand)


def _is_others(path: str, git_dir: str) -> bool:
    try:
        return is_others(os.lstat(path), git_dir)
    except OSError:  # it is gone by now
        return False


def _below(path: str, levels: int = 3) -> Iterator[str]:
    """A private folder and what is in it, but not what becomes a file of git's."""
    yield path
    for name in disk.names_in(path) if levels else ():
        if not name.startswith((SECOND_NAME, ROOM)):
            yield from _below(os.path.join(path, name), levels - 1)


def _clear_unfinished(repo: Repository) -> Callable[[], str]:
    def clear() -> str:
        gc.clear(repo)
        return "removed"

    return clear


def _forget_cache(repo: Repository) -> Callable[[], str]:
    def forget() -> str:
        scan_cache.forget(repo)
        if scan_cache.is_damaged(repo):
            path = scan_cache.path_of(repo)
            hint = f"rm -r {quote(path)}" if os.path.isdir(path) else f"rm -f {quote(path)}"
            raise CkptError(f"'{path}' cannot be removed", hint=hint)
        return "removed"

    return forget


def _named(paths: list[str]) -> str:
    return f"'{paths[0]}'" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


# -- What a plain `git push` or `git fetch` would do to checkpoints that nobody asked it to

_ID = "20260101-000000-000-0000"
_ANY = (f"{REF_PREFIX}{_ID}", f"{TRASH_PREFIX}{_ID[:8]}/{_ID}")  # there will be one like these
_BOTH = "refs/checkpoints"  # what the names of checkpoints, dropped or not, begin with
_EVERYTHING = "+refs/*:refs/*"


@dataclass(frozen=True, slots=True)
class _Remote:
    name: str
    is_mirror: bool
    push: tuple[Refspec, ...]
    fetch: tuple[Refspec, ...]
    prunes: bool

    def key(self, name: str) -> str:
        return quote(f"remote.{self.name}.{name}")


def find_unasked(repo: Repository) -> Iterator[Flaw]:
    """A flaw for each remote that checkpoints leave by, and for each that takes them away."""
    names = [*_ANY, *_existing(repo)]
    for remote in _remotes(repo.config):
        yield from _pushed(remote, names)
        yield from _fetched(remote, names)


def _existing(repo: Repository) -> Iterator[str]:
    for prefix in (REF_PREFIX, TRASH_PREFIX):
        try:
            yield from (prefix + name for name in repo.refs.contents_below(prefix))
        except CkptError:  # of damaged refs, of which `repair` tells
            return


def _remotes(config: GitConfig) -> Iterator[_Remote]:
    found: dict[str, dict[str, list[str]]] = {}
    for key, value, _ in config.items("remote"):
        name, dot, variable = key.rpartition(".")
        if dot:
            found.setdefault(name, {}).setdefault(variable, []).append(value)
    prunes = ["false", *(value for key, value, _ in config.items("fetch") if key == "prune")]
    for name, values in found.items():
        yield _Remote(
            name,
            parse_bool(values.get("mirror", ["false"])[-1]) is True,
            tuple(map(parse, values.get("push", ()))),
            tuple(map(parse, values.get("fetch", ()))),
            parse_bool(values.get("prune", prunes)[-1]) is True,
        )


def _pushed(remote: _Remote, names: list[str]) -> Iterator[Flaw]:
    refspecs = remote.push or ((parse(":"),) if remote.is_mirror else ())
    guilty = [one for one in refspecs if _sends_any(one, names, refspecs, remote.is_mirror)]
    if not guilty:
        return
    if not remote.push:
        why = f"remote.{remote.name}.mirror is set"
    else:
        why = f"remote.{remote.name}.push is '{guilty[0].text}'"
    told = f"'git push {quote(remote.name)}' sends checkpoints along: {why}"
    yield Flaw("push", False, told, by_hand=_keep_back(remote, guilty))


def _sends_any(
    one: Refspec, names: list[str], refspecs: tuple[Refspec, ...], is_mirror: bool
) -> bool:
    targets = (target_of(one, name, is_mirror=is_mirror) for name in names)
    return any(at is not None and not is_left_out(at, refspecs) for at in targets)


def _keep_back(remote: _Remote, guilty: list[Refspec]) -> str:
    key = remote.key("push")
    own = [one for one in guilty if not one.is_matching and _is_own(one.source)]
    if len(own) == len(guilty):  # made for checkpoints: nothing else goes by them
        return f"git config --fixed-value --unset-all {key} {quote(own[0].text)}"
    wide = next(one for one in guilty if one not in own)
    beyond = target_of(wide, _BOTH, is_mirror=remote.is_mirror)
    leave_out = f"git config --add {key} {quote(f'^{beyond}*')}"
    # A mirror with any refspec goes by its refspecs alone.
    return leave_out if remote.push else f"git config {key} {quote(_EVERYTHING)}; {leave_out}"


def _is_own(pattern: str) -> bool:
    """Whether it is for checkpoints and nothing else."""
    return pattern.startswith(_BOTH) or star(pattern, _BOTH) is None


def _fetched(remote: _Remote, names: list[str]) -> Iterator[Flaw]:
    for one in remote.fetch:
        origins = [origin_of(one, name) for name in names]
        if all(at is None or is_left_out(at, remote.fetch) for at in origins):
            continue
        # A refspec for checkpoints alone is there because somebody wants them.
        beyond = None if _is_own(one.target) else origin_of(one, _BOTH)
        if not remote.prunes and beyond is None:
            continue
        how = "git fetch" if remote.prunes else "git fetch --prune"
        told = (
            f"'{how} {quote(remote.name)}' takes away all checkpoints that the other side lacks: "
            f"remote.{remote.name}.fetch is '{one.text}'"
        )
        yield Flaw("fetch", remote.prunes, told, by_hand=_keep_here(remote, beyond))


def _keep_here(remote: _Remote, beyond: str | None) -> str:
    if beyond is None:
        return f"git config {remote.key('prune')} false"
    return f"git config --add {remote.key('fetch')} {quote(f'^{beyond}*')}"
