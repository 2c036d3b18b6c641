# SPDX-License-Identifier: MIT
from __future__ import annotations

import random

import pytest

from ckpt.git import config
from ckpt.git.config import (
    ConfigError,
    canonical,
    expand_user,
    parse_bool,
    parse_environment,
    parse_file,
)


def entries(content: bytes) -> list[tuple[str, str | None]]:
    return [(entry.key, entry.value) for entry in parse_file(content, "config")]


def from_environment(**env: str) -> list[tuple[str, str | None]]:
    return [(entry.key, entry.value) for entry in parse_environment(env)]


PIECES = [
    *("[core]", '[remote "Origin"]', "[a.B]", '[a"b"]', '[a  "b c"]', '[a "b\\\\c"]', "[]", "[a ]"),
    *("[a] k = 1", '[a "]"]', '[a "b"] # c', "name", "Name = value", "n-1=x  y", "k =", "k", " "),
    *('k = "x"', "k = x ; y", "k = x # y", "k = a\\", "k = \\n", "k k = 1", "1k = 2", "= 3"),
    *("\tk\t=\tv\t", "# c", "; c", " # c = d", "k = a=b", "k = \xe9", "k = a\0b", "k = v\r", "k\r"),
    *(
        "-k = 1",
        "k. = 1",
        "k = [x]",
        "]",
        '"',
        "k # c",
        "k = \f v \v",
        "[a]]",
        "[-]",
        'k = "a" b # c',
        'k = "a',
        'k = "a\\',
        'k = \\t"x;y" z ; w',
        "k = a \\",
        "k = a\r # b",
        "k = \r",
        "# c\r",
        '[ "b"]',
    ),
]


def parsed(content: bytes) -> list[tuple[str, str | None, int]] | str:
    try:
        return [(e.key, e.value, e.line) for e in parse_file(content, "config")]
    except ConfigError as error:
        return error.message


def test_plain_files_are_read_as_the_whole_grammar_reads_them(monkeypatch: pytest.MonkeyPatch):
    chance = random.Random(20261116)
    contents = [
        "\n".join(chance.choices(PIECES, k=chance.randint(1, 5))).encode("latin-1")
        for _ in range(3000)
    ]
    contents += [b"", b"\xef\xbb\xbf[a]\nk = 1", b"[a]\r\nk = 1\r\n", b"\n\n[a]\n\nk\n"]
    plain = [config._plain_entries(content + b"\n") is not None for content in contents]
    quickly = list(map(parsed, contents))
    monkeypatch.setattr(config, "_plain_entries", lambda text: None)

    assert quickly == list(map(parsed, contents))
    assert any(plain)
    assert not all(plain)


def test_section_and_name_are_lower_case_and_the_subsection_keeps_its_case():
    assert entries(b'[Remote "Origin"]\n\tURL = x\n') == [("remote.Origin.url", "x")]


def test_the_old_dotted_subsection_is_lower_case():
    assert entries(b"[Branch.Main]\nRemote = x\n") == [("branch.main.remote", "x")]


def test_a_subsection_loses_its_backslashes_and_keeps_comment_marks():
    assert entries(b'[a "b\\\\\\"#c\\d"]\nk = 1\n') == [('a.b\\"#cd.k', "1")]


def test_a_key_without_an_equals_sign_has_no_value():
    assert entries(b"[core]\nbare\nname =\n") == [("core.bare", None), ("core.name", "")]


def test_a_setting_may_stand_on_the_line_of_its_section():
    assert entries(b"[a] k = 1 # note\n") == [("a.k", "1")]


def test_quotes_keep_blanks_and_comment_marks():
    assert entries(b'[a]\nk = "  x # y" ; z\n') == [("a.k", "  x # y")]


def test_blanks_within_a_value_stay_and_blanks_around_it_go():
    assert entries(b'[a]\nk =  x  "y"  z  \n') == [("a.k", "x  y  z")]


def test_a_backslash_at_the_end_continues_the_value_on_the_next_line():
    assert entries(b"[a]\nk = x \\\n  y\nl = 2\n") == [("a.k", "x   y"), ("a.l", "2")]


def test_a_backslash_in_a_comment_continues_nothing():
    assert entries(b"[a]\nk = x ; y \\\nl = 2\n") == [("a.k", "x"), ("a.l", "2")]


def test_escapes_are_replaced():
    assert entries(b'[a]\nk = \\t\\n\\b\\\\\\"\n') == [("a.k", '\t\n\b\\"')]


def test_a_file_may_end_in_a_backslash():
    assert entries(b"[a]\nk = x\\") == [("a.k", "x")]


def test_carriage_returns_before_newlines_and_a_byte_order_mark_are_skipped():
    assert entries(b'\xef\xbb\xbf[a]\r\nk = "x"\r\nl\r\n') == [("a.k", "x"), ("a.l", None)]


def test_bytes_that_are_not_utf8_come_back_as_they_were():
    (entry,) = parse_file(b"[a]\nk = caf\xe9\n", "config")

    assert entry.value is not None
    assert entry.value.encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_a_value_ends_at_a_nul():
    assert entries(b"[a]\nk = x\0y\n") == [("a.k", "x")]


def test_an_entry_knows_its_file_and_the_line_it_ends_on():
    places = [entry.place for entry in parse_file(b"# c\n[a]\nk = x \\\ny\n\nl\n", "/x/config")]

    assert places == ["/x/config:4", "/x/config:6"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"[core]\n\n= x\n", 3),
        (b"[core\nk = x\n", 1),
        (b"[]\nk = x\n", 1),
        (b"[a b]\nk = x\n", 1),
        (b'[a "b" ]\nk = x\n', 1),
        (b'[a]\nk = 1\nl = "x\n', 3),
        (b"[a]\nk = \\x\n", 2),
        (b"[a]\nk # note\n", 2),
        (b"[a]\n1k = x\n", 2),
        (b"<<<<<<< HEAD\n[a]\n", 1),
    ],
)
def test_what_git_refuses_is_an_error_with_file_and_line(content, line):
    with pytest.raises(ConfigError, match=rf"^bad config line {line} in file config$") as caught:
        entries(content)

    assert caught.value.details == {"file": "config", "line": line}
    assert caught.value.hint == f"mend line {line} of 'config'"


def test_counted_variables_come_before_those_of_git_c():
    env = {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "A.B",
        "GIT_CONFIG_VALUE_0": "1",
        "GIT_CONFIG_KEY_1": "a.Sub.C",
        "GIT_CONFIG_VALUE_1": "",
        "GIT_CONFIG_PARAMETERS": "'a.b'='2'",
    }

    assert from_environment(**env) == [("a.b", "1"), ("a.Sub.c", ""), ("a.b", "2")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("'a.b=c=d'", [("a.b", "c=d")]),
        ("'a.b'", [("a.b", None)]),
        ("'a.b='", [("a.b", "")]),
        ("'a.b'='c=d' 'e.f'='g'", [("a.b", "c=d"), ("e.f", "g")]),
        ("'a.b'=", [("a.b", None)]),
        ("'a.b'='it'\\''s'\\!''", [("a.b", "it's!")]),
        ("'a.x=y.c'='v' ", [("a.x=y.c", "v")]),
    ],
)
def test_both_formats_of_git_c_are_read(text, expected):
    assert from_environment(GIT_CONFIG_PARAMETERS=text) == expected


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_CONFIG_COUNT": "many"},
        {"GIT_CONFIG_COUNT": "-1"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": "x"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "ab", "GIT_CONFIG_VALUE_0": "x"},
        {"GIT_CONFIG_PARAMETERS": "a.b=c"},
        {"GIT_CONFIG_PARAMETERS": "'a.b'x"},
        {"GIT_CONFIG_PARAMETERS": "'a.b'='c"},
        {"GIT_CONFIG_PARAMETERS": "'=c'"},
        {"GIT_CONFIG_PARAMETERS": "'a.1b=c'"},
    ],
)
def test_a_malformed_environment_is_an_error(env):
    with pytest.raises(ConfigError):
        from_environment(**env)


def test_a_key_is_looked_up_without_regard_to_case_save_for_the_subsection():
    assert canonical("Core.ExcludesFile") == "core.excludesfile"
    assert canonical("Remote.My.Origin.URL") == "remote.My.Origin.url"


@pytest.mark.parametrize("value", [None, "true", "YES", "On", "1", "-1", "2k", "0x1", "010"])
def test_what_git_takes_for_true(value):
    assert parse_bool(value) is True


@pytest.mark.parametrize("value", ["", "false", "NO", "Off", "0", "00", "0x0", "0k"])
def test_what_git_takes_for_false(value):
    assert parse_bool(value) is False


@pytest.mark.parametrize("value", ["maybe", "t", "1.0", "08", "1kb", "yes ", "-"])
def test_anything_else_is_no_boolean(value):
    assert parse_bool(value) is None


def test_a_tilde_stands_for_the_home_of_the_given_environment():
    env = {"HOME": "/home/me"}

    assert expand_user("~/x", env) == "/home/me/x"
    assert expand_user("~", env) == "/home/me"
    assert expand_user("a/~/x", env) == "a/~/x"


def test_a_tilde_and_a_name_stand_for_that_users_home():
    import os
    import pwd

    me = pwd.getpwuid(os.getuid())

    assert expand_user(f"~{me.pw_name}/x", {}) == me.pw_dir + "/x"


def test_an_unknown_home_expands_to_nothing():
    assert expand_user("~/x", {}) is None
    assert expand_user("~no-such-user/x", {"HOME": "/home/me"}) is None
