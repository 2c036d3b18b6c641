# SPDX-License-Identifier: MIT
"""Worktrees with everything in them that a checkpoint must bring back.

A project of a few hundred files, the work of someone in the middle of something, and
the accident that takes it away; and what there is to compare before and after.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from helpers import Place, git, status, tree_state

# Names that break programs which quote, split, decode or match them carelessly.
ODD_NAMES = (
    b"as if (deleted)",  # how /proc names a file that is gone
    b" leading and trailing ",
    b"-rf",
    b"--head",
    b"two\nlines",
    b"tab\there",
    b'double "quotes"',
    b"it's",
    b"back\\slash",
    b"[a-z]*?.txt",
    b":(top)x",
    b"#comment",
    b"!negated",
    b"percent%41",
    "naïve Ünïcøde".encode(),
    "日本語 🙂".encode(),
    b"latin1-caf\xe9",
    b"\xff\xfe",
    b"\x01\x1b[31m",
    b"a" * 200,
)

# What git itself calls the flags of an index entry that belong to its content.
_INDEX_FLAGS = 0x8000 | 0x3000 | 1 << 29 | 1 << 30


@dataclass(frozen=True)
class State:
    """All that a user can see of a worktree; `status` tells of HEAD and its branch too."""

    files: dict[bytes, tuple[str, int, bytes]]
    status: str
    index: list[tuple[str, int]]


def state(top: Place) -> State:
    return State(tree_state(top), status(top), staged(top))


def staged(top: Place) -> list[tuple[str, int]]:
    """Every entry of the index, with its flags and without its stat data."""
    listing = git("ls-files", "--stage", "--debug", "-z", cwd=top)
    entries = re.findall(r"(\d{6} [0-9a-f]+ \d\t[^\0]*)\0.*?flags: ([0-9a-f]+)\n", listing, re.S)
    assert listing.count("flags: ") == len(entries)
    return [(entry, int(flags, 16) & _INDEX_FLAGS) for entry, flags in entries]


def write(top: Place, path: bytes | str, content: bytes | str = b"", mode: int = 0o644) -> None:
    """Put a file somewhere, whatever is there or in its way."""
    full = _make_room(top, path)
    with open(full, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    os.chmod(full, mode)


def link(top: Place, path: bytes | str, target: bytes | str) -> None:
    os.symlink(os.fsencode(target), _make_room(top, path))


def hollow(top: Place, path: bytes | str) -> None:
    """Put an empty folder somewhere."""
    os.mkdir(_make_room(top, path))


def remove(top: Place, path: bytes | str) -> None:
    full = os.path.join(os.fsencode(top), os.fsencode(path))
    if os.path.isdir(full) and not os.path.islink(full):
        shutil.rmtree(full)
    elif os.path.lexists(full):
        os.unlink(full)


def _make_room(top: Place, path: bytes | str) -> bytes:
    remove(top, path)
    folder = os.fsencode(top)
    *parents, name = os.fsencode(path).split(b"/")
    for parent in parents:
        folder = os.path.join(folder, parent)
        if os.path.islink(folder) or os.path.isfile(folder):
            os.unlink(folder)
        os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)


def unprivileged() -> list[str]:
    """What to run a program under so that permission bits count, also for root."""
    if os.geteuid() != 0:
        return []
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]


def project(top: Path) -> Path:
    """A project of some size with one commit, and its folder as the top of a worktree."""
    top.mkdir()
    git("init", "-q", cwd=top)
    for package in range(12):
        for module in range(18):
            code = "".join(f"def f{line}():\n    return {line * module}\n" for line in range(20))
            write(top, f"src/p{package}/m{module}.py", code)
    for number in range(20):
        write(top, f"docs/part {number}/text.md", f"# Part {number}\n" * 5)
        write(top, f"assets/{number}.bin", bytes(range(256)) * (number + 1))
        write(top, f"bin/tool{number}", f"#!/bin/sh\necho {number}\n", 0o755)
    for name in creatable(top, ODD_NAMES):
        write(top, b"odd/" + name, b"tracked " + name)
    for name in ("to-file", "to-folder", "to-nothing", "to-edit"):
        link(top, f"links/{name}", {"to-file": "../README", "to-folder": "../src"}.get(name, "no"))
    write(top, "README", "read me\n")
    write(top, "empty")
    write(top, "no newline at end", "x")
    write(top, "crlf.txt", "one\r\ntwo\r\n")
    write(top, "private", "tracked secret\n", 0o600)
    write(top, "read-only", "tracked\n", 0o444)
    write(top, ".gitignore", "*.log\n/build/\n*.tmp\n!keep.tmp\n")
    write(top, "src/.gitignore", "/generated/\n")
    write(top, "tracked.log", "tracked although ignored\n")
    git("add", "--all", cwd=top)
    git("add", "--force", "tracked.log", cwd=top)
    git("commit", "-q", "-m", "project", cwd=top)
    write(top, "out.log", "ignored\n")
    write(top, "build/out", "ignored\n")
    write(top, "src/generated/code.py", "ignored\n")
    return top


def work(top: Path) -> None:
    """Someone's afternoon: every kind of change, staged, not staged, and both."""
    write(top, "src/p0/m0.py", "staged\n")
    write(top, "src/p0/staged new.py", "staged\n")
    write(top, "src/p0/staged and gone.py", "staged\n")
    git("add", "src/p0", cwd=top)
    write(top, "src/p0/m0.py", "staged\nand edited after that\n")
    write(top, "src/p0/m1.py", "not staged\n")
    remove(top, "src/p0/staged and gone.py")
    git("mv", "src/p1/m0.py", "src/p1/renamed.py", cwd=top)
    os.rename(top / "src/p1/m1.py", top / "src/p1/moved by hand.py")
    git("mv", "src/p2", "src/q2", cwd=top)
    git("rm", "-q", "src/p3/m0.py", cwd=top)
    git("rm", "-q", "--cached", "src/p3/m1.py", cwd=top)
    remove(top, "src/p3/m2.py")
    remove(top, "src/p4")
    write(top, "src/p5/intended.py", "new\n")
    git("add", "--intent-to-add", "src/p5/intended.py", cwd=top)
    _odd_work(top)
    _modes_and_types(top)
    git("update-index", "--assume-unchanged", "src/p6/m0.py", "src/p6/m1.py", cwd=top)
    write(top, "src/p6/m1.py", "edited behind git's back\n")
    git("update-index", "--skip-worktree", "src/p6/m2.py", "src/p6/m3.py", cwd=top)
    write(top, "src/p6/m2.py", "edited behind git's back\n")
    remove(top, "src/p6/m3.py")
    write(top, "tracked.log", "edited\n")


def _odd_work(top: Path) -> None:
    names = list(creatable(top, ODD_NAMES))
    for number, name in enumerate(names):
        write(top, b"odd new/" + name, b"untracked " + name)
        write(top, b"odd new/inside " + name + b"/file", b"deep")
        if number % 3 == 0:
            write(top, b"odd/" + name, b"edited " + name)
        elif number % 3 == 1:
            remove(top, b"odd/" + name)


def _modes_and_types(top: Path) -> None:
    (top / "bin/tool0").chmod(0o644)
    (top / "src/p7/m0.py").chmod(0o755)
    (top / "src/p7/m1.py").chmod(0o640)
    (top / "private").chmod(0o400)
    write(top, "untracked/private", "untracked secret\n", 0o600)
    write(top, "untracked/all", "for everyone\n", 0o777)
    write(top, "untracked/empty")
    link(top, "untracked/link", "../README")
    link(top, "untracked/dangling", b"nowhere/\xff")
    link(top, "untracked/folder", "../src")
    link(top, "links/to-edit", "somewhere else")
    hollow(top, "hollow/inner")
    hollow(top, "src/p8/hollow")
    link(top, "src/p9/m0.py", "m1.py")
    write(top, "src/p9/m2.py/inside", "a folder now\n")
    write(top, "docs/part 0", "a file now\n")
    link(top, "docs/part 1", "part 2")
    write(top, "links/to-folder", "a file now\n")
    write(top, "links/to-file/inside", "a folder now\n")
    write(top, "untracked/keep.tmp", "not ignored\n")


def accident(top: Path) -> None:
    """Everything at once: git's two destroyers, then `rm` and worse."""
    git("reset", "-q", "--hard", cwd=top)
    git("clean", "-q", "-f", "-d", cwd=top)
    remove(top, "src/p0")
    remove(top, "src/p10")
    remove(top, "docs")
    write(top, "assets", "was a folder\n")
    link(top, "bin", "src")
    write(top, "README/inside", "was a file\n")
    write(top, "links/to-file", "was a link\n")
    link(top, "private", "README/inside")
    write(top, "src/p5/m0.py", "broken\n", 0o755)
    write(top, "untracked/all/of/it", "elsewhere\n")
    write(top, "stray", "new\n", 0o600)
    write(top, "src/p11/stray.py", "new\n")
    hollow(top, "src/p11/stray folder")
    git("add", "src/p11/stray.py", "README", cwd=top)


def example(top: Path) -> None:
    """A few files of different kinds, committed."""
    (top / "src").mkdir()
    (top / "README.md").write_text("# An example\n")
    (top / "src/app.py").write_text("print('hello')\n")
    (top / "src/data.bin").write_bytes(bytes(range(256)))
    (top / "run.sh").write_text("#!/bin/sh\nexec python3 src/app.py\n")
    (top / "run.sh").chmod(0o755)
    (top / "current").symlink_to("src/app.py")
    (top / ".gitignore").write_text("*.log\nbuild/\n")
    git("init", "-q", cwd=top)
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)


def divide(top: Path, branch: str) -> None:
    """Change one file on a new branch and on main, which is checked out: they cannot be merged."""
    git("checkout", "-q", "-b", branch, cwd=top)
    write(top, "README.md", "theirs\n")
    git("commit", "-q", "-a", "-m", "theirs", cwd=top)
    git("checkout", "-q", "main", cwd=top)
    write(top, "README.md", "ours\n")
    git("commit", "-q", "-a", "-m", "ours", cwd=top)


def creatable(top: Path, names: tuple[bytes, ...]) -> list[bytes]:
    """Those of `names` that this file system takes; some insist on UTF-8."""
    made = []
    for name in names:
        probe = os.path.join(os.fsencode(top), b".git", name)
        try:
            os.mkdir(probe)
        except OSError as error:
            assert error.errno == errno.EILSEQ
            continue
        os.rmdir(probe)
        made.append(name)
    return made
