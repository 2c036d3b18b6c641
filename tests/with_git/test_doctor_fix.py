# SPDX-License-Identifier: MIT
"""`git ckpt doctor --fix`: stale locks, refs that name nothing, and no more."""

from __future__ import annotations

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
    assert not told.keys() & {"refs", "journal", "locks", "leftovers"}
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


def test_refs_that_name_nothing_are_removed_and_what_they_said_is_told(
    saved: dict[str, Any], repo: Path
) -> None:
    broken = break_refs(repo, saved)
    write(repo, "new", "new\n")
    told = doctor(code=1)["refs"]

    assert {one["mend"] for one in told} == {"git ckpt doctor --fix"}
    assert len(told) == len(broken)
    mended = doctor("--fix")["refs"]
    assert {one["state"] for one in mended} == {"fixed"}
    told = [one["done"] for one in mended]
    for said in ("1" * 40, "garbage", "", f"ref: {saved['ref']}", "2" * 40):
        assert sum(done.startswith(f"removed; it said '{said}'. ") for done in told) == 1
    assert refs() == {"refs/heads/main", saved["ref"]}
    assert fsck(repo) == []
    git("gc", "-q")
    assert "refs" not in doctor("--fix")
    assert verified(repo) == []


def test_a_ref_that_names_nothing_is_told_where_its_checkpoint_is_looked_for(
    saved: dict[str, Any], repo: Path
) -> None:
    (repo / ".git" / saved["ref"]).write_text("")

    assert "git ckpt doctor --fix" in ckpt("verify", saved["id"], code=1).stdout


KILLED = """
import os, signal, sys
from ckpt.disk import holding
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
    assert said.count("removed; it said ") == 5
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
