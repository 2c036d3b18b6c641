# SPDX-License-Identifier: MIT
"""Gather the rules of a scan: what is tracked, ignored, denied, included and converted.

Reads git's exclude and attributes files and turns settings into patterns, so that the scan does
not depend on git's configuration or on settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import takewhile

from ckpt.engine.scan_cache import IndexFacts
from ckpt.git.config import parse_bool
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree, IgnoreStack, IgnoreTree, Rules, asks_for_conversion
from ckpt.paths import folders_above, read_plain_file
from ckpt.settings.settings import DENIED_FILES, Settings
from ckpt.worktree.scan import Denials, ScanRules, leads_to

_WILD = frozenset("*?[\\!")


def read_excludes(repo: Repository) -> dict[str, bytes]:
    """Read core.excludesFile or its default as `global`, and info/exclude as `info`."""
    return {
        "global": _users_own(repo, "core.excludesfile", "ignore"),
        "info": _read_followed(os.path.join(repo.common_dir, "info", "exclude")),
    }


def _users_own(repo: Repository, setting: str, name: str) -> bytes:
    home = repo.env.get("XDG_CONFIG_HOME") or os.path.join(repo.env.get("HOME", ""), ".config")
    return _read_followed(repo.config.get_path(setting) or os.path.join(home, "git", name))


def _read_followed(path: str) -> bytes:
    """Read a file that, unlike a `.gitignore`, may be a symbolic link."""
    return read_plain_file(os.fsencode(os.path.realpath(path))) or b""


def fingerprint(repo: Repository, settings: Settings, excludes: dict[str, bytes]) -> bytes:
    """Return a value that changes with the excludes and settings that a scan depends on."""
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    chosen = settings.deny_patterns, settings.include, settings.max_file_size
    git_dirs = inside(repo.worktree, *repo.git_dirs)
    return repr((sorted(excludes.items()), ignore_case, DENIED_FILES, chosen, git_dirs)).encode()


def inside(worktree: str, *folders: str) -> list[bytes]:
    top = os.path.join(worktree, "")
    return [os.fsencode(path[len(top) :]) for path in folders if path.startswith(top)]


def scan_rules(
    repo: Repository, settings: Settings, excludes: Mapping[str, bytes], index: IndexFacts
) -> ScanRules:
    """Return the rules for a scan of the worktree."""
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    return ScanRules(
        tracked=index.paths(),
        gitlinks=frozenset(index.gitlinks),
        git_dirs=frozenset(inside(repo.worktree, *repo.git_dirs)),
        ignore=ignore_stack(excludes, ignore_case),
        deny=Denials(_rules(DENIED_FILES, True), _rules(settings.deny_patterns, ignore_case)),
        include=IgnoreStack(_rules(settings.include, ignore_case)),
        include_roots=_roots(settings.include),
        trusted_roots=_roots(settings.trusted_include),
        ignore_case=ignore_case,
        max_file_size=settings.max_file_size,
    )


def ignore_stack(excludes: Mapping[str, bytes], ignore_case: bool) -> IgnoreStack:
    """Return the excludes that every `.gitignore` overrides: the user's, then info/exclude."""
    texts = (excludes.get(name, b"") for name in ("global", "info"))
    return IgnoreStack(*(Rules(text, ignore_case=ignore_case) for text in texts))


@lru_cache(8)  # used several times in one save
def _rules(patterns: tuple[str, ...], ignore_case: bool) -> Rules:
    text = "\n".join(patterns).encode("utf-8", "surrogateescape")
    return Rules(text, ignore_case=ignore_case)


@lru_cache(8)
def _roots(patterns: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the path of each pattern, up to its first wildcard. A pattern without a slash has
    none: it does not match inside ignored directories, as these are not walked."""
    found = []
    for pattern in patterns:
        names = pattern.strip("/").split("/")
        plain = [*takewhile(lambda name: not set(name) & _WILD, names)]
        if plain and "/" in pattern.rstrip("/"):
            found.append(os.fsencode("/".join(plain)))
    return tuple(found)


def takes(patterns: tuple[str, ...], path: bytes, is_folder: bool, ignore: IgnoreTree) -> bool:
    """Return whether `include` patterns take an ignored path."""
    rules = _rules(patterns, ignore.ignore_case)
    for folder in reversed([*folders_above(path)]):
        if ignore.ignored(folder, True):
            if rules.decide(folder, True):
                return True
            if not leads_to(folder, _roots(patterns)):
                return False
    return rules.decide(path, is_folder) is True


# -- Attributes


def attribute_tree(repo: Repository, named: Iterable[bytes]) -> tuple[AttributeTree | None, bytes]:
    """Read the named attributes files of the worktree, and those outside it. Unlike git, ignore a
    file that is only in the index.

    Return None if they convert nothing; and a fingerprint, which changes with them and with what
    conversions do.
    """
    top, no_system = os.fsencode(repo.worktree), repo.env.get("GIT_ATTR_NOSYSTEM")
    outside = {
        "info": _read_followed(os.path.join(repo.common_dir, "info", "attributes")),
        "user": _users_own(repo, "core.attributesfile", "attributes"),
        "system": b"" if no_system else _read_followed("/etc/gitattributes"),
    }
    texts = {}
    for path in sorted({b".gitattributes", *named}):
        if text := read_plain_file(os.path.join(top, path)):
            texts[path.rpartition(b"/")[0]] = text
    autocrlf = repo.config.get("core.autocrlf")
    is_on = autocrlf is not None and parse_bool(autocrlf or "true") is not False
    if not is_on and not any(map(asks_for_conversion, (*outside.values(), *texts.values()))):
        return None, b""
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    drivers = sorted(repo.filter_settings)
    tree = AttributeTree(texts.get, **outside, ignore_case=ignore_case)
    return tree, repr((autocrlf, texts, outside, ignore_case, drivers)).encode()
