# SPDX-License-Identifier: MIT
"""Pipes and devices where git has its files: nobody waits for one, or reads without end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import git, loose_object

LONG_ENOUGH = 60  # seconds; whoever waits for a pipe waits for ever
MEMORY = 1 << 30  # bytes, in which a device that never ends is soon too much


def ran(top: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-m", "ckpt", *words],
        cwd=top,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def hollow(path: Path) -> None:
    """A file of nothing but a hole, as an archive of a few bytes can hold it."""
    path.touch()
    os.truncate(path, 1 << 40)


def endless(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {"pipe": pipe, "device": endless}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["config", "index", "HEAD", "packed-refs", "objects/info/alternates", "included"]
)
def test_a_nested_repository_with_one_is_noted_and_all_else_is_saved(
    name: str, kind: str, repo: Path
) -> None:
    git("init", "-q", "nested")
    nested = repo / "nested/.git"
    if name == "included":
        git("config", "include.path", "included", cwd=repo / "nested")
    (nested / name).parent.mkdir(exist_ok=True)
    KINDS[kind](nested / name)
    (repo / "mine").write_text("mine\n")

    done = ran(repo, "save", "all else")

    assert (done.returncode, done.stderr) == (0, "")
    assert "mine" in git("ls-tree", "--name-only", saved(repo))


def saved(top: Path) -> str:
    return git("for-each-ref", "--format=%(objectname)", "refs/checkpoints", cwd=top).strip()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["config", "index", "HEAD", "packed-refs"])
def test_in_place_of_a_file_that_is_needed_it_is_an_error(name: str, kind: str, repo: Path) -> None:
    KINDS[kind](repo / ".git" / name)

    done = ran(repo, "save")

    assert (done.returncode != 0, "Traceback" in done.stderr) == (True, False), done
    assert "this is a bug" not in done.stderr
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gc.pid", "logs/HEAD", "shallow", "ckpt-guard"])
@pytest.mark.parametrize("words", [["save"], ["rescue"], ["status"]], ids=" ".join)
def test_in_place_of_one_that_can_be_done_without_it_is_passed_over(
    words: list[str], name: str, kind: str, repo: Path
) -> None:
    (repo / ".git" / name).parent.mkdir(exist_ok=True)
    KINDS[kind](repo / ".git" / name)

    done = ran(repo, *words)

    assert (done.returncode, "error" in done.stderr) == (0, False), done


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "objects/tmp_obj_0123456789abcdef",
        "objects/pack/PACK.keep",
        "objects/pack/PACK.mtimes",
        "ckpt/lock",
        "ckpt/broken-refs",
    ],
)
@pytest.mark.parametrize("words", [["doctor"], ["gc"], ["rescue"], ["list"]], ids=" ".join)
def test_in_place_of_a_file_of_ours_it_is_not_waited_for(
    words: list[str], name: str, kind: str, repo: Path
) -> None:
    ran(repo, "save")
    git("repack", "-adq", cwd=repo)
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    KINDS[kind](repo / ".git" / name.replace("PACK", pack.stem))

    done = ran(repo, *words)

    assert "this is a bug" not in done.stderr and "Traceback" not in done.stderr, done
    is_told = words == ["doctor"] and f"/{name}" in done.stdout
    assert done.returncode == 0 or is_told or done.stderr.startswith("error: "), done


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [["save", "two"], ["rollback", "one"]], ids=" ".join)
def test_in_place_of_an_object_that_is_staged_it_is_not_waited_for_and_written_anew(
    words: list[str], kind: str, repo: Path
) -> None:
    (repo / "README.md").write_text("staged\n")
    git("add", "README.md")
    (repo / "README.md").write_text("later\n")
    assert ran(repo, "save", "one").returncode == 0
    KINDS[kind](Path(loose_object(repo / ".git", git("rev-parse", ":README.md").strip())))

    done = ran(repo, *words)

    assert done.returncode == 0 or done.stderr.startswith("error: "), done
    (repo / "README.md").write_text("staged\n")
    assert ran(repo, "save").returncode == 0
    assert git("cat-file", "blob", ":README.md") == "staged\n"


def test_the_null_device_stands_for_a_file_with_nothing_in_it(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")

    assert ran(repo, "save").returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        *("folder/.git", "folder/.gitignore", "folder/.gitattributes", "ckpt.toml"),
        *("nested/.gitignore", "nested/.git/info/exclude"),
    ],
)
def test_a_text_that_is_larger_than_all_memory_is_not_read(name: str, repo: Path) -> None:
    git("init", "-q", "nested")
    (repo / "folder").mkdir()
    (repo / "folder/mine").write_text("mine\n")
    hollow(repo / name)

    done = ran(repo, "save", "all else")

    assert done.returncode == 0, done
    assert "mine" in git("show", f"refs/checkpoints/{done.stdout.split()[2]}:folder/mine")


@pytest.mark.parametrize("name", ["ckpt.toml", "pyproject.toml"])
def test_a_settings_file_that_would_take_long_to_read_is_not_gone_by(name: str, repo: Path) -> None:
    text = "[tool.ckpt]\nno = 1\n"
    (repo / name).write_text(text)
    assert ran(repo, "save").returncode == 2
    (repo / name).write_text(text + "".join(f"[a{n}.b.c]\n" for n in range(100_000)))

    assert ran(repo, "save").returncode == 0


@pytest.mark.parametrize("name", ["made-here", "scan", "saves", "space", "converted", "triggers"])
def test_a_private_file_that_is_larger_than_all_memory_is_not_read(name: str, repo: Path) -> None:
    """As a repository inside may bring it along."""
    git("init", "-q", "nested")
    (repo / "nested/.git/ckpt").mkdir(mode=0o700)
    hollow(repo / "nested/.git/ckpt" / name)
    (repo / "nested/.git/ckpt" / name).chmod(0o600)
    (repo / "nested/mine").write_text("mine\n")

    for words in (["save", "--recurse"], ["-C", "nested", "list"], ["-C", "nested", "doctor"]):
        done = ran(repo, *words)
        assert done.returncode == 0, done

    assert "mine" in git("ls-tree", "--name-only", saved(repo / "nested"), cwd=repo / "nested")


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
def test_nor_is_the_journal_of_a_repository_inside(size: int, repo: Path) -> None:
    git("init", "-q", "nested")
    (repo / "nested/.git/ckpt").mkdir(mode=0o700)
    hollow(repo / "nested/.git/ckpt/journal")
    os.truncate(repo / "nested/.git/ckpt/journal", size)
    (repo / "mine").write_text("mine\n")

    done = ran(repo, "save", "all else")

    assert (done.returncode, done.stderr) == (0, "")
    assert "mine" in git("ls-tree", "--name-only", saved(repo))


def bomb(path: Path) -> None:
    """A loose blob of 16 GiB, in some ten million bytes; only its end tells that it is damaged."""
    packer = zlib.compressobj()
    start = packer.compress(b"blob %d\0" % (1 << 34)) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    path.chmod(0o644)
    path.write_bytes(start + zeros * 1024)


@pytest.mark.parametrize("name", ["a.txt", ".gitattributes"])
def test_a_content_that_is_larger_than_all_memory_is_not_read(name: str, repo: Path) -> None:
    """Of a repository inside, to find out whether it is dirty."""
    nested = repo / "nested"
    git("init", "-q", str(nested))
    (nested / ".gitattributes").write_text("*.txt text=auto\n")
    (nested / "a.txt").write_text("a\n")
    git("add", "--all", cwd=nested)
    git("commit", "-q", "-m", "first", cwd=nested)
    (nested / "a.txt").write_bytes(b"b\r\n")
    bomb(Path(loose_object(nested / ".git", git("rev-parse", f":{name}", cwd=nested).strip())))
    if name == ".gitattributes":
        (nested / name).unlink()
    (repo / "mine").write_text("mine\n")

    done = ran(repo, "save", "all else")

    assert done.returncode == 0, done
    assert "mine" in git("show", f"refs/checkpoints/{done.stdout.split()[2]}:mine")
