# SPDX-License-Identifier: MIT
"""Gather the rules of a scan: what is tracked, ignored, denied.

Reads git's exclude files and turns settings into patterns, so that the scan itself
needs to know neither git's configuration nor ours.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile

from ckpt.engine.excludes import inside
from ckpt.engine.index_facts import IndexFacts
from ckpt.engine.pending import journal_exists
from ckpt.errors import Refused
from ckpt.paths import folders_above, is_within
from ckpt.settings import DENIED_FILES, Settings
from ckpt.store.index import SKIP_WORKTREE
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.store.staging import Staged
from ckpt.store.trees import SYMLINK
from ckpt.worktree.denials import Denials
from ckpt.worktree.ignore import IgnoreStack, IgnoreTree, Rules, parse
from ckpt.worktree.reach import LARGEST_TEXT
from ckpt.worktree.scan import ScanRules, leads_to

_WILD = frozenset("*?[\\!")


def scan_rules(
    repo: Repository,
    settings: Settings,
    excludes: dict[str, bytes],
    index: IndexFacts,
    staged: Staged | None,
    force: tuple[bytes, ...] = (),
) -> ScanRules:
    """The rules for a scan now; `staged` is needed only for a sparse checkout."""
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    deny = deny_stack(settings, ignore_case)
    return ScanRules(
        tracked=index.paths(),
        gitlinks=frozenset(index.gitlinks),
        git_dirs=frozenset(inside(repo.worktree, repo.git_dir, repo.common_dir)),
        ignore=ignore_stack(excludes, ignore_case),
        deny=deny,
        include=_stack(settings.include, ignore_case),
        include_paths=_include_paths(settings, deny),
        include_roots=Included(settings.include, ignore_case).roots,
        ignore_case=ignore_case,
        max_file_size=settings.max_file_size,
        force=force,
        absent_ignore_files={} if staged is None else _absent_ignore_files(repo, staged),
        unfinished=_unfinished(repo),
    )


def _unfinished(repo: Repository) -> bytes | None:
    """The rollback that was interrupted here, if one was and its journal can be read."""
    if not journal_exists(repo.private_dir):
        return None
    from ckpt.engine import journal

    try:
        return journal.read(repo.private_dir).name
    except (OSError, Refused):
        return None


def _absent_ignore_files(repo: Repository, staged: Staged) -> dict[bytes, bytes]:
    """Those that a sparse checkout may leave out; git reads them from the index then."""
    found = {}
    for entry in staged.index.entries:
        if entry.flags & SKIP_WORKTREE and entry.path.rpartition(b"/")[2] == b".gitignore":
            blob = ObjectID(entry.id)
            if entry.mode != SYMLINK:
                with suppress(MissingObject):  # only the remote has it, or it is no text
                    found[entry.path] = repo.objects.read(blob, b"blob", LARGEST_TEXT)
    return found


def ignore_stack(excludes: dict[str, bytes], ignore_case: bool) -> IgnoreStack:
    """The rules below every `.gitignore`: the user's excludes, then the repository's."""
    return IgnoreStack.root(
        parse(excludes.get("global", b""), ignore_case=ignore_case),
        parse(excludes.get("info", b""), ignore_case=ignore_case),
    )


def deny_stack(settings: Settings, ignore_case: bool) -> IgnoreStack:
    """Secrets and dependency folders, with what settings add and take back."""
    return Denials(_rules(DENIED_FILES, True), _rules(settings.deny_patterns, ignore_case))


def _stack(patterns: tuple[str, ...], ignore_case: bool) -> IgnoreStack:
    return IgnoreStack.root(_rules(patterns, ignore_case))


@lru_cache(8)  # one save asks several times, a running process with each save
def _rules(patterns: tuple[str, ...], ignore_case: bool) -> Rules:
    text = "\n".join(patterns).encode("utf-8", "surrogateescape")
    return parse(text, ignore_case=ignore_case)


def _include_paths(settings: Settings, deny: IgnoreStack) -> tuple[bytes, ...]:
    """Included patterns that name one path from the top: they need no walk to be found."""
    found = []
    for pattern in settings.include:
        path = _only_path(pattern)
        if path is None:
            continue
        denied = any(deny.ignored(folder, True) for folder in folders_above(path))
        if not denied or pattern in settings.trusted_include:
            found.append(path)
    return tuple(found)


def _only_path(pattern: str) -> bytes | None:
    """The path that a pattern names, if it can be only one."""
    if "/" not in pattern.rstrip("/") or set(pattern) & _WILD:
        return None
    return os.fsencode(pattern.strip("/"))


class Included:
    """What some `include` patterns take although it is ignored.

    A pattern without a slash finds nothing in a folder that is ignored, as that is not
    looked into; one that begins with the name of a folder does.
    """

    def __init__(self, patterns: tuple[str, ...], ignore_case: bool) -> None:
        self._stack = _stack(patterns, ignore_case)
        self._paths = tuple(path for path in map(_only_path, patterns) if path is not None)
        wild = (pattern for pattern in patterns if set(pattern) & _WILD)
        self.roots = tuple(root for root in map(_leading_folders, wild) if root)

    def takes(self, path: bytes, is_folder: bool, ignore: IgnoreTree) -> bool:
        """Whether a path that is ignored would have been taken."""
        if not self._stack:
            return False
        if is_within(path, self._paths):
            return True
        for folder in reversed([*folders_above(path)]):
            if ignore.ignored(folder, True):
                if self._stack.ignored(folder, True):
                    return True
                if not leads_to(folder, self.roots):
                    return False
        return self._stack.ignored(path, is_folder)


def _leading_folders(pattern: str) -> bytes:
    """The folder that all a pattern matches lies in; empty for the top."""
    names = os.fsencode(pattern.lstrip("/")).split(b"/")[:-1]
    plain = takewhile(lambda name: not set(os.fsdecode(name)) & _WILD, names)
    return b"/".join(plain)
