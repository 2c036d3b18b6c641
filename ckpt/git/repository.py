# SPDX-License-Identifier: MIT
"""Find and open a repository as git does, and refuse unsupported or unsafe ones.

Refused, before anything is written: a repository of another user (before its configuration is
read), a bare one, the home directory or `/` as a worktree, an unknown format. dulwich.repo is not
used: it takes 58 ms to import and refuses partial clones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, Refused
from ckpt.git.config import GitConfig, expand_user
from ckpt.git.objects import FORMATS, ObjectFormat, ObjectStore
from ckpt.git.refs import Refs, ReftableRefs

_OFF = ("false", "no", "off", "0")
_ELSEWHERE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


class NotARepository(CkptError):
    """No git repository in a directory or any of its parents."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"not a git repository (or any of the parent directories): '{path}'",
            hint="change into a repository, name one with -C DIR, run 'git init', or keep "
            "checkpoints of this folder elsewhere with --store user",
        )


class TooBroad(Refused):
    """A worktree that is `/`, the home directory or a parent of it."""


# -- The repository format

_EXTENSIONS = {
    *("noop", "noop-v1", "objectformat", "partialclone", "preciousobjects", "refstorage"),
    *("relativeworktrees", "worktreeconfig"),
}


class _Format(NamedTuple):
    """The format of a repository; `is_partial` means that objects may exist only in a promisor
    remote."""

    object_format: ObjectFormat
    has_reftables: bool
    is_partial: bool


def _read_format(config: GitConfig) -> _Format:
    """Read the repository format from the configuration; refuse an unknown one."""
    version = config.get("core.repositoryformatversion") or "0"
    extensions = {name: value for name, value, _ in config.items("extensions")}
    hash_name = extensions.get("objectformat", "sha1")
    storage = extensions.get("refstorage", "files")
    unknown = sorted(extensions.keys() - _EXTENSIONS) if version == "1" else []
    problem = None
    if version not in ("0", "1"):
        problem = f"expected git repo version <= 1, found {version}"
    elif unknown:
        problem = f"unknown repository extension found: '{unknown[0]}'"
    elif hash_name not in FORMATS:
        problem = f"unknown object format '{hash_name}'"
    elif storage not in ("files", "reftable"):
        problem = f"unknown ref storage format '{storage}'"
    if problem is not None:
        raise Refused(problem, hint="'pip install --upgrade git-ckpt' may know it")
    remotes = {n: v.lower() for n, v, _ in config.items("remote") if n.endswith(".promisor")}
    is_partial = "partialclone" in extensions or any(v not in _OFF for v in remotes.values())
    return _Format(FORMATS[hash_name], storage == "reftable", is_partial)


# -- Refusals


def _check_owner(git_dir: str, top: str, start: str, env: Mapping[str, str]) -> None:
    """Refuse a repository of another user, unless safe.directory covers it."""
    sudo = env.get("SUDO_UID", "")
    trusted = {os.geteuid()}
    if os.geteuid() == 0 and sudo.isascii() and sudo.isdigit() and len(sudo) < 20:
        trusted.add(int(sudo))
    # In a world-writable directory, another user may create a `.git` that names our git dir.
    if all(os.lstat(path).st_uid in trusted for path in (top, git_dir, os.path.join(top, ".git"))):
        return
    is_safe = False
    for value in GitConfig.load(env).get_all("safe.directory"):
        is_safe = bool(value) and (is_safe or _covers(value, top, start, env))
    if not is_safe:
        from shlex import quote

        raise Refused(
            f"detected dubious ownership in repository at '{top}'",
            hint=f"git config --global --add safe.directory {quote(top)}",
        )


def _covers(value: str, folder: str, start: str, env: Mapping[str, str]) -> bool:
    """Check whether a value of safe.directory covers a directory."""
    if value in ("*", "."):
        return value == "*" or folder == start
    path = expand_user(value, env)
    try:
        known = os.path.realpath(path[:-1] if path.endswith("/*") else path, strict=True)
    except OSError:
        return False  # a configuration may be shared by several machines
    if path.endswith("/*"):
        return os.path.isabs(path) and folder.startswith(os.path.join(known, ""))
    return os.path.isabs(path) and folder == known


def _check_supported(config: GitConfig, env: Mapping[str, str]) -> None:
    """Refuse objects outside the repository, which a ref could outlive, and repositories shared by
    several users."""
    for name in _ELSEWHERE:
        if env.get(name):
            raise Refused(
                f"objects are not kept in the repository: {name} is set",
                hint=f"outside of git's pre-receive and update hooks: unset {name}",
            )
    value = config.get("core.sharedrepository")
    if value and value.lower() not in (*_OFF, "umask"):
        raise Refused(
            f"core.sharedRepository is '{value}': repositories of several users are not supported",
            hint="git config --unset core.sharedRepository; or clone it for yourself",
        )


def check_exists(worktree: str) -> None:
    """Refuse a worktree that does not exist; it is not an empty one."""
    if not os.path.isdir(worktree):
        from shlex import quote

        raise CkptError(
            f"the work tree '{worktree}' does not exist",
            hint=f"to have its files come back, first: mkdir -p {quote(worktree)}",
        )


def check_breadth(worktree: str, env: Mapping[str, str]) -> None:
    """Refuse a worktree that is the home directory or contains it."""
    check_exists(worktree)
    home = os.path.realpath(env["HOME"]) if env.get("HOME") else None
    if worktree == "/" or (home and _is_within(home, worktree)):
        raise TooBroad(
            f"refusing to take checkpoints of '{worktree}': it is or holds the home folder",
            hint="work in a repository of its own, or name its folder with -C DIR",
        )


def _no_worktree() -> Refused:
    return Refused(
        "this operation must be run in a work tree",
        hint="name one with -C DIR or GIT_WORK_TREE; in a hook, first: unset GIT_DIR",
    )


def _is_within(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


# -- One worktree of one repository


class _Fields(NamedTuple):
    git_dir: str
    common_dir: str
    worktree: str
    index_path: str
    config: GitConfig
    env: Mapping[str, str]
    format: _Format
    start: str
    runs_filters: bool = True


class Repository(_Fields):
    """A worktree and its repository; call `close` when done."""

    @property
    def worktree_id(self) -> str:
        """Return the id of this worktree in its repository, which survives a move."""
        if self.git_dir == self.common_dir:
            return "main"
        return "worktrees/" + os.path.basename(self.git_dir)

    @property
    def git_dirs(self) -> tuple[str, str]:
        """Return the git dir and the common dir, which may be inside the worktree."""
        return self.git_dir, self.common_dir

    @property
    def private_dir(self) -> str:
        """Return the directory of ckpt's private files for this worktree: journal, locks, cache."""
        return os.path.join(self.git_dir, "ckpt")

    @cached_property
    def kept(self) -> dict[str, object]:
        """Return a cache for long-lived processes; modules validate their own entries."""
        return {}

    @property
    def object_format(self) -> ObjectFormat:
        return self.format.object_format

    @property
    def filter_settings(self) -> list[tuple[str, str, str]]:
        """Return the section `filter` of the configuration; empty if drivers are disabled."""
        return self.config.items("filter") if self.runs_filters else []

    @cached_property
    def objects(self) -> ObjectStore:
        path = os.path.join(self.common_dir, "objects")
        return ObjectStore(path, self.object_format, is_partial=self.format.is_partial)

    @cached_property
    def refs(self) -> Refs:
        kind = ReftableRefs if self.format.has_reftables else Refs
        return kind(self.git_dir, self.common_dir, self.object_format.hex_length)

    def reloaded(self) -> Repository:
        """Return this repository with its configuration read again; packs stay open.

        Refuses if it has become another repository, or an unsupported one.
        """
        check_exists(self.worktree)
        again = discover(self.start, self.env)
        if again[:3] != self[:3] or again.format[:2] != self.format[:2]:
            raise Refused(f"'{self.git_dir}' is another repository by now", hint="open it anew")
        if "objects" in vars(self):
            vars(again)["objects"] = self.objects
        vars(again)["kept"] = self.kept
        return again

    def without_filters(self) -> Repository:
        """Return this repository with filter drivers disabled."""
        return self._replace(runs_filters=False)

    def check_there(self) -> None:
        """Refuse a repository that was moved or removed; it is not an empty one."""
        if not is_git_dir(self.git_dir):
            raise CkptError(
                f"not a git repository any more: '{self.git_dir}'",
                hint="if it was moved, open it at its new place",
            )

    def close(self) -> None:
        if "objects" in vars(self):
            self.objects.close()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def discover(path: str, env: Mapping[str, str]) -> Repository:
    """Open the repository that git would use in the directory `path`."""
    start = os.path.realpath(path)
    if not os.path.isdir(start):
        raise CkptError(f"cannot change to '{path}': no such directory", hint="check the path")
    named, top = env.get("GIT_DIR"), start
    if named:
        git_dir = _resolve_git_dir(os.path.join(start, named), named)
    else:
        git_dir, top = _search(start, env)
        _check_owner(git_dir, top, start, env)
    common_dir = _common_dir(git_dir)
    config = GitConfig.load(env, git_dir=git_dir, common_dir=common_dir)
    format = _read_format(config)
    _check_supported(config, env)
    worktree = os.path.realpath(_worktree(start, git_dir, common_dir, top, config, env))
    check_breadth(worktree, env)
    if worktree == common_dir or _is_within(worktree, git_dir):  # git runs some hooks there
        raise _no_worktree()
    # GIT_INDEX_FILE is ignored: it names a temporary index. A link is resolved, as git does.
    index_path = os.path.realpath(os.path.join(git_dir, "index"))
    return Repository(git_dir, common_dir, worktree, index_path, config, env, format, start)


def _search(start: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the git dir for a directory, and the top of its worktree."""
    ceilings = {
        os.path.realpath(part)
        for part in env.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
        if os.path.isabs(part)
    }
    folder = start
    while True:
        dot_git = os.path.join(folder, ".git")
        if os.path.isfile(dot_git) or is_git_dir(dot_git):
            return _resolve_git_dir(dot_git, dot_git), folder
        if is_git_dir(folder):  # a bare repository, or the inside of a git dir
            raise _no_worktree()
        parent = os.path.dirname(folder)
        if parent == folder or parent in ceilings:
            raise NotARepository(start)
        folder = parent


def is_git_dir(path: str) -> bool:
    """Check as git does for HEAD, and for objects and refs here or in the common dir."""
    if not os.path.lexists(os.path.join(path, "HEAD")):
        return False
    if os.path.isfile(os.path.join(path, "commondir")):
        return True
    return all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs"))


def _resolve_git_dir(path: str, shown: str) -> str:
    """Return the git dir at a path, or the one that a `.git` file names."""
    target = path
    if os.path.isfile(path):
        prefix, _, named = os.fsdecode(disk.read(path)).rstrip("\r\n").partition("gitdir: ")
        if prefix or not named:
            raise CkptError(f"invalid gitfile format: '{shown}'", hint="fix or remove that file")
        target = os.path.join(os.path.dirname(path), named)
    if not is_git_dir(target):
        raise CkptError(f"not a git repository: '{shown}'", hint="check GIT_DIR or the .git file")
    return os.path.realpath(target)


def _common_dir(git_dir: str) -> str:
    path = os.path.join(git_dir, "commondir")
    try:
        found = disk.read(path)
    except FileNotFoundError:
        return git_dir
    if b"\0" in found:
        raise CkptError(f"invalid commondir: '{path}'", hint="git worktree repair")
    return os.path.realpath(os.path.join(git_dir, os.fsdecode(found.rstrip(b"\r\n"))))


def _worktree(
    start: str, git_dir: str, common_dir: str, top: str, config: GitConfig, env: Mapping[str, str]
) -> str:
    named = env.get("GIT_WORK_TREE")
    if named:
        return os.path.join(start, named)
    # In a linked worktree, git ignores core.bare and core.worktree of the common configuration.
    if git_dir == common_dir or config.get_bool("extensions.worktreeconfig", False):
        if config.get_bool("core.bare", False):
            raise _no_worktree()
        return os.path.join(git_dir, config.get_path("core.worktree") or top)
    return top


# -- Other worktrees


def worktree_of(git_dir: str) -> str | None:
    """Return the worktree of a git dir, even if it does not exist; None if unknown."""
    if os.path.basename(git_dir) == ".git":
        return os.path.dirname(git_dir)
    try:
        named = disk.read(os.path.join(git_dir, "gitdir")).rstrip(b"\r\n")
    except OSError:
        return None
    return os.path.dirname(os.path.join(git_dir, os.fsdecode(named))) if named else None
