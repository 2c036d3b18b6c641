# SPDX-License-Identifier: MIT
"""How a checkpoint is named and found, kept, dropped and brought back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git
from scenes import write

ID = re.compile(r"\d{8}-\d{6}-\d{3}-[0-9a-hjkmnp-tv-z]{4}")


def save(*words: str) -> str:
    return saved(*words)["checkpoint"]["id"]


def saved(*words: str) -> dict:
    return ckpt("save", "--json", *words, code=0).json


def meant(word: str) -> str:
    """The id of the checkpoint that a word stands for."""
    return ckpt("show", "--json", word, code=0).json["checkpoint"]["id"]


def listed(*words: str) -> list[str]:
    return [c["id"] for c in ckpt("list", "--json", *words, code=0).json["checkpoints"]]


def test_ids_have_their_form_and_grow(repo: Path) -> None:
    made = [save() for _ in range(5)]

    assert all(map(ID.fullmatch, made))
    assert sorted(made) == made
    assert len({one[:19] for one in made}) == 5
    assert listed() == made[::-1]


def test_latest_and_its_ancestors(repo: Path) -> None:
    made = [save(f"n{number}") for number in range(3)]

    assert [meant(w) for w in ("latest", "latest~0", "latest~1", "latest~2")] == [
        made[2],
        *made[::-1],
    ]
    for command in ("show", "rollback", "diff"):
        assert "latest~3" in ckpt(command, "latest~3", code=3).stderr


def test_words_left_out_mean_latest(repo: Path) -> None:
    save("first")
    newest = save("second")
    write(repo, "README.md", "edited\n")

    assert newest in ckpt("show", code=0).stdout
    assert ckpt("diff", "--json", code=0).json["from"] == newest
    assert ckpt("rollback", "--json", code=0).json["target"]["id"] == newest


def test_latest_passes_over_safety_checkpoints_and_other_worktrees(
    repo: Path, tmp_path: Path
) -> None:
    mine = save("mine")
    write(repo, "README.md", "edited\n")
    ckpt("rollback", "mine", code=0)
    git("worktree", "add", "-q", str(tmp_path / "linked"))
    other = ckpt("save", "--json", cwd=tmp_path / "linked", code=0).json["checkpoint"]["id"]

    assert meant("latest") == mine
    assert ckpt("show", "latest~1", code=3).code == 3
    assert ckpt("show", "--json", cwd=tmp_path / "linked").json["checkpoint"]["id"] == other


def test_a_name_means_its_newest_checkpoint(repo: Path) -> None:
    save("work")
    newest = save("work")
    save("other")

    assert meant("work") == newest
    assert len(listed("--name", "work")) == 2


def test_a_prefix_of_the_id_or_of_its_last_part_is_enough(repo: Path) -> None:
    one = save()

    assert {meant(one[:4]), meant(one[:-1]), meant(one[-4:]), meant(one[-4:-1])} == {one}


def test_a_name_comes_before_a_prefix(repo: Path) -> None:
    first = save()
    second = save(first[-4:])
    third = save(first[:8])

    assert meant(first[-4:]) == second
    assert meant(first[:8]) == third
    assert meant(first) == first


def test_an_ambiguous_prefix_is_an_error_that_lists_what_it_could_mean(repo: Path) -> None:
    made = [save() for _ in range(3)]

    failed = ckpt("show", "--json", made[0][:8], code=2).json["error"]

    assert failed["code"] == "usage"
    assert sorted(failed["details"]["available"]) == made
    assert all(one in failed["message"] for one in made)
    assert failed["hint"].startswith("git ckpt ")


@pytest.mark.parametrize("word", ["nothing", "20200101-000000-000-aaaa", "zzzz", "LATEST", "héé"])
@pytest.mark.parametrize("command", ["show", "rollback", "diff", "drop", "pin", "unpin"])
def test_an_unknown_word_is_not_found(repo: Path, command: str, word: str) -> None:
    failed = ckpt(command, "--json", word, code=3).json["error"]

    assert failed["code"] == "not-found"
    assert word in failed["message"]
    assert failed["hint"].startswith("git ckpt ")
    assert failed["details"] is None or "available" in failed["details"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\t",
        "x" * 10_000,
        "two\nlines",
        "carriage\rreturn",
        "bell\a",
        "escape\x1b[31m",
        "line\u2028separator",
        b"latin1 caf\xe9",
        "latest",
        "latest~1",
        "latest-and-greatest",
        "20260101-000000-000-aaaa",
    ],
)
def test_a_bad_name_is_refused_before_anything_is_saved(repo: Path, name: str) -> None:
    failed = ckpt("save", name, code=2)

    assert failed.stderr.startswith("error: ")
    assert "hint: " in failed.stderr
    assert len(failed.stderr) < 500
    assert "\x1b" not in failed.stderr
    assert git("for-each-ref", "refs/checkpoints") == ""
    error = ckpt("save", name, "--json", code=2).json["error"]
    assert error["code"] == "usage"


@pytest.mark.parametrize(
    "name",
    [
        "before-refactor",
        "with spaces and: colon",
        "naïve Ünïcøde",
        "日本語",
        "עברית",
        "👩‍💻 zero-width",
        "e\u0301 decomposed",
        "quote\"and'quote",
        "refs/heads/main",
        "../../etc/passwd",
        "Ckpt-Format: 2",
        "#hash",
        "x" * 200,
        "HEAD",
        "20260101",
        "null",
    ],
)
def test_any_other_text_is_a_name_that_is_found_again(repo: Path, name: str) -> None:
    made = save(name)
    save("another")

    assert meant(name) == made
    assert listed("--name", name) == [made]
    assert ckpt("show", name, "--json").json["checkpoint"]["name"] == name
    assert git("log", "-1", "--format=%s", f"refs/checkpoints/{made}") == name + "\n"
    assert made in ckpt("list", code=0).stdout


def test_a_clock_that_went_back_does_not_make_an_id_older_than_the_newest(repo: Path) -> None:
    present = save()
    future = "2999" + present[4:]
    message = git("log", "-1", "--format=%B", f"refs/checkpoints/{present}")
    parents = git("rev-parse", f"refs/checkpoints/{present}^@").split()
    commit = git(
        *("commit-tree", f"refs/checkpoints/{present}^{{tree}}"),
        *(word for parent in parents for word in ("-p", parent)),
        stdin=message.replace(present, future),
    )
    git("update-ref", f"refs/checkpoints/{future}", commit.strip())
    made_here = repo / ".git/ckpt/made-here"
    line = made_here.read_text().splitlines(keepends=True)[-1]
    old = git("rev-parse", f"refs/checkpoints/{present}").strip()
    with made_here.open("a") as file:
        file.write(line.replace(present, future).replace(old, commit.strip()))

    made = saved()["checkpoint"]

    assert made["id"] > future
    assert made["id"][:16] == future[:16]
    assert int(made["id"][16:19]) == int(future[16:19]) + 1
    assert made["timestamp"] < "2999"
    assert made["timestamp"][:4] == present[:4]
    assert meant("latest") == made["id"]


# Unchanged


@pytest.mark.parametrize("kind", ["auto", "hook"])
def test_a_trigger_on_an_unchanged_state_makes_no_second_checkpoint(repo: Path, kind: str) -> None:
    write(repo, "README.md", "edited\n")
    first = saved("--kind", kind)
    second = saved("--kind", kind)

    assert (first["outcome"], second["outcome"]) == ("created", "unchanged")
    assert second["checkpoint"] == first["checkpoint"]
    assert len(listed()) == 1


def test_a_trigger_is_not_content_with_what_may_go_before(repo: Path) -> None:
    auto = saved("--kind", "auto")["checkpoint"]

    assert saved("--kind", "hook")["outcome"] == "created"
    assert saved("--kind", "auto", "--session", "s")["outcome"] == "created"
    ckpt("pin", auto["id"], code=0)
    assert saved("--kind", "hook", "--session", "other")["outcome"] == "created"
    assert saved("--kind", "hook")["checkpoint"]["kind"] == "hook"


def edit(repo: Path) -> None:
    write(repo, "README.md", "edited\n")


def stage(repo: Path) -> None:
    git("rm", "-q", "--cached", "README.md")


def commit_nothing(repo: Path) -> None:
    git("commit", "-q", "--allow-empty", "-m", "empty")


def switch(repo: Path) -> None:
    git("checkout", "-q", "-b", "other")


def allow(repo: Path) -> None:
    (repo / "README.md").chmod(0o600)


def make_folder(repo: Path) -> None:
    (repo / "hollow").mkdir()


def flag(repo: Path) -> None:
    git("update-index", "--assume-unchanged", "README.md")


def start_operation(repo: Path) -> None:
    write(repo, ".git/MERGE_HEAD", git("rev-parse", "HEAD"))


@pytest.mark.parametrize(
    "change", [edit, stage, commit_nothing, switch, allow, make_folder, flag, start_operation]
)
def test_a_trigger_on_any_change_makes_a_checkpoint(repo: Path, change) -> None:
    saved("--kind", "hook")
    change(repo)

    assert saved("--kind", "hook")["outcome"] == "created"
    assert len(listed()) == 2


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a-name",),
        ("--kind", "session"),
        ("--kind", "feature"),
        ("--kind", "hook", "a-name"),
        ("--kind", "auto", "--pin"),
        ("--kind", "auto", "--data", "1"),
        ("--kind", "auto", "--meta", "a=b"),
    ],
)
def test_what_a_person_asks_for_gets_its_own_ref(repo: Path, words: tuple[str, ...]) -> None:
    save()

    assert saved(*words)["outcome"] == "created"
    assert len(listed()) == 2


@pytest.mark.parametrize("kind", ["auto", "hook"])
def test_disabled_triggers_take_no_checkpoint_and_say_so(repo: Path, kind: str) -> None:
    told = ckpt("save", "--json", "--kind", kind, env={"CKPT_DISABLE": "1"}, code=0).json

    assert told == {"schema": 1, "outcome": "skipped", "checkpoint": None, "reason": "disabled"}
    assert listed() == []
    assert ckpt("save", "--json", env={"CKPT_DISABLE": "1"}).json["outcome"] == "created"


# Drop, trash, pin


def test_a_dropped_checkpoint_lies_in_the_trash_and_comes_back(repo: Path) -> None:
    write(repo, "README.md", "precious\n")
    one = ckpt("save", "one", "--json", code=0).json["checkpoint"]
    two = save("two")

    assert ckpt("drop", "one", "--json", code=0).json == {"schema": 1, "dropped": [one["id"]]}
    assert listed() == [two]
    ckpt("show", "one", code=3)
    trash = ckpt("trash", "--json", code=0).json["trash"]
    assert [item["checkpoint"] for item in trash] == [one]
    assert one["id"] in ckpt("trash", code=0).stdout

    git("checkout", "-q", "README.md")
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    back = ckpt("restore-dropped", "one", "--json", code=0).json["checkpoint"]
    assert back == one
    assert listed() == [two, one["id"]]
    assert ckpt("trash", "--json", code=0).json["trash"] == []
    ckpt("rollback", "one", code=0)
    assert (repo / "README.md").read_text() == "precious\n"
    assert fsck(repo) == []


def test_pin_and_unpin_show_in_every_view(repo: Path) -> None:
    one = save("one")
    ckpt("pin", "one", code=0)
    ckpt("pin", "one", code=0)

    assert meant("latest") == one
    assert ckpt("show", "one", "--json").json["checkpoint"]["pinned"] is True
    assert "pinned" in ckpt("list", code=0).stdout
    ckpt("unpin", "one", code=0)
    assert "pinned" not in ckpt("list", code=0).stdout
    assert saved("two", "--pin")["checkpoint"]["pinned"] is True


def test_list_takes_its_filters(repo: Path) -> None:
    one = save("one", "--session", "s1")
    two = save("two", "--kind", "feature")
    three = save("--kind", "hook", "three", "--session", "s1")

    assert listed("--session", "s1") == [three, one]
    assert listed("--kind", "feature") == [two]
    assert listed("--name", "one") == [one]
    assert listed("-n", "2") == [three, two]
    assert listed("-n", "0") == [three, two, one]
    assert listed("--since", "1h") == [three, two, one]
    assert listed("--until", "1h") == []
    assert listed("--since", "2999-01-01") == []
    for words in (("-n", "-1"), ("-n", "x"), ("--since", "noon"), ("--kind", "odd")):
        assert ckpt("list", *words, code=2).stderr.startswith("error: ")
