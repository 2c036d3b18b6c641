# SPDX-License-Identifier: MIT
"""Damage a repository anywhere: what `verify` calls whole is so, and what it calls broken, too.

Both by git's word: it must be able to read every file of the one, and `git fsck` has to find
something wrong with the other. Whatever is in the files, nothing but an answer comes out.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ckpt_here, fsck, git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenes import write

Damage = Callable[[bytes, int, int], bytes]

DAMAGES: dict[str, Damage] = {
    "a byte": lambda data, at, value: data[:at] + bytes([data[at] ^ value]) + data[at + 1 :],
    "cut off": lambda data, at, value: data[:at],
    "longer": lambda data, at, value: data + bytes([value]) * (at + 1),
    "zeros": lambda data, at, value: bytes(len(data)),
    "empty": lambda data, at, value: b"",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with objects in files and in packs with deltas, and two checkpoints."""
    return tmp_path_factory.mktemp("whole") / "repo"


def make(top: Path) -> None:
    git("init", "-q", str(top))
    for number in range(3):
        text = "".join(f"line {n}\n" for n in range(number, 300))
        write(top, "long.txt", text)
        write(top, "src/app.py", f"print({number})\n")
        git("add", ".", cwd=top)
        git("commit", "-q", "-m", f"commit {number}", cwd=top)
        if number < 2:
            write(top, "notes/new", f"untracked {number}\n", 0o600)
            ckpt_here("save", f"number-{number}", cwd=top, code=0)
            git("repack", "-q", "-a", "-d", cwd=top)
    write(top, "notes/new", "not packed\n")
    ckpt_here("save", "loose", cwd=top, code=0)


def damaged_copy(whole: Path, pick: int, how: str, at: int, value: int) -> tuple[Path, str]:
    top = whole.with_name("damaged")
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(whole, top, symlinks=True)
    places = ("objects", "refs/checkpoints", "packed-refs")
    files = sorted(
        path
        for place in places
        for path in [top / ".git" / place, *(top / ".git" / place).rglob("*")]
        if path.is_file()
    )
    path = files[pick % len(files)]
    data = path.read_bytes()
    path.chmod(0o644)
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(DAMAGES[how](data, at % len(data), value))
    return top, str(path.relative_to(top))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pick=st.integers(0, 10_000),
    how=st.sampled_from(["gone", *DAMAGES]),
    at=st.integers(0, 100_000),
    value=st.integers(1, 255),
)
def test_what_is_called_whole_is_so_and_what_is_called_broken_too(
    whole: Path, pick: int, how: str, at: int, value: int
) -> None:
    if not whole.exists():
        make(whole)
    top, path = damaged_copy(whole, pick, how, at, value)
    ran = ckpt_here("verify", "--all", "--json", cwd=top)

    assert ran.code in (0, 1), (path, ran)
    if "error" in ran.json:  # of `packed-refs`
        assert fsck(top) != []
        return
    assert all(found["whole"] for found in ran.json["checkpoints"]) or fsck(top) != [], (path, ran)
    for ref in [found["ref"] for found in ran.json["checkpoints"] if found["whole"]]:
        assert contents(top, ref) == contents(whole, ref), path


def contents(top: Path, ref: str) -> list[str]:
    """Of a checkpoint and its state, every file as git has it, which checks what it reads."""
    return [git("archive", "--format=tar", commit, cwd=top) for commit in (ref, f"{ref}^2")]
