# SPDX-License-Identifier: MIT
"""Submodules and other repositories inside a worktree.

A checkpoint records their HEAD and whether they are dirty, or only the path if they are unsafe or
corrupt. With `--recurse`, each is saved or rolled back itself, innermost first, with its own
settings, safety checkpoint, journal and `undo`; the outer manifest names the inner checkpoints.
A failed save makes the outer checkpoint partial. A rollback begins with a dry run of all, and
stops at the first repository that fails.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from shlex import quote
from typing import TYPE_CHECKING

from ckpt.engine import journal, snapshot
from ckpt.engine.catalog import Catalog
from ckpt.engine.checkpoint import Recorded
from ckpt.engine.snapshot import SaveRequest, count_save
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git.objects import ObjectID
from ckpt.git.repository import Repository, discover, worktree_of
from ckpt.git.trees import GITLINK, lookup
from ckpt.models import (
    GONE_REPOSITORY,
    Checkpoint,
    NestedResult,
    NestedState,
    RollbackResult,
    SaveResult,
    SkipReason,
)
from ckpt.paths import folders_above, is_nested_repository, is_within, to_bytes, to_str
from ckpt.settings.settings import Settings, load_forgiving, load_settings
from ckpt.worktree.scan import Deadline
from ckpt.worktree.write import Worktree

if TYPE_CHECKING:
    from ckpt.engine.prepare import RollbackOptions
    from ckpt.engine.working_state import Present


SUBMODULE = "submodule"
WITHOUT_RECURSE = "leave the repositories inside alone: repeat the command without --recurse"
_TIME_TO_PRUNE = 1.0  # seconds, in each repository

# Environment variables that must not apply to a nested repository.
_LOCAL = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_DIR", "GIT_INDEX_FILE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_QUARANTINE_PATH", "GIT_WORK_TREE"),
)


def nested_states(
    repo: Repository,
    paths: Collection[bytes],
    recorded: Mapping[bytes, bytes],
    deadline: Deadline | None = None,
) -> tuple[NestedState, ...]:
    """Return the state of the nested repositories at some paths; `recorded` are the commits in the
    index. After the deadline `dirty` may be None."""
    from ckpt.engine.diff import is_dirty  # rarely needed

    found = []
    for path in sorted(paths):
        if not is_nested_repository(os.path.join(os.fsencode(repo.worktree), path)):
            continue
        state = NestedState(to_str(path), None, None, None)
        with suppress(CkptError, OSError), open_nested(repo, path) as nested:
            head, staged = nested.refs.head().state, recorded.get(path)
            state = state._replace(commit_hash=head.commit_hash, branch=head.branch)
            dirty = is_dirty(nested, None if staged is None else ObjectID(staged), deadline)
            state = state._replace(dirty=dirty)
        found.append(state)
    return tuple(found)


def open_nested(around: Repository, path: bytes) -> Repository:
    """Open the nested repository at a path. Filters are run only in submodules, as in git; any
    other repository may come from an archive."""
    place = os.path.join(around.worktree, to_str(path))
    env = {name: value for name, value in around.env.items() if name not in _LOCAL}
    env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(place)
    if not place.startswith(os.path.join(around.worktree, "")) or os.path.realpath(place) != place:
        raise Refused(f"'{to_str(path)}' is outside the work tree", hint="git submodule status")
    repo = discover(place, env)
    if repo.worktree != place or repo.git_dir == around.git_dir:
        repo.close()
        raise _of_another(path)
    is_submodule = repo.git_dir.startswith(os.path.join(around.common_dir, ""))
    return repo if around.runs_filters and is_submodule else as_stranger(repo, path)


def _of_another(path: bytes) -> Refused:
    return Refused(
        f"the git dir of '{to_str(path)}' belongs to another work tree",
        hint=f"git -C {quote(to_str(path))} rev-parse --absolute-git-dir",
    )


def as_stranger(repo: Repository, path: bytes | None = None) -> Repository:
    """Disable the filters of an untrusted repository; close and refuse it if its git directory,
    where a checkpoint would be written, is that of another one."""
    if not _is_owned(repo):
        repo.close()
        raise _of_another(to_bytes(repo.worktree) if path is None else path)
    return repo.without_filters()


def _is_owned(repo: Repository) -> bool:
    """Return whether a git directory is in its worktree, or names it."""
    if repo.git_dir == repo.common_dir:
        is_inside = repo.git_dir.startswith(os.path.join(repo.worktree, ""))
        return is_inside or repo.config.get("core.worktree") is not None
    if os.path.dirname(repo.git_dir) != os.path.join(repo.common_dir, "worktrees"):
        return False
    return os.path.realpath(worktree_of(repo.git_dir) or "/") == repo.worktree


# -- rollback of the outer repository


def kind_of(present: Present, path: bytes) -> str:
    """Return why a nested repository is left alone."""
    entry = present.entry(path)
    is_link = entry is not None and entry.mode == GITLINK
    return SUBMODULE if is_link else str(SkipReason.NESTED)


def left_alone(
    target: Recorded, present: Present, worktree: Worktree, limits: tuple[bytes, ...]
) -> dict[bytes, str]:
    """Return the nested repositories that are new, gone or may differ from the checkpoint, with
    the kind of each."""
    then = {to_bytes(state.path): state for state in target.manifest.nested}
    now = {to_bytes(state.path): state for state in present.nested}
    found = {}
    for path in then.keys() | now.keys():
        was, here = then.get(path), now.get(path)
        if not is_within(path, limits or (b"",)):
            continue
        if here is None:
            if not worktree.is_repository(path):
                found[path] = SUBMODULE if target.has_submodule(path) else GONE_REPOSITORY
        elif was is None or was[:4] != here[:4] or (was.checkpoint and here.dirty is not False):
            found[path] = kind_of(present, path)
    return found


def check_limit(target: Recorded, limit: bytes) -> None:
    """Refuse a path inside a nested repository, unless the outer one tracks it."""
    checkpoints = {to_bytes(state.path): state.checkpoint for state in target.manifest.nested}
    for folder in folders_above(limit):
        is_other = folder in checkpoints and target.entry_at(limit) is None
        if is_other or target.has_submodule(folder):
            inside, checkpoint = quote(to_str(limit[len(folder) + 1 :])), checkpoints.get(folder)
            way = f"rollback {checkpoint} -- {inside}" if checkpoint else "list"
            raise UsageError(
                f"'{to_str(limit)}' is inside the repository '{to_str(folder)}'",
                hint=f"git -C {quote(to_str(folder))} ckpt {way}",
            )


# -- save


def save(
    repo: Repository, settings: Settings, request: SaveRequest, *, budget: float = inf
) -> SaveResult:
    """Save the worktree and every nested repository within one time budget."""
    deadline = Deadline(budget)
    # Tracked state belongs to the outer worktree only.
    own = request._replace(state={}, state_files=(), state_is_given=False, keep=())

    def saved(state: NestedState) -> NestedState:
        """Save a nested repository, and record its checkpoint."""
        try:
            with open_nested(repo, to_bytes(state.path)) as inner:
                journal.check_ended(inner.private_dir)
                settings = load_settings(inner)
                result = save(inner, settings, own, budget=deadline.left())
                if count_save(inner.private_dir, result):
                    from ckpt.engine.trash import prune_by_itself

                    left = min(deadline.left() / 2, _TIME_TO_PRUNE)
                    prune_by_itself(inner, settings, result.id or "", left)
        except CkptError as error:
            return state._replace(problem=error.message)
        except OSError as error:
            return state._replace(problem=(error.strerror or str(error)).lower())
        taken = result.checkpoint
        assert taken is not None
        return state._replace(
            commit_hash=taken.head_commit,
            branch=taken.branch,
            checkpoint=taken.id,
            problem="partial" if taken.partial else None,
        )

    def complete(present: Present) -> Present:
        return present._replace(nested=tuple(map(saved, present.nested)))

    return snapshot.save(repo, settings, request, budget=deadline.left(), complete=complete)


# -- rollback


def rollback(
    repo: Repository, settings: Settings, target: Checkpoint, options: RollbackOptions
) -> RollbackResult:
    """Roll back the nested repositories with a checkpoint in the target, then this one."""
    if target.nested and all(state.checkpoint is None for state in target.nested):
        raise Refused(
            f"checkpoint '{target.id}' has no checkpoints of the repositories in it",
            hint=WITHOUT_RECURSE + "; 'git ckpt save --recurse' saves them too",
        )
    foreseen = _go(repo, settings, target, replace(options, dry_run=True), [])
    return foreseen if options.dry_run else _go(repo, settings, target, options, [])


def _go(
    repo: Repository,
    settings: Settings,
    target: Checkpoint,
    options: RollbackOptions,
    done: list[str],
    place: str = "",
) -> RollbackResult:
    """Run one pass; `done` collects the paths of changed repositories, relative to the top of the
    outermost worktree."""
    from ckpt.engine.rollback import rollback

    inside = []
    for state in target.nested:
        path, below = to_bytes(state.path), os.path.join(place, state.path)
        if state.checkpoint is None or not is_within(path, options.paths or (b"",)):
            continue
        with _naming(place, done):
            _check_there(repo, target, path)
        with _naming(below, done), open_nested(repo, path) as inner:
            found = Catalog(inner).get(state.checkpoint)
            # HEAD of a nested repository is part of the outer state, so it always moves.
            wanted = replace(options, paths=(), head=True, state={}, moves_state=False)
            result = _go(inner, load_forgiving(inner), found, wanted, done, below)
        inside.append(NestedResult(state.path, result))
    with _naming(place, done):
        result = rollback(repo, settings, target, options)
    if not options.dry_run and result.safety is not None:
        done.append(place)
    paths = {nested.path for nested in inside}
    return result._replace(
        kept=tuple(item for item in result.kept if item.path not in paths),
        nested=tuple(inside),
        undo_command=result.undo_command and _undo(place),
    )


def _check_there(repo: Repository, target: Checkpoint, path: bytes) -> None:
    if is_nested_repository(os.path.join(os.fsencode(repo.worktree), path)):
        return
    entry = lookup(repo.objects, ObjectID(target.tree.encode()), path)
    what, way = "repository", WITHOUT_RECURSE
    if entry is not None and entry.mode == GITLINK:
        what, way = "submodule", f"git submodule update --init -- {quote(to_str(path))}"
    raise Refused(f"{what} '{to_str(path)}' is not there", hint=way)


@contextmanager
def _naming(place: str, done: list[str]) -> Iterator[None]:
    """Add the repository, and those already rolled back, to an error."""
    try:
        yield
    except CkptError as error:
        if "repository" in error.details:
            raise
        error.details["repository"] = place
        if place:
            error.message = f"in '{place}': {error.message}"
            error.hint = f"in '{place}': {error.hint or 'git ckpt status'}, or {WITHOUT_RECURSE}"
        if done:
            listed = ", ".join(f"'{each}'" for each in done)
            error.message += f" (already rolled back: {listed})"
            undo = ", ".join(f"'{_undo(each)}'" for each in done)
            error.hint = f"{error.hint or 'fix that'}; then repeat the command, or undo: {undo}"
        error.args = (error.message,)
        raise


def _undo(place: str) -> str:
    return f"git -C {quote(place)} ckpt undo" if place else "git ckpt undo"
