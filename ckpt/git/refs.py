# SPDX-License-Identifier: MIT
"""Read and write refs: HEAD, branches, and the refs of checkpoints.

dulwich is not used: an unchanged save must not import it. After a kill its lock on a ref looks
like git's, and it deletes a loose ref before it locks `packed-refs`, which can restore an older
value.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from ckpt import disk
from ckpt.disk import clear_dead, holding, replace_held
from ckpt.errors import Busy, CkptError, Refused, is_want, raise_want
from ckpt.git.objects import ObjectID
from ckpt.ids import is_id
from ckpt.models import REF_PREFIX, TRASH_PREFIX, GitState
from ckpt.paths import to_str

IDENTITY = b"ckpt <ckpt@localhost>"
SYMREF = b"ref: "
_OF_ONE_WORKTREE = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")
_MOST_LINKS = 5  # from one symbolic ref to the next, as in git
_CREATE_PATIENCE = 2.0

# The new name and target of a ref; None deletes it.
Change = tuple[bytes, ObjectID] | None

# -- Names

_BAD_NAME = rb"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[./]|[./]$"


def is_ref_name(name: bytes) -> bool:
    """Check whether a full ref name is valid."""
    return b"/" in name and not re.search(_BAD_NAME, name)


def is_shared(name: bytes) -> bool:
    """Check whether worktrees share a ref; HEAD, bisect and other refs are per worktree."""
    return name.startswith(b"refs/") and not name.startswith(_OF_ONE_WORKTREE)


def is_ours(ref: str) -> bool:
    """Check whether a ref is a checkpoint; other tools use `refs/checkpoints/` too."""
    if ref.startswith(TRASH_PREFIX):
        return is_id(ref[len(TRASH_PREFIX) :].partition("/")[2])
    return ref.startswith(REF_PREFIX) and is_id(ref[len(REF_PREFIX) :])


def short_name(branch: bytes) -> str:
    return to_str(branch).removeprefix("refs/heads/")


class Head(NamedTuple):
    """HEAD; `branch`, a full ref name, is None if detached, `commit` is None if unborn."""

    branch: bytes | None
    commit: ObjectID | None

    @property
    def contents(self) -> bytes:
        """Return the contents of the HEAD file."""
        return (self.commit or b"" if self.branch is None else SYMREF + self.branch) + b"\n"

    @property
    def state(self) -> GitState:
        """Return HEAD as text, with the short name of its branch."""
        commit = None if self.commit is None else self.commit.decode()
        return GitState(commit, None if self.branch is None else short_name(self.branch))


class HeadMoved(Busy):
    """HEAD or a branch changed: another process committed or checked out a branch."""

    def __init__(self, what: str = "HEAD") -> None:
        hint = "repeat the command: it saves where HEAD is now"
        super().__init__(f"{what} moved while the rollback ran", hint=hint)


# -- Files


def read_loose(path: str) -> bytes | None:
    """Read a loose ref; None if the file does not exist, empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        if is_want(error):
            raise
        return b""


def _remove_empty_above(path: str, top: str) -> None:
    """Remove the empty directories above a removed file, up to `top`."""
    with suppress(OSError):  # in use
        while (path := os.path.dirname(path)).startswith(top + "/"):
            os.rmdir(path)


_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_RECORD = rb"([0-9a-fA-F]{40,64}) ([^\n\0]+)\n(?:\^[0-9a-fA-F]{40,64}\n)?"


def _packed_records(data: bytes) -> Iterator[re.Match[bytes]]:
    """Match the id and name of each packed ref; CkptError if the file is corrupt."""
    header = re.match(rb"(?:#[^\n]*\n)?", data)
    body = data[header.end() if header else 0 :]
    if not re.fullmatch(rb"(?:%s)*" % _RECORD, body):
        raise CkptError(
            "cannot read 'packed-refs': it is damaged",
            hint="'git for-each-ref' tells which line is wrong",
        )
    return re.finditer(_RECORD, body)


# -- The refs of one worktree


class Refs:
    """The refs of a worktree, stored in files; most are shared by all worktrees."""

    def __init__(self, git_dir: str, common_dir: str, hex_length: int) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self._hex_length = hex_length
        # Not in a worktree's git dir: that can be removed. After `sudo`, root may own this one.
        private_dir = os.path.join(common_dir, "ckpt")
        is_usable = os.access(private_dir, os.W_OK) or not os.path.lexists(private_dir)
        self._private_dir = private_dir if is_usable else common_dir
        self._packed_known: tuple[bytes, dict[bytes, ObjectID]] = b"", {}

    def of_worktree(self, git_dir: str) -> Refs:
        """Return the refs of another worktree."""
        return type(self)(git_dir, self.common_dir, self._hex_length)

    def git_dirs(self) -> list[str]:
        """Return the git directories of the main and the linked worktrees."""
        worktrees = os.path.join(self.common_dir, "worktrees")
        linked = sorted(disk.names_in(worktrees))
        return [self.common_dir, *(os.path.join(worktrees, name) for name in linked)]

    # -- reading one ---------------------------------------------------------------

    def read(self, ref: bytes) -> ObjectID | None:
        """Return the object a ref points to, following symbolic refs; None if it does not exist."""
        name = ref
        for _ in range(_MOST_LINKS):
            contents = self.contents(name)
            if not contents.startswith(b"ref:"):
                return self.named_by(contents)
            name = contents[len(b"ref:") :].strip()
        raise CkptError(
            f"'{os.fsdecode(ref)}' has too many levels of symbolic refs",
            hint="'git symbolic-ref' shows and changes where it leads",
        )

    def contents(self, ref: bytes) -> bytes:
        """Return the contents of a loose or packed ref; empty if it does not exist."""
        if ref != b"HEAD" and not (ref.startswith(b"refs/") and is_ref_name(ref)):
            return b""  # not safe as a path
        loose = read_loose(self._path(ref))
        if loose is not None or not is_shared(ref):
            return loose or b""
        return self._packed().get(ref) or b""

    def named_by(self, contents: bytes) -> ObjectID | None:
        """Parse the object id in a ref's contents, in either case as git does."""
        value = contents[: self._hex_length + 1].rstrip().lower()
        is_hex = len(value) == self._hex_length and not value.strip(b"0123456789abcdef")
        return ObjectID(value) if is_hex else None

    def head(self) -> Head:
        contents = self.contents(b"HEAD").strip()
        if contents.startswith(SYMREF):
            branch = contents[len(SYMREF) :].strip()
            return Head(branch, self.read(branch))
        commit = self.named_by(contents)
        if commit is None:
            path = os.path.join(self.git_dir, "HEAD")
            raise CkptError(
                "HEAD is neither a branch nor a commit",
                hint=f"make it anew: rm '{path}'; echo 'ref: refs/heads/BRANCH' > '{path}'",
            )
        return Head(None, commit)

    def checkpoint(self, checkpoint_id: str) -> ObjectID | None:
        """Return the commit of a checkpoint."""
        return self.named_by(self.contents(os.fsencode(REF_PREFIX + checkpoint_id)))

    # -- reading many --------------------------------------------------------------

    def checkpoints(self) -> dict[str, ObjectID]:
        """Return the commits of all checkpoints by id."""
        return {name: commit for name, commit in self.below(REF_PREFIX).items() if is_id(name)}

    def trash(self) -> dict[str, ObjectID]:
        """Return the commits of all dropped checkpoints by `DATE/ID`."""
        found = self.below(TRASH_PREFIX).items()
        return {name: commit for name, commit in found if is_ours(TRASH_PREFIX + name)}

    def others(self) -> set[ObjectID]:
        """Return the objects of all refs that are not checkpoints."""
        every = self.below("refs/").items()
        return {commit for name, commit in every if not is_ours(f"refs/{name}")}

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        """Return the contents, even invalid ones, of all refs below a prefix by name; loose refs
        take precedence over packed ones."""
        # Loose refs first: git may pack them at any time.
        loose = _loose(os.path.join(self.common_dir, prefix))
        start = prefix.encode()
        packed = {n[len(start) :]: v for n, v in self._packed().items() if n.startswith(start)}
        return {**{os.fsdecode(name): value for name, value in packed.items()}, **loose}

    def below(self, prefix: str) -> dict[str, ObjectID]:
        """Return the objects of all refs below a prefix by name."""
        found = {name: self.named_by(said) for name, said in self.contents_below(prefix).items()}
        return {name: value for name, value in found.items() if value is not None}

    def _packed(self) -> dict[bytes, ObjectID]:
        """Return the objects of all packed refs by name."""
        data = self._packed_file()
        if data != self._packed_known[0]:
            found = {match[2]: ObjectID(match[1].lower()) for match in _packed_records(data)}
            self._packed_known = data, found
        return self._packed_known[1]

    def _packed_file(self) -> bytes:
        try:
            return disk.read(self._packed_path, disk.LARGE)
        except FileNotFoundError:
            return b""

    # -- checkpoints ---------------------------------------------------------------

    def create(self, ref: bytes, target: ObjectID) -> bool:
        """Create a ref durably; False if it exists."""
        self.clear_dead()
        path = self._path(ref)
        try:
            with holding(path, self._private_dir, patience=_CREATE_PATIENCE):
                if self.contents(ref):
                    return False
                replace_held(path, target + b"\n", self._private_dir)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise Busy(
                f"cannot create '{os.fsdecode(ref)}': another ref is in the way",
                hint="'git for-each-ref' lists the refs; rename the one that is in the way",
            ) from None
        while (path := os.path.dirname(path)) != self.common_dir:
            disk.fsync([os.path.dirname(path)])
        return True

    def remove(self, ref: bytes, old: bytes) -> bool:
        """Delete a ref; False if its value is not `old`."""
        return bool(self.change({ref: (old, None)}))

    def change(self, changes: Mapping[bytes, tuple[bytes, Change]]) -> set[bytes]:
        """Rename, update or delete refs and return those whose value was still the old one.

        New values are durable in `packed-refs` before loose refs are removed. It stays locked
        meanwhile: `git pack-refs` could otherwise restore a removed ref.
        """
        if not changes:
            return set()
        with holding(self._packed_path, self._private_dir):
            done = {
                ref: change
                for ref, (said, change) in changes.items()
                if is_ref_name(ref) and said in (now := self.contents(ref), self.named_by(now))
            }
            new = dict(change for change in done.values() if change is not None)
            if new or not done.keys().isdisjoint(self._packed()):
                data = self._packed_file()
                records = {m[2]: m[0] for m in _packed_records(data) if m[2] not in done}
                records |= {name: value + b" " + name + b"\n" for name, value in new.items()}
                header = data[: data.find(b"\n") + 1] if data.startswith(b"#") else _HEADER
                text = header + b"".join(records[name] for name in sorted(records))
                replace_held(self._packed_path, text, self._private_dir)
            for ref in {*done, *new}:  # a stale loose ref would hide the new packed one
                path = self._path(ref)
                with suppress(FileNotFoundError):
                    os.unlink(path)
                _remove_empty_above(path, self._path(b"/".join(ref.split(b"/")[:2])))
        return {*done}

    def pack(self, at_least: int = 1) -> int:
        """Pack the loose refs of checkpoints if there are at least so many; return their number."""
        found: dict[bytes, tuple[bytes, Change]] = {}
        for prefix in (REF_PREFIX, TRASH_PREFIX):
            for name, contents in _loose(os.path.join(self.common_dir, prefix)).items():
                ref, value = os.fsencode(prefix + name), self.named_by(contents)
                if value is not None and is_ours(prefix + name):
                    found[ref] = value, (ref, value)
        return len(self.change(found)) if len(found) >= at_least else 0

    def clear_dead(self) -> list[str]:
        """Remove stale locks and unfinished files of killed commands in all worktrees."""
        folders = [os.path.join(git_dir, "ckpt") for git_dir in self.git_dirs()]
        return [path for folder in folders for path in clear_dead(folder)]

    # -- HEAD and branches ---------------------------------------------------------

    def obstacle_to(self, branch: bytes) -> str | None:
        """Return why a branch, which an untrusted checkpoint may name, cannot be written."""
        short = branch.removeprefix(b"refs/heads/")
        is_taken = short in (branch, b"HEAD") or short.startswith(b"-")  # as for `git branch`
        if is_taken or not is_ref_name(branch):
            return "that is not a valid branch name"
        if self.contents(branch).startswith(b"ref:"):
            return "it is a symbolic ref"
        for name in sorted(map(os.fsencode, self.below("refs/heads/"))):
            ref = b"refs/heads/" + name
            if ref.startswith(branch + b"/") or branch.startswith(ref + b"/"):
                return f"'{os.fsdecode(ref)}' exists"
        return None

    def move_branch(
        self, branch: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        """Move a branch from `old` to `new` (None: absent); Busy if it is not at `old`."""
        with holding(self._path(branch), self._private_dir):
            change = None if new is None else (branch, new)
            if not self.change({branch: (old or b"", change)}):
                raise HeadMoved(f"'{short_name(branch)}'")
            self._log(branch, old, new, message)

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        """Point HEAD at a branch or a commit; HeadMoved if it is not at `old`."""
        if head.contents != self.head().contents:
            path = self._path(b"HEAD")
            with holding(path, self._private_dir):
                if self.head() != old:
                    raise HeadMoved
                replace_held(path, head.contents, self._private_dir)
        self._log(b"HEAD", old.commit, head.commit, message)

    def files_of(self, branches: Iterable[bytes]) -> list[str]:
        """Return the files that are locked to update HEAD and these branches."""
        return [self._packed_path, *map(self._path, (b"HEAD", *branches))]

    def _log(self, ref: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes) -> None:
        """Append to the reflog of a ref; the reflog of a deleted branch is deleted."""
        log = os.path.join(self._base(ref), "logs", os.fsdecode(ref))
        if new is None and ref != b"HEAD":
            with suppress(FileNotFoundError):
                os.unlink(log)
        else:
            zero, when = b"0" * self._hex_length, int(time.time())
            line = b"%s %s %s %d +0000\t%s\n" % (old or zero, new or zero, IDENTITY, when, message)
            os.makedirs(os.path.dirname(log), exist_ok=True)
            with open(log, "ab", buffering=0) as file:
                file.write(line)

    # -- places --------------------------------------------------------------------

    def _path(self, ref: bytes) -> str:
        return os.path.join(self._base(ref), os.fsdecode(ref))

    def _base(self, ref: bytes) -> str:
        return self.common_dir if is_shared(ref) else self.git_dir

    @property
    def _packed_path(self) -> str:
        """Return the `packed-refs` file, which may be a symbolic link (`git-new-workdir`)."""
        return os.path.realpath(os.path.join(self.common_dir, "packed-refs"))


def _loose(top: str) -> dict[str, bytes]:
    """Return the contents of the loose refs below a directory by name."""
    top = os.path.join(top, "")
    found = {}
    for folder, _, names in os.walk(top, onerror=raise_want):
        for path in (os.path.join(folder, name) for name in names if not name.endswith(".lock")):
            contents = read_loose(path)
            if contents is not None:
                found[path[len(top) :]] = contents
    return found


# -- Refs in reftables

_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "user.name=ckpt", "-c", "user.email=ckpt@localhost"),
)
_FORMAT = "--format=%(objectname) %(symref) %(refname)"


class ReftableRefs(Refs):
    """The refs of a worktree, stored in reftables; they need the git binary.

    dulwich reads only the first block of a table, and corrupts the stack by writing without git's
    lock. Nothing is cached: another process may change refs at any time.
    """

    def _run(self, *words: str, text: bytes = b"") -> tuple[bytes | None, str]:
        """Run a git command without hooks; return its output (None on failure) and last error."""
        import subprocess

        command = ["git", f"--git-dir={self.git_dir}", *_OPTIONS, *words]
        try:
            done = subprocess.run(command, input=text, capture_output=True)
        except FileNotFoundError:
            raise Refused(
                "this repository keeps its refs in reftables, which only git can read and write",
                hint="install git 2.45 or later; or, where it is: "
                "git refs migrate --ref-format=files",
            ) from None
        error = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return None if done.returncode else done.stdout, error

    def _git(self, *words: str) -> bytes:
        printed, error = self._run(*words)
        if printed is None:
            raise CkptError(
                f"git cannot use the refs of '{self.common_dir}': {error}",
                hint="git refs verify; reftables need git 2.45 or later",
            )
        return printed

    def _update(self, lines: Iterable[bytes], message: bytes = b"ckpt") -> bool:
        """Update refs in one transaction; False, with no change, if any has moved."""
        words = ("update-ref", "--stdin", "-m", os.fsdecode(message))
        printed, error = self._run(*words, text=b"".join(line + b"\n" for line in lines))
        if printed is None and "expected" not in error and "already exists" not in error:
            raise Busy(f"git cannot change refs: {error}", hint="try again")
        return printed is not None

    def _listed(self, *patterns: str) -> dict[bytes, bytes]:
        """Return the contents of refs by full name, in git's order."""
        found = {}
        for line in self._git("for-each-ref", _FORMAT, *patterns).splitlines():
            value, target, name = line.split(b" ", 2)
            found[name] = SYMREF + target if target else value
        return found

    def contents(self, ref: bytes) -> bytes:
        if ref == b"HEAD":
            branch, _ = self._run("symbolic-ref", "-q", "HEAD")
            return SYMREF + branch if branch else self._git("rev-parse", "--verify", "HEAD")
        return self._listed(os.fsdecode(ref)).get(ref, b"") if is_ref_name(ref) else b""

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        listed = self._listed(prefix.rstrip("/")).items()
        return {os.fsdecode(n)[len(prefix) :]: said for n, said in listed if is_shared(n)}

    def create(self, ref: bytes, target: ObjectID) -> bool:
        return self._update([b"create %s %s" % (ref, target)])

    def change(self, changes: Mapping[bytes, tuple[bytes, Change]]) -> set[bytes]:
        now = self._listed(*map(os.fsdecode, changes)) if changes else {}  # no pattern: all
        done = {ref: change for ref, (said, change) in changes.items() if now.get(ref) == said}
        lines = []
        for ref, change in done.items():
            if change is not None and change[0] == ref:
                lines.append(b"update %s %s %s" % (*change, now[ref]))
                continue
            lines.append(b"delete %s %s" % (ref, now[ref]))
            if change is not None:
                lines.append(b"update %s %s" % change)
        return {*done} if self._update(lines) else set()

    def pack(self, at_least: int = 1) -> int:
        return 0  # git compacts its tables by itself

    def move_branch(
        self, branch: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        zero = b"0" * self._hex_length
        if not self._update([b"update %s %s %s" % (branch, new or zero, old or zero)], message):
            raise HeadMoved(f"'{short_name(branch)}'")

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        if self.head() not in (old, head):
            raise HeadMoved
        words = ("symbolic-ref", "-m") if head.branch else ("update-ref", "--no-deref", "-m")
        value = head.branch or head.commit or b""
        self._git(*words, os.fsdecode(message), "HEAD", os.fsdecode(value))

    def files_of(self, branches: Iterable[bytes]) -> list[str]:
        return []
