# SPDX-License-Identifier: MIT
"""A worktree that a careless person works in, and what must be true of it at each step.

A step is a word and its arguments, so that a walk that went wrong can be written down
and walked again. After each rollback all is compared that a user can see: every path's
bytes, bits and link target, empty folders, the index with its flags, and, where HEAD
stands as it did then, `git status` to the letter, HEAD, branch and operation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from helpers import fsck, git, status_by_content, tree_state
from saving import knowing_nothing
from scenes import staged

from ckpt.errors import NotFound, Refused
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, RollbackResult

Step = tuple[object, ...]
# What is always there in our private folder, or may be.
PRIVATE = {
    *("lock", "last-rollback", "conversions", "made-here", "prune-lock", "saves", "scan"),
    *("gc-lock", "space", "triggers"),
}
NESTED = b"nested"
RULE_FILES = (b".gitignore", b".gitattributes")
_NO_EDITOR = {"GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true"}
_OPERATION_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer", "refs/bisect", "refs/rewritten")
_NO_OPERATION = {"ORIG_HEAD", "COMMIT_EDITMSG", "FETCH_HEAD"}


@dataclass(frozen=True)
class Look:
    """What can be seen of a worktree.

    `rules` is what no checkpoint restores: the private exclude file and git's settings.
    """

    files: dict[bytes, tuple[str, int, bytes]]
    folders: dict[bytes, int]
    ignored: frozenset[bytes]
    index: list[tuple[str, int]]
    status: str
    status_of_ignored: str
    head: tuple[str, str]
    operation: dict[str, bytes]
    rules: tuple[str, str]

    @property
    def held(self) -> set[bytes]:
        """What a checkpoint can hold of it."""
        return {path for path, state in self.files.items() if state[0] != "special"}


class Walk:
    """The worktree, what was saved of it, and the steps that were taken."""

    def __init__(self) -> None:
        self.top = Path(tempfile.mkdtemp())
        self.steps: list[Step] = []
        self._run("init", "-q", "-b", "main")
        (self.top / "a").write_bytes(b"1\n")
        (self.top / "d").mkdir()
        (self.top / "d/a").write_bytes(b"2\n")
        self._run("add", "-A")
        self._run("commit", "-qm", "first")
        self._run("branch", "other")
        self.manager = CheckpointManager(self.top)
        self.seen: dict[str, Look] = {}
        # Whether the rollback before which a checkpoint was taken moved HEAD.
        self.with_head: dict[str, bool] = {}

    def take(self, *step: object) -> None:
        """Do one step: the name of a method below, and its arguments."""
        self.steps.append(step)
        word, *arguments = step
        getattr(self, f"_do_{word}")(*arguments)
        self._check_litter()

    def end(self) -> None:
        self.manager.close()
        assert fsck(self.top) == []
        shutil.rmtree(self.top)

    def _run(self, *words: str) -> None:
        """Git may refuse, or stop half way: what matters is the state it leaves."""
        subprocess.run(
            ["git", *words], cwd=self.top, capture_output=True, env={**os.environ, **_NO_EDITOR}
        )

    # -- a person at work -------------------------------------------------------------

    def _do_write(self, name: str, data: bytes, mode: int = 0o644) -> None:
        path = self.top / name
        if self._is_behind(path) or (path.is_dir() and not path.is_symlink()):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_fifo():
            path.unlink()
        path.write_bytes(data)
        path.chmod(mode)

    def _do_remove(self, name: str) -> None:
        path = self.top / name
        if self._is_behind(path):
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()

    def _do_sneak(self, name: str) -> None:
        """Other bytes of the same length, and the time that the file had before."""
        path = self.top / name
        if path.is_file() and not path.is_symlink() and not self._is_behind(path):
            status, data = path.stat(), path.read_bytes()
            with open(path, "r+b") as file:
                file.write(bytes(byte ^ 1 for byte in data))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _do_replace(self, name: str) -> None:
        """The same by way of a new file that takes the old one's place."""
        path = self.top / name
        if path.is_file() and not path.is_symlink() and not self._is_behind(path):
            status, data = path.stat(), path.read_bytes()
            fresh = path.with_name("fresh")
            fresh.write_bytes(bytes(byte ^ 2 for byte in data))
            fresh.chmod(status.st_mode & 0o777)
            os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
            fresh.replace(path)

    def _do_link(self, name: str, to: str) -> None:
        path = self.top / name
        if name.startswith(".git"):  # git fsck warns of a link by that name
            return
        if path.parent.is_dir() and not self._is_behind(path) and not os.path.lexists(path):
            path.symlink_to(to)

    def _do_folder(self, name: str, mode: int = 0o755) -> None:
        path = self.top / name
        if not self._is_behind(path) and (path.is_dir() or not os.path.lexists(path)):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)

    def _do_chmod(self, name: str, mode: int) -> None:
        path = self.top / name
        if path.is_file() and not path.is_symlink() and not self._is_behind(path):
            path.chmod(mode)

    def _do_rename(self, name: str, to: str) -> None:
        old, new = self.top / name, self.top / to
        if self._is_behind(old) or self._is_behind(new) or os.path.lexists(new):
            return
        if os.path.lexists(old) and new.parent.is_dir() and old not in new.parents:
            old.rename(new)

    def _do_fifo(self, name: str) -> None:
        path = self.top / name
        if path.parent.is_dir() and not self._is_behind(path) and not os.path.lexists(path):
            os.mkfifo(path)

    def _do_exclude(self, text: str) -> None:
        (self.top / ".git/info").mkdir(exist_ok=True)
        (self.top / ".git/info/exclude").write_text(text)

    def _do_nested(self) -> None:
        """A repository of its own, which is nobody's business but its owner's."""
        path = self.top / os.fsdecode(NESTED)
        if not os.path.lexists(path):
            path.mkdir()
            (path / "inside").write_text("mine\n")
            git("init", "-q", cwd=path)

    def _do_git(self, *words: str) -> None:
        self._run(*words)

    def _is_behind(self, path: Path) -> bool:
        """Whether something other than a folder stands above a path."""
        above = [parent for parent in path.parents if self.top in parent.parents]
        return any(p.is_symlink() or (os.path.lexists(p) and not p.is_dir()) for p in above)

    # -- ckpt --------------------------------------------------------------------------

    def _do_save(self) -> None:
        before = self.look()
        result = self.manager.create()
        assert result.checkpoint is not None
        assert self.look() == before
        self.seen[result.checkpoint.id] = before
        if "CKPT_FUZZ_EXAMPLES" in os.environ:  # test_cache_hides_nothing does so each time
            self._compare_without_cache(result.checkpoint)

    def _compare_without_cache(self, saved: Checkpoint) -> None:
        """The same state, saved by someone who knows nothing, is the same checkpoint."""
        with knowing_nothing(self.top), CheckpointManager(self.top) as stranger:
            again = stranger.create(kind="auto")
        assert again.checkpoint is not None
        assert again.checkpoint.id == saved.id, self._difference(saved, again.checkpoint)

    def _difference(self, one: Checkpoint, other: Checkpoint) -> str:
        commits = (one.commit, other.commit), (one.state_commit, other.state_commit)
        return "\n".join(git("diff", *pair, cwd=self.top) for pair in commits)

    def _do_rollback(self, number: int, head: bool) -> None:
        if not self.seen:
            return
        chosen = sorted(self.seen)[number % len(self.seen)]
        now = self.look()
        try:
            result = self.manager.rollback(chosen, head=head, yes=True)
        except Refused:
            assert self.look() == now
            return
        self._compare(self.seen[chosen], now, result, head)
        self._remember(result, now, head)

    def _do_undo(self) -> None:
        now = self.look()
        try:
            result = self.manager.undo(yes=True)
        except (NotFound, Refused):
            assert self.look() == now
            return
        head = self.with_head[result.target.id]
        self._compare(self.seen[result.target.id], now, result, head)
        self._remember(result, now, head)

    def _remember(self, result: RollbackResult, before: Look, head: bool) -> None:
        if result.safety is not None:
            self.with_head[result.safety.id] = head
            self.seen[result.safety.id] = before

    # -- comparing ---------------------------------------------------------------------

    def look(self) -> Look:
        files = {
            path: state
            for path, state in tree_state(self.top).items()
            if not is_below(path, [NESTED])
        }
        exclude = self.top / ".git/info/exclude"
        return Look(
            files=files,
            folders=dict(self._folders()),
            ignored=frozenset(self._ignored()),
            index=staged(self.top),
            status=self._status(),
            status_of_ignored=self._status("--ignored"),
            head=(git("rev-parse", "HEAD", cwd=self.top), (self.top / ".git/HEAD").read_text()),
            operation=self._operation(),
            rules=(
                exclude.read_text() if exclude.exists() else "",
                (self.top / ".git/config").read_text(),
            ),
        )

    def _folders(self) -> Iterable[tuple[bytes, int]]:
        top = os.fsencode(self.top)
        for folder, names, _ in os.walk(top):
            names[:] = [name for name in names if name not in (b".git", NESTED)]
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    yield os.path.relpath(path, top), os.stat(path).st_mode & 0o777

    def _status(self, *words: str) -> str:
        git("status", cwd=self.top)
        told = status_by_content(self.top, "--branch", *words)
        nested = os.fsdecode(NESTED)
        return told.replace(f"? {nested}/\0", "").replace(f"! {nested}/\0", "")

    def _ignored(self) -> Iterable[bytes]:
        listed = git("ls-files", "-z", "--others", "--ignored", "--exclude-standard", cwd=self.top)
        yield from (os.fsencode(path) for path in listed.split("\0") if path)
        folders = dict(self._folders())
        if folders:
            asked = b"".join(path + b"/\0" for path in folders)
            told = subprocess.run(
                ["git", "check-ignore", "-z", "--stdin", "--no-index"],
                cwd=self.top,
                input=asked,
                capture_output=True,
            )
            yield from (path.rstrip(b"/") for path in told.stdout.split(b"\0") if path)

    def _operation(self) -> dict[str, bytes]:
        git_dir = self.top / ".git"
        files = [path for path in git_dir.iterdir() if path.name.isupper() and "_" in path.name]
        for folder in _OPERATION_FOLDERS:
            files += (git_dir / folder).glob("**/*")
        return {
            str(path.relative_to(git_dir)): path.read_bytes()
            for path in files
            if path.is_file() and path.name not in _NO_OPERATION
        }

    def _compare(self, then: Look, before: Look, result: RollbackResult, head: bool) -> None:
        now = self.look()
        left = {os.fsencode(item.path) for item in (*result.skipped, *result.kept)}
        self._compare_files(then, before, now, left)
        if result.skipped:
            return
        assert now.index == then.index
        if head:
            assert now.head == then.head
            assert now.operation == then.operation
        # What was ignored is not held, so it stays, and may not be ignored any more.
        strangers = {path for path in now.files if path not in then.held}
        strangers -= now.ignored
        # Such a file may ignore itself, and then decides about others without being held.
        rules = [look.files.get(path) for path in RULE_FILES for look in (then, now)]
        strangers |= {b".gitignore"} if rules[::2] != rules[1::2] else set()
        if now.head == then.head and now.rules == then.rules and not left | strangers:
            assert now.status == then.status
            if now.files.keys() == then.files.keys():
                assert now.status_of_ignored == then.status_of_ignored

    def _compare_files(self, then: Look, before: Look, now: Look, left: set[bytes]) -> None:
        for path, state in then.files.items():
            if path in then.ignored or is_below(path, left):
                continue
            if state[0] == "folder" and path not in now.files and path in now.folders:
                continue  # no longer empty: something ignored is kept in it
            if state[0] == "folder" and path in before.ignored:
                continue
            if state[0] not in ("file", "link", "folder"):
                continue  # special files are noted, not restored
            assert now.files.get(path) == state, path
        held = {path for path in then.held if path not in then.ignored and now.files.get(path)}
        for folder in {os.path.dirname(path) for path in held} - {b""}:
            unknown = is_below(folder, left) or folder in then.ignored | before.ignored
            if not unknown:
                assert now.folders.get(folder) == then.folders[folder], folder
        for path, state in now.files.items():
            if path in then.files or is_below(path, left) or state[0] == "folder":
                continue
            assert path in before.ignored | then.ignored or state[0] not in ("file", "link"), path

    def _check_litter(self) -> None:
        private = self.top / ".git/ckpt"
        assert set(os.listdir(private) if private.is_dir() else []) <= PRIVATE
        assert not [
            name for _, _, names in os.walk(self.top) for name in names if ".ckpt-tmp-" in name
        ]
        nested = self.top / os.fsdecode(NESTED)
        if ("nested",) in self.steps and (nested / ".git").is_dir():
            assert (nested / "inside").read_text() == "mine\n"


def is_below(path: bytes, tops: Iterable[bytes]) -> bool:
    return any(path == top or path.startswith(top + b"/") for top in tops)
