# SPDX-License-Identifier: MIT
"""`git ckpt doctor`: each trigger is inspected, and each finding has its remedy."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from byhand import locked_half_way
from helpers import ckpt_here, git

HOOKS = ["pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout"]


@pytest.fixture
def installed(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bin = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{bin}")
    ckpt_here("install", "--guard", "--wrapper", code=0)
    return repo


def doctor(code: int = 0) -> dict[str, list[dict[str, Any]]]:
    """What it says of each subject."""
    told: dict[str, list[dict[str, Any]]] = {}
    for one in ckpt_here("doctor", "--json", code=code).json["diagnoses"]:
        assert one.keys() == {"subject", "state", "detail", "mend", "done"}
        told.setdefault(one["subject"], []).append(one)
    return told


def only(told: list[dict[str, Any]], state: str) -> dict[str, Any]:
    (found,) = [one for one in told if one["state"] == state]
    return found


@pytest.mark.usefixtures("installed")
def test_every_installed_trigger_is_well() -> None:
    told = doctor()

    for name in (*HOOKS, "guard", "wrapper"):
        assert only(told[name], "ok")
    assert {one["state"] for found in told.values() for one in found} == {"ok"}
    assert ckpt_here("doctor").stdout.endswith("\nNothing is wrong.\n")


def test_a_hook_that_another_tool_took_out_is_a_problem(installed: Path) -> None:
    (installed / ".git/hooks/pre-push").write_text("#!/bin/sh\n# of another tool\n")
    told = doctor(code=1)

    assert only(told["pre-push"], "problem")["mend"] == "git ckpt install --hooks pre-push"
    ckpt_here(*only(told["pre-push"], "problem")["mend"].split()[2:], code=0)
    assert only(doctor()["pre-push"], "ok")


def test_a_hook_of_another_installation_is_not_run_and_can_be_renewed(installed: Path) -> None:
    other = installed.parent / "python"
    other.write_text(f"#!/bin/sh\ntouch {installed.parent / 'ran'}\n")
    other.chmod(0o755)
    hook = installed / ".git/hooks/pre-push"
    hook.write_text(hook.read_text().replace(sys.executable, str(other)))
    told = only(doctor()["pre-push"], "warning")

    assert told["detail"].endswith("not as this ckpt writes it")
    assert not (installed.parent / "ran").exists()
    ckpt_here(*told["mend"].split()[2:], code=0)
    assert only(doctor()["pre-push"], "ok")


@pytest.mark.parametrize("way", ["line", "block"])
def test_what_only_looks_like_ours_is_not_run(
    installed: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = installed.parent / "ran"
    monkeypatch.setenv("RAN", str(ran))
    hook = installed / ".git/hooks/pre-commit"
    planted = {
        "line": '#!/bin/sh\ntouch "$RAN"; git-ckpt hook pre-commit\n',
        "block": hook.read_text().replace("if [ -x", 'touch "$RAN"; if [ -x'),
    }
    hook.write_text(planted[way])
    told = only(doctor()["pre-commit"], "ok" if way == "line" else "warning")

    assert not ran.exists()
    if way == "block":
        assert told["detail"] == f"'{hook}' calls ckpt, but not as this ckpt writes it"
        assert told["mend"] == "git ckpt install --hooks pre-commit"


def test_the_last_failure_is_told_until_a_success(installed: Path) -> None:
    objects = installed / ".git/objects"
    objects.rename(objects.with_name("away"))
    objects.write_text("")
    ckpt_here("hook", "pre-commit", code=0)
    objects.unlink()
    objects.with_name("away").rename(objects)
    assert only(doctor()["checkpoints"], "ok")  # it is no repository then, and nothing is noted

    (installed / ".git/refs/checkpoints").write_text("")
    ckpt_here("hook", "pre-commit", code=0)
    (installed / ".git/refs/checkpoints").unlink()
    told = only(doctor(code=1)["pre-commit"], "problem")
    assert told["detail"].startswith("failed when it last ran: ")

    ckpt_here("hook", "pre-commit", code=0)
    assert only(doctor()["pre-commit"], "ok")


def test_wrong_settings_and_an_interrupted_rollback_are_told(repo: Path) -> None:
    ckpt_here("save", "start", code=0)
    git("commit", "-q", "--allow-empty", "-m", "later")
    with locked_half_way(repo / ".git/refs/heads/main.lock"):
        ckpt_here("rollback", "start", "--head", code=4)
    (repo / "ckpt.toml").write_text("max_file_size = true\n")
    told = doctor(code=1)

    assert "max_file_size" in only(told["settings"], "warning")["detail"]
    assert only(told["rollback"], "problem")["mend"] == "git ckpt rollback --continue"
    (repo / ".git/ckpt/journal").write_text("{")
    told = doctor(code=1)
    assert only(told["journal"], "problem")["mend"].startswith("mv ")
    assert "rollback" not in told  # nothing can go on with it


def test_it_knows_ckpt_save_in_the_configuration_of_pre_commit(installed: Path) -> None:
    config = installed / ".pre-commit-config.yaml"
    config.write_text("repos:\n- repo: local\n  hooks:\n  # - id: ckpt-save\n")
    assert "ckpt-save" not in doctor()
    config.write_text("repos:\n- repo: local\n  hooks:\n  - id: ckpt-save\n")

    assert only(doctor()["ckpt-save"], "ok")
