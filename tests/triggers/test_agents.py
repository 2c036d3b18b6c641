# SPDX-License-Identifier: MIT
"""What the events of agents lead to. The samples in `events/` follow each agent's documents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import git
from saving import committed, write_all
from seam import failing

from ckpt.engine.sessions import NO_FILE, SessionState, look
from ckpt.models import Kind, Outcome
from ckpt.triggers.agents import (
    AFTER,
    AGENTS,
    BEFORE,
    PROMPT,
    START,
    Agent,
    Event,
    act,
    destroys,
    patched,
    read,
)
from ckpt.triggers.fire import Fired

EVENTS = Path(__file__).parent / "events"
every_agent = pytest.mark.parametrize("name", AGENTS)
Play = Callable[..., Fired | None]


def sample(name: str, event: str, top: str = "/repo") -> dict[str, Any]:
    text = (EVENTS / f"{name}.json").read_text(encoding="utf-8").replace("@REPO@", top)
    found: dict[str, Any] = json.loads(text)[event]
    return found


def told(name: str, event: str) -> Event | None:
    return read(AGENTS[name], sample(name, event))


# -- what an agent tells ---------------------------------------------------------------


@every_agent
@pytest.mark.parametrize(
    ("event", "occasion", "paths", "destroys"),
    [
        ("start", START, (), False),
        ("prompt", PROMPT, (), False),
        ("before-edit", BEFORE, ("edited.txt",), False),
        ("after-edit", AFTER, ("edited.txt",), False),
        ("before-create", BEFORE, ("created.txt",), False),
        ("after-create", AFTER, ("created.txt",), False),
        ("before-shell", BEFORE, (), False),
        ("before-reading", BEFORE, (), False),
        ("before-destroying", BEFORE, (), True),
        ("before-unknown", BEFORE, (), False),
    ],
)
def test_each_agent_is_understood(
    name: str, event: str, occasion: str, paths: tuple[str, ...], destroys: bool
) -> None:
    found = told(name, event)

    assert found is not None
    assert (found.occasion, found.folder, found.destroys) == (occasion, "/repo", destroys)
    assert paths == tuple(os.path.relpath(os.path.join("/repo", p), "/repo") for p in found.paths)
    named = sample(name, event)
    assert found.session in (named.get("session_id"), named.get("conversation_id"))


@every_agent
@pytest.mark.parametrize("event", ["stop", "end"])
def test_what_changes_nothing_is_no_event(name: str, event: str) -> None:
    assert told(name, event) is None


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_session_goes_on_after_its_history_was_summarised(name: str) -> None:
    assert told(name, "compact") is None


def test_a_patch_names_all_the_files_that_it_touches() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a b.txt\n*** Move to: sub/c.txt\n@@\n-x\n+y\n"
        "*** Delete File: d\n*** Add File: e\n+*** text\n*** End Patch"
    )

    assert patched({"command": patch}) == ("a b.txt", "sub/c.txt", "d", "e")
    assert patched({"file_path": "/x"}) == ("/x",)


@every_agent
def test_what_is_no_event_is_none(name: str) -> None:
    good = sample(name, "before-edit")
    bad: list[object] = [None, [], "x", 1, {}, {"hook_event_name": ["x"]}]
    bad += [{**good, "hook_event_name": "Unheard"}, {**good, "cwd": 7, "workspace_roots": "/x"}]
    bad += [{**good, "session_id": "\n", "conversation_id": None}]
    bad += [{**good, "cwd": "relative", "workspace_roots": [None, "also"]}]
    bad += [{**good, "cwd": "/half \ud800", "workspace_roots": ["/\ud800"]}]

    assert [None] * len(bad) == [read(AGENTS[name], document) for document in bad]


@every_agent
def test_odd_input_of_a_tool_still_counts_as_a_tool(name: str) -> None:
    odd: object
    for odd in (
        None,
        [],
        "text",
        {"file_path": 7},
        {"file_path": "a\0b"},
        {"command": {}},
        {"file_path": "\ud800"},
    ):
        found = read(AGENTS[name], {**sample(name, "before-edit"), "tool_input": odd})
        assert found is not None and found.paths == ()
    for odd in ([], {}, 7, ["Write"]):
        found = read(AGENTS[name], {**sample(name, "before-edit"), "tool_name": odd})
        assert found is not None and found.paths == ()


@every_agent
@pytest.mark.parametrize("event", ["prompt", "before-shell", "after-edit", "stop", ""])
def test_the_answer_decides_nothing(name: str, event: str) -> None:
    agent: Agent = AGENTS[name]
    answer = agent.answer(sample(name, event)["hook_event_name"] if event else "")

    if name in ("claude-code", "codex"):
        assert answer == ""
    elif (name, event) == ("cursor", "prompt"):
        assert json.loads(answer) == {"continue": True}
    else:
        assert json.loads(answer) == {}


# -- what a shell command can do -------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "",
        "make",
        "ls | head",
        "cat <<EOF > x\nrmx\nEOF",
        "git add -A",
        "git --no-pager log",
        "env ls",
    ],
)
def test_a_command_that_takes_nothing_away_is_known(line: str) -> None:
    assert not destroys(line)


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "ls && rm -rf build",
        "sudo /bin/rm x",
        "bash -c 'rm -rf x'",
        "$(rm x)",
        "xargs rm < list",
        "mv a b",
        "find . -name x -delete",
        "git checkout .",
        "git -C sub reset --hard",
        "git stash",
        "cd x; git clean -fd",
        "bash -lc 'git restore .'",
        "rsync -a --delete a/ b/",
    ],
)
def test_a_command_that_takes_files_away_is_known(line: str) -> None:
    assert destroys(line)


def test_a_command_without_end_is_not_looked_at_and_saved_for() -> None:
    assert not destroys("echo " + "a" * 60_000)
    assert destroys("echo " + "a" * 100_000_000)


@every_agent
def test_a_path_that_no_system_call_takes_is_none(name: str) -> None:
    event = sample(name, "before-edit")
    far = "/" + "a/" * 100_000
    given = {**event, "cwd": far, "workspace_roots": [far]}

    assert read(AGENTS[name], given) is None


def test_a_long_text_about_git_is_looked_through_for_commands() -> None:
    assert not destroys("cat >notes <<END\n" + "git status is\n" * 4000 + "END")
    assert destroys("cat <<END\n" + "git status is\n" * 4000 + "END\ngit clean")


def test_a_git_command_behind_more_options_than_it_has_is_in_doubt() -> None:
    assert destroys("git " + "-c a=b " * 100 + "status >x")


# -- what comes of it ------------------------------------------------------------------


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = committed(tmp_path / "repo", {"edited.txt": b"one\n"})
    write_all(made, {"mine.txt": b"a person's\n"})
    return made


@pytest.fixture(params=AGENTS)
def play(request: pytest.FixtureRequest, top: Path) -> Iterator[Play]:
    """Let an agent tell of an event in the worktree."""

    def play(event: str, **env: str) -> Fired | None:
        found = read(AGENTS[request.param], sample(request.param, event, str(top)))
        assert found is not None
        return act(request.param, found, {**os.environ, **env})

    yield play


def saved(fired: Fired | None) -> tuple[Outcome, Kind | None]:
    assert fired is not None
    made = fired.result.checkpoint
    return fired.result.outcome, None if made is None else made.kind


def state_of(top: Path) -> SessionState:
    (path,) = (top / ".git/ckpt/sessions").iterdir()
    state = SessionState(str(top / ".git/ckpt"), "")
    state.path = str(path)
    return state


def refs(top: Path) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/checkpoints", cwd=top).split()


def test_a_session_begins_with_its_checkpoint(play: Play, top: Path) -> None:
    assert saved(play("start")) == (Outcome.CREATED, Kind.SESSION)
    assert state_of(top).read().turn == 0


def test_there_is_one_checkpoint_a_turn(play: Play, top: Path) -> None:
    play("start")
    play("prompt")
    write_all(top, {"mine.txt": b"edited by a person\n"})
    first = saved(play("before-edit"))
    write_all(top, {"edited.txt": b"two\n"})
    others = [play("before-edit"), play("before-shell"), play("before-unknown")]
    play("prompt")

    assert first == (Outcome.CREATED, Kind.AUTO)
    assert others == [None, None, None]
    assert saved(play("before-shell")) == (Outcome.CREATED, Kind.AUTO)
    assert len(refs(top)) == 3


def test_before_files_go_there_is_another_one_unless_nothing_changed(play: Play, top: Path) -> None:
    play("prompt")
    play("before-edit")
    assert saved(play("before-destroying"))[0] == Outcome.UNCHANGED
    write_all(top, {"edited.txt": b"two\n"})

    assert saved(play("before-destroying")) == (Outcome.CREATED, Kind.AUTO)
    assert play("before-edit") is None


def test_a_session_whose_start_was_not_told_begins_with_its_first_prompt(play: Play) -> None:
    assert saved(play("prompt")) == (Outcome.CREATED, Kind.SESSION)
    assert play("prompt") is None


def test_the_ledger_knows_what_the_agent_wrote(play: Play, top: Path) -> None:
    play("prompt")
    for event, name, text in (
        ("edit", "edited.txt", b"two\n"),
        ("create", "created.txt", b"made\n"),
        ("edit", "edited.txt", b"three\n"),
    ):
        play(f"before-{event}")
        write_all(top, {name: text})
        assert play(f"after-{event}") is None
    (top / "created.txt").unlink()
    play("after-create")

    writes = state_of(top).read().writes
    assert {path: (w.content, w.created, w.turn) for path, w in writes.items()} == {
        b"edited.txt": (look(str(top / "edited.txt")), False, 1),
        b"created.txt": (NO_FILE, True, 1),
    }


def test_hooks_inside_a_run_belong_to_its_session(play: Play, top: Path) -> None:
    fired = play("start", CKPT_SESSION="the run")
    assert saved(fired) == (Outcome.CREATED, Kind.AUTO), "the run has taken its own"
    assert fired is not None and fired.result.checkpoint is not None
    assert fired.result.checkpoint.session == "the run"
    play("prompt", CKPT_SESSION="the run")

    assert SessionState(str(top / ".git/ckpt"), "the run").read().turn == 1


def test_a_folder_that_is_no_repository_is_left_alone(play: Play, top: Path) -> None:
    (top / ".git").rename(top.parent / "away")

    for event in ("start", "prompt", "before-edit", "after-edit"):
        assert play(event) is None
    assert sorted(path.name for path in top.iterdir()) == ["edited.txt", "mine.txt"]


def test_an_agent_that_is_turned_off_leaves_no_trace(play: Play, top: Path) -> None:
    git("config", "ckpt.enabled", "false", cwd=top)

    for event in ("start", "prompt", "before-edit", "after-edit"):
        assert play(event) is None
    assert not (top / ".git/ckpt/sessions").exists()


def test_a_checkpoint_that_failed_is_tried_again_at_the_next_tool(play: Play, top: Path) -> None:
    play("prompt")
    write_all(top, {"mine.txt": b"edited\n"})
    with failing("link", "rename"):
        failed = play("before-edit")

    assert failed is not None and not failed.result and failed.warnings
    assert saved(play("before-edit")) == (Outcome.CREATED, Kind.AUTO)


def test_turns_that_cannot_be_noted_cost_no_checkpoint(play: Play, top: Path) -> None:
    (top / ".git/ckpt").mkdir(mode=0o700)
    (top / ".git/ckpt/sessions").write_text("in the way")

    assert saved(play("before-edit")) == (Outcome.CREATED, Kind.AUTO)
    assert play("prompt") is None
    assert play("after-edit") is None


def test_a_checkpoint_whose_turn_cannot_be_noted_is_taken_once(play: Play, top: Path) -> None:
    play("prompt")
    write_all(top, {"mine.txt": b"edited\n"})
    with failing("overwrite"):
        assert saved(play("before-edit")) == (Outcome.CREATED, Kind.AUTO)


def test_paths_outside_and_through_links_are_where_they_lead(top: Path) -> None:
    (top / "real").mkdir()
    (top / "real/file").write_text("x")
    (top / "way").symlink_to("real")
    (top / "link").symlink_to("real/file")
    event = Event(AFTER, "s", str(top), ("way/file", "../outside", ".git/config", "link", "."))
    act("codex", event, os.environ)

    assert state_of(top).read().writes.keys() == {b"real/file", b"link"}


@pytest.fixture
def other(top: Path) -> Path:
    """A repository beside the one that the agent works in, with an edit."""
    made = committed(top.parent / "other", {"edited.txt": b"1"})
    write_all(made, {"edited.txt": b"an hour of work"})
    return made


def edit(top: Path, path: object, occasion: str = BEFORE) -> Fired | None:
    return act("claude-code", Event(occasion, "s", str(top), (str(path),)), os.environ)


def test_a_file_in_another_repository_is_saved_there_once_a_turn(top: Path, other: Path) -> None:
    for _ in range(2):
        edit(top, other / "edited.txt")

    assert len(refs(other)) == 1
    assert git("show", f"{refs(other)[0]}:edited.txt", cwd=other) == "an hour of work"

    act("claude-code", Event(PROMPT, "s", str(top)), os.environ)
    write_all(other, {"edited.txt": b"the second"})
    edit(top, other / "edited.txt")
    assert len(refs(other)) == 2


def test_a_turn_of_its_own_with_the_same_number_is_another_one(top: Path, other: Path) -> None:
    """The agent's folder may change, and each of the two counts."""

    def turn(folder: Path, content: bytes) -> None:
        act("claude-code", Event(PROMPT, "s", str(folder)), os.environ)
        write_all(other, {"edited.txt": content})
        edit(folder, other / "edited.txt")

    turn(top, b"first")
    turn(other, b"second")
    turn(top, b"third")
    turn(other, b"fourth")

    contents = [git("show", f"{ref}:edited.txt", cwd=other) for ref in refs(other)]
    assert contents == ["first", "second", "third", "fourth"]


def test_so_is_one_that_only_a_link_leads_to(top: Path, other: Path) -> None:
    (top / "link").symlink_to(other / "edited.txt")

    edit(top, "link")

    assert len(refs(top)) == 1 == len(refs(other))


def test_a_repository_inside_is_another_one(top: Path) -> None:
    (top / "deep").mkdir()
    inner = committed(top / "deep/inner", {"file": b"1"})
    write_all(inner, {"file": b"2"})

    edit(top, inner / "new/file")

    assert len(refs(inner)) == 1


def test_where_the_agents_folder_is_no_repository_those_that_it_writes_to_are_saved(
    top: Path, other: Path
) -> None:
    fired = edit(top.parent, other / "edited.txt")

    assert saved(fired) == (Outcome.CREATED, Kind.AUTO)
    assert len(refs(other)) == 1
    assert refs(top) == []


def test_where_nobody_counts_turns_it_is_saved_each_time(top: Path, other: Path) -> None:
    for content in (b"first", b"second"):
        act("claude-code", Event(PROMPT, "s", str(top.parent)), os.environ)
        write_all(other, {"edited.txt": content})
        edit(top.parent, other / "edited.txt")

    contents = [git("show", f"{ref}:edited.txt", cwd=other) for ref in refs(other)]
    assert contents == ["first", "second"]


def test_the_ledger_of_another_repository_knows_what_was_written_there(
    top: Path, other: Path
) -> None:
    edit(top, other / "edited.txt")
    write_all(other, {"edited.txt": b"by the agent"})
    edit(top, other / "edited.txt", AFTER)

    assert state_of(other).read().writes[b"edited.txt"].content == look(str(other / "edited.txt"))


def test_the_git_dir_that_is_named_counts_wherever_a_file_is(top: Path, other: Path) -> None:
    env = {**os.environ, "GIT_DIR": str(top / ".git"), "GIT_WORK_TREE": str(top)}

    act("claude-code", Event(BEFORE, "s", str(top), (str(other / "edited.txt"),)), env)

    assert refs(other) == []


def test_no_filter_of_a_repository_that_a_file_is_in_is_run(top: Path, other: Path) -> None:
    ran = top.parent / "ran"
    write_all(other, {".gitattributes": b"*.txt filter=evil\n"})
    git("config", "filter.evil.clean", f"touch '{ran}'; cat", cwd=other)

    edit(top, other / "edited.txt")

    assert not ran.exists()
    assert git("show", f"{refs(other)[0]}:edited.txt", cwd=other) == "an hour of work"


def test_a_git_file_that_leads_to_a_repository_of_the_users_gets_no_checkpoint_there(
    top: Path, other: Path
) -> None:
    (top / "got").mkdir()
    write_all(top / "got", {".git": f"gitdir: {other / '.git'}\n".encode(), "file": b"1"})

    edit(top, top / "got/file")

    assert refs(other) == []
