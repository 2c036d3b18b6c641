# SPDX-License-Identifier: MIT
"""`git ckpt doctor --fix`: stale locks, refs that name nothing, a damaged cache, and no more."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git, loose_object, verified
from scenes import write

from ckpt.engine import health, journal
from ckpt.engine.journal import Journal
from ckpt.locks import prune_lock

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


def set_aside(repo: Path) -> list[dict[str, Any]]:
    lines = (repo / ".git/ckpt/broken-refs").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("said", ["", "garbage\n", "1" * 40 + "\n", "ref: refs/heads/none\n"])
def test_where_only_the_file_of_a_packed_ref_is_broken_the_packed_value_counts(
    saved: dict[str, Any], repo: Path, said: str
) -> None:
    git("pack-refs", "--all")
    file = repo / ".git" / saved["ref"]
    file.parent.mkdir(exist_ok=True)
    file.write_text(said)

    assert doctor(code=1)["refs"][0]["mend"] == "git ckpt doctor --fix"
    (mended,) = doctor("--fix")["refs"]
    assert mended["state"] == "fixed"
    assert git("rev-parse", saved["ref"]).strip() == saved["commit"]
    (line,) = set_aside(repo)
    assert line["said"] == said.strip()
    assert "refs" not in doctor("--fix")
    assert verified(repo) == []


@pytest.mark.parametrize("said", ["", "garbage\n", "1" * 40 + "\n", "ref: refs/heads/none\n"])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_the_ref_of_a_checkpoint_that_was_made_here_is_put_back(
    saved: dict[str, Any], repo: Path, said: str, is_dropped: bool
) -> None:
    """Nothing else would hold its commit, and gc would take it."""
    if is_dropped:
        ckpt("drop", saved["id"], code=0)
    (ref,) = refs() - {"refs/heads/main"}
    git("update-ref", ref, saved["commit"])  # in a file of its own
    (repo / ".git" / ref).write_text(said)
    git("reset", "-q", "--hard")

    assert doctor("--fix")["refs"][0]["done"].startswith(f"put back, to {saved['commit']}")
    git("gc", "-q", "--prune=now")
    assert git("rev-parse", ref).strip() == saved["commit"]
    (line,) = set_aside(repo)
    assert (line["ref"], line["said"]) == (ref, said.strip())
    assert "refs" not in doctor("--fix")
    assert verified(repo) == []


def test_it_is_put_back_to_the_newest_of_its_commits(saved: dict[str, Any], repo: Path) -> None:
    pinned = ckpt("pin", saved["id"], "--json", code=0).json["checkpoint"]["commit"]
    (repo / ".git" / saved["ref"]).write_text("")
    with (repo / ".git/ckpt/made-here").open("a") as file:
        file.write(f"{saved['id']} {'1' * 40}\n{saved['id']} garbage\n{saved['id']}")

    doctor("--fix")
    assert git("rev-parse", saved["ref"]).split() == [pinned]


def test_no_ref_is_put_back_to_what_is_not_its_checkpoint(
    saved: dict[str, Any], repo: Path
) -> None:
    other = "refs/checkpoints/" + ID.format("e000")
    (repo / ".git" / other).write_text("")
    with (repo / ".git/ckpt/made-here").open("a") as file:
        file.write(f"{ID.format('e000')} {saved['commit']}\n")
        file.write(f"{ID.format('e000')} {git('rev-parse', 'HEAD')}")

    assert "'git ckpt rescue'" in doctor("--fix")["refs"][0]["done"]
    assert refs() == {"refs/heads/main", saved["ref"]}


def test_a_ref_that_names_nothing_is_told_where_its_checkpoint_is_looked_for(
    saved: dict[str, Any], repo: Path
) -> None:
    (repo / ".git" / saved["ref"]).write_text("")

    listed = ckpt("list", code=0)
    assert f"'{saved['ref']}' cannot be read" in listed.stderr
    assert "hint: git ckpt doctor" in listed.stderr
    assert "git ckpt doctor --fix" in ckpt("verify", code=1).stdout


def test_nothing_is_removed_while_borrowed_objects_cannot_be_reached(
    saved: dict[str, Any], repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "borrowing"
    git("clone", "-q", "--shared", str(repo), str(top))
    git("fetch", "-q", str(repo), f"{saved['ref']}:{saved['ref']}", cwd=top)
    os.rename(repo, tmp_path / "moved away")
    monkeypatch.chdir(top)

    (told,) = doctor("--fix", code=1)["refs"]
    assert (told["state"], told["done"]) == ("problem", None)
    os.rename(tmp_path / "moved away", repo)
    assert saved["ref"] in refs()
    assert "refs" not in doctor("--fix")


@pytest.fixture
def packed(saved: dict[str, Any], repo: Path) -> Path:
    """The pack that holds a checkpoint, and nothing else does."""
    git("repack", "-q", "-d")
    (pack,) = (repo / ".git/objects/pack").glob("*.pack")
    return pack


def without_index(pack: Path, damage: str) -> None:
    index = pack.with_suffix(".idx")
    contents = index.read_bytes()
    index.unlink()
    if damage != "missing":
        flipped = contents[:1100] + bytes([contents[1100] ^ 1]) + contents[1101:]
        index.write_bytes({"empty": b"", "cut": contents[:-30], "flipped": flipped}[damage])


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_nothing_is_removed_while_a_pack_has_no_index_that_can_be_read(
    saved: dict[str, Any], repo: Path, packed: Path, damage: str
) -> None:
    break_refs(repo, saved)
    without_index(packed, damage)
    told = doctor("--fix", code=1)

    assert {(one["state"], one["done"]) for one in told["refs"]} == {("problem", None)}
    assert {one["mend"] for one in told["refs"]} <= {f"git index-pack {packed}", "git fsck"}
    git("index-pack", str(packed))
    doctor("--fix")
    assert refs() == {"refs/heads/main", saved["ref"]}


def test_nothing_is_removed_while_the_commit_at_head_is_damaged(
    saved: dict[str, Any], repo: Path
) -> None:
    break_refs(repo, saved)
    before = {path.name for path in (repo / ".git/refs/checkpoints").iterdir()}
    head = Path(loose_object(".git", git("rev-parse", "HEAD").strip()))
    head.chmod(0o644)
    head.write_bytes(b"garbage")
    told = doctor("--fix", code=1)

    assert {(one["state"], one["mend"]) for one in told["refs"]} == {("problem", "git fsck")}
    assert {path.name for path in (repo / ".git/refs/checkpoints").iterdir()} == before


def test_no_ref_is_removed_while_another_process_writes_down_what_it_moved(
    saved: dict[str, Any], repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = break_refs(repo, saved)
    monkeypatch.setattr(health, "_PATIENCE", 0.0)
    with prune_lock(str(repo / ".git"), timeout=0):
        told = doctor("--fix", code=1)["refs"]

    assert all("another ckpt command is at work" in one["done"] for one in told)
    assert not (repo / ".git/ckpt/broken-refs").exists()
    assert len(told) == len(broken)
    assert {one["state"] for one in doctor("--fix")["refs"]} == {"fixed"}


def test_a_ref_that_was_let_go_of_later_is_not_brought_back(
    saved: dict[str, Any], repo: Path
) -> None:
    git("pack-refs", "--all")
    (repo / ".git" / saved["ref"]).parent.mkdir(exist_ok=True)
    (repo / ".git" / saved["ref"]).write_text("")
    doctor("--fix")
    git("update-ref", "-d", saved["ref"])

    assert "refs" not in doctor("--fix")


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_ref_that_names_its_commit_in_capitals_is_whole(
    saved: dict[str, Any], repo: Path, is_packed: bool
) -> None:
    value = saved["commit"].upper()
    (repo / ".git" / saved["ref"]).write_text(value + "\n")
    if is_packed:
        (repo / ".git" / saved["ref"]).unlink()
        (repo / ".git/packed-refs").write_text(f"{value} {saved['ref']}\n")
    assert git("rev-parse", saved["ref"]).strip() == saved["commit"]

    assert "refs" not in doctor("--fix")
    assert ckpt("show", "one", "--json", code=0).json["checkpoint"]["commit"] == saved["commit"]
    ckpt("drop", "one", code=0)
    ckpt("restore-dropped", saved["id"], code=0)
    assert verified(repo) == []


def test_a_ref_that_holds_something_stays(saved: dict[str, Any], repo: Path) -> None:
    ref = "refs/checkpoints/" + ID.format("head")
    git("update-ref", ref, "HEAD")
    (told,) = doctor("--fix", code=1)["refs"]

    assert ref in refs()
    assert (told["state"], told["done"]) == ("warning", None)
    assert f"git update-ref -d {ref}" in told["mend"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_in_place_of_our_folder_is_told_with_the_command_that_moves_it(
    saved: dict[str, Any], repo: Path, tmp_path: Path, kind: str
) -> None:
    shutil.rmtree(repo / ".git/ckpt")
    if kind == "file":
        (repo / ".git/ckpt").write_text("x")
    else:
        (tmp_path / "elsewhere").mkdir()
        (repo / ".git/ckpt").symlink_to(tmp_path / "elsewhere")
    told = doctor("--fix", code=1)

    assert {subject for subject, found in told.items() if found[0]["state"] == "problem"} == {
        "private files"
    }
    assert "is not a directory" in told["private files"][0]["detail"]
    subprocess.run(told["private files"][0]["mend"].partition(" && ")[0], shell=True, check=True)
    ckpt("save", code=0)
    assert (repo / ".git/ckpt.away").exists()


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("refs/checkpoints", ("save", "two")),
        ("refs/checkpoints-trash", ("drop", "one")),
    ],
)
def test_a_ref_in_place_of_a_folder_of_ours_is_told_with_the_command_that_moves_it(
    repo: Path, ref: str, words: tuple[str, ...], is_packed: bool
) -> None:
    if words[0] == "drop":
        ckpt("save", "one", code=0)
    git("update-ref", ref, "HEAD")
    if is_packed:
        git("pack-refs", "--all")
    ckpt(*words, code=4)

    (told,) = doctor("--fix", code=1)["refs"]
    assert (told["state"], told["done"]) == ("problem", None)
    assert f"while there is a ref '{ref}', nothing can be" in told["detail"]
    subprocess.run(["sh", "-ec", told["mend"]], check=True)
    assert ref.replace("refs/", "refs/moved-aside/", 1) in refs()
    ckpt(*words, code=0)
    assert "refs" not in doctor()


def test_packed_refs_that_are_damaged_are_git_s_to_mend(saved: dict[str, Any], repo: Path) -> None:
    git("pack-refs", "--all")
    with (repo / ".git/packed-refs").open("ab") as file:
        file.write(b"half a li")
    before = (repo / ".git/packed-refs").read_bytes()

    assert "packed-refs" in doctor("--fix", code=1)["refs"][0]["detail"]
    assert (repo / ".git/packed-refs").read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "zzz refs/checkpoints/bad",
        "1" * 40 + "refs/checkpoints/bad refs/",
        "^1 refs/checkpoints/bad",
        "# refs/checkpoints/bad",
    ],
)
def test_a_line_in_packed_refs_that_stops_git_is_told(
    saved: dict[str, Any], repo: Path, line: str
) -> None:
    git("pack-refs", "--all")
    assert "refs" not in doctor()
    with (repo / ".git/packed-refs").open("a") as file:
        file.write(line + "\n")

    assert subprocess.run(["git", "for-each-ref"], capture_output=True).returncode != 0
    assert "packed-refs" in doctor("--fix", code=1)["refs"][0]["detail"]


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_missing_commit_at_head_is_told_as_no_checkpoint_knows_it(
    repo: Path, damage: str
) -> None:
    commit = Path(loose_object(".git", git("rev-parse", "HEAD").strip()))
    commit.chmod(0o644)
    commit.unlink() if damage == "missing" else commit.write_bytes(b"garbage")
    assert ckpt("save", "--json", code=0).json["reason"] == "gone"

    (told,) = doctor("--fix", code=1)["HEAD"]
    assert (told["state"], told["mend"]) == ("problem", "git fsck")
    assert "its commit cannot be read" in told["detail"]


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


def test_a_branch_without_a_commit_is_nothing_to_mend(saved: dict[str, Any], repo: Path) -> None:
    git("checkout", "-q", "--orphan", "other")
    assert "HEAD" not in doctor()
    git("symbolic-ref", "refs/heads/other", "refs/heads/nowhere")
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


@pytest.mark.parametrize("what", ["{commit}^{{tree}}", "{commit}^2", "{commit}^2:manifest.json"])
def test_a_checkpoint_that_cannot_be_gone_back_to_is_told(
    saved: dict[str, Any], repo: Path, what: str
) -> None:
    assert doctor()["checkpoints"][0]["state"] == "ok"
    gone = git("rev-parse", what.format(**saved)).strip()
    os.unlink(loose_object(".git", gone))
    (told,) = doctor("--fix", code=1)["checkpoints"]

    assert gone in told["detail"]
    assert told["mend"] == f"git ckpt verify {saved['id']}"
    ckpt("verify", saved["id"], code=1)
    assert saved["ref"] in refs()


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


def test_a_cache_that_cannot_be_removed_is_not_called_mended(
    saved: dict[str, Any], repo: Path
) -> None:
    cache = repo / ".git/ckpt/scan"
    cache.unlink()
    cache.mkdir()
    (cache / "of somebody").touch()
    (told,) = doctor("--fix")["cache"]

    assert (told["state"], told["mend"]) == ("warning", f"rm -r {cache}")
    assert (cache / "of somebody").exists()


@pytest.mark.parametrize("name", ["lock-0123456789abcdef", ".tmp-0123456789abcdef", "lock-x"])
@pytest.mark.parametrize("what", ["folder", "link", "pipe", "socket"])
def test_what_has_the_name_of_a_private_file_and_is_none_is_in_nobodys_way(
    saved: dict[str, Any], repo: Path, name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = repo / ".git/ckpt" / name
    monkeypatch.chdir(path.parent)  # as the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as bound:
        makers = {
            "folder": lambda: path.mkdir(),
            "link": lambda: path.symlink_to("nowhere"),
            "pipe": lambda: os.mkfifo(path),
            "socket": lambda: bound.bind(name),
        }
        makers[what]()
    monkeypatch.chdir(repo)
    os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    ckpt("save", "two", code=0)

    assert not doctor("--fix").keys() & {"locks", "leftovers"}
    assert os.path.lexists(path)


@pytest.mark.parametrize("damage", [b"garbage", b"ckpt scan 6\nhalf", b""])
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


@pytest.mark.parametrize("place", ["linked", "main", "gone"])
def test_a_damaged_journal_of_another_worktree_is_told_with_the_command_that_moves_it(
    saved: dict[str, Any],
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", str(linked), "-b", "linked")
    ckpt("save", "there", cwd=linked, code=0)
    path = repo / (".git/ckpt" if place == "main" else ".git/worktrees/linked/ckpt") / "journal"
    path.write_bytes(b"garbage")
    broken = repo if place == "main" else linked
    if place == "main":
        monkeypatch.chdir(linked)
    if place == "gone":
        shutil.rmtree(linked)

    for words in (("drop", "there" if place == "main" else "one"), ("prune",)):
        said = ckpt(*words, code=4).stderr
        assert f"damaged (its checksum is wrong), in worktree '{broken}'" in said
        assert "hint: git ckpt doctor\n" in said
    (told,) = doctor(code=1)["worktrees"]
    assert f"in worktree '{broken}'" in told["detail"]
    subprocess.run(told["mend"], shell=True, check=True)
    assert not path.exists()
    ckpt("drop", "there" if place == "main" else "one", code=0)


def test_a_damaged_journal_elsewhere_hides_no_interrupted_rollback_here(
    saved: dict[str, Any], repo: Path, tmp_path: Path
) -> None:
    git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    ckpt("save", cwd=tmp_path / "linked", code=0)
    (repo / ".git/worktrees/linked/ckpt/journal").write_bytes(b"garbage")
    journal.write(str(repo / ".git/ckpt"), Journal(saved["id"], saved["id"], (), ()))

    told = doctor(code=1)
    assert told["rollback"][0]["mend"] == "git ckpt rollback --continue"
    assert told["worktrees"][0]["mend"].startswith("mv ")


def test_a_journal_that_a_newer_ckpt_wrote_stays_for_that_one(
    saved: dict[str, Any], repo: Path
) -> None:
    path = repo / ".git/ckpt/journal"
    body = json.dumps({"format": 2}).encode()
    path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    (told,) = doctor("--fix", code=1)["journal"]
    assert "newer than this ckpt" in told["detail"]
    assert (told["mend"], told["done"]) == ("upgrade ckpt: pip install --upgrade git-ckpt", None)
    assert path.exists()
    assert told["detail"] in ckpt("rollback", "--continue", code=4).stderr


def test_a_journal_that_others_could_have_written_stays_until_a_person_closes_it(
    saved: dict[str, Any], repo: Path
) -> None:
    path = repo / ".git/ckpt/journal"
    journal.write(str(path.parent), Journal(saved["id"], saved["id"], (), ()))
    path.chmod(0o666)

    (told,) = doctor("--fix", code=1)["journal"]
    assert "other users could have written" in told["detail"]
    assert (told["mend"].rpartition(": ")[2], told["done"]) == (f"chmod 600 {path}", None)
    for way in ("--continue", "--abort"):
        assert told["detail"] in ckpt("rollback", way, code=4).stderr
    path.chmod(0o600)
    ckpt("rollback", "--continue", code=0)


def test_nor_does_undo_go_by_what_others_could_have_written(
    saved: dict[str, Any], repo: Path
) -> None:
    write(repo, "README.md", "edited again\n")
    ckpt("rollback", saved["id"], code=0)
    path = repo / ".git/ckpt/last-rollback"
    path.chmod(0o666)

    refused = ckpt("undo", code=4).stderr
    assert f"could have written to '{path}'" in refused and f"chmod 600 {path}" in refused
    assert (repo / "README.md").read_text() == "edited\n"
    path.chmod(0o600)
    ckpt("undo", code=0)
    assert (repo / "README.md").read_text() == "edited again\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_private_files_of_another_user_are_told_with_the_command_that_gives_them_back(
    saved: dict[str, Any], repo: Path
) -> None:
    record = repo / ".git/ckpt/made-here"
    os.chown(record, 65534, 65534)
    (told,) = doctor("--fix")["private files"]

    assert told["detail"] == f"'{record}' belongs to another user, so it is not used"
    assert told["mend"].endswith(f": sudo chown root {record}")


def test_private_files_that_lost_their_bits_in_a_copy_are_told_with_the_command(
    saved: dict[str, Any], repo: Path
) -> None:
    folder = repo / ".git/ckpt"
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)

    (told,) = doctor("--fix")["private files"]
    assert (told["state"], told["done"]) == ("warning", None)
    assert "other users may read" in told["detail"]
    subprocess.run(told["mend"], shell=True, check=True)
    assert "private files" not in doctor()


def test_a_lock_that_will_be_a_file_of_gits_keeps_its_bits(
    saved: dict[str, Any], repo: Path
) -> None:
    living = hold(repo / ".git/packed-refs", repo / ".git/ckpt", "live")
    try:
        (lock,) = (repo / ".git/ckpt").glob("lock-*")
        lock.chmod(0o644)
        assert "private files" not in doctor("--fix")
        assert lock.stat().st_mode & 0o777 == 0o644
    finally:
        living.communicate()


@pytest.mark.parametrize("home", ["", "/dev/null/home"])
def test_without_a_home_the_repository_is_mended_all_the_same(
    saved: dict[str, Any], repo: Path, home: str
) -> None:
    """As in containers, and for what cron or systemd starts."""
    broken = break_refs(repo, saved)
    env = {"HOME": home, "XDG_CONFIG_HOME": "", "GIT_CONFIG_GLOBAL": ""}
    env = {name: value for name, value in {**os.environ, **env}.items() if value}
    words = [sys.executable, "-I", "-m", "ckpt", "doctor", "--fix", "--json"]
    ran = subprocess.run(words, env=env, capture_output=True, text=True)

    assert (ran.returncode, ran.stderr) == (1, "")
    told = json.loads(ran.stdout)["diagnoses"]
    assert [one["state"] for one in told if one["subject"] == "refs"] == ["fixed"] * len(broken)
    (unknown,) = [one for one in told if one["subject"] in ("triggers", "guard")]
    assert (unknown["state"], unknown["done"]) == ("problem", None)
    assert "cannot tell which are installed" in unknown["detail"] and unknown["mend"]


def test_a_person_is_told_what_was_done(saved: dict[str, Any], repo: Path) -> None:
    break_refs(repo, saved)
    said = ckpt("doctor", code=1).stdout
    assert said.count("mend: git ckpt doctor --fix") == 5

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
