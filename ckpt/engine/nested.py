# SPDX-License-Identifier: MIT
"""Submodules and other repositories inside a worktree: where their HEAD stands, whether they are
dirty, and how to open one.

They are read and never written here, each as git would open it. Of one that belongs to another
user, is damaged, or has its work tree elsewhere, only the path is noted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git.formats import ObjectID
from ckpt.git.index import read_staged
from ckpt.git.refs import Head, branch_name
from ckpt.git.repository import Repository, discover, link_out
from ckpt.git.trees import GITLINK, lookup
from ckpt.models import GONE_REPOSITORY, Checkpoint, NestedState, SkipReason
from ckpt.paths import folders_above, is_nested_repository, is_within, to_bytes, to_str
from ckpt.worktree.scan import Deadline
from ckpt.worktree.write import Worktree

if TYPE_CHECKING:
    from ckpt.engine.present import Present


SUBMODULE = "submodule"

# All nested repositories of one worktree together; git's own `status` knows no such limit.

# What names one repository and must not be taken for another, of all that ckpt looks at.
_LOCAL = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_QUARANTINE_PATH",
        "GIT_WORK_TREE",
    }
)


def nested_states(
    repo: Repository,
    paths: Collection[bytes],
    recorded: Mapping[bytes, bytes],
    deadline: Deadline | None = None,
) -> tuple[NestedState, ...]:
    """Return the state of every nested repository at some paths; `recorded` are the commits in the
    index. After the deadline it is not found out whether they are dirty."""
    if not paths:
        return ()
    top = os.fsencode(repo.worktree)
    return tuple(
        _state(repo, path, ObjectID(recorded[path]) if path in recorded else None, deadline)
        for path in sorted(paths)
        if is_nested_repository(os.path.join(top, path))
    )


def _state(
    repo: Repository, path: bytes, recorded: ObjectID | None, deadline: Deadline | None
) -> NestedState:
    from ckpt.engine.diff import is_dirty  # few worktrees hold a repository

    head = None
    dirty = None
    try:
        with open_nested(repo, path) as nested:
            head = nested.refs.head()
            dirty = is_dirty(nested, recorded, open_nested, deadline)
    except (CkptError, OSError):
        pass
    commit, branch = _names(head)
    return NestedState(to_str(path), commit, branch, dirty)


def _names(head: Head | None) -> tuple[str | None, str | None]:
    if head is None:
        return None, None
    return None if head.commit is None else head.commit.decode(), branch_name(head)


def open_nested(around: Repository, path: bytes) -> Repository:
    """Open the repository at a path of another one's worktree, and no other."""
    place = os.path.join(around.worktree, to_str(path))
    env = {name: value for name, value in around.env.items() if name not in _LOCAL}
    env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(place)
    if not place.startswith(os.path.join(around.worktree, "")):
        raise Refused(f"'{to_str(path)}' is outside the work tree", hint="git submodule status")
    if os.path.realpath(place) != place:
        raise Refused(f"'{to_str(path)}' is beyond a symbolic link", hint="git submodule status")
    repo = discover(place, env)
    if repo.worktree != place or repo.git_dir == around.git_dir:
        repo.close()
        raise _of_another(path)
    return repo


def _of_another(path: bytes) -> Refused:
    from shlex import quote

    return Refused(
        f"the git dir of '{to_str(path)}' belongs to another work tree",
        hint=f"git -C {quote(to_str(path))} rev-parse --absolute-git-dir",
    )


def enter_nested(around: Repository, path: bytes) -> Repository:
    """Open one to work in. Its filter commands are run in submodules, where git would run them
    too; any other repository may have come with an archive."""
    repo = open_nested(around, path)
    if around.runs_filters and _is_of(around, repo, path):
        return repo
    return as_stranger(repo, path)


def as_stranger(repo: Repository, path: bytes | None = None) -> Repository:
    """Make a repository that only the place of a file has led to fit to work in: its filters are
    not run. It is closed if it is refused."""
    try:
        _check_owned(repo, to_bytes(repo.worktree) if path is None else path)
    except BaseException:
        repo.close()
        raise
    return repo.without_filters()


def _check_owned(repo: Repository, path: bytes) -> None:
    """Refuse a repository whose git dir is elsewhere, or leads elsewhere: a checkpoint would be
    written there."""
    if not _is_owned(repo):
        raise _of_another(path)
    for git_dir in {repo.common_dir, repo.git_dir}:
        link = link_out(git_dir, around=repo.common_dir)
        if link is None:
            continue
        from shlex import quote

        raise Refused(
            f"the git dir of '{to_str(path)}' leads elsewhere by the link '{link}'",
            hint=f"ls -l {quote(link)}",
        )


def _is_owned(repo: Repository) -> bool:
    """Tell whether a git dir is in its work tree, or names it."""
    if repo.git_dir == repo.common_dir:
        is_inside = repo.git_dir.startswith(os.path.join(repo.worktree, ""))
        return is_inside or repo.config.get("core.worktree") is not None
    if os.path.dirname(repo.git_dir) != os.path.join(repo.common_dir, "worktrees"):
        return False
    try:
        named = disk.read(os.path.join(repo.git_dir, "gitdir")).rstrip(b"\r\n")
    except OSError:
        return False
    place = os.path.join(repo.git_dir, os.fsdecode(named))
    return os.path.realpath(os.path.dirname(place)) == repo.worktree


def _is_of(around: Repository, repo: Repository, path: bytes) -> bool:
    """Tell whether a repository is a submodule or another worktree of the one around it."""
    if repo.git_dir.startswith(os.path.join(around.common_dir, "")):
        return True
    entries = read_staged(around).index.entries
    return any(entry.path == path and entry.mode == GITLINK for entry in entries)


def repository_around(repo: Repository, worktree: str) -> Repository | None:
    """The repository in whose worktree a worktree of this one lies, if ckpt can use it."""
    env = {name: value for name, value in repo.env.items() if name not in _LOCAL}
    folder = os.path.dirname(worktree)
    try:
        return discover(folder, env) if folder != worktree else None
    except CkptError:
        return None


def without_links(states: Iterable[NestedState]) -> tuple[NestedState, ...]:
    """The same states as if no checkpoint had been taken of them."""
    return tuple(
        state._replace(checkpoint=None, problem=None, checkpoint_commit=None) for state in states
    )


def gone(target: Recorded, worktree: Worktree, limits: tuple[bytes, ...]) -> dict[bytes, str]:
    """List the repositories that were inside at the checkpoint and are gone, each with what it
    was: a rollback of the one around does not bring them back."""
    return {
        path: SUBMODULE if target.has_submodule(path) else GONE_REPOSITORY
        for path in target.repositories
        if (not limits or is_within(path, limits)) and not worktree.is_repository(path)
    }


def left_alone(target: Recorded, present: Present, limits: tuple[bytes, ...]) -> dict[bytes, str]:
    """List the repositories inside that stay as they are although they are new, or differ from the
    checkpoint, or may do so, each with what it is."""
    then = {state.path: state for state in target.manifest.nested}
    found = {}
    for here in present.nested:
        path, state = to_bytes(here.path), then.get(here.path)
        if limits and not is_within(path, limits):
            continue
        is_other = state is None or without_links([state]) != (here,)
        is_saved = state is not None and state.checkpoint is not None
        if is_other or (is_saved and here.dirty is not False):
            entry = present.entry(path)
            is_link = entry is not None and entry.mode == GITLINK
            found[path] = SUBMODULE if is_link else str(SkipReason.NESTED)
    return found


def check_limit(target: Recorded, limit: bytes) -> None:
    """Refuse a path inside a nested repository, unless this one tracked it."""
    from shlex import quote

    nested = {to_bytes(state.path): state for state in target.manifest.nested}
    for folder in folders_above(limit):
        entry = lookup(target.objects, target.tree, folder)
        is_link = entry is not None and entry.mode == GITLINK
        if not is_link and (folder not in nested or _tracks(target, limit)):
            continue
        inside = quote(to_str(limit[len(folder) + 1 :]))
        checkpoint = nested[folder].checkpoint if folder in nested else None
        there = f"git -C {quote(to_str(folder))} ckpt"
        raise UsageError(
            f"'{to_str(limit)}' is inside the repository '{to_str(folder)}'",
            hint=f"{there} rollback {checkpoint} -- {inside}" if checkpoint else f"{there} list",
        )


def _tracks(target: Recorded, limit: bytes) -> bool:
    staged = (entry.path for entry in target.index.entries)
    return not target.is_foreign and any(is_within(path, (limit,)) for path in staged)


def linked_from_around(repo: Repository) -> dict[str, str]:
    """List the checkpoints that those of a repository around this one name, each with the reason
    why it stays: to go back to the outer one takes them all."""
    from ckpt.engine import trash
    from ckpt.engine.catalog import Catalog
    from ckpt.git.repository import present_worktrees

    found: set[str] = set()
    for worktree in present_worktrees(repo):
        around = repository_around(repo, worktree)
        if around is None:
            continue
        with around:
            dropped = (item.checkpoint for item in trash.dropped(around))
            for checkpoint in {c.state_commit: c for c in (*Catalog(around), *dropped)}.values():
                found.update(_links(around, checkpoint))
    return dict.fromkeys(found, "belongs to a checkpoint of the repository around it")


def _links(around: Repository, checkpoint: Checkpoint) -> list[str]:
    """The checkpoints that a manifest names; none if it is damaged."""
    from ckpt.git import record
    from ckpt.git.record import read_nested

    try:
        manifest = record.read_json(around.objects, checkpoint, record.MANIFEST)
        states = read_nested(manifest.get("nested", ()))
    except (CkptError, TypeError, KeyError, AttributeError, ValueError):
        return []
    return [state.checkpoint for state in states if state.checkpoint is not None]
