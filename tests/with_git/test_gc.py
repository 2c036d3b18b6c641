# SPDX-License-Identifier: MIT
"""`git ckpt gc`: less room and fewer files, and everything as it was, by git's own judgement."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, fsck, git

from ckpt import CheckpointManager
from ckpt.engine import gc, snapshot
from ckpt.errors import Busy
from ckpt.git import pack_writer, repack
from ckpt.git.pack_writer import KEPT_BY_US
from ckpt.git.repack import loose_objects

DEFAULTS = dict(gc.repack_checkpoints.__kwdefaults__ or {})
LONG_AGO = time.time() - 30 * 86_400


def save_many(repo: Path, count: int = 12) -> list[str]:
    """Checkpoints of a growing file, newest first."""
    text = "".join(f"{number} lines that stay as they are\n" for number in range(300))
    made = []
    with CheckpointManager(repo) as manager:
        for number in range(count):
            text += f"and one more, {number}\n"
            (repo / "src/app.py").write_text(text)
            made.append(str(manager.create(kind="hook").id))
    return made[::-1]


def loose(repo: Path) -> list[Path]:
    return [path for path in (repo / ".git/objects").glob("??/*") if path.is_file()]


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def held(repo: Path) -> dict[str, str]:
    """Every object of every checkpoint, with its type and size, as git has them."""
    ours = ["--glob=refs/checkpoints/*", "--glob=refs/checkpoints-trash/*"]
    ids = [line.split(" ")[0] for line in git("rev-list", "--objects", *ours).splitlines()]
    asked = "".join(f"{object_id}\n" for object_id in ids)
    checked = git("cat-file", "--batch-check", stdin=asked).splitlines()
    return dict(line.split(" ", 1) for line in checked)


def packs(repo: Path) -> list[Path]:
    return sorted((repo / ".git/objects/pack").glob("*.pack"))


def collected(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = ckpt_here("gc", *words, "--json", code=0).json
    return found


def test_what_piled_up_becomes_one_small_pack_and_nothing_else_changes(repo: Path) -> None:
    save_many(repo)
    before, refs = held(repo), git("for-each-ref")
    age(*loose(repo))
    done = collected("--force")

    assert (held(repo), git("for-each-ref")) == (before, refs)
    assert fsck(repo) == []
    (pack,) = packs(repo)
    assert "chain length = 1: " in git("verify-pack", "-v", str(pack))
    assert done["objects"]["packed"] == done["objects"]["removed"] > 50
    assert done["objects"]["pack_bytes"] < done["objects"]["loose_bytes"] / 3
    # The commit that they stand on is git's.
    left = [path.parent.name + path.name for path in loose(repo)]
    assert left == [git("rev-parse", "HEAD").strip()]
    assert not list((repo / ".git").rglob("*.keep"))
    assert not list((repo / ".git").rglob("tmp_*"))
    assert collected("--force")["objects"]["packed"] == 0
    assert packs(repo) == [pack]


def test_after_it_checkpoints_can_be_taken_gone_back_to_pinned_and_dropped(repo: Path) -> None:
    saved = save_many(repo)
    age(*loose(repo))
    assert collected("--force")["refs"]["packed"] == len(saved)
    ckpt_here("pin", saved[3], code=0)
    ckpt_here("drop", saved[4], code=0)
    ckpt_here("rollback", saved[7], "--yes", code=0)
    git("gc", "-q", "--prune=now")

    assert ckpt_here("show", saved[3], "--json", code=0).json["checkpoint"]["pinned"]
    ckpt_here("restore-dropped", saved[4], code=0)
    assert "and one more, 4\n" in (repo / "src/app.py").read_text()
    assert "and one more, 5\n" not in (repo / "src/app.py").read_text()
    ckpt_here("undo", code=0)
    assert "and one more, 11\n" in (repo / "src/app.py").read_text()
    assert fsck(repo) == []


def test_few_objects_and_refs_are_left_as_they_are_unless_forced(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_many(repo, 4)
    age(*loose(repo))
    told = ckpt_here("gc", code=0).stdout

    assert told.startswith("Nothing to do.\nall checkpoints together hold ")
    assert not packs(repo)
    monkeypatch.setattr(gc, "MANY_LOOSE", 10)
    monkeypatch.setattr(gc, "MANY_REFS", 4)
    told = ckpt_here("gc", code=0).stdout
    assert "\nPacked 4 refs\n" in told
    assert told.startswith("Packed ")


def test_what_was_used_lately_is_left_loose(repo: Path) -> None:
    save_many(repo, 3)
    found = loose(repo)
    age(*found)
    newest = git(
        "rev-parse", git("for-each-ref", "--format=%(refname)", "refs/checkpoints").split()[-1]
    )
    fresh = repo / ".git/objects" / newest[:2] / newest[2:].strip()
    os.utime(fresh)
    collected("--force")

    assert fresh.exists()
    assert len(loose(repo)) < len(found)
    (pack,) = packs(repo)
    assert newest.strip() not in git("verify-pack", "-v", str(pack))


def test_what_is_damaged_or_large_is_left_loose(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repack, "_LARGEST", 50_000)
    (repo / "large").write_bytes(os.urandom(60_000))
    save_many(repo, 3)
    large = git("hash-object", "large").strip()
    wrong = git("hash-object", "src/app.py").strip()
    path = repo / ".git/objects" / wrong[:2] / wrong[2:]
    path.chmod(0o644)
    other = git("rev-parse", "HEAD:README.md").strip()
    path.write_bytes((repo / ".git/objects" / other[:2] / other[2:]).read_bytes())
    age(*loose(repo))
    collected("--force")

    assert path.exists()
    assert (repo / ".git/objects" / large[:2] / large[2:]).exists()
    (pack,) = packs(repo)
    assert wrong not in git("verify-pack", "-v", str(pack))


def test_a_pack_that_does_not_give_back_what_went_in_is_never_seen(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_many(repo)
    before = loose(repo)
    age(*before)
    make = pack_writer.make_delta
    monkeypatch.setattr(repack, "make_delta", lambda base, data: make(base, data[:-1] + b"?"))
    failed = ckpt_here("gc", "--force", code=1)

    assert "does not hold object" in failed.stderr
    assert sorted(loose(repo)) == sorted(before)
    assert not packs(repo)
    assert not list((repo / ".git/objects/pack").iterdir())
    assert fsck(repo) == []


def unpacked_again(repo: Path) -> list[Path]:
    """Files of the objects in a new pack, as if they had not been removed."""
    age(*loose(repo))
    copies = {path: path.read_bytes() for path in loose(repo)}
    collected("--force")
    gone = [path for path in copies if not path.exists()]
    for path in gone:
        path.write_bytes(copies[path])
    age(*gone)
    return gone


def test_copies_that_a_killed_gc_left_go_without_another_pack(repo: Path) -> None:
    save_many(repo)
    copies = unpacked_again(repo)
    (pack,) = packs(repo)
    pack.with_suffix(".keep").write_bytes(KEPT_BY_US)
    age(pack.with_suffix(".keep"))
    done = collected("--force")

    assert (done["objects"]["packed"], done["objects"]["removed"]) == (0, len(copies))
    assert not [path for path in copies if path.exists()]
    assert not pack.with_suffix(".keep").exists()
    assert packs(repo) == [pack]


def test_copies_of_what_is_in_other_packs_are_left_to_git(repo: Path) -> None:
    save_many(repo)
    copies = unpacked_again(repo)
    done = collected("--force")

    assert (done["objects"]["packed"], done["objects"]["removed"]) == (0, 0)
    assert all(path.exists() for path in copies)
    assert len(packs(repo)) == 1


def test_the_trash_is_emptied_of_what_is_a_week_old(repo: Path) -> None:
    saved = save_many(repo, 3)
    ckpt_here("drop", *saved[1:], code=0)
    commit = git("rev-parse", "--verify", "-q", f"refs/checkpoints-trash/{today()}/{saved[2]}")
    git("update-ref", "-d", f"refs/checkpoints-trash/{today()}/{saved[2]}")
    git("update-ref", f"refs/checkpoints-trash/20200101/{saved[2]}", commit.strip())
    done = collected()

    assert done["emptied"] == [saved[2]]
    assert [item["checkpoint"]["id"] for item in ckpt_here("trash", "--json").json["trash"]] == [
        saved[1]
    ]
    assert done["space"]["trash"] > 0


def today() -> str:
    return time.strftime("%Y%m%d", time.gmtime())


def test_what_killed_processes_left_goes_when_it_is_a_day_old_and_surely_ours(repo: Path) -> None:
    git("worktree", "add", "-q", "../linked")
    save_many(repo, 2)
    objects, private = repo / ".git/objects", repo / ".git/ckpt"
    other = repo / ".git/worktrees/linked/ckpt"
    other.mkdir()
    (objects / "ab").mkdir(exist_ok=True)
    digits = "0123456789abcdef"
    ours = [
        objects / f"ab/tmp_obj_{digits}",
        objects / f"pack/tmp_pack_{digits}",
        objects / f"pack/tmp_idx_{digits}",
        private / f".tmp-{digits}",
        other / f".tmp-{digits}",
    ]
    young = objects / f"ab/tmp_obj_{digits[::-1]}"
    foreign = [objects / "ab/tmp_obj_Xy12Zz", objects / "pack/tmp_pack_Xy12Zz"]
    odd = [objects / "ab/cd", objects / "ab" / ("é" * 38), objects / "ab" / ("0" * 40)]
    for path in (*ours, young, *foreign, *odd):
        path.write_bytes(b"half")
    age(*ours, *foreign)
    done = collected("--force")

    assert {item["path"] for item in done["cleared"]} == set(map(str, ours))
    assert not [path for path in ours if path.exists()]
    assert all(path.exists() for path in (young, *foreign, *odd))
    assert ckpt_here("gc", code=0).stdout.startswith("Nothing to do.\n")


@pytest.mark.parametrize(
    "words",
    [
        *(["gc", "--force"], ["gc"], ["prune"], ["save"], ["drop", "x"], ["pin", "x"]),
        *(["unpin", "pinned"], ["restore-dropped", "dropped"]),
    ],
    ids=" ".join,
)
def test_the_next_command_clears_private_files_of_dead_processes_and_of_no_others(
    repo: Path, words: list[str]
) -> None:
    git("worktree", "add", "-q", "../linked")
    for name in ("x", "dropped"):
        ckpt_here("save", name, code=0)
    ckpt_here("save", "pinned", "--pin", code=0)
    ckpt_here("drop", "dropped", code=0)
    (repo / "new").write_text("new\n")
    other = repo / ".git/worktrees/linked/ckpt"
    other.mkdir()
    dead, alive = (repo / f".git/ckpt/.tmp-{digit * 16}" for digit in "01")
    elsewhere = other / dead.name
    for path in (dead, elsewhere, alive):
        path.touch(0o600)
    with alive.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ckpt_here(*words, code=0)

        assert [path.exists() for path in (dead, elsewhere, alive)] == [False, False, True]


def test_gc_tells_which_private_files_of_dead_processes_it_took_away(repo: Path) -> None:
    save_many(repo, 1)
    left = repo / ".git/ckpt/.tmp-0123456789abcdef"
    left.touch(0o600)

    assert [item["path"] for item in collected()["cleared"]] == [str(left)]


def test_a_pack_that_a_dead_process_keeps_is_given_to_git_after_an_hour(repo: Path) -> None:
    folder = repo / ".git/objects/pack"
    folder.mkdir(exist_ok=True)
    ours, young, foreign, unfinished = (folder / f"pack-{digit * 40}.keep" for digit in "1234")
    pack, index = ours.with_suffix(".pack"), folder / "tmp_idx_0123456789abcdef_1"
    unseen = [pack, index, unfinished]
    ours.write_bytes(KEPT_BY_US)
    pack.write_bytes(b"PACK" + b"of 20 bytes the last")
    index.write_bytes(b"of 20 bytes the last" + bytes(20))
    unfinished.touch()
    young.write_bytes(KEPT_BY_US)
    foreign.write_bytes(b"mine\n")
    age(ours, foreign, *unseen)
    done = collected()

    assert {item["path"] for item in done["cleared"]} == {str(ours), *map(str, unseen)}
    assert not any(path.exists() for path in unseen)
    assert (ours.exists(), young.exists(), foreign.exists()) == (False, True, True)


def test_locks_of_dead_processes_go_and_those_of_others_stay(repo: Path) -> None:
    saved = save_many(repo, 1)
    private = repo / ".git/ckpt/lock-0123456789abcdef"
    private.touch()
    ref = repo / ".git/refs/checkpoints"
    os.link(private, ref / f"{saved[0]}.lock")
    foreign = ref / "20200101-000000-000-0000.lock"
    foreign.touch()
    collected()

    assert not private.exists()
    assert not (ref / f"{saved[0]}.lock").exists()
    assert foreign.exists()


def test_only_one_gc_is_at_work_at_a_time(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "_PATIENCE", 0.0)
    with CheckpointManager(repo) as manager:

        def again(*_: object, **__: object) -> None:
            with pytest.raises(Busy):
                gc.collect(manager.repository)

        monkeypatch.setattr(gc, "pack_refs", again)
        gc.collect(manager.repository)


def test_a_linked_worktree_packs_the_refs_that_all_share(repo: Path) -> None:
    git("worktree", "add", "-q", "../linked")
    git("tag", "-am", "note", "v1")
    git("pack-refs", "--all")
    others = (repo / ".git/packed-refs").read_bytes()
    saved = save_many(repo, 3)
    linked = ckpt_here("save", "--json", cwd="../linked", code=0).json["checkpoint"]["id"]
    done = ckpt_here("gc", "--force", "--json", cwd="../linked", code=0).json

    assert done["refs"]["packed"] == 4
    lines = (repo / ".git/packed-refs").read_bytes().splitlines(keepends=True)
    assert b"".join(line for line in lines if b" refs/checkpoints/" not in line) == others
    listed = ckpt_here("list", "--all-worktrees", "--json").json["checkpoints"]
    assert {found["id"] for found in listed} == {*saved, linked}
    assert len(git("for-each-ref", "refs/checkpoints").splitlines()) == 4
    assert fsck(repo) == []


def test_a_checkpoint_that_lacks_an_object_does_not_stop_it(repo: Path) -> None:
    saved = save_many(repo, 3)
    tree = git("rev-parse", f"refs/checkpoints/{saved[1]}:src").strip()
    (repo / ".git/objects" / tree[:2] / tree[2:]).unlink()
    age(*loose(repo))
    ckpt_here("gc", "--force", code=0)

    assert git("show", f"refs/checkpoints/{saved[0]}:src/app.py").endswith("and one more, 2\n")
    assert git("show", f"refs/checkpoints/{saved[2]}:src/app.py").endswith("and one more, 0\n")


def test_a_repository_of_sha256_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", "--object-format=sha256", str(tmp_path / "long"))
    monkeypatch.chdir(tmp_path / "long")
    (tmp_path / "long/src").mkdir()
    save_many(Path(), 4)
    before = held(Path())
    age(*loose(Path()))
    done = collected("--force")

    assert done["objects"]["packed"] == len(before)
    assert held(Path()) == before
    assert fsck(Path()) == []


def test_by_itself_it_packs_when_objects_have_piled_up_and_there_is_time(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "_ONE_FOLDER", ".")
    monkeypatch.setattr(gc, "_MANY_IN_ONE", 3)  # how many folders there are is by chance
    monkeypatch.setattr(gc.repack_checkpoints, "__kwdefaults__", DEFAULTS | {"at_least": 20})
    saved = save_many(repo)
    with CheckpointManager(repo) as manager:
        too_new = gc.collect_by_itself(manager.repository, 60.0)
        age(*loose(repo))
        too_little_time = gc.collect_by_itself(manager.repository, 0.1)
        done = gc.collect_by_itself(manager.repository, 60.0)
        monkeypatch.setattr(gc, "_MANY_IN_ONE", 10_000)
        not_many = gc.collect_by_itself(manager.repository, 60.0)

    assert too_new == too_little_time == not_many == repack.Repacked()
    assert done.objects == done.removed > 50
    assert len(packs(repo)) == 1
    assert len(ckpt_here("list", "--json").json["checkpoints"]) == len(saved)
    assert fsck(repo) == []


def test_saves_pack_what_has_piled_up(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "_ONE_FOLDER", ".")
    monkeypatch.setattr(gc, "_MANY_IN_ONE", 3)  # how many folders there are is by chance
    monkeypatch.setattr(gc.repack_checkpoints, "__kwdefaults__", DEFAULTS | {"at_least": 20})
    monkeypatch.setattr(snapshot, "EVERY", 5)
    save_many(repo, 4)
    age(*loose(repo))
    assert not packs(repo)
    save_many(repo, 3)

    (pack,) = packs(repo)
    assert "chain length = 1: " in git("verify-pack", "-v", str(pack))
    assert len(ckpt_here("list", "--json").json["checkpoints"]) == 7
    assert fsck(repo) == []


def test_when_time_is_up_what_was_begun_is_finished(repo: Path) -> None:
    save_many(repo)
    age(*loose(repo))
    answers = iter([True] * 16)
    with CheckpointManager(repo) as manager:
        done = gc.repack_checkpoints(
            manager.repository, at_least=1, has_time=lambda: next(answers, False)
        )

    assert 0 < done.objects == done.removed
    assert len(loose(repo)) > 24
    assert fsck(repo) == []
    # What is left is found again.
    collected("--force")
    assert len(loose(repo)) == 1
    assert fsck(repo) == []


def test_the_rows_of_one_path_are_together_newest_first(repo: Path) -> None:
    saved = save_many(repo, 4)
    refs = [git("rev-parse", f"refs/checkpoints/{name}").strip() for name in saved]
    with CheckpointManager(repo) as manager:
        loose_ids = set(loose_objects(manager.repository.objects))
        commits = list(map(bytes.fromhex, refs))
        rows = gc._rows(manager.repository, commits, loose_ids, lambda: True)
    for path in ("", ":src/app.py", ":src"):
        wanted = [bytes.fromhex(git("rev-parse", f"{ref}{path}").strip()) for ref in refs]
        row = next(row for row in rows if wanted[0] in row)
        assert [raw_id for raw_id in row if raw_id in wanted] == wanted
