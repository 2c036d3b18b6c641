# SPDX-License-Identifier: MIT
"""Gather the rules of a scan: what is tracked, ignored, denied, included, converted.

Reads git's exclude and attributes files and turns settings into patterns, so that the scan
itself needs to know neither git's configuration nor ours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from ckpt.engine.scan_cache import IndexFacts
from ckpt.errors import Refused
from ckpt.git.formats import ObjectID
from ckpt.git.index import SKIP_WORKTREE, Staged
from ckpt.git.objects import MissingObject
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree, IgnoreStack, IgnoreTree, Rules, parse
from ckpt.git.trees import SYMLINK
from ckpt.locks import journal_exists
from ckpt.paths import LARGEST_TEXT, folders_above, is_within, read_plain_file
from ckpt.settings.settings import DENIED_FILES, Settings
from ckpt.worktree.scan import Denials, Scan, ScanRules, leads_to

_WILD = frozenset("*?[\\!")
_ATTRIBUTES = b".gitattributes"


def read_excludes(repo: Repository) -> dict[str, bytes]:
    """`global` is core.excludesFile or its default place, `info` the repository's own file."""
    return {
        "global": _users_own(repo, "core.excludesfile", "ignore"),
        "info": _read_followed(os.path.join(repo.common_dir, "info", "exclude")),
    }


def _users_own(repo: Repository, setting: str, name: str) -> bytes:
    home = repo.env.get("XDG_CONFIG_HOME") or os.path.join(repo.env.get("HOME", ""), ".config")
    return _read_followed(repo.config.get_path(setting) or os.path.join(home, "git", name))


def _read_followed(path: str) -> bytes:
    """A file that is the user's own and may be a link, unlike a `.gitignore`."""
    return read_plain_file(os.fsencode(os.path.realpath(path))) or b""


def fingerprint(repo: Repository, settings: Settings, excludes: dict[str, bytes]) -> bytes:
    """Another one if a scan could find something else on the same disk, with the same index."""
    return repr(
        (
            sorted(excludes.items()),
            repo.config.get_bool("core.ignorecase", False),
            DENIED_FILES,
            settings.deny_patterns,
            settings.include,
            settings.trusted_include,
            settings.max_file_size,
            inside(repo.worktree, repo.git_dir, repo.common_dir),
        )
    ).encode()


def inside(worktree: str, *folders: str) -> list[bytes]:
    top = os.path.join(worktree, "")
    return [os.fsencode(path[len(top) :]) for path in folders if path.startswith(top)]


def scan_rules(
    repo: Repository,
    settings: Settings,
    excludes: Mapping[str, bytes],
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


def ignore_stack(excludes: Mapping[str, bytes], ignore_case: bool) -> IgnoreStack:
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


# -- Attributes


class Attributed(NamedTuple):
    """What the attributes say of every path; `tree` is None if nothing is converted in this
    worktree. The fingerprint is another one whenever that, or what is done then, could be."""

    tree: AttributeTree | None
    fingerprint: bytes


def attribute_tree(
    repo: Repository,
    staged: Mapping[bytes, bytes],
    found: Scan,
    instead: Mapping[bytes, bytes] | None = None,
) -> Attributed:
    """`staged` are the blobs of the attributes files in the index; the texts of `instead` count
    in place of those on disk."""
    instead = instead or {}
    no_system = repo.env.get("GIT_ATTR_NOSYSTEM")
    outside = {
        "info": _read_followed(os.path.join(repo.common_dir, "info", "attributes")),
        "user": _users_own(repo, "core.attributesfile", "attributes"),
        "system": b"" if no_system else _read_followed("/etc/gitattributes"),
    }
    named = (*found.attribute_files, *staged, *instead)
    # A folder that was left out has tracked files below it, if it is listed all the same.
    unwalked = found.folders.keys() - (found.walked.keys() - found.skipped.keys())
    folders = {b"", *unwalked, *(path.rpartition(b"/")[0] for path in named)}
    texts = {}
    for folder in sorted(folders):
        if text := _attributes_of(repo, folder, staged, instead):
            texts[folder] = text
    autocrlf = repo.config.get("core.autocrlf")
    if autocrlf is None and not any(outside.values()) and not texts:
        return Attributed(None, b"")
    from ckpt.worktree.filters import converts

    if not converts(autocrlf, [*outside.values(), *texts.values()]):
        return Attributed(None, b"")
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    drivers = sorted(repo.config.items("filter"))
    tree = AttributeTree(texts.get, **outside, ignore_case=ignore_case)
    return Attributed(tree, repr((autocrlf, texts, outside, ignore_case, drivers)).encode())


def _attributes_of(
    repo: Repository, folder: bytes, staged: Mapping[bytes, bytes], instead: Mapping[bytes, bytes]
) -> bytes | None:
    """The attributes file of a folder, from disk or else as it is staged."""
    path = folder + b"/" + _ATTRIBUTES if folder else _ATTRIBUTES
    if path in instead:
        return instead[path]
    text = read_plain_file(os.path.join(os.fsencode(repo.worktree), path))
    if text is None and path in staged:
        with suppress(MissingObject):
            return repo.objects.read(ObjectID(staged[path]), b"blob", LARGEST_TEXT)
    return text
