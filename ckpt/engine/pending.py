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


def has_sessions(private_dir: str) -> bool:
    return os.path.isdir(os.path.join(private_dir, SESSIONS))
