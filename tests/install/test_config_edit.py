# SPDX-License-Identifier: MIT
"""The editor of git's configuration: what it adds is read back, what it removes leaves no trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.errors import Busy, CkptError
from ckpt.git.config import parse_file
from ckpt.install.record import ConfigFile, with_section, without_section

TEXTS = [
    b"",
    b"[core]\n\tbare = false\n",
    b"[core]\n\tbare = false",
    b"\xef\xbb\xbf[core]\r\n\tbare = false\r\n",
    b"# alone\n",
    b'[hook "theirs"]\n\tevent = pre-commit\n\tcommand = "x; y" # why\n',
    b"[alias] st = status\n[alias]\n\n",
    b'[a "b\\"c"]\n\tlong = one \\\n two\n\tflag\n ; end',
    b"[user]\n\tname = Ann # a comment \\\n\tmail = a@b\n",
]
HEADERS = ['[hook "ckpt-a"]', '[hook "ckpt-b"]', "[alias]"]
PAIRS = [("event", "pre-commit"), ("command", "a \"b\" \\ # ; 'c'\t")]


def entries(text: bytes) -> list[tuple[str, str | None]]:
    return [(entry.key, entry.value) for entry in parse_file(text, "config")]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_added_can_be_read_and_taken_out_to_the_byte(text: bytes) -> None:
    added = text
    for header in HEADERS:
        first = header != "[alias]"
        added = with_section(added, header, PAIRS, first=first)
        assert with_section(added, header, PAIRS, first=first) == added

    for name in ("hook.ckpt-a", "hook.ckpt-b", "alias"):
        ours = [(f"{name}.{key}", value) for key, value in PAIRS]
        assert [entry for entry in entries(added) if entry in ours] == ours
    assert [entry for entry in entries(added) if entry in entries(text)] == entries(text)
    for header in reversed(HEADERS):
        added = without_section(added, header)
    assert added == text


@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"])))
def test_any_value_comes_back(value: str) -> None:
    added = with_section(b"[core]\n", "[alias]", [("ckpt", value)])

    assert entries(added) == [("alias.ckpt", value)]


def test_hooks_of_ours_come_before_those_of_others() -> None:
    added = with_section(TEXTS[5], HEADERS[0], [("event", "x")], first=True)

    assert entries(added)[0] == ("hook.ckpt-a.event", "x")


def test_what_git_puts_under_our_header_stays() -> None:
    text = with_section(b"", "[alias]", [("ckpt", "x")]) + b"\tst = status\n# mine\n"

    assert entries(without_section(text, "[alias]")) == [("alias.st", "status")]
    assert without_section(text, "[alias]").endswith(b"# mine\n")


def test_a_section_of_somebody_else_stays() -> None:
    text = b"[alias]\n\tckpt = x\n"

    assert without_section(text, "[alias]") == text


def config_file(path: Path) -> ConfigFile:
    return ConfigFile(str(path), str(path.parent / "ckpt"))


def add(path: Path, header: str) -> None:
    config_file(path).edit(lambda text: with_section(text, header, PAIRS))


def remove(path: Path, header: str) -> bool:
    return config_file(path).edit(lambda text: without_section(text, header))


def test_a_file_that_git_cannot_read_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"[core\n")

    with pytest.raises(CkptError):
        add(path, HEADERS[0])
    assert path.read_bytes() == b"[core\n"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_file_has_its_bytes_and_bits_back(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "config"
    path.write_bytes(TEXTS[1])
    path.chmod(mode)
    add(path, HEADERS[0])
    assert path.stat().st_mode & 0o777 == mode
    assert remove(path, HEADERS[0])

    assert path.read_bytes() == TEXTS[1]
    assert path.stat().st_mode & 0o777 == mode
    assert not remove(path, HEADERS[0])


def test_a_file_that_was_not_there_goes_again(tmp_path: Path) -> None:
    add(tmp_path / "config", HEADERS[0])
    remove(tmp_path / "config", HEADERS[0])

    assert not (tmp_path / "config").exists()


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"[a]\n")
    (tmp_path / "config").symlink_to("real")
    add(tmp_path / "config", HEADERS[0])

    assert os.readlink(tmp_path / "config") == "real"
    assert b"ckpt" in (tmp_path / "real").read_bytes()


def test_gits_lock_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt.install.record._PATIENCE", 0)
    (tmp_path / "config.lock").write_bytes(b"")

    with pytest.raises(Busy):
        add(tmp_path / "config", HEADERS[0])
    assert (tmp_path / "config.lock").exists()
