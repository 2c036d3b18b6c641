# SPDX-License-Identifier: MIT
"""What must not be taken though git does not ignore it: secrets, folders of dependencies.

Of secrets there is more than their names: `.ENV` is one on any file system, and an editor leaves
copies beside a file, `.env~` or `.id_rsa.swp`, with all that was in it. So secrets are matched
without case, and what looks like a copy is denied if that is denied which it is a copy of.
"""

from __future__ import annotations

from ckpt.worktree.ignore import IgnoreStack, Rules

_ENDINGS = (b"~", b".bak", b".old", b".orig", b".save", b".BAK", b".OLD")
_SWAP_FILES = (b".swp", b".swo", b".swn")
_COPIES = (*_ENDINGS, *_SWAP_FILES, b"#")


class Denials(IgnoreStack):
    """`others` count more than `secrets`, which are read without case: they may take back some."""

    __slots__ = ("_others", "_others_of_files", "_secrets")

    def __init__(self, secrets: Rules, others: Rules) -> None:
        super().__init__((others, secrets))
        self._secrets = secrets
        self._others = others
        # Mostly there are none, and a walk asks for every file that is new.
        self._others_of_files = any(not pattern.dir_only for pattern in others.patterns)

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        decision = self._decide(path, is_dir)
        if decision is None and not is_dir and path.endswith(_COPIES):
            decision = self._decide(_original(path), False)
        return decision is True

    def _decide(self, path: bytes, is_dir: bool) -> bool | None:
        decision = None
        if is_dir or self._others_of_files:
            decision = self._others.decide(path, is_dir)
        if decision is None:
            lowered = path.lower()
            name = lowered.rpartition(b"/")[2]
            decision = self._secrets.decide_below(lowered, name, is_dir)
        return decision


def _original(path: bytes) -> bytes:
    """What a path is an editor's copy of, by its name; itself if it is none after all."""
    folder, slash, name = path.rpartition(b"/")
    ending = next((each for each in _ENDINGS if name.endswith(each)), None)
    if ending is not None:
        name = name[: -len(ending)]
    elif name[:1] == b"#" and name[-1:] == b"#":
        name = name[1:-1]
    elif name[:1] == b"." and name.endswith(_SWAP_FILES):
        name = name[1:-4]
    return folder + slash + name
