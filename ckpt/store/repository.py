# SPDX-License-Identifier: MIT
"""Find a repository as git would, and refuse what cannot be served.

Knows where things are: the worktree's own git dir, the common dir that linked
worktrees share, the index, the folder for private files. Refusals come before
anything is written and before the repository's configuration is believed: another
user's repository, a bare one, the home folder or `/` as a worktree, a format that
only a newer git understands. Reading a repository asks for less than writing to it:
`check_writable` says so. Starts no git process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property

from ckpt import regular
from ckpt.errors import CkptError, DiskError, Refused
from ckpt.patterns import lazy_pattern
from ckpt.store.config import GitConfig
from ckpt.store.format import RepositoryFormat, read_format
from ckpt.store.object_format import ObjectFormat, get_object_format
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.refs import Refs
from ckpt.store.sharing import Sharing, read_sharing
from ckpt.store.worktree_check import check_apart, check_breadth, check_exists
from ckpt.values import replace, value_class

MAIN_WORKTREE = "main"
# Of `git commit -a`, `git commit -- PATH` and `git stash`.
_FOR_A_MOMENT = lazy_pattern(r"index\.lock|next-index-\d+\.lock|index\.stash\.\d+(\.lock)?")
_OFF = ("false", "no", "off", "0")


class NotARepository(CkptError):
    """No git repository here or in any folder above."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"not a git repository (or any of the parent directories): '{path}'",
            hint="change into a repository, name one with -C DIR, run 'git init', or keep "
            "checkpoints of this folder elsewhere with --store user",
        )


@value_class(slots=False)
class Repository:
    """One worktree of one repository; close it when done. Only if it `runs_filters` are commands
    of filter drivers known."""

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
        """Where git keeps what is not the worktree's; they may lie in it all the same."""
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
        """What a process that lives on need not read again; whoever put it there checks it."""
        return {}

    @cached_property
    def object_format(self) -> ObjectFormat:
        return get_object_format(self.format.hash_name)

    @cached_property
    def sharing(self) -> Sharing:
        sharing = read_sharing(self.config.get("core.sharedrepository"))
        return replace(sharing, top=self.common_dir)

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
            from ckpt.store.alternates import check_none_lent

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
            from ckpt.store.ownership import check_bare

            check_bare(git_dir, env)
    common_dir = _common_dir(git_dir)
    config = GitConfig.load(env, git_dir=git_dir, common_dir=common_dir)
    format = read_format(config, os.path.join(common_dir, "config"))
    is_linked = git_dir != common_dir
    worktree = _worktree(start, git_dir, top, is_linked, config, env)
    check_breadth(worktree, env)
    check_apart(worktree, git_dir, common_dir)
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
    is_lent = is_made_by_git and _FOR_A_MOMENT.fullmatch(os.path.basename(path))
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
        contents = regular.beginning(path, 8192)
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
    from ckpt.store.reftable_refs import ReftableRefs

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
        found = regular.read(os.path.join(git_dir, "commondir"))
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


def _check_owner(git_dir: str, top: str | None, start: str, env: Mapping[str, str]) -> None:
    """Git's safe.directory rule; only protected configuration may lift it."""
    subject = top or git_dir
    paths = [subject, git_dir]
    if top is not None:
        # Where all may write, as in /tmp, anybody can make one that leads to a git dir of ours.
        paths.append(os.path.join(top, ".git"))
    if all(os.lstat(path).st_uid in _trusted_uids(env) for path in paths):
        return
    from ckpt.store.ownership import check_declared_safe

    check_declared_safe(subject, start, env)


def _trusted_uids(env: Mapping[str, str]) -> set[int]:
    me = os.geteuid()
    sudo = env.get("SUDO_UID", "")
    is_number = sudo.isascii() and sudo.isdigit() and len(sudo) < 20
    return {me, int(sudo)} if me == 0 and is_number else {me}
