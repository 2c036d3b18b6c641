# SPDX-License-Identifier: MIT
"""Random edits and git commands, saves, rollbacks and undos, against real git.

After each rollback every path that the checkpoint holds is compared, byte, bits and
link target; what else lies there must have been ignored or left out. With `--head` and
no ignored files about, `git status` must be the same to the letter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from helpers import fsck, git, tree_state
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ckpt.errors import Refused
from ckpt.manager import CheckpointManager

NAMES = st.sampled_from(
    ["a", "b", "d/a", "d/b", "d/e/f", "e", "e/x", "f.log", "d/g.log", "ü é", ".gitignore", "d"]
)
CONTENTS = st.sampled_from([b"", b"1\n", b"2\n", b"1\n2\n", b"\0\xff\n", b"long\n" * 50])
RULES = st.sampled_from(["", "*.log\n", "d/\n", "*\n!a\n", "b\n", "/e\n!*.log\n"])


class WorkingState(RuleBasedStateMachine):
    """A worktree that a careless person works in."""

    @initialize()
    def start(self) -> None:
        self.top = Path(tempfile.mkdtemp())
        self.run("init", "-q", "-b", "main")
        (self.top / "a").write_bytes(b"1\n")
        (self.top / "d").mkdir()
        (self.top / "d/a").write_bytes(b"2\n")
        self.run("add", "-A")
        self.run("commit", "-qm", "first")
        self.run("branch", "other")
        self.manager = CheckpointManager(self.top)
        self.saved: dict[str, dict[str, object]] = {}
        self.states: dict[str, object] = {}

    def run(self, *words: str) -> None:
        """Git may refuse: what matters is the state it leaves."""
        subprocess.run(["git", *words], cwd=self.top, capture_output=True)

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            self.manager.close()
            assert fsck(self.top) == []
            shutil.rmtree(self.top)

    # -- a person at work ------------------------------------------------------------

    @rule(name=NAMES, data=CONTENTS, mode=st.sampled_from([0o644, 0o755, 0o600]))
    def write(self, name: str, data: bytes, mode: int) -> None:
        path = self.top / name
        if any(p.is_symlink() or p.is_file() for p in path.parents if p != self.top):
            return
        if path.is_dir() and not path.is_symlink():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_bytes(data)
        path.chmod(mode)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        path = self.top / name
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)

    @rule(name=NAMES, to=st.sampled_from(["a", "d", "nowhere", "../x"]))
    def link(self, name: str, to: str) -> None:
        path = self.top / name
        if name == ".gitignore":  # git fsck warns of a link by that name
            return
        if not path.parent.is_dir() or path.parent.is_symlink() or os.path.lexists(path):
            return
        path.symlink_to(to)

    @rule(name=NAMES)
    def folder(self, name: str) -> None:
        path = self.top / name
        if not any(p.is_symlink() or p.is_file() for p in [path, *path.parents]):
            path.mkdir(parents=True, exist_ok=True)

    @rule(text=RULES)
    def ignore(self, text: str) -> None:
        path = self.top / ".gitignore"
        if not path.is_dir() and not path.is_symlink():
            path.write_text(text)

    @rule(text=RULES)
    def exclude(self, text: str) -> None:
        (self.top / ".git/info").mkdir(exist_ok=True)
        (self.top / ".git/info/exclude").write_text(text)

    @rule(
        words=st.sampled_from(
            [
                ("add", "-A"),
                ("add", "-f", "f.log"),
                ("add", "-N", "b"),
                ("rm", "--cached", "-rq", "d"),
                ("rm", "-rfq", "d"),
                ("mv", "a", "b"),
                ("commit", "-qam", "more"),
                ("commit", "-q", "--allow-empty", "-m", "none"),
                ("reset", "-q", "--hard"),
                ("reset", "-q"),
                ("clean", "-fdq"),
                ("checkout", "-qf", "other"),
                ("checkout", "-qf", "main"),
                ("checkout", "-qf", "--detach"),
                ("stash", "-u", "-q"),
                ("update-index", "--assume-unchanged", "a"),
                ("update-index", "--no-assume-unchanged", "a"),
                ("gc", "-q", "--prune=now"),
                ("pack-refs", "--all"),
            ]
        )
    )
    def git(self, words: tuple[str, ...]) -> None:
        self.run(*words)

    # -- ckpt ----------------------------------------------------------------------

    @rule()
    def save(self) -> None:
        before = self.look()
        result = self.manager.create()
        assert result.checkpoint is not None
        assert self.look() == before
        self.states[result.checkpoint.id] = before

    @precondition(lambda self: self.states)
    @rule(data=st.data(), head=st.booleans())
    def rollback(self, data: st.DataObject, head: bool) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.states)))
        now = self.look()
        try:
            result = self.manager.rollback(chosen, head=head, yes=True)
        except Refused:
            return
        self.compare(chosen, now, result.skipped, result.kept)
        if result.safety is not None:
            self.states[result.safety.id] = now

    @rule()
    def undo(self) -> None:
        from ckpt.engine import journal

        last = journal.last_rollback(self.manager.repository.private_dir)
        if last is None:
            return
        now = self.look()
        result = self.manager.undo(yes=True)
        if last.safety in self.states:
            self.compare(last.safety, now, result.skipped, result.kept)
        if result.safety is not None:
            self.states[result.safety.id] = now

    # -- comparing -------------------------------------------------------------------

    def look(self) -> dict[str, object]:
        """The worktree, what of it is ignored, and the index."""
        ignored = git("ls-files", "-z", "--others", "--ignored", "--exclude-standard", cwd=self.top)
        files = tree_state(self.top)
        folders = {path for path, state in files.items() if state[0] == "folder"}
        return {
            "files": files,
            "ignored": {os.fsencode(path) for path in ignored.split("\0") if path}
            | {path for path in folders if is_ignored_folder(self.top, path)},
            "index": git("ls-files", "-s", "-v", "-z", cwd=self.top),
            "head": git("rev-parse", "HEAD", cwd=self.top),
        }

    def compare(self, chosen, before, skipped, kept) -> None:
        then, now = self.states[chosen], self.look()
        left = {os.fsencode(item.path) for item in (*skipped, *kept)}
        if not skipped:
            assert now["index"] == then["index"]
        for path, state in then["files"].items():
            if path in then["ignored"] or is_below(path, left):
                continue
            if state[0] == "folder" and (path + b"/") in {p[: len(path) + 1] for p in now["files"]}:
                continue  # no longer empty: something ignored is kept in it
            if state[0] == "folder" and path in before["ignored"]:
                continue
            assert now["files"].get(path) == state, path
        for path, state in now["files"].items():
            if path in then["files"] or is_below(path, left) or state[0] == "folder":
                continue
            assert path in before["ignored"] | then["ignored"], path

    @invariant()
    def no_litter(self) -> None:
        if hasattr(self, "top"):
            private = self.top / ".git/ckpt"
            names = os.listdir(private) if private.is_dir() else []
            assert set(names) <= {"lock", "last-rollback"}
            assert not list(self.top.glob("**/.ckpt-tmp-*"))


def is_below(path: bytes, tops: set[bytes]) -> bool:
    return any(path == top or path.startswith(top + b"/") for top in tops)


def is_ignored_folder(top: Path, path: bytes) -> bool:
    """An empty folder that is ignored now was not walked."""
    words = ["git", "check-ignore", "-q", "--no-index", os.fsdecode(path) + "/"]
    return subprocess.run(words, cwd=top).returncode == 0


TestAnyStateComesBack = WorkingState.TestCase
TestAnyStateComesBack.settings = settings(
    max_examples=int(os.environ.get("CKPT_FUZZ_EXAMPLES", "15")),
    stateful_step_count=25,
    # The same walk each time; CKPT_FUZZ_EXAMPLES=500 goes new ways.
    derandomize="CKPT_FUZZ_EXAMPLES" not in os.environ,
    # Each step starts git: shrinking would take minutes, and the steps are printed anyway.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
