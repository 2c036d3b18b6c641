# SPDX-License-Identifier: MIT
"""Git's own hooks: which of their calls are worth a checkpoint.

Those before a commit, a merge's commit, a rebase and a push always are. After a checkout
it is one of another branch that counts: what was carried over exists nowhere else. A
checkout of single files has nothing left to save, nor has a fresh clone or worktree.

Where the guard has taken a checkpoint before the command, what a hook in the midst of it
would save is the command's own work, and would be newer than the state to go back to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ckpt.triggers.fire import Fired, Request, fire

_WHOLE_BRANCH = "1"


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """A checkpoint for a call of a hook; None if there is no reason for one."""
    if event == "post-checkout" and not has_switched(env, words):
        return None
    from ckpt.triggers import guard

    if guard.has_saved(start, env, os.getppid()):
        return None
    complete = guard.stop_if_clean if event == "post-checkout" else None
    return fire(start, env, Request(event, complete=complete))


def has_switched(env: Mapping[str, str], words: Sequence[str]) -> bool:
    """Whether a `post-checkout` with these words tells of another branch or commit."""
    if env.get("_PRE_COMMIT_SKIP_POST_CHECKOUT") or len(words) != 3:
        return False
    before, _, flag = words
    return flag == _WHOLE_BRANCH and before.strip("0") != ""
