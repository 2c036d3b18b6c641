# SPDX-License-Identifier: MIT
"""Makes checkpoints that nobody should trust, byte by byte.

Neither ckpt nor git would write most of these objects, so they are put into the object store
as files, with nothing checked. A forged checkpoint begins as a copy of a real one, of which
any part can be another.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from helpers import git

Entry = tuple[bytes | str, bytes, str]  # mode, name, object

ID = "20991231-235959-999-zzzz"
NULL = "0" * 40


class Forge:
    """Writes into one repository, as whoever holds its objects could. `id` is the checkpoint's
    that is made next."""

    def __init__(self, top: Path, like: str) -> None:
        """`like` is the real checkpoint that others are made after."""
        self.top = top
        self.git_dir = top / ".git"
        self.like = like
        self.id = ID
        raw = git("cat-file", "commit", f"refs/checkpoints/{like}", cwd=top)
        header, _, self.message = raw.partition("\n\n")
        lines = header.split("\n")
        self.tree_id = lines[0].removeprefix("tree ")
        self.parents = [line[7:] for line in lines if line.startswith("parent ")]
        self.stamp = next(line[10:] for line in lines if line.startswith("committer "))
        self.state_id = self.parents[-1]
        self.state_tree = git("rev-parse", f"{self.state_id}^{{tree}}", cwd=top).strip()

    # -- objects -----------------------------------------------------------------------

    def object(self, kind: str, data: bytes) -> str:
        """A sound object of any content."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        name = hashlib.sha1(whole).hexdigest()
        self.put(name, zlib.compress(whole))
        return name

    def put(self, name: str, file: bytes) -> str:
        """An object's file, whatever is in it."""
        path = self.git_dir / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(file)
        return name

    def blob(self, data: bytes = b"hostile\n") -> str:
        return self.object("blob", data)

    def tree(self, *entries: Entry) -> str:
        """The entries as they are given, in that order."""
        return self.object("tree", b"".join(map(_packed, entries)))

    def chain(self, names: Iterable[bytes], inner: str) -> str:
        """Folders within folders, the last name innermost."""
        for name in reversed([*names]):
            inner = self.tree(("40000", name, inner))
        return inner

    def entries(self, tree: str) -> list[Entry]:
        lines = git("ls-tree", "-z", tree, cwd=self.top).split("\0")
        found = []
        for line in filter(None, lines):
            words, _, name = line.partition("\t")
            mode, _, child = words.split(" ")
            found.append((mode.lstrip("0"), os.fsencode(name), child))
        return found

    # -- checkpoints -------------------------------------------------------------------

    def state(self, parents: Iterable[str] = (), **parts: tuple[str, str] | None) -> str:
        """A state commit like the real one's; `parts` are (mode, object) by name, whose dots
        are written as two underscores, and None for one that is not there."""
        entries = {name: (mode, child) for mode, name, child in self.entries(self.state_tree)}
        for key, part in parts.items():
            name = key.replace("__", ".").replace("_", "-").encode()
            if part is None:
                entries.pop(name, None)
            else:
                entries[name] = part
        rows = sorted(
            ((mode, name, child) for name, (mode, child) in entries.items()),
            key=lambda row: row[1] + b"/" * (str(row[0]) == "40000"),
        )
        return self.commit(self.tree(*rows), parents, "forged state\n")

    def commit(self, tree: str, parents: Iterable[str], message: str | bytes) -> str:
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {self.stamp}", f"committer {self.stamp}"]
        text = message if isinstance(message, bytes) else message.encode("utf-8", "surrogateescape")
        return self.object("commit", "\n".join(lines).encode() + b"\n\n" + text)

    def checkpoint(
        self,
        tree: str | None = None,
        state: str | None = None,
        *,
        changes: Iterable[tuple[str, str]] = (),
        parents: Iterable[str] | None = None,
    ) -> None:
        """A commit like the real one's, in the ref of an id; `changes` are made to its message."""
        state = state or self.state_id
        message = self.message.replace(self.like, self.id).replace(self.state_id, state)
        for old, new in changes:
            assert old in message, (old, message)
            message = message.replace(old, new)
        above = [*self.parents[:-1], state] if parents is None else parents
        self.ref(self.commit(tree or self.tree_id, above, message))

    def ref(self, target: str) -> None:
        """Have the ref say anything."""
        path = self.git_dir / "refs/checkpoints" / self.id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(target + "\n")


def _packed(entry: Entry) -> bytes:
    mode, name, child = entry
    return b"%s %s\0" % (mode.encode() if isinstance(mode, str) else mode, name) + bytes.fromhex(
        child
    )
