# SPDX-License-Identifier: MIT
"""Save or roll back a worktree together with the repositories inside it: a loop.

Each gets a checkpoint, or a rollback, of its own, the innermost first, with its own settings,
safety checkpoint, journal and `undo`; the manifest of the outer checkpoint names those inside. A
repository that cannot be saved makes the outer checkpoint partial. A rollback is tried on all of
them with a dry run first; if one refuses all the same, the loop stops there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from shlex import quote
from stat import S_IFDIR
from typing import NamedTuple

from ckpt.engine import snapshot
from ckpt.engine.nested import enter_nested
from ckpt.engine.prepare import RollbackOptions
from ckpt.engine.present import Correction, Present, status_off_disk
from ckpt.engine.rollback import find_same
from ckpt.engine.rollback import rollback as roll_back
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, count_save
from ckpt.errors import CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.index import read_staged
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, TreeEntry, lookup
from ckpt.locks import Waiting, is_interrupted
from ckpt.models import Checkpoint, NestedResult, NestedState, Outcome, RollbackResult, SaveResult
from ckpt.paths import is_nested_repository, is_within, to_bytes, to_str
from ckpt.settings.settings import Settings, load_forgiving, load_settings
from ckpt.worktree.scan import Deadline

WITHOUT_RECURSE = "leave the repositories inside alone: repeat the command without --recurse"
_TIME_TO_PRUNE = 1.0  # seconds, in each repository, now and then

_MOST_LEVELS = 30  # of repositories within each other


# -- save


def save(
    repo: Repository,
    settings: Settings,
    request: SaveRequest,
    *,
    progress: Callable[[int, int], None] | None = None,
    waiting: Waiting | None = None,
    timeout: float = LOCK_TIMEOUT,
    budget: float | None = None,
) -> SaveResult:
    """Take a checkpoint of the present and of every repository in it, all within one budget."""
    deadline = None if budget is None else Deadline(budget)
    return _Saving(progress, waiting, timeout, deadline).save(repo, settings, request)


class _Saving(NamedTuple):
    progress: Callable[[int, int], None] | None
    waiting: Waiting | None
    timeout: float
    deadline: Deadline | None

    def save(
        self, repo: Repository, settings: Settings, request: SaveRequest, level: int = 0
    ) -> SaveResult:
        return snapshot.save(
            repo,
            settings,
            request,
            progress=self.progress,
            waiting=self.waiting,
            timeout=self.timeout,
            budget=None if self.deadline is None else self.deadline.left(),
            complete=lambda present: self._with_inside(repo, present, request, level),
        )

    def _with_inside(
        self, repo: Repository, present: Present, request: SaveRequest, level: int
    ) -> Present:
        """Save the repositories inside, and have the present name their checkpoints, and the
        commits at which these were taken."""
        states = []
        gitlinks: dict[bytes, Correction] = {}
        for state in present.nested:
            try:
                taken = self._save_inside(repo, to_bytes(state.path), request, level + 1)
            except (CkptError, OSError) as error:
                states.append(state._replace(problem=_reason(error)))
                continue
            entry = present.entry(to_bytes(state.path))
            commit = None if taken.head_commit is None else ObjectID(taken.head_commit.encode())
            if entry is not None and entry.mode == GITLINK and commit not in (None, entry.id):
                found = TreeEntry(GITLINK, commit or entry.id), status_off_disk(S_IFDIR, 0)
                gitlinks[to_bytes(state.path)] = found
            states.append(
                state._replace(
                    commit_hash=taken.head_commit,
                    branch=taken.branch,
                    checkpoint=taken.id,
                    checkpoint_commit=taken.commit,
                    problem="partial" if taken.partial else None,
                )
            )
        if gitlinks:
            present = present.with_files(repo.objects, gitlinks)
        return replace(present, nested=tuple(states))

    def _save_inside(
        self, around: Repository, path: bytes, request: SaveRequest, level: int
    ) -> Checkpoint:
        if level > _MOST_LEVELS:
            raise Refused("too many repositories are around it", hint="git ckpt save")
        with enter_nested(around, path) as repo:
            repo.check_writable()
            if is_interrupted(repo.private_dir):
                raise Refused(
                    "a rollback was interrupted in it", hint="git ckpt rollback --continue"
                )
            settings = load_settings(repo)
            # State and forced paths are the outer worktree's alone.
            own = request._replace(
                state={}, state_files=(), state_is_given=False, force=(), keep=()
            )
            result = self.save(repo, settings, own, level)
            if result.checkpoint is None:
                raise Refused("no checkpoint was taken", hint="git ckpt save")
            if result.outcome is not Outcome.UNCHANGED and count_save(repo.private_dir):
                from ckpt.engine.prune import prune_by_itself

                left = _TIME_TO_PRUNE if self.deadline is None else self.deadline.left() / 2
                prune_by_itself(repo, settings, result.id or "", min(left, _TIME_TO_PRUNE))
            return result.checkpoint


def _reason(error: CkptError | OSError) -> str:
    if isinstance(error, CkptError):
        return error.message
    return (error.strerror or str(error)).lower()


# -- rollback


def rollback(
    repo: Repository, settings: Settings, target: Checkpoint, options: RollbackOptions
) -> RollbackResult:
    """Roll back every repository that the target names a checkpoint of, then this one."""
    if target.nested and all(state.checkpoint is None for state in target.nested):
        raise Refused(
            f"checkpoint '{target.id}' has no checkpoints of the repositories in it",
            hint=WITHOUT_RECURSE + "; 'git ckpt save --recurse' saves them too",
        )
    options = replace(options, recurse=False)
    foreseen = _Loop().go(repo, settings, target, replace(options, dry_run=True))
    return foreseen if options.dry_run else _Loop().go(repo, settings, target, options)


class _Loop:
    """One pass; `done` are the places of repositories that were changed, by their paths from the
    top of the outermost worktree."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._git_dirs: set[str] = set()

    def go(
        self,
        repo: Repository,
        settings: Settings,
        target: Checkpoint,
        options: RollbackOptions,
        place: str = "",
    ) -> RollbackResult:
        if repo.git_dir in self._git_dirs:
            with self._naming(place):
                raise Refused(
                    f"its git dir '{repo.git_dir}' is that of another work tree here",
                    hint=WITHOUT_RECURSE,
                )
        self._git_dirs.add(repo.git_dir)
        inside = [
            self._go_inside(repo, target, s, options, place) for s in _linked(target, options)
        ]
        with self._naming(place):
            result = roll_back(repo, settings, target, options)
        if not options.dry_run and result.safety is not None:
            self.done.append(place)
        paths = {nested.path for nested in inside}
        return replace(
            result,
            kept=tuple(item for item in result.kept if item.path not in paths),
            nested=tuple(inside),
            undo_command=result.undo_command and command(result.undo_command, place),
        )

    def _go_inside(
        self,
        around: Repository,
        target: Checkpoint,
        state: NestedState,
        options: RollbackOptions,
        place: str,
    ) -> NestedResult:
        from ckpt.engine.catalog import Catalog

        path, inner = to_bytes(state.path), os.path.join(place, state.path)
        with self._naming(place):
            if not is_nested_repository(os.path.join(os.fsencode(around.worktree), path)):
                raise _absent(around, path, target)
        with self._naming(inner), enter_nested(around, path) as repo:
            repo.check_writable()
            try:
                found = find_same(
                    repo, Catalog(repo), state.checkpoint or "", state.checkpoint_commit
                )
                # HEAD of a repository inside is part of the outer state, so it always moves.
                wanted = replace(options, paths=(), head=True, state={}, moves_state=False)
                return NestedResult(
                    state.path, self.go(repo, load_forgiving(repo), found, wanted, inner)
                )
            finally:
                repo.objects.discard()

    @contextmanager
    def _naming(self, place: str) -> Iterator[None]:
        """Say of an error in which repository it is, and which are done already."""
        from ckpt.engine.head import WITHOUT_HEAD

        try:
            yield
        except CkptError as error:
            if "repository" in error.details:
                raise
            error.details["repository"] = place
            if place:
                error.message = f"in '{place}': {error.message}"
                if error.hint == WITHOUT_HEAD:
                    error.hint = WITHOUT_RECURSE
                elif error.hint is not None:
                    error.hint = command(error.hint, place)
            if self.done:
                error.details["done"] = [*self.done]
                undo = ", ".join(f"'{command('git ckpt undo', done)}'" for done in self.done)
                error.hint = f"{error.hint or 'fix that'}; then repeat the command, or undo: {undo}"
                listed = ", ".join(f"'{done}'" for done in self.done)
                error.message += f" (already rolled back: {listed})"
            error.args = (error.message,)
            raise


def _linked(target: Checkpoint, options: RollbackOptions) -> list[NestedState]:
    """The repositories of which the target has a checkpoint, as far as within the paths."""
    paths = options.paths
    return [
        state
        for state in target.nested
        if state.checkpoint is not None and (not paths or is_within(to_bytes(state.path), paths))
    ]


def _absent(around: Repository, path: bytes, target: Checkpoint) -> Refused:
    name = to_str(path)
    entry = lookup(around.objects, ObjectID(target.tree.encode()), path)
    if entry is None or entry.mode != GITLINK:
        return Refused(f"the repository '{name}' is not there any more", hint=WITHOUT_RECURSE)
    is_known = any(e.path == path and e.mode == GITLINK for e in read_staged(around).index.entries)
    first = "" if is_known else f"git ckpt rollback {target.id} && "
    update = f"git submodule update --init -- {quote(name)}"
    return Refused(f"submodule '{name}' is not there", hint=first + update)


def command(text: str, place: str) -> str:
    """The same commands, to be typed for the repository at a place."""
    there = f"git -C {quote(place)} " if place else "git "
    for name in ("ckpt ", "submodule ", "update-ref ", "checkout "):
        text = text.replace("git " + name, there + name)
    return text
