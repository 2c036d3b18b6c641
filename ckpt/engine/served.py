# SPDX-License-Identifier: MIT
"""Where others may read what checkpoints hold: over the network, or on the same machine.

Checkpoints hold what nobody has committed, and so what nobody has looked through. Told by what
lies about: marks of a git server, a git dir in a folder that web servers hand out, and objects
that other users may read while the file they came from is the owner's alone. `info/refs`, by
which plain web servers are read, tells nothing: every `git gc` writes it. Left out: servers
elsewhere that reach this folder by a configuration of their own.
"""

from __future__ import annotations

import os
from shlex import quote

from ckpt import regular
from ckpt.engine.catalog import Catalog
from ckpt.engine.flaws import Flaw
from ckpt.engine.recorded import Recorded
from ckpt.errors import CkptError
from ckpt.models import Scope
from ckpt.paths import to_str
from ckpt.store import staging
from ckpt.store.config_syntax import parse_bool
from ckpt.store.trees import EXECUTABLE, REGULAR, diff_trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.store.repository import Repository
    from ckpt.store.trees import TreeEntry
    from ckpt.worktree.modes import Modes

_NAMESPACES = ("refs/checkpoints", "refs/checkpoints-trash")
_SERVER_KEYS = (("http", "receivepack"), ("http", "uploadpack"), ("daemon", "receivepack"))
_WEB_PLACES = (
    *("/var/www", "/srv/http", "/srv/www", "/usr/share/nginx", "/usr/local/www"),
    "/Library/WebServer/Documents",
)
_WEB_NAMES = ("public_html", "htdocs", "httpdocs", "wwwroot")
_MAYBE_WEB = "www"  # often a project's name; a web root if there is a page at the top
_PAGES = ("index.html", "index.htm", "index.php")
_OTHERS, _GROUP_OR_OTHERS = 0o001, 0o011


def find_open(repo: Repository) -> Iterator[Flaw]:
    yield from _git_servers(repo)
    yield from _plain_servers(repo)
    yield from _web_root(repo)
    yield from _other_users(repo)


# -- by git's protocol ---------------------------------------------------------------


def _git_servers(repo: Repository) -> Iterator[Flaw]:
    mark = _server_mark(repo)
    if mark is None or all(is_hidden(repo, name) for name in _NAMESPACES):
        return
    told = f"whoever may fetch from here may fetch checkpoints: {mark}"
    mend = "; ".join(f"git config --add transfer.hideRefs {name}" for name in _NAMESPACES)
    yield Flaw("served", False, told, by_hand=mend)


def _server_mark(repo: Repository) -> str | None:
    exported = os.path.join(repo.common_dir, "git-daemon-export-ok")
    if os.path.exists(exported):
        return f"'{exported}' is there for git daemon"
    for section, name in _SERVER_KEYS:
        for key, value, file in repo.config.items(section):
            is_own = os.path.dirname(file) in repo.git_dirs
            if key == name and is_own and parse_bool(value):
                return f"{section}.{name} is set for this repository"
    return None


def is_hidden(repo: Repository, name: str) -> bool:
    """Whether git tells nobody who fetches of a ref; of several values the last counts."""
    for value in reversed(repo.config.get_each("transfer.hiderefs", "uploadpack.hiderefs")):
        shown = value.startswith("!")
        prefix = value.removeprefix("!").removeprefix("^").rstrip("/")
        if name == prefix or name.startswith(prefix + "/"):
            return not shown
    return False


# -- by files ------------------------------------------------------------------------


def _plain_servers(repo: Repository) -> Iterator[Flaw]:
    hook = os.path.join(_hooks(repo), "post-update")
    if not os.access(hook, os.X_OK) or b"update-server-info" not in _beginning(hook):
        return
    told = f"'{hook}' tells plain web servers of every ref, and so of checkpoints"
    mend = f"git clone --bare {quote(repo.worktree)} COPY, which has none, and serve that"
    yield Flaw("served", False, told, by_hand=mend)


def _hooks(repo: Repository) -> str:
    try:
        configured = repo.config.get_path("core.hookspath")
    except CkptError:
        configured = None
    return os.path.join(repo.worktree, configured or os.path.join(repo.common_dir, "hooks"))


def _beginning(path: str) -> bytes:
    try:
        lines = regular.beginning(path, 1 << 16).splitlines()
    except OSError:
        return b""
    return b"\n".join(line for line in lines if not line.startswith(b"#"))


def _web_root(repo: Repository) -> Iterator[Flaw]:
    root = _root_above(repo.common_dir, repo.worktree)
    if root is None or not is_open(repo.common_dir, _GROUP_OR_OTHERS):
        return
    told = f"'{repo.common_dir}' is in '{root}', which web servers hand out, checkpoints and all"
    mend = f"have the web server refuse .git, or: chmod 700 {quote(repo.common_dir)}"
    yield Flaw("served", False, told, by_hand=mend)


def _root_above(git_dir: str, worktree: str) -> str | None:
    has_page = any(os.path.isfile(os.path.join(worktree, page)) for page in _PAGES)
    names = (*_WEB_NAMES, _MAYBE_WEB) if has_page else _WEB_NAMES
    for folder in _folders_above(git_dir):
        if folder in _WEB_PLACES or os.path.basename(folder) in names:
            return folder
    return None


def is_open(folder: str, bits: int) -> bool:
    """Whether the way to a folder, and into it, has one of these bits everywhere."""
    try:
        return all(os.stat(each).st_mode & bits for each in (folder, *_folders_above(folder)))
    except OSError:
        return False


def _folders_above(folder: str) -> Iterator[str]:
    while (parent := os.path.dirname(folder)) != folder:
        yield parent
        folder = parent


# -- by other users of this machine --------------------------------------------------


def _other_users(repo: Repository) -> Iterator[Flaw]:
    if not is_open(os.path.join(repo.common_dir, "objects"), _OTHERS):
        return
    try:
        private = _private_files(repo)
    except CkptError:  # of a damaged checkpoint, of which `verify` tells
        return
    if private:
        more = f" and {len(private) - 1} more" if len(private) > 1 else ""
        told = (
            f"'{to_str(private[0])}'{more} may be read by you alone, but the copy in the latest "
            f"checkpoint by every user of this machine"
        )
        yield Flaw("open to others", False, told, by_hand=f"chmod 700 {quote(repo.common_dir)}")


def _private_files(repo: Repository) -> list[bytes]:
    """Untracked files in the latest checkpoint that others may not read where they lie."""
    try:
        checkpoint = Catalog(repo).resolve("latest", Scope.FULL)
    except CkptError:
        return []
    state = Recorded(repo, checkpoint)
    staged = staging.stage_trees(repo.objects, state.state_tree)[0]
    return sorted(
        path
        for path, before, now in diff_trees(repo.objects, staged, state.tree)
        if before is None and _is_private(state.manifest.modes, path, now)
    )


def _is_private(modes: Modes, path: bytes, entry: TreeEntry | None) -> bool:
    if entry is None or entry.mode not in (REGULAR, EXECUTABLE):
        return False
    return not modes.of(path, entry.mode == EXECUTABLE) & 0o044
