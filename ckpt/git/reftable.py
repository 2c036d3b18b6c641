# SPDX-License-Identifier: MIT
"""Refs of a repository that keeps them in reftables: read and written by the git binary.

dulwich reads the first block of a table only, and writes without git's lock, which destroys the
stack. Where git is not installed, such a repository is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ckpt.errors import Busy, CkptError, Refused
from ckpt.git.formats import ObjectID
from ckpt.git.refs import (
    IDENTITY,
    SYMREF,
    CheckpointRefs,
    Head,
    HeadMoved,
    PackedRefs,
    Refs,
    branch_moved,
    is_ref_name,
    is_shared,
)
from ckpt.paths import to_str

_FORMAT = "--format=%(objectname) %(symref) %(refname)"


class ReftableRefs(Refs):
    """Each look asks git anew: another process may have changed them."""

    def _git(self, *words: str, text: bytes = b"") -> tuple[int, bytes, str]:
        """Exit status, output and last error of a git command that runs no hook."""
        import subprocess

        name, _, email = IDENTITY.decode().rpartition(" ")
        settings = ("core.hooksPath=/dev/null", f"user.name={name}", f"user.email={email[1:-1]}")
        options = (word for setting in settings for word in ("-c", setting))
        words = ("git", f"--git-dir={self.git_dir}", *options, *words)
        try:
            done = subprocess.run(words, input=text, capture_output=True)
        except FileNotFoundError:
            raise Refused(
                "this repository keeps its refs in reftables, which only git can read and write",
                hint="install git 2.45 or later; or, where it is: "
                "git refs migrate --ref-format=files",
            ) from None
        told = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return done.returncode, done.stdout, told

    def _must(self, *words: str) -> bytes:
        status, printed, told = self._git(*words)
        if status:
            raise CkptError(
                f"git cannot use the refs of '{self.common_dir}': {told}",
                hint="git refs verify; reftables need git 2.45 or later",
            )
        return printed

    def _update(self, lines: Iterable[bytes], message: str = "ckpt") -> bool:
        """Change refs in one transaction; False, and nothing done, if any has moved."""
        text = b"".join(line + b"\n" for line in lines)
        status, _, told = self._git("update-ref", "--stdin", "-m", message, text=text)
        if status and "expected" not in told and "already exists" not in told:
            raise Busy(f"git cannot change refs: {told}", hint="try again")
        return status == 0

    # -- reading -------------------------------------------------------------------

    def _listed(self, *patterns: str) -> dict[bytes, bytes]:
        """Full name to contents of refs, in git's order."""
        found = {}
        for line in self._must("for-each-ref", _FORMAT, *patterns).splitlines():
            value, target, name = line.split(b" ", 2)
            found[name] = SYMREF + target if target else value
        return found

    def _contents(self, ref: bytes) -> bytes:
        if ref == b"HEAD":
            status, printed, _ = self._git("symbolic-ref", "-q", "HEAD")
            if not status:
                return SYMREF + printed.strip()
            return self._must("rev-parse", "--verify", "HEAD").strip()
        return self._listed(os.fsdecode(ref)).get(ref, b"") if is_ref_name(ref) else b""

    def _loose(self, prefix: str) -> dict[str, bytes]:
        found = self._listed(prefix.rstrip("/")).items()
        return {
            os.fsdecode(name)[len(prefix) :]: contents
            for name, contents in found
            if is_shared(name) and name.startswith(prefix.encode())
        }

    def _packed(self) -> PackedRefs:
        return PackedRefs(b"", self._hex_length)

    def own(self) -> set[ObjectID]:
        found = {name: self.named_by(value) for name, value in self._listed().items()}
        return {value for name, value in found.items() if value and not is_shared(name)}

    def listed_checkpoints(self) -> CheckpointRefs:
        found = self.checkpoints()
        return CheckpointRefs(found.keys(), found.get)

    def broken_branch(self) -> None:
        return None

    # -- writing -------------------------------------------------------------------

    def check_writable(self) -> None:
        self._contents(b"HEAD")

    def create(self, ref: bytes, target: ObjectID) -> bool:
        return self._update([b"create %s %s" % (ref, target)])

    def replace(self, ref: bytes, old: ObjectID, new: ObjectID) -> bool:
        return self._update([b"update %s %s %s" % (ref, new, old)])

    def move_all(self, moved: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        now = self._listed(*(os.fsdecode(ref) for ref in moved)) if moved else {}
        done = {ref: name for ref, (value, name) in moved.items() if now.get(ref) == value}
        lines = [b"update %s %s" % (name, now[ref]) for ref, name in done.items() if name]
        lines += [b"delete %s %s" % (ref, now[ref]) for ref in done]
        return {*done} if self._update(lines) else set()

    def mend(self, ref: bytes, contents: bytes, value: ObjectID | None) -> bool:
        old = contents.strip()
        if value is None:
            return self._update([b"delete %s %s" % (ref, old)])
        return self._update([b"update %s %s %s" % (ref, value, old)])

    def pack(self, prefixes: Sequence[str], at_least: int = 1) -> int:
        return 0  # git compacts its tables by itself

    def clear_dead_locks(self) -> None:
        """Git's tables have no locks of ours."""

    def obstacle_to(self, branch: bytes) -> str | None:
        if self._contents(branch).startswith(SYMREF):
            return "it is a symbolic ref"
        return super().obstacle_to(branch)

    def move_branch(
        self, branch: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        self.check_branch(branch)
        zero = b"0" * self._hex_length
        line = b"update %s %s %s" % (branch, new or zero, old or zero)
        if old != new and not self._update([line], os.fsdecode(message)):
            raise branch_moved(branch)

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        if self.head() not in (old, head):
            raise HeadMoved
        if head.branch is not None:
            self.check_branch(head.branch)
            self._must("symbolic-ref", "-m", os.fsdecode(message), "HEAD", to_str(head.branch))
        else:
            words = ("update-ref", "--no-deref", "-m", os.fsdecode(message), "HEAD")
            self._must(*words, (head.commit or b"").decode())

    def files_of(self, branches: Iterable[bytes], *, removes: bool) -> list[str]:
        return []
