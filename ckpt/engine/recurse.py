# SPDX-License-Identifier: MIT
"""Save a worktree together with the repositories inside it.

Each gets an ordinary checkpoint of its own, with its own settings, the innermost first;
the manifest of the one around it names that checkpoint. Locks are taken from the outside
in, which is the order of a rollback as well. A repository that cannot be saved is noted
with the reason and makes the checkpoint partial; everything else is saved all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from ckpt.configure import load_settings
from ckpt.engine import snapshot
from ckpt.engine.dirty import MOST_LEVELS
from ckpt.engine.nested import enter_nested, link
from ckpt.engine.pending import is_interrupted
from ckpt.engine.present import Present
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest
from ckpt.engine.tally import count_save
from ckpt.errors import CkptError, Refused
from ckpt.models import Checkpoint, NestedState, Outcome, SaveResult
from ckpt.paths import to_bytes
from ckpt.settings import Settings
from ckpt.store.kernel_lock import Waiting
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.store.trees import GITLINK, TreeEntry
from ckpt.values import replace, value_class
from ckpt.worktree.deadline import Deadline

_TIME_TO_PRUNE = 1.0  # seconds, in each repository, now and then


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
    within = _request_within(request)
    family = _Family(within, progress, waiting, timeout, deadline, {repo.git_dir})
    return snapshot.save(
        repo,
        settings,
        request,
        progress=progress,
        waiting=waiting,
        timeout=timeout,
        budget=budget,
        complete=family.completing(repo),
    )


def _request_within(request: SaveRequest) -> SaveRequest:
    """State and forced paths are the outer worktree's alone."""
    return replace(request, state={}, state_files=(), state_is_given=False, force=(), keep=())


@value_class
class _Family:
    """`entered` are the git dirs that a checkpoint is being taken of already."""

    request: SaveRequest
    progress: Callable[[int, int], None] | None
    waiting: Waiting | None
    timeout: float
    deadline: Deadline | None
    entered: set[str]

    def completing(self, repo: Repository, level: int = 0) -> Callable[[Present], None]:
        """What saves those within; a save that is tried again enters them anew."""
        known = {*self.entered}

        def complete(present: Present) -> None:
            self.entered.intersection_update(known)
            self._save_within(repo, present, level)

        return complete

    def _save_within(self, repo: Repository, present: Present, level: int) -> None:
        states = []
        taken: dict[bytes, Checkpoint] = {}
        for state in present.nested:
            path = to_bytes(state.path)
            try:
                checkpoint = taken[path] = self._save(repo, path, level + 1)
                problem = "partial" if checkpoint.partial else None
            except (CkptError, OSError) as error:
                problem = _reason(error)
            states.append(replace(state, problem=problem))
        present.nested = link(states, taken)
        for state in present.nested:
            _set_gitlink(present, state)

    def _save(self, around: Repository, path: bytes, level: int) -> Checkpoint:
        if level > MOST_LEVELS:
            raise Refused("too many repositories are around it", hint="git ckpt save")
        with enter_nested(around, path) as repo:
            if repo.git_dir in self.entered:
                raise Refused("it has the git dir of another worktree", hint="git worktree list")
            self.entered.add(repo.git_dir)
            repo.check_writable()
            if is_interrupted(repo.private_dir):
                raise Refused(
                    "a rollback was interrupted in it", hint="git ckpt rollback --continue"
                )
            settings = load_settings(repo)
            result = snapshot.save(
                repo,
                settings,
                self.request,
                progress=self.progress,
                waiting=self.waiting,
                timeout=self.timeout,
                budget=None if self.deadline is None else self.deadline.left(),
                complete=self.completing(repo, level),
            )
            if result.checkpoint is None:
                raise Refused("no checkpoint was taken", hint="git ckpt save")
            self._prune(repo, settings, result)
            return result.checkpoint

    def _prune(self, repo: Repository, settings: Settings, result: SaveResult) -> None:
        """The one around does not name it yet, but the one just taken stays in any case."""
        if result.outcome is not Outcome.UNCHANGED and count_save(repo.private_dir):
            from ckpt.engine.auto_prune import prune_by_itself

            left = _TIME_TO_PRUNE if self.deadline is None else self.deadline.left() / 2
            prune_by_itself(repo, lambda: settings, result.id or "", min(left, _TIME_TO_PRUNE))


def _reason(error: CkptError | OSError) -> str:
    if isinstance(error, CkptError):
        return error.message
    return (error.strerror or str(error)).lower()


def _set_gitlink(present: Present, state: NestedState) -> None:
    """The commit in the tree is the one at which the nested checkpoint was taken."""
    path = to_bytes(state.path)
    entry = present.entries.get(path)
    if state.checkpoint is None or state.commit_hash is None or entry is None:
        return
    commit = ObjectID(state.commit_hash.encode())
    if entry.mode == GITLINK and len(commit) == len(entry.id):
        present.put(path, TreeEntry(GITLINK, commit))
