# SPDX-License-Identifier: MIT
"""Whether a rollback is under way, or died, in a worktree, and whether agents were at work.

Apart from `journal` and `session_state`, because every command asks this, and few read more.
"""

from __future__ import annotations

import os

JOURNAL, SESSIONS = "journal", "sessions"
FINISH, TAKE_BACK = "git ckpt rollback --continue", "git ckpt rollback --abort"


def journal_exists(private_dir: str) -> bool:
    return os.path.lexists(os.path.join(private_dir, JOURNAL))


def is_hidden(private_dir: str) -> bool:
    """Whether nobody can tell, as it is another user's."""
    try:
        os.lstat(os.path.join(private_dir, JOURNAL))
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def journal_size(private_dir: str) -> int:
    """In bytes; zero if there is none."""
    try:
        return os.lstat(os.path.join(private_dir, JOURNAL)).st_size
    except OSError:
        return 0


def running_rollback(private_dir: str) -> str | None:
    """The process that is rolling back this worktree, in words; None if none is."""
    if not journal_exists(private_dir):
        return None
    from ckpt.store.kernel_lock import who_is_alone

    return who_is_alone(private_dir)


def is_interrupted(private_dir: str) -> bool:
    """Whether a rollback died here. One that is at work, or ends at this moment, did not."""
    is_dead = journal_exists(private_dir) and running_rollback(private_dir) is None
    return is_dead and journal_exists(private_dir)


def has_sessions(private_dir: str) -> bool:
    return os.path.isdir(os.path.join(private_dir, SESSIONS))
