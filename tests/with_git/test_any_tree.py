# SPDX-License-Identifier: MIT
"""Names of any bytes, changes of type in every direction, and what is no file at all."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from helpers import ckpt_here, git, status, tree_state
from scenes import creatable, hollow, link, remove, state, write

LONGEST_NAMES = (b"n" * 255, b"\xff" * 255, ("\u00e4" * 127 + "x").encode())
NAMES = (
    *(b"new\nline", b"\n", b"'", b'"', b"`x`", b"$(x)", b"-", b"--", b"-n", b" ", b"x ", b" x"),
    *(
        b"*",
        b"?",
        b"[",
        b"[!a]",
        b"\\",
        b"a\\b",
        b"a\\",
        b"{a,b}",
        b"~",
        b":x",
        b":!x",
        b"!x",
        b"#x",
    ),
    *(b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\x7f", b"\x01", b"\t", b"caf\xe9", b"...", b".x."),
    *(b"CON", b"a:b", b"@", b"x.lock", b".ckpt-tmp-", b".ckpt-tmp-0123456789"),
    *LONGEST_NAMES,
)
KINDS: dict[str, Callable[[Path, str], None]] = {
    "file": lambda top, path: write(top, path, "a file\n", 0o640),
    "folder": lambda top, path: write(top, f"{path}/inside", "in a folder\n"),
    "empty folder": lambda top, path: hollow(top, path),
    "link": lambda top, path: link(top, path, "target"),
    "link to a folder": lambda top, path: link(top, path, "elsewhere"),
}
HOW = ["untracked", "staged", "committed", "then staged"]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git("init", "-q", cwd=made)
    write(made, "target", "untouched\n")
    write(made, "elsewhere/inside", "untouched\n")
    git("add", "--all", cwd=made)
    git("commit", "-q", "-m", "start", cwd=made)
    return made


def comes_back(top: Path, change: Callable[[], object]) -> None:
    """Save, change, roll back, undo: each state exactly as it was."""
    before = state(top)
    ckpt_here("save", "it", cwd=top, code=0)
    change()
    after = state(top)
    ckpt_here("rollback", "it", "--yes", cwd=top, code=0)
    assert state(top) == before
    ckpt_here("undo", "--yes", cwd=top, code=0)
    assert state(top) == after


@pytest.mark.parametrize("name", NAMES, ids=[repr(name[:20])[2:-1] for name in NAMES])
def test_a_name_of_any_bytes(top: Path, name: bytes) -> None:
    if not creatable(top, (name,)):
        pytest.skip("this file system takes only UTF-8 names")
    write(top, name, "a file\n", 0o600)
    write(top, b"folder/" + name + b"/" + name, "below\n")
    link(top, b"links/" + name, name)
    hollow(top, b"hollow/" + name)

    def lose() -> None:
        for path in (name, b"folder", b"links", b"hollow"):
            remove(top, path)

    comes_back(top, lose)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("before", "after"), [*permutations(KINDS, 2)])
def test_whatever_becomes_of_a_path(top: Path, before: str, after: str, how: str) -> None:
    KINDS[before](top, "path")
    if how != "untracked":
        git("add", "--all", cwd=top)
    if how == "committed":
        git("commit", "-q", "--allow-empty", "-m", "path", cwd=top)

    def become() -> None:
        remove(top, "path")
        KINDS[after](top, "path")
        if how == "then staged":
            git("add", "--all", cwd=top)

    comes_back(top, become)
    assert (top / "elsewhere/inside").read_text() == "untouched\n"


def special_files(top: Path) -> list[str]:
    """One of each sort that may be made here."""
    os.mkfifo(top / "pipe", 0o600)
    write(top, "with pipe/file", "beside it\n")
    os.mkfifo(top / "with pipe/pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(top)  # the name of a socket must be short
        try:
            bound.bind("socket")
        finally:
            os.chdir(here)
    made = ["pipe", "socket", "with pipe/pipe"]
    if os.geteuid() == 0:
        try:
            os.mknod(top / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            made.append("device")
        except PermissionError:
            pass
    return sorted(made)


def test_what_is_no_file_is_listed_and_left(top: Path) -> None:
    ckpt_here("save", "before", cwd=top, code=0)
    made = special_files(top)
    saved = ckpt_here("save", "it", "--json", cwd=top, code=0).json["checkpoint"]
    assert saved["skipped"] == [{"path": path, "reason": "special"} for path in made]
    assert saved["partial"] is False

    write(top, "with pipe/file", "edited\n")
    ckpt_here("rollback", "it", cwd=top, code=0)
    assert (top / "with pipe/file").read_text() == "beside it\n"
    ckpt_here("rollback", "before", "--yes", cwd=top, code=0)

    found = {os.fsdecode(path) for path, entry in tree_state(top).items() if entry[0] == "special"}
    assert found == set(made)
    assert not (top / "with pipe/file").exists()


def test_hard_links_come_back_as_files_of_their_own(top: Path) -> None:
    write(top, "one", "content\n")
    os.link(top / "one", top / "two")
    before = tree_state(top)
    ckpt_here("save", "it", cwd=top, code=0)

    write(top, "one", "edited\n")
    (top / "two").unlink()
    ckpt_here("rollback", "it", cwd=top, code=0)

    assert tree_state(top) == before
    assert (top / "one").stat().st_ino != (top / "two").stat().st_ino


def test_a_hard_link_elsewhere_keeps_its_content(top: Path, tmp_path: Path) -> None:
    write(top, "one", "content\n")
    ckpt_here("save", "it", cwd=top, code=0)
    write(top, "one", "edited\n")
    os.link(top / "one", tmp_path / "outside")

    ckpt_here("rollback", "it", cwd=top, code=0)

    assert (top / "one").read_text() == "content\n"
    assert (tmp_path / "outside").read_text() == "edited\n"


def test_a_link_to_a_folder_outside_is_never_followed(top: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    write(tmp_path / "outside", "file", "precious\n")
    write(top, "folder/file", "ours\n")
    write(top, "folder/made since", "ours\n")
    ckpt_here("save", "it", cwd=top, code=0)
    remove(top, "folder")
    link(top, "folder", tmp_path / "outside")
    assert status(top)

    ckpt_here("rollback", "it", cwd=top, code=0)

    assert (top / "folder/file").read_text() == "ours\n"
    assert os.listdir(tmp_path / "outside") == ["file"]
    assert (tmp_path / "outside/file").read_text() == "precious\n"
