# SPDX-License-Identifier: MIT
"""An agent's settings get ckpt's hooks and nothing else, and are given back as they were."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import git
from hypothesis import given
from hypothesis import strategies as st

from ckpt.git.repository import discover
from ckpt.install import agents, parts
from ckpt.install.record import Step, Target
from ckpt.models import Finding
from ckpt.triggers.agents import AGENTS

every_agent = pytest.mark.parametrize("agent", AGENTS)


def target(top: Path, **options: Any) -> Target:
    env = dict(os.environ)
    return Target(discover(str(top), env), env, options.pop("python", sys.executable), **options)


def settings_of(top: Path, agent: str) -> Path:
    return top / AGENTS[agent].local


def install(top: Path, agent: str, **options: Any) -> list[str]:
    return actions(agents.install(target(top, **options), agent))


def uninstall(top: Path, agent: str, **options: Any) -> list[str]:
    return actions(agents.uninstall(target(top, **options), agent))


def actions(steps: list[Step]) -> list[str]:
    return [step.action for step in steps if step.action != "note"]


def commands(document: Any) -> list[str]:
    """Every command that a settings file names, wherever."""
    if isinstance(document, list):
        return [found for item in document for found in commands(item)]
    if not isinstance(document, dict):
        return []
    named = [document["command"]] if "command" in document else []
    return named + [found for item in document.values() for found in commands(item)]


def theirs(agent: str, event: str | None = None) -> dict[str, Any]:
    """Settings in which somebody has hooks of their own."""
    entry: dict[str, Any] = {"command": "./check.sh"}
    if AGENTS[agent].has_groups:
        entry = {"matcher": "*", "hooks": [{"type": "command", "command": "./check.sh"}]}
    document = {"model": "é", "hooks": {event or "Other": [entry]}, "last": [1, {"x": None}]}
    return {**AGENTS[agent].required, **document}


@every_agent
def test_a_file_that_was_not_there_is_made_and_goes_with_its_folder(agent: str, repo: Path) -> None:
    path = settings_of(repo, agent)
    assert install(repo, agent) == ["added"]
    document = json.loads(path.read_text())

    assert set(document["hooks"]) == set(AGENTS[agent].events)
    wanted = f"{shlex.quote(sys.executable)} -I -m ckpt hook {agent}"
    assert set(commands(document)) == {wanted}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 & ~_umask()
    assert install(repo, agent) == ["kept"]
    assert uninstall(repo, agent) == ["removed"]
    assert not path.parent.exists()
    assert not (repo / ".git/ckpt/installed.json").exists()
    assert uninstall(repo, agent) == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@every_agent
@pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
def test_what_others_have_there_stays_to_the_byte(agent: str, indent: Any, repo: Path) -> None:
    path = settings_of(repo, agent)
    path.parent.mkdir()
    for document in (theirs(agent), theirs(agent, next(iter(AGENTS[agent].events))), {}):
        for end in ("", "\n"):
            before = json.dumps(document, indent=indent) + end
            path.write_bytes(before.encode())
            path.chmod(0o640)
            assert install(repo, agent) == ["added"]
            merged = json.loads(path.read_text())
            assert len(commands(merged)) == len(commands(document)) + len(AGENTS[agent].events)
            assert {**merged, "hooks": 0} == {**AGENTS[agent].required, **document, "hooks": 0}
            assert uninstall(repo, agent) == ["removed"]

            assert path.read_bytes() == before.encode()
            assert stat.S_IMODE(path.stat().st_mode) == 0o640


@every_agent
def test_what_was_added_since_stays_when_ours_goes(agent: str, repo: Path) -> None:
    """As the agent itself does when a person allows it something."""
    path = settings_of(repo, agent)
    install(repo, agent)
    document = json.loads(path.read_text())
    document["permissions"] = {"allow": ["x"]}
    event, items = next(iter(document["hooks"].items()))
    inner = items[0].get("hooks", items)
    inner.append({"type": "command", "command": "./mine.sh"})
    path.write_text(json.dumps(document, indent=1))
    assert uninstall(repo, agent) == ["removed"]

    left = json.loads(path.read_text())
    assert commands(left) == ["./mine.sh"]
    assert left["permissions"] == {"allow": ["x"]}
    assert list(left["hooks"]) == [event]


@every_agent
def test_a_file_of_ours_that_was_only_formatted_goes_too(agent: str, repo: Path) -> None:
    path = settings_of(repo, agent)
    install(repo, agent)
    path.write_text(json.dumps(json.loads(path.read_text())))
    uninstall(repo, agent)

    assert not path.exists()


@every_agent
@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"nothing",
        b'{"hooks": []}',
        b'{"hooks": {"SessionStart": {}, "sessionStart": 1}}',
        b'{"a": "\xff"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_settings_file_is_not_touched(agent: str, text: bytes, repo: Path) -> None:
    path = settings_of(repo, agent)
    path.parent.mkdir()
    path.write_bytes(text)

    assert install(repo, agent) == ["to-do"]
    assert path.read_bytes() == text
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert agents.inspect(target(repo)) == []
    assert uninstall(repo, agent) == [], "nothing of ours was ever there"


@every_agent
def test_a_file_that_somebody_broke_since_is_not_touched(agent: str, repo: Path) -> None:
    path = settings_of(repo, agent)
    install(repo, agent)
    path.write_text(broken := path.read_text() + "}")

    assert uninstall(repo, agent) == ["to-do"]
    assert path.read_text() == broken
    path.write_text(broken[:-1])
    assert uninstall(repo, agent) == ["removed"]
    assert not path.exists()


@every_agent
def test_what_others_have_put_into_a_shared_file_stays(agent: str, repo: Path) -> None:
    path = settings_of(repo, agent)
    install(repo, agent)
    (repo / ".git/ckpt/installed.json").unlink()
    git("add", "-f", str(path), cwd=repo)

    [step] = agents.uninstall(target(repo), agent)
    assert (step.action, path.exists()) == ("note", True)
    assert uninstall(repo, agent, edit_tracked=True) == ["removed"]
    assert json.loads(path.read_text()) == AGENTS[agent].required


@every_agent
def test_settings_with_comments_are_refused(agent: str, repo: Path) -> None:
    path = settings_of(repo, agent)
    path.parent.mkdir()
    before = '{\n  // why\n  "a": 1\n}\n'
    path.write_text(before)

    assert install(repo, agent) == ["to-do"]
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "hooks": H\n}'),
        ("{}\n", '{\n  "hooks": H\n}\n'),
        ('{ "a":1 }', '{\n  "hooks": H, "a":1 }'),
        ('{\n\t"a": [ 1 ]\n}\n', '{\n\t"hooks": H,\n\t"a": [ 1 ]\n}\n'),
        ('{\n "a": "\\ud800"\n}\n', '{\n "hooks": H,\n "a": "\\ud800"\n}\n'),
    ],
)
def test_where_there_are_no_hooks_nothing_else_changes(before: str, after: str, repo: Path) -> None:
    path = settings_of(repo, "claude-code")
    path.parent.mkdir()
    path.write_text(before)
    install(repo, "claude-code")

    text = path.read_text()
    start = text.index('"hooks": ') + 9
    _, end = json.JSONDecoder().raw_decode(text, start)
    assert text[:start] + "H" + text[end:] == after
    uninstall(repo, "claude-code")
    assert path.read_text() == before


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
HOOKS = st.dictionaries(st.sampled_from(["PreToolUse", "Stop"]), st.lists(JSON, max_size=3))


@given(st.dictionaries(st.text(), JSON, max_size=4), st.none() | HOOKS)
def test_what_is_merged_into_any_settings_can_be_taken_out(others: Any, hooks: Any) -> None:
    document = {**others, **({} if hooks is None else {"hooks": hooks})}
    text = agents.merged(json.dumps(document), "claude-code", sys.executable)
    merged = json.loads(text)
    left = agents.without_ours(merged, "claude-code")

    assert agents.found(merged, "claude-code") == agents.wanted("claude-code", sys.executable)
    assert {**left, "hooks": 0} == {**document, "hooks": 0}
    kept = [
        {e: items for e, items in (each or {}).items() if items}
        for each in (left.get("hooks"), hooks)
    ]
    assert kept[0] == kept[1]


@every_agent
def test_another_python_takes_the_place_of_the_first(
    agent: str, repo: Path, tmp_path: Path
) -> None:
    path = settings_of(repo, agent)
    path.parent.mkdir()
    before = json.dumps(theirs(agent), indent=2)
    path.write_text(before)
    other = tmp_path / "it's a python"
    other.symlink_to(sys.executable)
    install(repo, agent)
    assert install(repo, agent, python=str(other)) == ["changed"]

    ours = [line for line in commands(json.loads(path.read_text())) if "ckpt" in line]
    assert {tuple(shlex.split(line)) for line in ours} == {
        (str(other), "-I", "-m", "ckpt", "hook", agent)
    }
    assert len(ours) == len(AGENTS[agent].events)
    uninstall(repo, agent)
    assert path.read_text() == before


@every_agent
def test_a_tracked_file_is_edited_only_if_asked(agent: str, repo: Path) -> None:
    path = settings_of(repo, agent)
    path.parent.mkdir()
    path.write_text(before := json.dumps(theirs(agent)))
    git("add", "-f", str(path), cwd=repo)
    [step] = agents.install(target(repo), agent)

    assert (step.action, path.read_text()) == ("to-do", before)
    assert f"git ckpt install --agent {agent} --edit-tracked" in step.advice
    assert install(repo, agent, edit_tracked=True) == ["added"]
    assert uninstall(repo, agent) == ["removed"], "we know that it was us"
    assert path.read_text() == before


@every_agent
def test_a_link_that_leads_elsewhere_stays_one(agent: str, repo: Path, tmp_path: Path) -> None:
    path = settings_of(repo, agent)
    path.parent.mkdir()
    (tmp_path / "dotfile").write_text("{}")
    path.symlink_to(tmp_path / "dotfile")

    assert install(repo, agent) == ["to-do"]
    assert install(repo, agent, edit_tracked=True) == ["added"]
    assert path.is_symlink()
    uninstall(repo, agent)
    assert (tmp_path / "dotfile").read_text() == "{}"


@every_agent
def test_for_all_repositories_it_is_the_users_own_file(
    agent: str, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home of a user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert install(repo, agent, is_global=True) == ["added"]
    assert (home / AGENTS[agent].user).exists()
    assert install(repo, agent) == ["kept"], "twice would be too much"
    assert not settings_of(repo, agent).exists()
    assert states(repo) == {agent: "installed"}
    uninstall(repo, agent, is_global=True)

    assert not (home / AGENTS[agent].user).exists()
    assert states(repo) == {}


def test_a_folder_that_the_user_has_moved_is_found(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
    for agent in ("claude-code", "codex"):
        install(repo, agent, is_global=True)

    assert (tmp_path / "c/settings.json").exists()
    assert (tmp_path / "x/hooks.json").exists()


def states(top: Path) -> dict[str, str]:
    return {found.trigger: found.state for found in agents.inspect(target(top))}


@every_agent
def test_what_became_of_it_is_seen(agent: str, repo: Path, tmp_path: Path) -> None:
    path = settings_of(repo, agent)
    assert states(repo) == {}
    install(repo, agent)
    assert states(repo) == {agent: "installed"}
    document = json.loads(path.read_text())
    document["hooks"].popitem()
    path.write_text(json.dumps(document))
    [found] = agents.inspect(target(repo))
    assert found.detail.endswith("not as this ckpt writes it")
    path.write_text("{")
    assert states(repo) == {agent: "replaced"}
    path.unlink()
    assert states(repo) == {agent: "replaced"}

    (tmp_path / "gone").symlink_to(sys.executable)
    install(repo, agent, python=str(tmp_path / "gone"))
    (tmp_path / "gone").unlink()
    [found] = agents.inspect(target(repo))
    mend = f"git ckpt install --agent {agent}"
    assert found == Finding(
        agent, "replaced", f"'{tmp_path / 'gone'}', which it starts, is gone", mend
    )


def test_everything_comes_out_together(repo: Path) -> None:
    parts.install(target(repo), tuple(AGENTS))
    assert all(settings_of(repo, agent).exists() for agent in AGENTS)
    parts.uninstall(target(repo), parts.EVERYTHING)

    assert git("status", "--short", "--ignored", cwd=repo) == ""
