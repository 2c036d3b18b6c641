# SPDX-License-Identifier: MIT
"""`git ckpt doctor --fix`: stale locks, refs that name nothing, a damaged cache, and no more."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, verified
from scenes import write

ID = "20260101-000000-000-{}"
LONG_AGO = time.time() - 3 * 86_400


def doctor(*words: str, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {}
    for one in ckpt("doctor", *words, "--json", code=code).json["diagnoses"]:
        told.setdefault(one["subject"], []).append(one)
    return told


def refs() -> set[str]:
    return set(git("for-each-ref", "--format=%(refname)").split())


@pytest.fixture
def saved(repo: Path) -> dict[str, Any]:
    write(repo, "README.md", "edited\n")
    found: dict[str, Any] = ckpt("save", "one", "--json", code=0).json["checkpoint"]
    return found


def test_where_nothing_is_broken_nothing_is_done(saved: dict[str, Any], repo: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (repo / ".git").rglob("*")}
    told = doctor("--fix")

    assert {one["done"] for found in told.values() for one in found} == {None}
    assert not told.keys() & {"refs", "journal", "locks", "leftovers", "cache", "private files"}
    assert {path: path.stat().st_mtime_ns for path in (repo / ".git").rglob("*")} == before


def break_refs(repo: Path, saved: dict[str, Any]) -> set[str]:
    """Refs that hold nothing, of which git complains."""
    folder = repo / ".git/refs/checkpoints"
    nowhere = "refs/checkpoints/" + ID.format("n000")
    (folder / ID.format("n000")).write_text("1" * 40 + "\n")
    (folder / ID.format("g000")).write_text("garbage\n")
    (folder / ID.format("e000")).write_text("")
    git("symbolic-ref", "refs/checkpoints/" + ID.format("s000"), saved["ref"])
    with (repo / ".git/packed-refs").open("w") as file:
        file.write(f"{'2' * 40} refs/checkpoints/{ID.format('p000')}\n")
    return {
        nowhere,
        *("refs/checkpoints/" + ID.format(x) for x in ("g000", "e000", "s000", "p000")),
    }


def test_refs_that_name_nothing_are_removed_and_written_down(
    saved: dict[str, Any], repo: Path
) -> None:
    broken = break_refs(repo, saved)
    write(repo, "new", "new\n")
    told = doctor(code=1)["refs"]

    assert {one["mend"] for one in told} == {"git ckpt doctor --fix"}
    assert len(told) == len(broken)
    mended = doctor("--fix")["refs"]
    assert {one["state"] for one in mended} == {"fixed"}
    assert all(one["done"].startswith("removed, and written down in ") for one in mended)
    assert refs() == {"refs/heads/main", saved["ref"]}
    assert fsck(repo) == []
    git("gc", "-q")
    aside = repo / ".git/ckpt/broken-refs"
    lines = [json.loads(line) for line in aside.read_text().splitlines()]
    assert {line["ref"]: line["said"] for line in lines} == {
        "refs/checkpoints/" + ID.format("n000"): "1" * 40,
        "refs/checkpoints/" + ID.format("g000"): "garbage",
        "refs/checkpoints/" + ID.format("e000"): "",
        "refs/checkpoints/" + ID.format("s000"): f"ref: {saved['ref']}",
        "refs/checkpoints/" + ID.format("p000"): "2" * 40,
    }
    assert aside.stat().st_mode & 0o777 == 0o600
    assert "refs" not in doctor("--fix")
    assert verified(repo) == []


def test_a_ref_that_names_nothing_is_told_where_its_checkpoint_is_looked_for(
    saved: dict[str, Any], repo: Path
) -> None:
    (repo / ".git" / saved["ref"]).write_text("")

    listed = ckpt("list", code=0)
    assert f"'{saved['ref']}' cannot be read" in listed.stderr
    assert "hint: git ckpt doctor" in listed.stderr
    assert "git ckpt doctor --fix" in ckpt("verify", code=1).stdout


@pytest.fixture
def packed(saved: dict[str, Any], repo: Path) -> Path:
    """The pack that holds a checkpoint, and nothing else does."""
    git("repack", "-q", "-d")
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    return pack


@pytest.mark.parametrize("damage", [b"", b"\0" * 41, b"garbage\n"])
def test_a_branch_that_a_power_cut_emptied_is_told_with_the_command_that_mends_it(
    saved: dict[str, Any], repo: Path, damage: bytes
) -> None:
    assert "HEAD" not in doctor()
    head = git("rev-parse", "HEAD").strip()
    (repo / ".git/refs/heads/main").write_bytes(damage)

    (told,) = doctor("--fix", code=1)["HEAD"]
    assert (told["state"], told["done"]) == ("problem", None)
    assert "refs/heads/main" in told["detail"]
    subprocess.run(told["mend"].partition(": ")[2], shell=True, check=True)
    assert git("rev-parse", "HEAD").strip() == head
    assert "HEAD" not in doctor()


@pytest.mark.parametrize("damage", ["garbage", "cut", "folder", "pipe", "circle"])
def test_an_index_that_cannot_be_read_is_told_as_nothing_can_be_saved(
    saved: dict[str, Any], repo: Path, damage: str
) -> None:
    index = repo / ".git/index"
    contents = index.read_bytes()
    index.unlink()
    {
        "garbage": lambda: index.write_bytes(b"garbage"),
        "cut": lambda: index.write_bytes(contents[: len(contents) // 2]),
        "folder": index.mkdir,
        "pipe": lambda: os.mkfifo(index),
        "circle": lambda: index.symlink_to("index"),
    }[damage]()
    error = ckpt("save", "--json", code=1).json["error"]

    (told,) = doctor("--fix", code=1)["index"]
    assert (told["state"], told["mend"]) == ("problem", error["hint"])
    assert error["message"] in told["detail"]
    index.rename(repo / "away")
    assert "index" not in doctor()


KILLED = """
import os, signal, sys
from ckpt.locks import holding
path, private, what = sys.argv[1:]
with holding(path, private):
    print("held", flush=True)
    if what == "publish":
        os.rename(path + ".lock", path)
    if what != "live":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def hold(path: Path, private: Path, what: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-I", "-c", KILLED, str(path), str(private), what]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_locks_of_killed_commands_go_and_those_of_living_ones_stay(
    saved: dict[str, Any], repo: Path
) -> None:
    git_dir = repo / ".git"
    for path, how in ((f"refs/checkpoints/{saved['id']}", "die"), ("a-file", "publish")):
        dead = hold(git_dir / path, git_dir / "ckpt", how)
        dead.communicate()
        assert dead.returncode == -signal.SIGKILL
    living = hold(git_dir / "packed-refs", git_dir / "ckpt", "live")
    try:
        (told,) = doctor()["locks"]
        assert (told["state"], told["detail"][:7]) == ("warning", "2 stale")
        (mended,) = doctor("--fix")["locks"]
        assert (mended["state"], mended["done"]) == ("fixed", "removed")
        locks = sorted(str(path.relative_to(git_dir)) for path in git_dir.rglob("*.lock"))
        assert locks == ["packed-refs.lock"]
        assert (git_dir / "a-file").exists()
        assert "locks" not in doctor("--fix")
    finally:
        living.communicate()
    assert living.returncode == 0
    assert list(git_dir.rglob("*.lock")) == []


def test_an_old_lock_of_git_is_told_and_never_taken(saved: dict[str, Any], repo: Path) -> None:
    lock = repo / ".git/index.lock"
    lock.write_text("")

    assert "locks" not in doctor("--fix")
    os.utime(lock, (LONG_AGO, LONG_AGO))
    (told,) = doctor("--fix")["locks"]
    assert (told["state"], told["done"]) == ("warning", None)
    assert f"rm {shlex.quote(str(lock))}" in told["mend"]
    assert lock.exists()


@pytest.mark.parametrize("damage", [b"garbage", b""])
def test_a_damaged_cache_is_taken_away(saved: dict[str, Any], repo: Path, damage: bytes) -> None:
    cache = repo / ".git/ckpt/scan"
    assert cache.exists()
    cache.write_bytes(damage)

    assert doctor()["cache"][0]["state"] == "warning"
    assert doctor("--fix")["cache"][0]["done"] == "removed"
    assert not cache.exists()
    cache.write_bytes(b"ckpt scan 1\nof an older ckpt")
    cache.chmod(0o600)
    assert "cache" not in doctor()


def test_a_damaged_journal_is_told_with_the_command_that_moves_it(
    saved: dict[str, Any], repo: Path
) -> None:
    path = repo / ".git/ckpt/journal"
    path.write_bytes(b"garbage")
    ckpt("rollback", "--continue", code=4)

    (told,) = doctor("--fix", code=1)["journal"]
    assert "--kind safety" in told["detail"]
    assert path.read_bytes() == b"garbage"
    subprocess.run(told["mend"], shell=True, check=True)
    assert (repo / ".git/ckpt/journal.broken").read_bytes() == b"garbage"
    assert "journal" not in doctor()
    ckpt("rollback", "one", code=0)


def test_a_person_is_told_what_was_done(saved: dict[str, Any], repo: Path) -> None:
    break_refs(repo, saved)
    said = ckpt("doctor", code=1).stdout
    assert said.count("fix: git ckpt doctor --fix") == 5

    said = ckpt("doctor", "--fix", code=0).stdout
    assert said.count("removed, and written down in ") == 5
    assert said.count("fixed    refs") == 5


def test_refs_of_other_tools_are_left_alone(saved: dict[str, Any], repo: Path) -> None:
    """As stepback writes them: refs/checkpoints/<session>/<n>."""
    others = {
        "refs/checkpoints/session/1": git("rev-parse", "HEAD").strip(),
        "refs/checkpoints/by-hand": git("rev-parse", "HEAD^{tree}").strip(),
        "refs/checkpoints-trash/of-another/tool": git("rev-parse", "HEAD").strip(),
    }
    for ref, value in others.items():
        git("update-ref", ref, value)
    broken = repo / ".git/refs/checkpoints/session/2"
    broken.write_text("garbage\n")

    assert [found["id"] for found in ckpt("verify", "--all", "--json", code=0).json["checkpoints"]]
    assert "refs" not in doctor("--fix")
    assert ckpt("status", "--json", code=0).json["checkpoints"]["foreign_refs"] == 2
    assert "2 refs of other tools below refs/checkpoints/" in ckpt("status", code=0).stdout
    assert [one["id"] for one in ckpt("list", "--json", code=0).json["checkpoints"]] == [
        saved["id"]
    ]
    ckpt("drop", "one", code=0)
    ckpt("prune", "--now", code=0)
    ckpt("gc", code=0)
    ckpt("uninstall", "--purge", "--yes", code=None)
    assert broken.read_text() == "garbage\n"
    broken.unlink()
    assert {ref: git("rev-parse", ref).strip() for ref in others} == others
