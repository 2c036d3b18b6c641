# SPDX-License-Identifier: MIT
"""Checkpoints that others made, brought by git itself: their files yes, their commands no."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from hostile.forge import Forge
from hostile.inputs import FOLDER, manifest, nested
from hostile.scene import Scene

from ckpt import CheckpointManager, Refused, ids
from ckpt.git import record as made_here
from ckpt.output import Output

ALL_REFS = "+refs/checkpoints/*:refs/checkpoints/*"
Edit = Callable[[Path], object]


@pytest.fixture
def theirs(repo: Path) -> Path:
    """Another's repository, in which a second branch conflicts with the first."""
    git("checkout", "-q", "-b", "topic")
    (repo / "README.md").write_text("topic\n")
    git("commit", "-qam", "topic")
    git("checkout", "-q", "main")
    (repo / "README.md").write_text("main\n")
    git("commit", "-qam", "main")
    return repo


@pytest.fixture
def ours(theirs: Path, tmp_path: Path) -> Path:
    git("clone", "-q", str(theirs), str(tmp_path / "ours"))
    return tmp_path / "ours"


def fetched(theirs: Path, ours: Path) -> str:
    """Take a checkpoint there, and bring it here."""
    made: str = ckpt_here("save", "theirs", "--json", cwd=theirs, code=0).json["checkpoint"]["id"]
    git("fetch", "-q", str(theirs), ALL_REFS, cwd=ours)
    return made


def stopped(theirs: Path, *words: str) -> None:
    """Begin an operation that stops at the conflict."""
    ran = subprocess.run(["git", *words], cwd=theirs, capture_output=True)
    assert ran.returncode != 0


# Whose a checkpoint is


def is_foreign(top: Path, checkpoint_id: str) -> bool:
    found: bool = ckpt_here("rollback", checkpoint_id, "--yes", "--json", cwd=top, code=0).json[
        "foreign"
    ]
    return found


def test_what_was_fetched_is_foreign_and_what_was_saved_is_not(theirs: Path, ours: Path) -> None:
    brought = fetched(theirs, ours)
    own = ckpt_here("save", "--json", cwd=ours, code=0).json["checkpoint"]["id"]

    assert is_foreign(ours, brought)
    assert not is_foreign(ours, own)
    assert not is_foreign(theirs, brought)
    assert "was not made in this repository" in ckpt_here("rollback", brought, cwd=ours).stderr
    record = ours / ".git/ckpt/made-here"
    assert record.stat().st_mode & 0o777 == 0o600


def test_an_imported_checkpoint_is_foreign(theirs: Path, ours: Path, tmp_path: Path) -> None:
    with CheckpointManager(theirs) as there, CheckpointManager(ours) as here:
        there.create("theirs")
        there.export(tmp_path / "bundle")
        (brought,) = here.import_(tmp_path / "bundle")
        assert here.rollback(brought).foreign


def test_another_commit_under_an_id_of_ours_is_foreign(theirs: Path, ours: Path) -> None:
    own = ckpt_here("save", "--json", cwd=ours, code=0).json["checkpoint"]["id"]
    forge = Forge(ours, own)
    forge.id = own
    forge.checkpoint(forge.tree(("100644", b"theirs", forge.blob())))

    assert is_foreign(ours, own)


def test_without_the_record_all_are_foreign_and_none_is_lost(repo: Path) -> None:
    own = ckpt_here("save", "--json", code=0).json["checkpoint"]["id"]
    (repo / "README.md").write_text("edited\n")
    (repo / ".git/ckpt/made-here").unlink()

    assert is_foreign(repo, own)
    assert (repo / "README.md").read_text() == "# An example\n"
    assert not is_foreign(repo, ckpt_here("save", "--json", code=0).json["checkpoint"]["id"])


def test_a_record_that_others_could_write_is_not_believed(repo: Path) -> None:
    own = ckpt_here("save", "--json", code=0).json["checkpoint"]["id"]
    (repo / ".git/ckpt/made-here").chmod(0o666)

    assert is_foreign(repo, own)


def test_a_record_that_others_could_only_read_is_believed_and_closed_by_the_next_save(
    repo: Path,
) -> None:
    own = ckpt_here("save", "--json", code=0).json["checkpoint"]["id"]
    record = repo / ".git/ckpt/made-here"
    record.chmod(0o644)

    assert not ckpt_here("show", own, "--json", code=0).json["checkpoint"]["foreign"]
    assert not is_foreign(repo, ckpt_here("save", "--json", code=0).json["checkpoint"]["id"])
    assert record.stat().st_mode & 0o777 == 0o600


def test_no_command_closes_a_record_that_others_could_write_so_that_it_would_be_believed(
    repo: Path,
) -> None:
    own = ckpt_here("save", "--json", code=0).json["checkpoint"]["id"]
    record = repo / ".git/ckpt/made-here"
    record.chmod(0o620)
    ckpt_here("save", "--json", code=0)
    ckpt_here("doctor", "--fix", code=None)

    assert record.stat().st_mode & 0o777 == 0o620
    assert is_foreign(repo, own)
    record.chmod(0o600)  # as a person decides who knows that nobody wrote to it
    assert not is_foreign(repo, own)


def test_a_record_that_cannot_be_written_stops_no_save(repo: Path) -> None:
    ckpt_here("save", code=0)
    (repo / ".git/ckpt/made-here").unlink()
    (repo / ".git/ckpt/made-here").mkdir()

    assert is_foreign(repo, ckpt_here("save", "--json", code=0).json["checkpoint"]["id"])


@pytest.mark.parametrize("rest", [b"20260101-0000", b"\0\0\0\0"])
def test_half_a_line_that_a_power_cut_left_in_the_record_makes_no_later_one_foreign(
    repo: Path, rest: bytes
) -> None:
    ckpt_here("save", code=0)
    with (repo / ".git/ckpt/made-here").open("ab") as file:
        file.write(rest)

    own = ckpt_here("save", "--json", code=0).json["checkpoint"]
    assert not ckpt_here("show", own["id"], "--json", code=0).json["checkpoint"]["foreign"]
    assert not is_foreign(repo, own["id"])


def test_to_pin_a_checkpoint_does_not_change_whose_it_is(theirs: Path, ours: Path) -> None:
    brought = fetched(theirs, ours)
    own = ckpt_here("save", "--json", cwd=ours, code=0).json["checkpoint"]["id"]
    for each in (brought, own):
        ckpt_here("pin", each, cwd=ours, code=0)

    assert is_foreign(ours, brought)
    assert not is_foreign(ours, own)


def test_a_linked_worktree_has_the_same_record(repo: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    own = ckpt_here("save", "--json", cwd=tmp_path / "linked", code=0).json["checkpoint"]["id"]

    assert not is_foreign(tmp_path / "linked", own)
    assert (repo / ".git/ckpt/made-here").read_text().startswith(own)


def test_a_long_record_is_tidied(tmp_path: Path) -> None:
    kept = "20260101-000000-000-aaaa"
    for number in range(20_000):
        made_here.note(str(tmp_path), f"20250101-000000-{number % 1000:03}-zzzz", "1" * 40)
    made_here.note(str(tmp_path), kept, "2" * 40)

    made_here.tidy(str(tmp_path), lambda: {kept})

    assert made_here.holds(str(tmp_path), kept, "2" * 40)
    assert (tmp_path / "ckpt/made-here").stat().st_size < 100


def test_list_and_show_tell_whose_a_checkpoint_is(theirs: Path, ours: Path) -> None:
    own = ckpt_here("save", "own", "--json", cwd=ours, code=0).json["checkpoint"]["id"]
    assert "foreign" not in ckpt_here("list", cwd=ours, code=0).stdout

    brought = fetched(theirs, ours)
    lines = ckpt_here("list", cwd=ours, code=0).stdout.splitlines()
    marks = lines[0].index("MARKS")
    assert {line[:24]: line[marks:] for line in lines[1:3]} == {own: "", brought: "foreign"}
    assert "foreign ones were not made here; a rollback looks them over before" in lines
    told = ckpt_here("list", "--json", cwd=ours, code=0).json["checkpoints"]
    assert {each["id"]: each["foreign"] for each in told} == {own: False, brought: True}
    for each, foreign in ((own, False), (brought, True)):
        assert ckpt_here("show", each, "--json", cwd=ours).json["checkpoint"]["foreign"] == foreign
        shown = ckpt_here("show", each, cwd=ours, code=0).stdout
        assert ("Origin:   foreign: not made in this repository\n" in shown) == foreign
    with CheckpointManager(ours) as manager:
        assert [each.name for each in manager if each.foreign] == ["theirs"]


def test_a_list_reads_the_record_once(
    theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        fetched(theirs, ours)
        ckpt_here("save", cwd=ours, code=0)
    reads = []
    usual = made_here._read
    monkeypatch.setattr(made_here, "_read", lambda place: reads.append(place) or usual(place))

    told = ckpt_here("list", "--json", cwd=ours, code=0).json["checkpoints"]
    assert [each["foreign"] for each in told].count(True) == 3
    assert len(reads) == 1


@pytest.fixture(params=["in minutes", "tomorrow", "in an age"])
def to_come(scene: Scene, request: pytest.FixtureRequest) -> Scene:
    """A scene in which what is forged is of a time to come."""
    ahead = {"in minutes": timedelta(minutes=5), "tomorrow": timedelta(days=1)}
    if request.param in ahead:
        moment = datetime.now(timezone.utc) + ahead[request.param]
        scene.forge.id = f"{ids.stamp(moment)}-zzzz"
    return scene


def test_one_of_a_time_to_come_is_neither_the_latest_nor_followed(to_come: Scene) -> None:
    scene = to_come
    scene.forge.checkpoint()
    forged = scene.forge.id

    saved = ckpt_here("save", "now", "--json", code=0).json["checkpoint"]["id"]

    assert saved[:19] <= ids.stamp(datetime.now(timezone.utc)) < forged
    assert ckpt_here("show", "latest", "--json", code=0).json["checkpoint"]["id"] == saved
    assert ckpt_here("list", "-n", "1", "--json", code=0).json["checkpoints"][0]["id"] == forged
    with CheckpointManager(".") as manager:
        newest = manager.latest()
        assert newest is not None
        assert newest.id == saved
        assert manager.rollback_to_latest().target.id == saved


def test_one_of_a_time_to_come_takes_no_name_of_ours(to_come: Scene) -> None:
    scene = to_come
    named = ckpt_here("show", "--json", code=0).json["checkpoint"]
    scene.forge.checkpoint()
    forged = scene.forge.id

    assert ckpt_here("show", forged, "--json", code=0).json["checkpoint"]["name"] == named["name"]
    assert ckpt_here("show", named["name"], "--json", code=0).json["checkpoint"] == named
    with CheckpointManager(".") as manager:
        newest = manager.latest(name=named["name"])
        assert newest is not None
        assert newest.id == named["id"]
        assert manager.rollback(named["name"]).target.id == named["id"]
    ckpt_here("drop", named["id"], code=0)
    assert ckpt_here("show", named["name"], "--json", code=0).json["checkpoint"]["id"] == forged


def test_one_of_a_time_to_come_does_not_make_every_state_a_new_one(to_come: Scene) -> None:
    scene = to_come
    scene.forge.checkpoint(scene.forge.tree(("100644", b"theirs", scene.forge.blob())))
    first = ckpt_here("save", "--kind", "auto", "--json", code=0).json

    again = ckpt_here("save", "--kind", "auto", "--json", code=0).json
    assert again["outcome"] == "unchanged"
    assert again["checkpoint"]["id"] == first["checkpoint"]["id"]


def test_a_trigger_is_not_content_with_what_another_has_saved(theirs: Path, ours: Path) -> None:
    brought = fetched(theirs, ours)

    first = ckpt_here("save", "--kind", "auto", "--json", cwd=ours, code=0).json
    fetched(theirs, ours)
    again = ckpt_here("save", "--kind", "auto", "--json", cwd=ours, code=0).json

    assert first["outcome"] == "created"
    assert first["checkpoint"]["id"] > brought
    assert (again["outcome"], again["checkpoint"]["id"]) == ("unchanged", first["checkpoint"]["id"])


def test_nor_is_one_of_state_alone(tmp_path: Path, theirs: Path, ours: Path) -> None:
    with (
        CheckpointManager(theirs, worktree=False) as there,
        CheckpointManager(ours, worktree=False) as here,
    ):
        there.create(kind="auto")
        there.export(tmp_path / "states")
        (brought,) = here.import_(tmp_path / "states")
        first, again = here.create(kind="auto"), here.create(kind="auto")

        assert first.outcome == "created"
        assert first.id != brought.id
        assert (again.outcome, again.id) == ("unchanged", first.id)


# Its files


def test_bits_are_no_wider_than_those_that_files_get_here(theirs: Path, ours: Path) -> None:
    (theirs / "open").write_text("x")
    (theirs / "open").chmod(0o666)
    (theirs / "tool").write_text("x")
    (theirs / "tool").chmod(0o777)
    (theirs / "private").write_text("x")
    (theirs / "private").chmod(0o600)
    (theirs / "wide").mkdir()
    (theirs / "wide/file").write_text("x")
    (theirs / "wide").chmod(0o777)
    brought = fetched(theirs, ours)
    names = ("open", "tool", "private", "wide")

    ckpt_here("rollback", brought, cwd=ours, code=0)
    assert [(ours / n).stat().st_mode & 0o7777 for n in names] == [0o644, 0o755, 0o600, 0o755]
    ckpt_here("rollback", brought, "--trust", cwd=ours, code=0)
    assert [(ours / n).stat().st_mode & 0o7777 for n in names] == [0o666, 0o777, 0o600, 0o777]


def test_nor_so_narrow_that_their_owner_could_not_go_back(theirs: Path, ours: Path) -> None:
    """Who is root may read all that, and saved it so; others could not undo."""
    (theirs / "closed").mkdir()
    (theirs / "closed/file").write_text("x")
    (theirs / "x.log").write_text("x")
    for name in ("closed/file", "x.log", "closed"):
        (theirs / name).chmod(0)
    saved = ckpt_here("save", "--state-file", "x.log", "--json", cwd=theirs, code=0).json
    git("fetch", "-q", str(theirs), ALL_REFS, cwd=ours)

    ckpt_here("rollback", saved["checkpoint"]["id"], cwd=ours, code=0)

    assert (ours / "closed").stat().st_mode & 0o7777 == 0o700
    assert (ours / "closed/file").stat().st_mode & 0o7777 == 0o600
    assert (ours / "x.log").stat().st_mode & 0o7777 == 0o600


def test_bits_of_a_state_file_are_no_wider_either(theirs: Path, ours: Path) -> None:
    (theirs / "x.log").write_text("x")
    (theirs / "x.log").chmod(0o666)
    ckpt_here("save", "theirs", "--state-file", "x.log", cwd=theirs, code=0)
    git("fetch", "-q", str(theirs), ALL_REFS, cwd=ours)

    ckpt_here("rollback", "theirs", cwd=ours, code=0)

    assert (ours / "x.log").stat().st_mode & 0o7777 == 0o644


STATE_FILES = ("x.log", "gone.log", ".env", "new.log", "plain")


@pytest.fixture
def state_brought(theirs: Path, ours: Path) -> str:
    """A checkpoint whose state files no checkpoint here would hold, all but the last two."""
    for top in (theirs, ours):
        (top / ".git/info/exclude").write_text("*.log\n")
    for name in ("x.log", "new.log", "plain"):
        (theirs / name).write_text("theirs\n")
    for name in ("x.log", "gone.log", ".env", "plain"):
        (ours / name).write_text("ours\n")
    words = [word for name in STATE_FILES for word in ("--state-file", name)]
    ckpt_here("save", "theirs", *words, cwd=theirs, code=0)
    git("fetch", "-q", str(theirs), ALL_REFS, cwd=ours)
    return "theirs"


def contents(top: Path, *names: str) -> list[str | None]:
    return [(top / name).read_text() if (top / name).exists() else None for name in names]


def test_what_is_left_alone_here_is_left_alone_whoever_calls_it_a_state_file(
    ours: Path, state_brought: str
) -> None:
    result = ckpt_here("rollback", state_brought, "--json", cwd=ours, code=4).json

    skipped = {item["path"]: item["reason"] for item in result["skipped"]}
    assert skipped == {"x.log": "ignored", "gone.log": "ignored", ".env": "denied"}
    assert contents(ours, "x.log", "gone.log", ".env") == ["ours\n"] * 3
    assert contents(ours, "new.log", "plain") == ["theirs\n"] * 2


@pytest.mark.parametrize("words", ["--trust", "--overwrite-ignored"])
def test_on_request_they_go_back_and_come_again(ours: Path, state_brought: str, words: str) -> None:
    ckpt_here("rollback", state_brought, words, cwd=ours, code=0)
    theirs = "theirs\n"
    assert contents(ours, *STATE_FILES) == [theirs, None, None, theirs, theirs]

    ckpt_here("undo", cwd=ours, code=0)
    assert contents(ours, *STATE_FILES) == ["ours\n"] * 3 + [None, "ours\n"]


def test_a_state_file_that_is_there_already_is_nothing_to_tell(
    ours: Path, state_brought: str
) -> None:
    (ours / "x.log").write_text("theirs\n")
    (ours / "gone.log").unlink()
    (ours / ".env").unlink()

    ckpt_here("rollback", state_brought, cwd=ours, code=0)

    assert contents(ours, *STATE_FILES)[:3] == ["theirs\n", None, None]


@pytest.mark.parametrize("trust", [(), ("--trust",)], ids=["", "trusting"])
def test_nothing_gets_into_a_git_dir_of_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: tuple[str, ...]
) -> None:
    top = tmp_path / "repo"
    top.mkdir()
    git("init", "-q", f"--separate-git-dir={top}/meta", str(top))
    monkeypatch.chdir(top)
    (top / "file").write_text("mine\n")
    git("add", "file")
    git("commit", "-qm", "first")
    saved = ckpt_here("save", "--json", code=0).json["checkpoint"]["id"]
    forge = Forge(top, saved)
    forge.git_dir = top / "meta"
    hook = forge.tree(("100755", b"post-checkout", forge.blob(b"#!/bin/sh\nexit 1\n")))
    forge.checkpoint(
        forge.tree(
            ("100644", b"file", forge.blob()),
            ("40000", b"meta", forge.tree((FOLDER, b"hooks", hook))),
        ),
        forge.state(
            state=(FOLDER, nested(forge, {"files.json": STATE_FILE, "files/meta/x": b"hostile"}))
        ),
    )
    before = tree_state(top / "meta/hooks")

    ran = ckpt_here("rollback", forge.id, "--yes", "--overwrite-ignored", *trust, code=4)

    assert "'meta/hooks/post-checkout' alone: inside a git dir" in ran.stderr
    assert tree_state(top / "meta/hooks") == before
    assert not (top / "meta/x").exists()


STATE_FILE = b'{"files": [{"path": "meta/x", "permissions": 420}]}'


@pytest.mark.parametrize("words", ["", "--overwrite-ignored", "--trust --overwrite-ignored"])
@pytest.mark.parametrize("folder", ["ignored", "node_modules", "src"])
def test_nothing_gets_into_another_git_dir_in_the_worktree(
    folder: str, words: str, scene: Scene
) -> None:
    """Neither at once nor when it is staged already."""
    (scene.repo / ".git/info/exclude").write_text("ignored/\n")
    (scene.repo / folder).mkdir(exist_ok=True)
    mirror = scene.repo / folder / "mirror.git"
    git("init", "-q", "--bare", str(mirror))
    forge = scene.forge
    hook = forge.blob(b"#!/bin/sh\nexit 1\n")
    theirs = forge.tree(
        ("100644", b"config", forge.blob()),
        (FOLDER, b"hooks", forge.tree(("100755", b"pre-receive", hook))),
    )
    names = [(FOLDER, folder.encode(), forge.tree((FOLDER, b"mirror.git", theirs)))]
    tree = forge.tree(*names)
    before = tree_state(mirror)

    for state in (forge.state(index=(FOLDER, tree)), forge.state_id):
        forge.checkpoint(tree, state)
        ran = ckpt_here("rollback", forge.id, "--yes", *words.split(), cwd=scene.repo, code=4)

        assert f"'{folder}/mirror.git/hooks/pre-receive' alone: nested" in ran.stderr
        assert tree_state(mirror) == before


def test_a_state_file_is_not_written_through_a_link(scene: Scene) -> None:
    (scene.repo / "state").symlink_to("../outside")
    listed = b'{"files": [{"path": "state/x", "permissions": 420}]}'
    files = {"files.json": listed, "files/state/x": b"hostile"}
    forge = scene.forge
    forge.checkpoint(state=forge.state(state=(FOLDER, nested(forge, files))))

    for trust in ((), ("--trust",)):
        scene.run("rollback", forge.id, "--yes", "--overwrite-ignored", *trust)

    assert (scene.outside / "x").read_text() == "mine\n"


# Its operations


def operation_of(top: Path) -> set[str]:
    return {name for name in os.listdir(top / ".git") if name.startswith(("MERGE_", "rebase-"))}


def test_a_merge_comes_along_without_being_asked_about(theirs: Path, ours: Path) -> None:
    stopped(theirs, "merge", "topic")
    brought = fetched(theirs, ours)

    ckpt_here("rollback", brought, "--head", cwd=ours, code=0)

    assert operation_of(ours) == operation_of(theirs)
    assert "You have unmerged paths" in git("status", cwd=ours)


def refused(ours: Path, checkpoint_id: str) -> str:
    """What is said about a rollback with HEAD, of which nothing is done."""
    before = tree_state(ours), git("for-each-ref", "--format=%(refname) %(objectname)", cwd=ours)
    for words in ((), ("--dry-run",)):
        problem = ckpt_here(
            *("rollback", checkpoint_id, "--head", "--json", *words), cwd=ours, code=4
        ).json["error"]
        assert problem["code"] == "refused"
    after = tree_state(ours), git("for-each-ref", "--format=%(refname) %(objectname)", cwd=ours)
    assert after == before
    assert operation_of(ours) == set()
    message: str = problem["message"]
    return message


def test_commands_of_a_rebase_are_shown_and_refused_without_trust(
    theirs: Path, ours: Path, scene_count: Callable[[int], None]
) -> None:
    stopped(theirs, "rebase", "--exec", "touch ../pwned", "topic")
    todo = theirs / ".git/rebase-merge/git-rebase-todo"
    todo.write_text(todo.read_text() + "break\n")
    brought = fetched(theirs, ours)

    said = refused(ours, brought)

    assert "'exec touch ../pwned'" in said
    assert "'break'" in said
    assert "'rebase-merge/author-script'" in said
    # Its files alone need no trust.
    ckpt_here("rollback", brought, "--", "src", cwd=ours, code=0)
    ckpt_here("rollback", brought, "--head", "--trust", cwd=ours, code=0)
    assert (ours / ".git/rebase-merge/git-rebase-todo").read_text() == todo.read_text()
    scene_count(3)


def test_in_our_own_checkpoint_they_need_no_trust(theirs: Path) -> None:
    stopped(theirs, "rebase", "--exec", "true", "topic")
    made = ckpt_here("save", "--json", cwd=theirs, code=0).json["checkpoint"]["id"]
    git("rebase", "--abort", cwd=theirs)

    ckpt_here("rollback", made, "--head", cwd=theirs, code=0)

    assert (theirs / ".git/rebase-merge").is_dir()


def test_the_api_asks_for_trust_in_the_same_way(theirs: Path, ours: Path) -> None:
    stopped(theirs, "rebase", "--exec", "true", "topic")
    brought = fetched(theirs, ours)

    with CheckpointManager(ours) as manager:
        with pytest.raises(Refused) as caught:
            manager.rollback(brought, head=True)
        assert "exec true" in caught.value.details["commands"]
        assert manager.rollback(brought, head=True, trust=True).foreign


@pytest.fixture
def scene_count(record_property: pytest.RecordProperty) -> Callable[[int], None]:
    return lambda number: record_property("hostile", {"hostile inputs refused": number})


def put(path: str, text: str) -> Edit:
    def edit(git_dir: Path) -> None:
        (git_dir / path).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / path).write_text(text)

    return edit


ONE = "1" * 40
NEEDS_TRUST = {
    "a branch that git would move": put("rebase-merge/git-rebase-todo", "u refs/heads/x\n"),
    "or has noted": put("rebase-merge/update-refs", f"refs/heads/main\n{ONE}\n{ONE}\n"),
    "an x for exec": put("rebase-merge/git-rebase-todo", "x evil\n"),
    "a tab before it": put("rebase-merge/git-rebase-todo", "\t exec evil\n"),
    "in the end": put("rebase-merge/git-rebase-todo", f"pick {ONE}\nexec evil"),
    "done already": put("rebase-merge/done", "exec evil\n"),
    "in the backup": put("rebase-merge/git-rebase-todo.backup", "exec evil\n"),
    "of a sequence": put("sequencer/todo", "exec evil\n"),
    "options of apply": put("rebase-apply/apply-opt", "--unsafe-paths"),
    "options of a strategy": put("rebase-merge/strategy_opts", "--x"),
    "who signs": put("rebase-merge/gpg_sign_opt", "-Sx"),
    "who wrote it": put("rebase-apply/author-script", "GIT_AUTHOR_NAME='$(evil)'"),
    "options of a sequence": put("sequencer/opts", "[options]\n\tstrategy = evil\n"),
    "a strategy with a number": put("sequencer/opts", "[options]\n\tstrategy = 1\n"),
    "a sequence that signs": put("sequencer/opts", "[options]\n\tgpg-sign = true\n"),
    "names for a bisect": put("BISECT_NAMES", "$(evil)"),
}
NEVER_RIGHT = {
    "an unknown thing to do": put("rebase-merge/git-rebase-todo", "evil\n"),
    "a ref that is moved": put("rebase-merge/git-rebase-todo", "update-ref refs/remotes/x\n"),
    "a zero": put("rebase-merge/git-rebase-todo", "pick\0\nexec evil\n"),
    "a zero in a line": put("rebase-merge/git-rebase-todo", f"pick {ONE} \0 x\n"),
    "a strategy that is a program": put("rebase-merge/strategy", "x/../../evil"),
    "refs that go": put("rebase-merge/refs-to-delete", "refs/heads/main\n"),
    "refs that move": put("rebase-merge/update-refs", f"HEAD\n{ONE}\n{ONE}\n"),
    "a head of another kind": put("rebase-merge/head-name", "refs/remotes/origin/main"),
    "a head outside": put("rebase-merge/head-name", "refs/heads/../../x"),
    "a start that is an option": put("BISECT_START", "--upload-pack=evil"),
    "terms that are no words": put("BISECT_TERMS", "$(evil)\n`evil`\n"),
    "a link for a commit": put("MERGE_HEAD", "ref: refs/heads/main\n"),
    "no commit": put("CHERRY_PICK_HEAD", "evil\n"),
    "no number": put("rebase-merge/msgnum", "$(evil)"),
    "no flag": put("rebase-merge/quiet", "$(evil)"),
    "a file of another name": put("rebase-merge/hooks/evil", "x"),
    "a ref of a bisect": put("refs/bisect/bad", "ref: HEAD\n"),
    "a ref to nothing": put("refs/rewritten/x", ""),
    "a ref to two": put("refs/bisect/bad", f"{ONE}\n{ONE}\n"),
    "a pick of two": put("CHERRY_PICK_HEAD", f"{ONE}\n{ONE}\n"),
    "a pick of none": put("CHERRY_PICK_HEAD", "\n"),
}


def with_operation(theirs: Path, edit: Edit) -> None:
    stopped(theirs, "merge", "topic")
    edit(theirs / ".git")


@pytest.mark.parametrize("name", NEEDS_TRUST)
def test_what_git_would_go_by_needs_trust(
    theirs: Path, ours: Path, name: str, scene_count: Callable[[int], None]
) -> None:
    with_operation(theirs, NEEDS_TRUST[name])

    assert "git would go by what its operation says" in refused(ours, fetched(theirs, ours))
    scene_count(1)


@pytest.mark.parametrize("name", NEVER_RIGHT)
def test_what_git_would_not_have_written_is_refused(
    theirs: Path, ours: Path, name: str, scene_count: Callable[[int], None]
) -> None:
    with_operation(theirs, NEVER_RIGHT[name])

    assert "is not safe: " in refused(ours, fetched(theirs, ours))
    scene_count(1)


COMMIT_FILES = (
    *("refs/bisect/bad", "refs/bisect/good-x", "refs/rewritten/x", "MERGE_HEAD", "BISECT_HEAD"),
    *("CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_AUTOSTASH", "sequencer/head"),
    *("rebase-merge/onto", "rebase-merge/orig-head", "rebase-merge/autostash"),
    *("rebase-merge/squash-onto", "rebase-apply/onto", "rebase-apply/orig-head"),
    "rebase-apply/autostash",
)


def with_file(forge: Forge, path: str, text: str) -> None:
    files = nested(forge, {f"files/{path}": text.encode()})
    forge.checkpoint(state=forge.state(op=(FOLDER, files)))


@pytest.mark.parametrize("trust", [(), ("--trust",)], ids=["", "trusting"])
def test_an_operation_comes_along_only_with_its_commits(
    scene: Scene, trust: tuple[str, ...]
) -> None:
    forge = scene.forge
    kinds = {"no object": ONE, "a blob": forge.blob(), "a tree": forge.tree_id}
    before, protected = scene.worktree(), scene.protected()
    for path in COMMIT_FILES:
        for kind, named in kinds.items():
            with_file(forge, path, named + "\n")
            ran = scene.run("rollback", forge.id, "--yes", "--head", *trust, code=1)
            assert f"'{path}' names it" in ran.stderr, kind

    with_file(forge, "MERGE_HEAD", f"{forge.parents[0]}\n{ONE}\n")
    scene.run("rollback", forge.id, "--yes", "--head", *trust, code=1)
    assert (scene.worktree(), scene.protected()) == (before, protected)
    git("log", "--all")
    git("gc", "-q")
    scene.count("hostile inputs refused", len(COMMIT_FILES) * len(kinds) + 1)


@pytest.mark.parametrize("text", ["", "\n", f"{ONE} {ONE}\n", "1" * 39, "1" * 64, "../" * 13 + "x"])
def test_not_even_with_trust_is_there_a_ref_that_names_no_commit(scene: Scene, text: str) -> None:
    forge = scene.forge
    before = scene.protected()
    for path in ("refs/bisect/bad", "refs/rewritten/x", "MERGE_HEAD"):
        with_file(forge, path, text)
        ran = scene.run("rollback", forge.id, "--yes", "--head", "--trust", code=1)
        assert f"'{path}' of the checkpoint's operation names no commit" in ran.stderr
        assert scene.run("rollback", forge.id, "--yes", "--head").code in (1, 4)

    assert scene.protected() == before
    scene.count("hostile inputs refused", 3)


def test_a_tag_in_a_merge_must_be_one_of_a_commit_that_is_here(scene: Scene) -> None:
    forge = scene.forge
    for what in (ONE, "evil"):
        tag = forge.object("tag", f"object {what}\ntype commit\ntag x\n\nx\n".encode())
        with_file(forge, "MERGE_HEAD", tag + "\n")
        ran = scene.run("rollback", forge.id, "--yes", "--head", "--trust", code=1)
        assert "is missing" in ran.stderr
    assert operation_of(scene.repo) == set()
    scene.count("hostile inputs refused", 2)


def test_a_merge_of_a_tag_comes_along_with_the_tag(theirs: Path, ours: Path) -> None:
    git("tag", "-a", "-m", "x", "v1", "topic", cwd=theirs)
    stopped(theirs, "merge", "v1")
    brought = fetched(theirs, ours)
    git("fetch", "-q", str(theirs), "tag", "v1", cwd=ours)

    ckpt_here("rollback", brought, "--head", cwd=ours, code=0)

    tag = git("rev-parse", "v1", cwd=ours)
    assert (ours / ".git/MERGE_HEAD").read_text() == tag
    assert git("cat-file", "-t", tag.strip(), cwd=ours) == "tag\n"


def test_head_goes_to_no_other_ref_than_a_branch(scene: Scene) -> None:
    for branch in ("refs/checkpoints/x", "refs/remotes/origin/main", "refs/stash"):
        scene.forge.checkpoint(changes=[("Ckpt-Branch: main", f"Ckpt-Branch: {branch}")])
        assert "which is no branch" in refused(scene.repo, scene.forge.id)
        scene.count("hostile inputs refused")


def test_an_operation_moves_no_other_ref_than_a_branch(scene: Scene) -> None:
    forge = scene.forge
    for ref in ("refs/remotes/origin/main", "refs/checkpoints/x", "HEAD"):
        files = nested(forge, {"branches": f"{forge.parents[0]} {ref}\n".encode()})
        forge.checkpoint(state=forge.state(op=(FOLDER, files)))
        assert f"it would move '{ref}'" in refused(scene.repo, forge.id)
        scene.count("hostile inputs refused")


@pytest.mark.parametrize("name", ["there", "new"])
def test_branches_that_head_is_not_on_are_moved_only_with_trust(scene: Scene, name: str) -> None:
    git("branch", "there")
    forge = scene.forge
    evil = forge.commit(forge.tree_id, forge.parents[:1], "evil\n")
    rebase = {"head-name": f"refs/heads/{name}\n", "onto": f"{evil}\n"}
    files = nested(forge, {f"files/rebase-merge/{n}": t.encode() for n, t in rebase.items()})
    branches = nested(forge, {"branches": f"{evil} refs/heads/{name}\n".encode()})
    op = forge.tree(*forge.entries(branches), *forge.entries(files))
    forge.checkpoint(state=forge.state(op=(FOLDER, op)))

    said = refused(scene.repo, forge.id)
    assert f"would move branches that HEAD is not on: 'refs/heads/{name}'" in said
    told = scene.run("rollback", forge.id, "--head", "--trust", code=0).stdout
    assert f"  branch '{name}' is now at {evil[:12]}\n" in told
    assert git("rev-parse", name).strip() == evil
    told = scene.run("undo", code=0).stdout
    assert f"  branch '{name}' is now {'gone' if name == 'new' else 'at'}" in told
    scene.count("hostile inputs refused")


def test_neither_is_the_branch_to_which_head_goes(scene: Scene) -> None:
    release = git("commit-tree", "-p", "HEAD", "-m", "only on release", "HEAD^{tree}").strip()
    git("branch", "release", release)
    forge = scene.forge
    branch = git("branch", "--show-current").strip()
    forge.checkpoint(changes=[(f"Ckpt-Branch: {branch}", "Ckpt-Branch: release")])

    said = refused(scene.repo, forge.id)
    assert "would move branches that HEAD is not on: 'refs/heads/release'" in said
    told = scene.run("rollback", forge.id, "--head", "--trust", code=0).stdout
    assert f"  branch 'release' is now at {forge.parents[0][:12]}\n" in told
    scene.run("undo", code=0)
    assert git("rev-parse", "release").strip() == release
    git("branch", "-D", "release")
    told = scene.run("rollback", forge.id, "--head", code=0).stdout
    assert "(release)" in told and "branch 'release'" not in told
    scene.count("hostile inputs refused")


@pytest.mark.parametrize("name", ["HEAD", "-x"])
def test_head_goes_to_no_branch_that_git_would_not_make(scene: Scene, name: str) -> None:
    branch = git("branch", "--show-current").strip()
    scene.forge.checkpoint(changes=[(f"Ckpt-Branch: {branch}", f"Ckpt-Branch: {name}")])

    assert f"'refs/heads/{name}', which is no branch" in refused(scene.repo, scene.forge.id)
    scene.count("hostile inputs refused")


def test_branches_of_an_operation_that_exclude_each_other_are_noticed_before_it_begins(
    scene: Scene,
) -> None:
    forge = scene.forge
    at = forge.parents[0]
    rebase = {"head-name": b"refs/heads/x\n", "onto": f"{at}\n".encode()}
    files = nested(forge, {f"files/rebase-merge/{name}": text for name, text in rebase.items()})
    branches = nested(forge, {"branches": f"{at} refs/heads/x\n{at} refs/heads/x/y\n".encode()})
    op = forge.tree(*forge.entries(branches), *forge.entries(files))
    forge.checkpoint(state=forge.state(op=(FOLDER, op)))

    assert "branch 'x/y' cannot be put back: 'x' is to be there too" in refused(
        scene.repo, forge.id
    )
    scene.count("hostile inputs refused")


def test_numbers_that_are_no_json_do_not_get_into_documents(scene: Scene) -> None:
    forge = scene.forge
    for text in (b'{"a": NaN}', b'{"a": 1e999}'):
        forge.checkpoint(state=forge.state(state=(FOLDER, nested(forge, {"data.json": text}))))
        for words in (("list",), ("show", forge.id), ("rollback", forge.id, "--dry-run")):
            out = ckpt_here(*words, "--json", cwd=scene.repo).stdout
            assert json.loads(out, parse_constant=pytest.fail), out
        scene.count("hostile inputs refused")


def half_way(
    theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch, *words: str
) -> dict[str, str]:
    """A rollback to a merge of theirs stops before git knows of it; the ids that it is about."""
    stopped(theirs, "merge", "topic")
    brought = fetched(theirs, ours)
    from ckpt.engine import head as operation

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(operation, "install", killed)
        assert ckpt_here("rollback", brought, "--head", *words, cwd=ours).code == 130
    (safety,) = ckpt_here("list", "--kind", "safety", "--json", cwd=ours).json["checkpoints"]
    return {"target": brought, "safety": safety["id"]}


def replace_with_commands(ours: Path, checkpoint_id: str) -> None:
    """A forced fetch brings another commit under the same id."""
    forge = Forge(ours, checkpoint_id)
    forge.id = checkpoint_id
    files = nested(forge, {"files/rebase-merge/git-rebase-todo": b"exec evil\n"})
    forge.checkpoint(state=forge.state(op=(FOLDER, files)))


def test_a_rollback_is_not_finished_with_commands_that_came_meanwhile(
    theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = half_way(theirs, ours, monkeypatch)["target"]
    replace_with_commands(ours, brought)

    assert "exec evil" in ckpt_here("rollback", "--continue", cwd=ours, code=4).stderr
    assert not (ours / ".git/rebase-merge").exists()
    ckpt_here("rollback", "--abort", cwd=ours, code=0)
    assert git("status", "--porcelain", cwd=ours) == ""


def as_of_an_older_ckpt(ours: Path) -> None:
    """The journal without the commits of its checkpoints."""
    journal = ours / ".git/ckpt/journal"
    document = json.loads(journal.read_bytes().partition(b"\n")[2])
    del document["target_commit"], document["safety_commit"]
    data = json.dumps(document).encode()
    journal.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def test_nor_with_a_commit_that_is_missing_by_then(
    theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = half_way(theirs, ours, monkeypatch, "--trust")["target"]
    forge = Forge(ours, brought)
    forge.id = brought
    with_file(forge, "refs/bisect/bad", ONE)
    as_of_an_older_ckpt(ours)

    assert "is missing" in ckpt_here("rollback", "--continue", cwd=ours, code=1).stderr
    ckpt_here("rollback", "--abort", cwd=ours, code=0)
    assert git("status", "--porcelain", cwd=ours) == ""


@pytest.mark.parametrize("age", ["of now", "older"])
def test_a_rollback_is_not_taken_back_to_commands_that_came_meanwhile(
    age: str, theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    safety = half_way(theirs, ours, monkeypatch)["safety"]
    made = git("rev-parse", f"refs/checkpoints/{safety}", cwd=ours).strip()
    replace_with_commands(ours, safety)
    if age == "older":
        as_of_an_older_ckpt(ours)

    refused = ckpt_here("rollback", "--abort", cwd=ours, code=4).stderr
    assert "exec evil" in refused
    assert "'git ckpt rollback --continue' finishes the rollback" in refused
    assert not (ours / ".git/rebase-merge").exists()
    bring_back = f"git update-ref refs/checkpoints/{safety} {made}"
    assert (bring_back in refused) == (age == "of now")
    git(*bring_back.split()[1:], cwd=ours)
    ckpt_here("rollback", "--abort", cwd=ours, code=0)
    assert git("status", "--porcelain", cwd=ours) == ""


@pytest.mark.parametrize(("way", "goal"), [("--continue", "target"), ("--abort", "safety")])
def test_a_rollback_does_not_end_at_another_checkpoint_than_its_own(
    way: str, goal: str, theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = half_way(theirs, ours, monkeypatch)
    made = git("rev-parse", f"refs/checkpoints/{found[goal]}", cwd=ours).strip()
    forge = Forge(ours, found[goal])
    forge.id = found[goal]
    forge.checkpoint(forge.tree(("100644", b"harmless", forge.blob())))
    before = tree_state(ours)

    refused = ckpt_here("rollback", way, cwd=ours, code=4).stderr
    assert f"checkpoint '{found[goal]}' is another one by now" in refused
    assert f"'git update-ref refs/checkpoints/{found[goal]} {made}'" in refused
    assert tree_state(ours) == before
    other = "--abort" if way == "--continue" else "--continue"
    told = ckpt_here("status", cwd=ours).stdout
    assert f"git ckpt rollback {other}\n" in told and f"rollback {way}" not in told
    ckpt_here("rollback", other, cwd=ours, code=0)
    assert not (ours / "harmless").exists()


def test_a_rollback_is_taken_back_though_nobody_remembers_what_was_made_here(
    theirs: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own safety checkpoint is known by its commit, and so may name commands."""
    git("checkout", "-q", "-b", "topic", "origin/topic", cwd=ours)
    stopped(ours, "rebase", "-x", "true", "main")
    todo = (ours / ".git/rebase-merge/git-rebase-todo").read_bytes()
    half_way(theirs, ours, monkeypatch)
    (ours / ".git/ckpt/made-here").unlink()

    ckpt_here("rollback", "--abort", cwd=ours, code=0)

    assert (ours / ".git/rebase-merge/git-rebase-todo").read_bytes() == todo


# What is printed


def test_a_terminal_is_never_told_what_to_do(scene: Scene) -> None:
    evil = "\x1b]0;evil\x07\x9b2J\u202e\r"
    forge = scene.forge
    forge.checkpoint(
        changes=[("\n\nwhy\n", f"\n\nwhy {evil}\n"), ("Ckpt-Session: s", "Ckpt-Session: %1B]0;x")]
    )
    shown = scene.run("show", forge.id, code=0).stdout
    forge.checkpoint(changes=[("good\n\nwhy", f"a name {evil}\n\nwhy")])
    shown += scene.run("list", code=0).stdout + scene.run("show", forge.id, code=1).stderr

    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(shown)


# What a terminal would hide, repeat or write elsewhere, and what would pass for lines of ours.
FORGED = "x\n20260101-000000-000-0000  just now  manual  forged\x1b[8m\x1b[0m\u2028\x85"
QUOTED = "".join(f"%{byte:02X}" for byte in FORGED.encode())


def forged_everywhere(scene: Scene) -> str:
    """A checkpoint with that text in everything that is told of one; returns its id."""
    forge = scene.forge
    inside = {"path": "sub", "commit": FORGED, "branch": FORGED, "dirty": True}
    inside |= {"checkpoint": None, "problem": FORGED}
    manifest(
        nested=[inside],
        skipped=[{"path": FORGED, "reason": FORGED}],
        operation={"name": FORGED, "fingerprint": ""},
    )(forge)
    (state,) = git("rev-parse", f"refs/checkpoints/{forge.id}^2", cwd=scene.repo).split()
    forge.checkpoint(
        state=state,
        changes=[
            ("\n\nwhy\n", f"\n\nwhy\nName:     {FORGED}\n"),
            ("Ckpt-Session: s", f"Ckpt-Session: {QUOTED}"),
            ("Ckpt-Branch: main", f"Ckpt-Branch: {QUOTED}"),
        ],
    )
    return forge.id


@pytest.mark.parametrize("colours", [False, True])
def test_what_a_checkpoint_tells_makes_no_line_and_no_colour_of_its_own(
    scene: Scene, colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = forged_everywhere(scene)
    monkeypatch.setattr(Output, "colours", lambda *_: colours)
    said = {}
    for words in ("list", "show ID", "verify ID", "rollback ID --head", "drop ID", "trash"):
        ran = ckpt_here(*words.replace("ID", forged).split(), cwd=scene.repo)
        said[words] = ran.stdout + ran.stderr

    lines = "".join(said.values()).splitlines()
    assert not [line for line in lines if line.startswith("20260101")]
    assert not [line for line in lines if line.startswith("Name:") and "good" not in line]
    assert "\x1b[8m" not in "".join(lines)
    for words in ("list", "show ID", "trash"):
        assert "x\\n20260101-000000-000-0000  just now  manual  forged\\x1b[8m" in said[words]
    for line in lines:
        # Ours begin and end around an id or a word; the text's own end nothing.
        assert line.count("\x1b[0m") * 2 == line.count("\x1b[")
        assert ("\x1b[" in line) <= colours


def test_a_hint_of_ours_cannot_be_made_up_by_a_path(scene: Scene) -> None:
    ran = scene.run("rollback", "x\nhint: git ckpt drop good")

    assert ran.code == 3
    assert [line[:5] for line in ran.stderr.splitlines()] == ["error", "hint:"]
    assert "'x\\nhint: git ckpt drop good'" in ran.stderr


COMMAND = "$(touch pwned; echo 1234567890123456789)"  # as long as an id


@pytest.mark.parametrize("place", ["tree", "HEAD", "state"])
def test_no_command_to_type_has_anothers_command_in_place_of_an_id(
    scene: Scene, place: str
) -> None:
    forge = scene.forge
    head, state = forge.parents
    parts = {"tree": forge.tree_id, "HEAD": head, "state": state, place: COMMAND}
    forge.checkpoint(
        parts["tree"],
        parts["state"],
        parents=[parts["HEAD"], parts["state"]],
        changes=[(head, parts["HEAD"])],
    )
    assert len(COMMAND) == len(head)

    for words in ("verify ID", "show ID", "diff ID", "rollback ID --head", "pin ID", "doctor"):
        ran = scene.run(*words.replace("ID", forge.id).split())
        assert ran.code
        assert "touch" not in ran.stdout + ran.stderr, words
