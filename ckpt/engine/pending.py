# SPDX-License-Identifier: MIT
"""Whether a rollback is under way, or died, in a worktree.

Apart from `journal`, because every command asks this and few read what the journal says.
"""

from __future__ import annotations

import os

JOURNAL = "journal"


def journal_exists(private_dir: str) -> bool:
    return os.path.lexists(os.path.join(private_dir, JOURNAL))
