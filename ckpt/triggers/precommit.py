# SPDX-License-Identifier: MIT
"""The hook `ckpt-save` of pre-commit: a checkpoint with the edits that pre-commit has hidden.

Before its hooks run, pre-commit takes unstaged edits of tracked files off the disk and keeps
them in a patch. They belong to what the user had on disk on typing `git commit`, so they are
laid over what is there now, against the index that git lends for this commit. Where that is
not possible to the letter, the checkpoint holds what is on disk and is partial.

Untracked files stay where they are. Of entries that were only intended to be added (`git add
-N`) pre-commit leaves no trace in the index while a plain `git commit` runs: their files are
in the checkpoint, as untracked ones.
"""

from __future__ import annotations

import os
import sys

from ckpt.errors import CkptError
from ckpt.triggers import git_hooks
from ckpt.triggers.fire import Fired, Request, fire
from ckpt.triggers.hidden_edits import PatchFile, find_patch, pre_commits, stores
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ckpt.engine.present import Present
    from ckpt.store.index import Index
    from ckpt.store.repository import Repository

_UNKNOWN = (
    "unstaged edits that pre-commit may have hidden are not in this checkpoint: "
    "it is not among the processes that started this one"
)


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """A checkpoint for a call of the hook; None if there is no reason for one."""
    checkout_type = env.get("PRE_COMMIT_CHECKOUT_TYPE")
    if checkout_type is not None:
        refs = [env.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO")]
        if not git_hooks.has_switched(env, [*refs, checkout_type]):
            return None
    hidden = HiddenEdits(env)
    fired = fire(start, env, Request(event, complete=hidden.lay_over))
    return replace(fired, warnings=(*fired.warnings, *hidden.warnings))


class HiddenEdits:
    """Puts back into a checkpoint what pre-commit took off the disk; `warnings` tell what of it
    is not certain."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.warnings: list[str] = []

    def lay_over(self, repo: Repository, present: Present) -> None:
        self.warnings.clear()
        above = pre_commits(os.getppid())
        folders = stores(self._env, sys.prefix)
        for process in above:
            patch = find_patch(folders, process)
            problem = None if patch is None else self._problem_with(repo, present, patch)
            if patch is not None and problem is None:
                return
            # That of an outer pre-commit may well be for another repository.
            if patch is not None and process is above[0]:
                what = f"the unstaged edits in '{patch.path}' are not in this checkpoint"
                self._give_up(present, f"{what}: {problem}")
                return
        if not above and self._env.get("PRE_COMMIT"):
            self._give_up(present, _UNKNOWN)

    def _give_up(self, present: Present, message: str) -> None:
        present.lacks_edits = True
        self.warnings.append(message)

    def _problem_with(self, repo: Repository, present: Present, patch: PatchFile) -> str | None:
        """Lay a patch over what is on disk; returns why that cannot be done."""
        from ckpt.engine import overlay
        from ckpt.git.patch import BadPatch, parse

        if patch.problem is not None:
            return patch.problem
        try:
            index = _lent_index(repo, self._env)
            changes = overlay.edits(repo, parse(patch.data), index)
        except BadPatch as error:
            return str(error)
        except CkptError as error:
            return error.message
        self.warnings += overlay.lay_over(repo, present, changes)
        return None


def _lent_index(repo: Repository, env: Mapping[str, str]) -> Index:
    """The index of which git makes the commit: of `commit -- path` it is not the user's own."""
    from ckpt.store.staging import read_staged

    named = env.get("GIT_INDEX_FILE")
    if not named:
        return read_staged(repo).index
    lent = replace(repo, index_path=os.path.join(repo.worktree, named))
    vars(lent)["objects"] = repo.objects
    return read_staged(lent).index
