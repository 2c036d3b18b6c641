# SPDX-License-Identifier: MIT
"""Find a repository as git would, open it, and refuse what cannot be served.

Refusals come before anything is written and before the repository's configuration is believed:
another user's repository, a bare one, the home folder or `/` as a worktree, a format that only
a newer git knows. By hand: dulwich.repo takes 58 ms to import and refuses partial clones.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, DiskError, Refused
from ckpt.git.config import GitConfig, expand_user
from ckpt.git.formats import ObjectFormat, ObjectID, get_object_format
from ckpt.git.objects import ObjectStore
from ckpt.git.refs import Refs
from ckpt.locks import Sharing, read_sharing

MAIN_WORKTREE = "main"
# The index that `git commit -a`, `git commit -- PATH` and `git stash` make for a moment.
_LENT_INDEX = r"index\.lock|next-index-\d+\.lock|index\.stash\.\d+(\.lock)?"
_OFF = ("false", "no", "off", "0")


class NotARepository(CkptError):
    """No git repository here or in any folder above."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"not a git repository (or any of the parent directories): '{path}'",
            hint="change into a repository, name one with -C DIR, run 'git init', or keep "
            "checkpoints of this folder elsewhere with --store user",
        )


class TooBroad(Refused):
    """The worktree is `/`, the home folder or a folder above it."""


# -- The format that the config file declares

_EXTENSIONS_OF_VERSION_1 = {"noop-v1", "objectformat", "refstorage", "relativeworktrees"}
_KNOWN_EXTENSIONS = _EXTENSIONS_OF_VERSION_1 | {
    *("noop", "partialclone", "preciousobjects", "worktreeconfig")
}
_TOO_OLD = "'pip install --upgrade git-ckpt' may bring one that knows it"


class RepositoryFormat(NamedTuple):
    """`is_partial`: objects may be missing here because a remote promised to have them."""

    hash_name: str = "sha1"
    ref_storage: str = "files"
    is_partial: bool = False


def read_format(config: GitConfig, config_file: str) -> RepositoryFormat:
    """The format that a repository's own config file declares; refuses an unknown one."""
    own = {name: value for name, value, file in config.items("core") if file == config_file}
    version = own.get("repositoryformatversion", "0")
    if version not in ("0", "1"):
        raise Refused(f"expected git repo version <= 1, found {version}", hint=_TOO_OLD)
    found = config.items("extensions")
    extensions = {name.lower(): value for name, value, file in found if file == config_file}
    for name in extensions:
        if version == "0" and name in _EXTENSIONS_OF_VERSION_1:
            raise Refused(
                f"repo version is 0, but v1-only extension found: '{name}'",
                hint="git config -f .git/config core.repositoryFormatVersion 1",
            )
        if version == "1" and name not in _KNOWN_EXTENSIONS:
            raise Refused(f"unknown repository extension found: '{name}'", hint=_TOO_OLD)
    remotes = {n: v.lower() for n, v, _ in config.items("remote") if n.endswith(".promisor")}
    return RepositoryFormat(
        _known(extensions, "objectformat", ("sha1", "sha256"), "object format"),
        _known(extensions, "refstorage", ("files", "reftable"), "ref storage format"),
        "partialclone" in extensions or any(value not in _OFF for value in remotes.values()),
    )


def _known(extensions: dict[str, str], name: str, known: tuple[str, ...], what: str) -> str:
    value = extensions.get(name, known[0])
    if value not in known:
        raise Refused(f"unknown {what} '{value}'", hint=_TOO_OLD)
    return value


# -- Whether it may be used


def _check_owner(git_dir: str, top: str | None, start: str, env: Mapping[str, str]) -> None:
    """Git's safe.directory rule; only protected configuration may lift it."""
    sudo = env.get("SUDO_UID", "")
    trusted = {os.geteuid()}
    if os.geteuid() == 0 and sudo.isascii() and sudo.isdigit() and len(sudo) < 20:
        trusted.add(int(sudo))
    subject = top or git_dir
    # Where all may write, as in /tmp, anybody can make a `.git` that leads to a git dir of ours.
    paths = [subject, git_dir, *([] if top is None else [os.path.join(top, ".git")])]
    if all(os.lstat(path).st_uid in trusted for path in paths):
        return
    is_safe = False
    for value in GitConfig.load(env).get_all("safe.directory"):
        is_safe = bool(value) and (is_safe or _means(value, subject, start, env))
    if not is_safe:
        from shlex import quote

        raise Refused(
            f"detected dubious ownership in repository at '{subject}'",
            hint=f"git config --global --add safe.directory {quote(subject)}",
        )


def _means(value: str, subject: str, start: str, env: Mapping[str, str]) -> bool:
    """Whether a value of safe.directory covers a folder."""
    if value in ("*", "."):
        return value == "*" or subject == start
    path = expand_user(value, env)
    if path is None or not os.path.isabs(path):
        return False
    try:
        if path.endswith("/*"):
            return subject.startswith(os.path.join(os.path.realpath(path[:-1], strict=True), ""))
        return subject == os.path.realpath(path, strict=True)
    except OSError:
        return False  # one file of settings may serve several machines


def _check_bare(git_dir: str, env: Mapping[str, str]) -> None:
    """Refuse a bare repository that was come upon, if only named ones are to be used."""
    parts = ("/.git/worktrees/", "/.git/modules/")
    is_of_worktree = git_dir.endswith("/.git") or any(part in git_dir for part in parts)
    if not is_of_worktree and GitConfig.load(env).get("safe.barerepository") == "explicit":
        raise Refused(
            f"cannot use bare repository '{git_dir}' (safe.bareRepository is 'explicit')",
            hint="name it with GIT_DIR",
        )


def check_exists(worktree: str) -> None:
    """A folder that is gone is not one from which all files were deleted."""
    if not os.path.isdir(worktree):
        from shlex import quote

        raise CkptError(
            f"the work tree '{worktree}' does not exist",
            hint=f"to have its files come back, first: mkdir -p {quote(worktree)}",
        )


def check_breadth(worktree: str, env: Mapping[str, str]) -> None:
    """A worktree that is the home folder or holds it would sweep in everything."""
    check_exists(worktree)
    home = os.path.realpath(env["HOME"]) if env.get("HOME") else None
    if worktree == "/" or (home and _is_within(home, worktree)):
        raise TooBroad(
            f"refusing to take checkpoints of '{worktree}': it is or holds the home folder",
            hint="work in a repository of its own, or name its folder with -C DIR",
        )


def _check_apart(worktree: str, git_dir: str, common_dir: str) -> None:
    """Refuse a worktree that is a git dir, or what git keeps in one, as git runs some hooks: a
    rollback there would remove newer objects and refs."""
    names = ("objects", "refs", "reftable", "logs", "hooks", "info", "worktrees", "modules", "ckpt")
    kept = (os.path.join(common_dir, name) for name in names)
    if worktree == common_dir or any(_is_within(worktree, f) for f in (git_dir, *kept)):
        raise Refused(
            "this operation must be run in a work tree",
            hint=f"'{worktree}' is git's own; in a hook: unset GIT_DIR, and name the work tree "
            "with 'git -C DIR ckpt'",
        )


def _is_within(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def link_out(git_dir: str, around: str) -> str | None:
    """The first symbolic link that leads out of a git dir and of the one around it, by which what
    is written would end up elsewhere."""
    written = ("", "objects", "refs", "refs/heads", "refs/checkpoints", "logs", "logs/refs")
    for folder in (os.path.join(git_dir, name) for name in written):
        for name in disk.names_in(folder):
            link = os.path.join(folder, name)
            is_link = os.path.islink(link) and name not in ("config", "description", "hooks")
            if is_link and not _is_within(os.path.realpath(link), os.path.realpath(around)):
                return link
    return None


# -- One worktree of one repository


@dataclass(frozen=True)
class Repository:
    """Close it when done. Commands of filter drivers are known only if it `runs_filters`."""

    git_dir: str
    common_dir: str
    worktree: str
    index_path: str
    config: GitConfig
    env: Mapping[str, str]
    format: RepositoryFormat
    runs_filters: bool = True

    @property
    def worktree_id(self) -> str:
        """Names this worktree among those that share the refs; survives a rename of its folder."""
        return self.worktree_id_of(self.git_dir)

    def worktree_id_of(self, git_dir: str) -> str:
        """The same of another worktree, by its git dir."""
        if git_dir == self.common_dir:
            return MAIN_WORKTREE
        return "worktrees/" + os.path.basename(git_dir)

    @property
    def git_dirs(self) -> tuple[str, str]:
        """Both git dirs; they may be inside the worktree all the same."""
        return self.git_dir, self.common_dir

    @property
    def private_dir(self) -> str:
        """This worktree's own private files: journal, locks, cache."""
        return os.path.join(self.git_dir, "ckpt")

    @property
    def owns_index(self) -> bool:
        """False inside a hook of `git commit -- path`, which lends a temporary index."""
        named = self.env.get("GIT_INDEX_FILE")
        own = os.path.join(self.git_dir, "index")
        return not named or os.path.join(self.worktree, named) == own

    @cached_property
    def kept(self) -> dict[str, object]:
        """What a process that lives on need not read again; the module that stored it checks it."""
        return {}

    @cached_property
    def object_format(self) -> ObjectFormat:
        return get_object_format(self.format.hash_name)

    @cached_property
    def sharing(self) -> Sharing:
        sharing = read_sharing(self.config.get("core.sharedrepository"))
        return sharing._replace(top=self.common_dir)

    @cached_property
    def objects(self) -> ObjectStore:
        path = self.env.get("GIT_OBJECT_DIRECTORY") or os.path.join(self.common_dir, "objects")
        return ObjectStore(
            os.path.abspath(path),
            self.object_format,
            self._alternates,
            is_partial=self.format.is_partial,
            sharing=self.sharing,
        )

    @property
    def _alternates(self) -> list[str]:
        named = self.env.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
        return [part for part in named.split(os.pathsep) if part]

    @cached_property
    def refs(self) -> Refs:
        kind = _kind_of_refs(self.format.ref_storage == "reftable")
        refs = kind(self.git_dir, self.common_dir, self.object_format.hex_length)
        refs.logs_updates = self.config.get("core.logallrefupdates") not in _OFF
        refs.main_is_bare = self.config.get_bool("core.bare", False)
        refs.sharing = self.sharing
        return refs

    def reloaded(self) -> Repository:
        """The same with the configuration as it is now; open packs stay open.

        Refuses what has become another repository, or one that cannot be served any more.
        """
        self.check_there()
        check_exists(self.worktree)
        config = GitConfig.load(self.env, git_dir=self.git_dir, common_dir=self.common_dir)
        format = read_format(config, os.path.join(self.common_dir, "config"))
        if not self.env.get("GIT_WORK_TREE"):
            _check_not_bare(self.git_dir != self.common_dir, config)
        now, then = ((f.hash_name, f.ref_storage) for f in (format, self.format))
        if now != then:
            raise Refused(
                f"'{self.git_dir}' is another repository by now, with "
                f"{' and '.join(now)} instead of {' and '.join(then)}",
                hint="open it anew",
            )
        again = replace(self, config=config, format=format)
        if "objects" in self.__dict__:
            again.__dict__["objects"] = self.objects
        again.__dict__["kept"] = self.kept
        return again

    def without_filters(self) -> Repository:
        """The same, in which no command of a filter driver is run, whoever configured it."""
        return replace(self, config=self.config.without_filters(), runs_filters=False)

    def check_writable(self) -> None:
        """Refuse before anything is written what could not be finished with a ref."""
        self.check_there()
        self.refs.check_writable()
        if self.env.get("GIT_QUARANTINE_PATH"):
            raise Refused(
                "ref updates forbidden inside quarantine environment",
                hint="call it in 'post-receive', when git has taken the new objects in: "
                "unset GIT_DIR; git -C DIR ckpt save",
            )
        place = self.env.get("GIT_OBJECT_DIRECTORY")
        own = os.path.join(self.common_dir, "objects")
        if place and os.path.realpath(place) != os.path.realpath(own):
            raise Refused(
                f"the environment has objects written to '{place}', "
                "and a checkpoint has its ref in the repository",
                hint="unset GIT_OBJECT_DIRECTORY, and try again",
            )
        if self._alternates:
            from ckpt.git.objects import check_none_lent

            check_none_lent(own, self._alternates)

    def check_there(self) -> None:
        """Refuse to take a repository that was moved or removed for an empty one."""
        if not is_git_dir(self.git_dir):
            raise CkptError(
                f"not a git repository any more: '{self.git_dir}'",
                hint="if it was moved, open it at its new place",
            )

    def close(self) -> None:
        if "objects" in self.__dict__:
            self.objects.close()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def discover(path: str, env: Mapping[str, str]) -> Repository:
    """Open the repository that git would use in folder `path`."""
    start = os.path.realpath(path)
    if not os.path.isdir(start):
        raise CkptError(f"cannot change to '{path}': no such directory", hint="check the path")
    named = env.get("GIT_DIR")
    if named:
        git_dir, top = _resolve_git_dir(os.path.join(start, named), named), None
    else:
        git_dir, top = _search(start, env)
        _check_owner(git_dir, top, start, env)
        if top is None:
            _check_bare(git_dir, env)
    common_dir = _common_dir(git_dir)
    config = GitConfig.load(env, git_dir=git_dir, common_dir=common_dir)
    format = read_format(config, os.path.join(common_dir, "config"))
    is_linked = git_dir != common_dir
    worktree = _worktree(start, git_dir, top, is_linked, config, env)
    check_breadth(worktree, env)
    _check_apart(worktree, git_dir, common_dir)
    return Repository(
        git_dir=git_dir,
        common_dir=common_dir,
        worktree=worktree,
        index_path=_index_path(git_dir, worktree, env.get("GIT_INDEX_FILE")),
        config=config,
        env=env,
        format=format,
    )


def _index_path(git_dir: str, worktree: str, named: str | None) -> str:
    """The index that the user works with; those that git makes for a moment are not it."""
    own = _itself(os.path.join(git_dir, "index"))
    if not named:
        return own
    path = os.path.join(worktree, named)
    is_made_by_git = os.path.realpath(os.path.dirname(path)) == git_dir
    is_lent = is_made_by_git and re.fullmatch(_LENT_INDEX, os.path.basename(path))
    return own if is_lent else _itself(path)


def _itself(index: str) -> str:
    """Where the file is that git locks and replaces, if there is only a link to it."""
    return os.path.realpath(index) if os.path.islink(index) and os.path.isfile(index) else index


def _search(start: str, env: Mapping[str, str]) -> tuple[str, str | None]:
    """The git dir for a folder, and the top of its worktree (None: inside a git dir)."""
    ceilings = {
        os.path.realpath(part)
        for part in env.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
        if os.path.isabs(part)
    }
    folder = start
    while True:
        dot_git = os.path.join(folder, ".git")
        if os.path.isfile(dot_git):
            return _resolve_git_dir(dot_git, dot_git), folder
        if is_git_dir(dot_git):
            return os.path.realpath(dot_git), folder
        if is_git_dir(folder):
            return folder, None
        parent = os.path.dirname(folder)
        if parent == folder or parent in ceilings:
            raise NotARepository(start)
        folder = parent


def is_git_dir(path: str) -> bool:
    """What git asks of a git dir: HEAD, and objects and refs here or in the common dir."""
    if not os.path.lexists(os.path.join(path, "HEAD")):
        return False
    if os.path.isfile(os.path.join(path, "commondir")):
        return True
    return all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs"))


def read_gitfile(path: str) -> str | None:
    """Where a `.git` file points, or None if it is not one; DiskError if it may not be read."""
    try:
        contents = disk.beginning(path, 8192)
    except OSError as error:
        raise DiskError(error) from error
    if not contents.startswith(b"gitdir: ") or b"\0" in contents:
        return None
    target = os.fsdecode(contents[len(b"gitdir: ") :].rstrip(b"\r\n"))
    return os.path.realpath(os.path.join(os.path.dirname(path), target))


def nested_head(folder: bytes, hex_length: int = 40) -> ObjectID | None:
    """The commit that a submodule's HEAD names, if it has one."""
    dot_git = os.path.join(os.fsdecode(folder), ".git")
    try:
        git_dir = read_gitfile(dot_git) if os.path.isfile(dot_git) else dot_git
        if git_dir is None or not is_git_dir(git_dir):
            return None
        common_dir = _common_dir(git_dir)
        has_tables = os.path.isdir(os.path.join(common_dir, "reftable"))
        return _kind_of_refs(has_tables)(git_dir, common_dir, hex_length).head().commit
    except CkptError:
        return None


def _kind_of_refs(are_in_tables: bool) -> type[Refs]:
    if not are_in_tables:
        return Refs
    from ckpt.git.reftable import ReftableRefs

    return ReftableRefs


def _resolve_git_dir(path: str, shown: str) -> str:
    target = read_gitfile(path) if os.path.isfile(path) else os.path.realpath(path)
    if target is None:
        raise CkptError(f"invalid gitfile format: '{shown}'", hint="mend or remove that file")
    if not is_git_dir(target):
        raise CkptError(f"not a git repository: '{shown}'", hint="check GIT_DIR or the .git file")
    return target


def _common_dir(git_dir: str) -> str:
    try:
        found = disk.read(os.path.join(git_dir, "commondir"))
    except FileNotFoundError:
        return git_dir
    target = os.fsdecode(found.rstrip(b"\r\n"))
    if "\0" in target:
        path = os.path.join(git_dir, "commondir")
        raise CkptError(f"invalid commondir: '{path}'", hint="git worktree repair")
    return os.path.realpath(os.path.join(git_dir, target))


def _worktree(
    start: str,
    git_dir: str,
    top: str | None,
    is_linked: bool,
    config: GitConfig,
    env: Mapping[str, str],
) -> str:
    named = env.get("GIT_WORK_TREE")
    if named:
        return os.path.realpath(os.path.join(start, named))
    shared = _is_shared(is_linked, config)
    if top is None and not env.get("GIT_DIR"):
        raise _no_worktree()
    _check_not_bare(is_linked, config)
    configured = None if shared else config.get_path("core.worktree")
    if configured:
        return os.path.realpath(os.path.join(git_dir, configured))
    return top if top is not None else start


def _is_shared(is_linked: bool, config: GitConfig) -> bool:
    """Whether a linked worktree finds the `core.bare` and `core.worktree` of the main one:
    git takes neither from there."""
    return is_linked and not config.get_bool("extensions.worktreeconfig", False)


def _check_not_bare(is_linked: bool, config: GitConfig) -> None:
    if not _is_shared(is_linked, config) and config.get_bool("core.bare", False):
        raise _no_worktree()


def _no_worktree() -> Refused:
    return Refused(
        "this operation must be run in a work tree",
        hint="a bare repository has no working state; name one with GIT_WORK_TREE",
    )


# -- A `git gc` that prunes at once, which no file of ours can keep from taking new objects

_AT_ONCE = ("--prune=now", "--prune=all")


def wait_for_pruning(common_dir: str, config: GitConfig, seconds: float) -> bool:
    """Wait until no `git gc --prune=now` is at work; False if one still is after that time."""
    end = time.monotonic() + seconds
    while set(words := _gc_words(common_dir)) & {*_AT_ONCE} or (
        words and config.get("gc.pruneexpire") in ("now", "all")
    ):
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True


def is_collecting(common_dir: str) -> bool:
    """Whether a `git gc` is at work, as far as the system tells."""
    return bool(_gc_words(common_dir))


def _gc_words(common_dir: str) -> list[str]:
    """The command line of the gc at work; none if it has ended or cannot be read."""
    try:
        pid = int(disk.beginning(os.path.join(common_dir, "gc.pid"), 64).split()[0])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
    except (OSError, ValueError, IndexError):
        return []
    # Else the number is another process's by now.
    return words if "gc" in words or os.path.basename(words[0]) == "git-gc" else []


# Its worktrees


def git_dirs(repo: Repository) -> list[str]:
    """The git directories of the main worktree and of the linked ones."""
    linked = os.path.join(repo.common_dir, "worktrees")
    names = sorted(os.listdir(linked)) if os.path.isdir(linked) else []
    return [repo.common_dir, *(os.path.join(linked, name) for name in names)]


def worktree_of(git_dir: str) -> str | None:
    """The folder to which a git dir of `git_dirs` belongs, whether or not it is there; None if
    nobody can tell."""
    if os.path.basename(git_dir) == ".git":
        return os.path.dirname(git_dir)
    try:
        named = disk.read(os.path.join(git_dir, "gitdir")).rstrip(b"\n")
    except OSError:
        return None
    return os.path.dirname(os.path.join(git_dir, os.fsdecode(named))) if named else None


def present_worktrees(repo: Repository) -> list[str]:
    """The folders of all worktrees of a repository that are there, its own first."""
    places = [place for place in map(worktree_of, git_dirs(repo)) if place is not None]
    linked = (os.path.realpath(place) for place in places if os.path.isdir(place))
    return [*dict.fromkeys([repo.worktree, *linked])]


def in_worktree(git_dir: str) -> str:
    """Where something was found, for who looks from another worktree."""
    return f", in worktree '{worktree_of(git_dir) or git_dir}'"
