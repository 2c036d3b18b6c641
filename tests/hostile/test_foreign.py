# SPDX-License-Identifier: MIT
"""Checkpoints that others made, brought by git itself: their files yes, their commands no."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from hostile.forge import Forge
from hostile.inputs import FOLDER, manifest, nested
from hostile.scene import Scene

from ckpt import CheckpointManager, ids
from ckpt.output import Output

ALL_REFS = "+refs/checkpoints/*:refs/checkpoints/*"


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


def test_a_trigger_is_not_content_with_what_another_has_saved(theirs: Path, ours: Path) -> None:
    brought = fetched(theirs, ours)

    first = ckpt_here("save", "--kind", "auto", "--json", cwd=ours, code=0).json
    fetched(theirs, ours)
    again = ckpt_here("save", "--kind", "auto", "--json", cwd=ours, code=0).json

    assert first["outcome"] == "created"
    assert first["checkpoint"]["id"] > brought
    assert (again["outcome"], again["checkpoint"]["id"]) == ("unchanged", first["checkpoint"]["id"])


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


def test_nothing_gets_into_a_git_dir_of_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    ran = ckpt_here("rollback", forge.id, "--yes", "--overwrite-ignored", code=4)

    assert "'meta/hooks/post-checkout' alone: nested" in ran.stderr
    assert tree_state(top / "meta/hooks") == before
    assert not (top / "meta/x").exists()


STATE_FILE = b'{"files": [{"path": "meta/x", "permissions": 420}]}'


@pytest.mark.parametrize("words", ["", "--overwrite-ignored"])
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

    scene.run("rollback", forge.id, "--yes", "--overwrite-ignored")

    assert (scene.outside / "x").read_text() == "mine\n"


# Its operations


@pytest.mark.parametrize("words", [(), ("--head",)])
def test_the_operation_of_another_never_comes_along(
    theirs: Path, ours: Path, words: tuple[str, ...]
) -> None:
    stopped(theirs, "rebase", "--exec", "touch ../pwned", "topic")
    brought = fetched(theirs, ours)

    ckpt_here("rollback", brought, *words, cwd=ours, code=0)

    assert not (ours / ".git/rebase-merge").exists()
    head = git("rev-parse", "HEAD", cwd=theirs if words else ours)
    assert git("rev-parse", "HEAD", cwd=ours) == head


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
    inside = {"path": "sub", "commit_hash": FORGED, "branch": FORGED, "dirty": True}
    inside |= {"checkpoint": None, "problem": FORGED}
    manifest(
        nested=[inside],
        skipped=[{"path": FORGED, "reason": FORGED}],
        operation=FORGED,
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
