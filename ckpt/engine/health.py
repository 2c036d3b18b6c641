# SPDX-License-Identifier: MIT
"""What is wrong in a repository: refs, objects, index, journals, locks, private files, remotes.

`doctor --fix` mends only what loses nothing: stale locks of ours, a damaged cache, and refs of ours
that name nothing (put back where the commit is known, else removed and written down in
`ckpt/broken-refs`). All else is reported with the command to type.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from shlex import join, quote
from typing import NamedTuple

from ckpt import disk, jsontext
from ckpt.engine import journal, scan_cache
from ckpt.engine.catalog import load
from ckpt.engine.recorded import Recorded
from ckpt.engine.recovery import open_ways
from ckpt.engine.verify import Target, every_target
from ckpt.errors import Busy, CkptError, DiskError, claim, is_others, is_want
from ckpt.git import record as made_here
from ckpt.git.config import GitConfig, parse_bool
from ckpt.git.formats import ObjectID
from ckpt.git.index import read_staged
from ckpt.git.objects import MissingObject
from ckpt.git.operation import ROOM
from ckpt.git.repository import Repository, git_dirs, in_worktree
from ckpt.locks import JOURNAL, SECOND_NAME, dead_locks, is_interrupted, prune_lock
from ckpt.models import Checkpoint

_GIT_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock")
_OLD = 3600.0  # seconds; no git command holds a lock for so long
_PATIENCE = 10.0  # seconds, for another process that writes down broken refs
_BROKEN_REFS = "broken-refs"
_OURS = "refs/checkpoints"
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
    doubt = _doubt(repo)
    for target in targets:
        problem = _names_nothing(repo, target)
        if problem is not None:
            told = f"'{target.ref}' names nothing: {problem}"
            yield Flaw("refs", True, told, None if doubt else _mend_ref(repo, target), doubt)
            continue
        checkpoint = _checkpoint(repo, target)
        if checkpoint is None:
            name = quote(target.ref)
            by_hand = f"git show {name}; to remove it: git update-ref -d {name}"
            yield Flaw("refs", False, f"'{target.ref}' is not a checkpoint", by_hand=by_hand)
            continue
        lack = _lack(repo, checkpoint)
        if lack is not None:
            told = f"'{target.id}' cannot be rolled back to: {lack}"
            by_hand = doubt or f"git ckpt verify {target.id}"
            yield Flaw("checkpoints", True, told, by_hand=by_hand)


def _names_nothing(repo: Repository, target: Target) -> str | None:
    """Why a ref leads to no object; None if it leads to one, be it damaged."""
    if target.commit is None or target.problem is not None:
        return target.problem
    return None if repo.objects.has(target.commit) else f"missing commit {target.commit.decode()}"


def _doubt(repo: Repository) -> str | None:
    """What to see to first where objects may be missing only because they cannot be reached."""
    for flaw in _objects(repo):
        return flaw.by_hand
    folder = repo.objects.path
    if os.path.exists(os.path.join(folder, "info", "alternates")):
        return "see whether the object folders in 'objects/info/alternates' are there"
    packs = os.path.join(folder, "pack")
    for name in disk.names_in(packs):
        stem, ending = os.path.splitext(os.path.join(packs, name))
        if ending == ".pack" and not _is_index(stem + ".idx"):
            return f"git index-pack {quote(stem + ending)}"
    return None if os.access(folder, os.R_OK | os.X_OK) else f"make '{folder}' readable"


def _is_index(path: str) -> bool:
    """Whether there is an index of a pack, by how it begins and how long it is at least."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\xfftOc" and os.fstat(file.fileno()).st_size > 1024
    except OSError:
        return False


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


def _mend_ref(repo: Repository, target: Target) -> Callable[[], str]:
    """Put the ref back to what the record of checkpoints made here says, if that
    can be read, or else remove it; its old content is written down first."""
    name = target.ref.encode("utf-8", "surrogateescape")

    def is_good(commit: ObjectID | None) -> bool:
        return _checkpoint(repo, Target(target.ref, target.id, commit)) is not None

    def mend() -> str:
        repo.check_writable()
        noted = map(str.encode, made_here.commits_of(repo.common_dir, target.id))
        known = [repo.refs.named_by(commit) for commit in noted]
        good = next((each for each in known if each is not None and is_good(each)), None)
        path = _write_down(repo, target)
        if good is not None:
            done = repo.refs.mend(name, target.said, good)
            told = f"put back, to {good.decode()}; its old content is in '{path}'"
        else:
            done = repo.refs.mend(name, target.said, None)
            told = f"removed, and written down in '{path}'; 'git ckpt rescue' lists lost commits"
        if not done:
            raise Busy("it changed meanwhile", hint=f"git show {quote(target.ref)}")
        return told

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
    except CkptError as error:
        if not repo.objects.is_partial:
            told = f"its commit cannot be read: {error.message}"
            yield Flaw("HEAD", True, told, by_hand="git fsck")
    broken = repo.refs.broken_branch()
    if broken is not None:
        path, log = broken
        told = f"'{path}' is damaged: checkpoints record that the branch has no commit"
        last = f"tail -n 1 {quote(log)} | cut -d' ' -f2"
        by_hand = f"if its reflog ends with its last commit: {last} > {quote(path)}"
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
    if scan_cache.is_damaged(repo):
        told = "the cache of the last save is damaged; the next one makes it anew"
        yield Flaw("cache", False, told, _forget_cache(repo))
    for git_dir in git_dirs(repo):
        paths = [*_below(os.path.join(git_dir, "ckpt"))]
        others = [path for path in paths if _is_others(path, git_dir)]
        if others:
            told = f"{_named(others)} belongs to another user, so it is not used"
            by_hand = f"if nobody else has written there: {claim(others, git_dir)}"
            yield Flaw("private files", False, told, by_hand=by_hand)
        opened = [path for path in paths if path not in others and disk.is_open(path)]
        if opened:
            told = f"other users may read or write {_named(opened)}"
            by_hand = join(["chmod", "go=", *opened])
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


def _forget_cache(repo: Repository) -> Callable[[], str]:
    def forget() -> str:
        scan_cache.forget(repo)
        if scan_cache.is_damaged(repo):
            path = scan_cache.path_of(repo)
            raise CkptError(f"'{path}' cannot be removed", hint=f"rm -r {quote(path)}")
        return "removed"

    return forget


def _named(paths: list[str]) -> str:
    return f"'{paths[0]}'" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


# -- remotes -----------------------------------------------------------------------


def find_unasked(repo: Repository) -> Iterator[Flaw]:
    """A flaw for each remote to which a plain `git push` sends checkpoints, and for each from
    which a fetch with pruning takes them away."""
    prunes_all = _is_on(_values(repo.config, "fetch").get("prune"))
    remotes: dict[str, dict[str, list[str]]] = {}
    for key, values in _values(repo.config, "remote").items():
        name, dot, variable = key.rpartition(".")
        if dot:
            remotes.setdefault(name, {})[variable] = values
    for name, found in remotes.items():
        pushed = next(filter(_takes_ours, found.get("push", ())), None)
        if _is_on(found.get("mirror")) and "push" not in found:
            pushed = "mirror"
        if pushed is not None and not _leaves_out(found.get("push", ())):
            why = "mirror is set" if pushed == "mirror" else f"push is '{pushed}'"
            told = f"'git push {quote(name)}' sends checkpoints along: remote.{name}.{why}"
            key = quote(f"remote.{name}.push")
            everything = f"git config {key} '+refs/*:refs/*'; " if pushed == "mirror" else ""
            by_hand = f"{everything}git config --add {key} '^refs/checkpoints*'"
            yield Flaw("push", False, told, by_hand=by_hand)
        fetched = next((one for one in found.get("fetch", ()) if _takes_ours(one, to=True)), None)
        if fetched is not None and not _leaves_out(found["fetch"]):
            prunes = _is_on(found.get("prune")) if "prune" in found else prunes_all
            how = "git fetch" if prunes else "git fetch --prune"
            told = f"'{how} {quote(name)}' takes away all checkpoints that the other side lacks: "
            told += f"remote.{name}.fetch is '{fetched}'"
            key = quote(f"remote.{name}.fetch")
            by_hand = f"git config --add {key} '^refs/checkpoints*'"
            yield Flaw("fetch", prunes, told, by_hand=by_hand)


def _values(config: GitConfig, section: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value, _ in config.items(section):
        found.setdefault(key, []).append(value)
    return found


def _is_on(values: list[str] | None) -> bool:
    return parse_bool(values[-1]) is True if values else False


def _takes_ours(refspec: str, *, to: bool = False) -> bool:
    """Whether a refspec's source, or its other side, covers the refs of checkpoints."""
    source, _, target = refspec.lstrip("+").partition(":")
    pattern = (target if to else source).rstrip("*")
    return "*" in refspec and bool(pattern) and f"{_OURS}/x".startswith(pattern)


def _leaves_out(refspecs: list[str] | tuple[str, ...]) -> bool:
    return any(one.startswith(f"^{_OURS}") for one in refspecs)
