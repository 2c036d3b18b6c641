# SPDX-License-Identifier: MIT
"""What tests ask of the outside world: git, the real program, and the files on disk.

Everything here runs with the environment that conftest.py has made, in the current
folder unless told otherwise.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any

Place = str | bytes | os.PathLike[str]


def git(
    *words: str | bytes,
    cwd: Place | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> str:
    """What git prints; fails with what it says on stderr. `env` adds to the environment."""
    ran = subprocess.run(
        ["git", *words],
        cwd=cwd,
        input=os.fsencode(stdin),
        env={**os.environ, **(env or {})},
        capture_output=True,
    )
    assert ran.returncode == 0, f"git {words}: {os.fsdecode(ran.stderr or ran.stdout)}"
    return os.fsdecode(ran.stdout)


@dataclass(frozen=True)
class Ran:
    """What a run of ckpt left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one document on stdout; anything beside it is an error."""
        return json.loads(self.stdout)


def ckpt(
    *words: str | bytes,
    cwd: Place | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    code: int | None = None,
    under: Sequence[str] = (),
) -> Ran:
    """Runs the program as automation does; with `code`, any other exit code is a failure.

    `under` is a command that starts it with fewer rights, say, or another environment.
    """
    ran = subprocess.run(
        [*under, sys.executable, "-I", "-m", "ckpt", *words],
        cwd=cwd,
        input=os.fsencode(stdin),
        env={**os.environ, **(env or {})},
        capture_output=True,
    )
    result = Ran(ran.returncode, os.fsdecode(ran.stdout), os.fsdecode(ran.stderr))
    assert "Traceback" not in result.stderr, f"ckpt {words}: {result}"
    return _checked(result, words, code)


def ckpt_here(
    *words: str | bytes,
    cwd: Place | None = None,
    env: Mapping[str, str] | None = None,
    code: int | None = None,
) -> Ran:
    """The same as `ckpt`, inside this process: spares each call the start of a Python."""
    from ckpt.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in range(2)]
    with (
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        _environment(env or {}),
        _folder(cwd or "."),
    ):
        exit_code = main([os.fsdecode(word) for word in words])
    out, err = (_written(stream) for stream in streams)
    return _checked(Ran(exit_code, out, err), words, code)


def _checked(result: Ran, words: Sequence[str | bytes], code: int | None) -> Ran:
    said = result.stdout + result.stderr
    assert "this is a bug in ckpt" not in said, f"ckpt {words}: {result}"
    assert code in (None, result.code), f"ckpt {words}: {result}"
    return result


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return os.fsdecode(stream.buffer.read())


@contextlib.contextmanager
def _environment(extra: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _folder(place: Place) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def pre_commit(*words: str | os.PathLike[str], cwd: Place | None = None, code: int = 0) -> str:
    """What pre-commit says; its store is in the test's own home."""
    return _said([sys.executable, "-m", "pre_commit", *words], cwd, code)


def git_commit(*words: str | bytes, cwd: Place | None = None, code: int = 0) -> str:
    """What `git commit` says, and the hooks that it runs."""
    return _said(["git", "commit", "-m", "next", *words], cwd, code)


def _said(command: Sequence[str | bytes | os.PathLike[str]], cwd: Place | None, code: int) -> str:
    ran = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said = os.fsdecode(ran.stdout)
    assert ran.returncode == code, said
    return said


Entries = list[tuple[bytes, tuple[str, int, bytes]]]


def tree_state(
    top: Place, without: Collection[bytes] = (b".git",)
) -> dict[bytes, tuple[str, int, bytes]]:
    """Every path below `top` but its `.git`: type, permission bits, bytes or link target.

    Of folders only the empty ones are listed; the others show in their files' paths. Long
    content stands as its length and checksum, so that a failing comparison can be read.
    """
    return dict(_entries(os.fsencode(top), b"", without))


def _entries(top: bytes, folder: bytes, without: Collection[bytes]) -> Entries:
    names = sorted(os.listdir(os.path.join(top, folder)))
    found = []
    for name in names:
        path = os.path.join(folder, name)
        if path not in without:
            found += _entry(top, path, without)
    return found


def _entry(top: bytes, path: bytes, without: Collection[bytes]) -> Entries:
    full = os.path.join(top, path)
    mode = os.lstat(full).st_mode
    if stat.S_ISDIR(mode):
        return _entries(top, path, without) or [(path, ("folder", stat.S_IMODE(mode), b""))]
    if stat.S_ISLNK(mode):
        return [(path, ("link", 0, os.readlink(full)))]
    if stat.S_ISREG(mode):
        with open(full, "rb") as file:
            return [(path, ("file", stat.S_IMODE(mode), _brief(file.read())))]
    return [(path, ("special", stat.S_IMODE(mode), b""))]


def _brief(content: bytes) -> bytes:
    if len(content) <= 200:
        return content
    return b"%d bytes, sha256 %s" % (len(content), sha256(content).hexdigest().encode())


def copy_anew(source: Place, target: Place) -> None:
    """Copy a folder as if all in it had just been written: the same modes, and times of now."""
    os.mkdir(target, stat.S_IMODE(os.stat(source).st_mode))
    for entry in os.scandir(os.fspath(source)):
        place = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            copy_anew(entry.path, place)
        else:
            shutil.copy(entry.path, place)


def copy_repository(source: Path, target: Path) -> Path:
    """The same for a repository, whose index then knows the files for unchanged."""
    copy_anew(source, target)
    git("update-index", "-q", "--refresh", cwd=target)
    return target


def status(top: Place) -> str:
    """All that `git status` knows, without its writing a refreshed index."""
    words = ["status", "--porcelain=v2", "--branch", "--ignored", "-z"]
    return git("--no-optional-locks", *words, cwd=top)


def status_by_content(top: Place, *words: str) -> str:
    """The same, where git goes by what files hold alone and not by stat data of its index."""
    words = words or ("--branch", "--ignored")
    index = Path(os.fsdecode(top), git("rev-parse", "--git-path", "index", cwd=top).strip())
    if not index.exists():
        return git("status", "--porcelain=v2", "-z", *words, cwd=top)
    env = {"GIT_INDEX_FILE": str(index.with_name("index.by-content"))}
    shutil.copy(index, env["GIT_INDEX_FILE"])
    git("update-index", "--index-version", "2", cwd=top, env=env)
    Path(env["GIT_INDEX_FILE"]).write_bytes(_without_stat(Path(env["GIT_INDEX_FILE"]).read_bytes()))
    try:
        return git("status", "--porcelain=v2", "-z", *words, cwd=top, env=env)
    finally:
        os.unlink(env["GIT_INDEX_FILE"])


def _without_stat(index: bytes) -> bytes:
    """An index file of version 2 or 3 in which nothing is noted of the files."""
    out, at = bytearray(index), 12
    for _ in range(int.from_bytes(index[8:12], "big")):
        out[at : at + 24], out[at + 28 : at + 40] = bytes(24), bytes(12)
        is_extended = index[at + 60] & 0x40
        end = index.index(0, at + (64 if is_extended else 62))
        at += (end - at + 8) & ~7
    return bytes(out[:-20]) + sha1(out[:-20]).digest()


def fsck(top: Place) -> list[str]:
    """What git finds wrong with the repository: hopefully nothing."""
    ran = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling", "--no-progress"],
        cwd=top,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    lines = os.fsdecode(ran.stdout + ran.stderr).splitlines()
    complaints = [line for line in lines if not line.startswith("notice: ")]
    assert complaints or ran.returncode == 0, lines
    return complaints


def verified(top: Place) -> list[str]:
    """What ckpt finds wrong with any checkpoint, those in the trash too: hopefully nothing."""
    told = ckpt_here("verify", "--all", "--json", cwd=top)
    assert told.stderr == "", told
    found = told.json["checkpoints"]
    return [f"{each['ref']}: {p['detail']}" for each in found for p in each["problems"]]


def loose_object(git_dir: Place, name: str) -> str:
    """The file of one object, to be damaged or removed; what is in packs is taken out of them."""
    folder = os.path.join(os.fsdecode(git_dir), "objects")
    packs = os.path.join(folder, "pack")
    for pack in [path for path in os.listdir(packs) if path.endswith(".pack")]:
        aside = os.path.join(folder, pack)
        os.rename(os.path.join(packs, pack), aside)
        os.unlink(os.path.join(packs, pack.removesuffix(".pack") + ".idx"))
        with open(aside, "rb") as file:
            words = ["git", f"--git-dir={os.fsdecode(git_dir)}", "unpack-objects", "-q"]
            subprocess.run(words, stdin=file, check=True)
        os.unlink(aside)
    return os.path.join(folder, name[:2], name[2:])
