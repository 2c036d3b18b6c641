# SPDX-License-Identifier: MIT
"""The editor of git's configuration: what it adds is read back, what it removes leaves no trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.errors import Busy
from ckpt.git.config import ConfigError, parse_file
from ckpt.install.edit import with_section, without_entries
from ckpt.install.record import ConfigFile, Record

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


def entries(text: bytes) -> list[tuple[str, str | None]]:
    return [(entry.key, entry.value) for entry in parse_file(text, "config")]


def is_ours(key: str, value: str) -> bool:
    return key.startswith("hook.ckpt.")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("is_first", [False, True])
def test_what_is_added_can_be_read_and_taken_out_to_the_byte(text: bytes, is_first: bool) -> None:
    pairs = [("event", "pre-commit"), ("command", "a \"b\" \\ # ; 'c'\t")]
    added = with_section(text, "hook", "ckpt", pairs, is_first=is_first)

    ours = [(f"hook.ckpt.{name}", value) for name, value in pairs]
    assert [entry for entry in entries(added) if entry in ours] == ours
    assert [entry for entry in entries(added) if entry not in ours] == entries(text)
    left = without_entries(added, is_ours)
    assert left == text or (left == text + b"\n" and not text.endswith(b"\n"))


@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"])))
def test_any_value_comes_back(value: str) -> None:
    added = with_section(b"[core]\n", "alias", None, [("ckpt", value)])

    assert entries(added) == [("alias.ckpt", value)]


def test_hooks_of_ours_come_before_those_of_others() -> None:
    added = with_section(TEXTS[5], "hook", "ckpt", [("event", "x")], is_first=True)

    assert entries(added)[0] == ("hook.ckpt.event", "x")


def test_what_git_puts_under_our_header_stays() -> None:
    text = b"[alias]\n\tckpt = x\n\tst = status\n[alias]\n\tckpt = x\n"

    left = without_entries(text, lambda key, _: key == "alias.ckpt")

    assert left == b"[alias]\n\tst = status\n"


def test_a_comment_under_our_header_keeps_it() -> None:
    text = b"[alias]\n\t# mine\n\tckpt = x\n"

    assert without_entries(text, lambda *_: True) == b"[alias]\n\t# mine\n"


def test_a_file_that_git_cannot_read_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"[core\n")

    with pytest.raises(ConfigError):
        config_file(path).add("alias", None, [("ckpt", "x")])
    assert path.read_bytes() == b"[core\n"


def config_file(path: Path) -> ConfigFile:
    return ConfigFile(str(path), Record(str(path.parent / "ckpt/installed.json")))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_a_file_has_its_bytes_and_bits_back(tmp_path: Path, text: bytes, mode: int) -> None:
    path = tmp_path / "config"
    path.write_bytes(text)
    path.chmod(mode)
    for name in ("ckpt", "other"):
        config_file(path).add("hook", name, [("event", name)])
    assert path.stat().st_mode & 0o777 == mode
    for name in ("ckpt", "other"):
        assert config_file(path).remove(lambda key, _, name=name: key == f"hook.{name}.event")

    assert path.read_bytes() == text
    assert path.stat().st_mode & 0o777 == mode
    assert not config_file(path).remove(is_ours)


def test_a_file_that_was_not_there_goes_again(tmp_path: Path) -> None:
    path = tmp_path / "config"
    config_file(path).add("hook", "ckpt", [("event", "x")])
    config_file(path).remove(is_ours)

    assert not path.exists()


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"[a]\n")
    (tmp_path / "config").symlink_to("real")
    config_file(tmp_path / "config").add("hook", "ckpt", [("event", "x")])

    assert os.readlink(tmp_path / "config") == "real"
    assert b"ckpt" in (tmp_path / "real").read_bytes()


def test_gits_lock_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt.install.record._PATIENCE", 0)
    (tmp_path / "config.lock").write_bytes(b"")

    with pytest.raises(Busy):
        config_file(tmp_path / "config").add("hook", "ckpt", [("event", "x")])
    assert (tmp_path / "config.lock").exists()
