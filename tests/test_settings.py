# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import re

import pytest
from setting_texts import error_of, of_env, of_file, of_git

from ckpt.errors import UsageError
from ckpt.settings.settings import (
    Settings,
    disabled_by_env,
    from_ckpt_toml,
    from_pyproject,
    load,
)
from ckpt.settings.sources import (
    CAPS,
    NO_LIMIT,
    ROWS,
    from_environ,
    from_flags,
    from_git_config,
)

HINT = "'git ckpt help' tells of every setting"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# The table


def test_every_field_has_a_row_unless_it_follows_from_others():
    derived = {"notes", "policy", "prunes_by_itself", "trusted_include"}

    assert {row.key for row in ROWS} | derived == {*Settings._fields}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_the_three_spellings_of_a_key_are_the_same_word(row):
    assert re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), row.git) == "ckpt." + row.key
    assert row.env == "CKPT_" + row.key.upper()


def test_nothing_given_leaves_the_defaults():
    nothing = [from_pyproject(b""), from_ckpt_toml(b""), from_git_config([]), from_environ({})]

    assert load(nothing) == load([]) == Settings()
    assert Settings().max_file_size == 52428800


def test_the_template_without_its_comment_signs_loads_to_the_defaults():
    with open(os.path.join(ROOT, "templates/ckpt.toml")) as file:
        template = file.read()
    shown = re.sub(r"^#(?=[a-z_.]+ = )", "", template, flags=re.MULTILINE)
    source = from_ckpt_toml(shown.encode())

    assert load([from_ckpt_toml(template.encode())]) == load([source]) == Settings()
    assert {said.key for said in source} >= {row.key for row in (*ROWS, *CAPS)}


# Triggers


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("500ms", 0.5), ("1.5 m", 90), ("36h", 129600), ("7d", 604800), ("1y", 31536000)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert of_env(CKPT_HOOK_BUDGET=text).hook_budget == seconds


@pytest.mark.parametrize("text", ["2", "0s", "-1s", "s", "2 weeks", "1e3s", "999999999y", "6M"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match='CKPT_HOOK_BUDGET: expected a time such as "2s"'):
        of_env(CKPT_HOOK_BUDGET=text)


def test_triggers_are_turned_off_one_by_one_or_all_at_once() -> None:
    some = of_env(CKPT_DISABLE="guard:pre-push")

    assert not some.allows("guard") and not some.allows("pre-push") and some.allows("pre-commit")
    assert not of_env(CKPT_DISABLE="1").allows("pre-commit")
    assert not of_env(CKPT_DISABLE="all").allows("guard")
    assert not of_env(CKPT_ENABLED="false").allows("guard")
    assert of_env(CKPT_DISABLE="0").allows("guard")
    assert disabled_by_env({"CKPT_DISABLE": "guard:pre-push"}, "guard")
    assert not disabled_by_env({"CKPT_DISABLE": "guard:pre-push"}, "pre-commit")


def test_the_repositorys_file_cannot_turn_a_trigger_off_nor_block_a_command() -> None:
    loaded = load([from_ckpt_toml(b'disable = ["guard"]\non_error = "block"\nhook_budget = "1s"')])

    assert loaded.allows("guard")
    assert (loaded.on_error, loaded.hook_budget) == ("warn", 2)
    assert len(loaded.notes) == 3


def test_an_unknown_trigger_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"CKPT_DISABLE: expected .*pre-commit.*, got .*guards"):
        of_env(CKPT_DISABLE="guards")


# Where values come from


def test_a_later_source_wins():
    sources = [
        from_pyproject(b'[tool.ckpt]\nmax_file_size = "100MiB"\n'),
        from_git_config([("maxfilesize", "2MiB", "/x")]),
        from_environ({"CKPT_MAX_FILE_SIZE": "3MiB"}),
        from_flags({"max_file_size": "4MiB"}),
    ]

    sizes = [load(sources[:end]).max_file_size >> 20 for end in range(1, 5)]

    assert sizes == [100, 2, 3, 4]


def test_lists_add_up_over_all_sources():
    settings = load(
        [
            from_pyproject(b'[tool.ckpt]\ndeny = ["a", "b"]\n'),
            from_git_config([("deny", "c", "/x"), ("deny", "d:e", "/y")]),
            from_environ({"CKPT_DENY": "f:g"}),
            from_flags({"deny": ["h"]}),
        ]
    )

    assert settings.deny == ("a", "b", "c", "d:e", "f", "g", "h")


def test_a_pyproject_of_others_is_not_even_parsed():
    assert load([from_pyproject(b"[tool.other\n")]) == Settings()


def test_variables_of_other_programs_are_left_alone():
    assert of_env(CKPT_PATH="/models", CKPT_EVERY="100", CKPT="x") == Settings()


def test_an_empty_variable_is_not_set():
    assert of_env(CKPT_MAX_FILE_SIZE="", CKPT_DENY="", CKPT_ENABLED="") == Settings()


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_triggers_are_disabled_by_one_variable(value):
    assert disabled_by_env({"CKPT_DISABLE": value})


@pytest.mark.parametrize("env", [{}, *({"CKPT_DISABLE": no} for no in ("", "0", "false", "no"))])
def test_triggers_are_not_disabled_by_a_variable_that_says_no(env):
    assert not disabled_by_env(env)


# Trust


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("enabled = false", "enabled"),
        ('allow = [".env"]', "allow"),
        ("max_file_size = 1", "max_file_size"),
    ],
)
def test_what_the_repository_may_not_say_is_noted_and_not_followed(text, field):
    settings = of_file(text)

    assert getattr(settings, field) == getattr(Settings(), field)
    assert len(settings.notes) == 1
    assert settings.notes[0].startswith(f"ckpt.toml: {text} is ignored: only git config (ckpt.")


def test_a_note_names_the_place_in_pyproject():
    (note,) = load([from_pyproject(b"[tool.ckpt]\nenabled = false\n")]).notes

    assert note == (
        "pyproject.toml: tool.ckpt.enabled = false is ignored: "
        "only git config (ckpt.enabled), CKPT_ENABLED or a flag may say that"
    )


@pytest.mark.parametrize(
    "trusted",
    [
        from_git_config(
            [("enabled", "false", ""), ("allow", ".env", ""), ("maxfilesize", "1", "")]
        ),
        from_environ({"CKPT_ENABLED": "no", "CKPT_ALLOW": ".env", "CKPT_MAX_FILE_SIZE": "1B"}),
        from_flags({"enabled": False, "allow": [".env"], "max_file_size": 1}),
    ],
    ids=["git config", "environment", "flags"],
)
def test_everyone_else_may_say_it(trusted):
    assert load([trusted]) == Settings(enabled=False, allow=(".env",), max_file_size=1)


def test_the_repository_may_save_more_and_deny_more():
    settings = of_file('max_file_size = "1GiB"\ninclude = ["out/"]\ndeny = ["*.sql"]\n')

    assert settings == Settings(max_file_size=2**30, include=("out/",), deny=("*.sql",))


# Values


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1024", 1024),
        ("7B", 7),
        ("50MiB", 50 * 2**20),
        ("50 MiB", 50 * 2**20),
        ("1.5 GB", 1_500_000_000),
        ("1.5GiB", 3 * 2**29),
        ("0.1kB", 100),
        ("10m", 10 * 2**20),
        ("2K", 2048),
        ("1tb", 10**12),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_sizes(text, size):
    assert of_env(CKPT_MAX_FILE_SIZE=text).max_file_size == size
    assert of_git(("maxfilesize", text)).max_file_size == size


def test_budgets_can_be_lifted_and_the_repository_cannot_lower_them():
    lifted = of_env(CKPT_MAX_NEW_BYTES="none", CKPT_MAX_NEW_FILES="0")
    assert (lifted.max_new_bytes, lifted.max_new_files) == (NO_LIMIT, NO_LIMIT)
    assert of_env(CKPT_MAX_NEW_BYTES="0").max_new_bytes == NO_LIMIT
    assert of_env(CKPT_MAX_NEW_BYTES="2k", CKPT_MAX_NEW_FILES="7").max_new_files == 7

    raised = of_file('max_new_bytes = "none"\nmax_new_files = 30000\n')
    assert (raised.max_new_bytes, raised.max_new_files) == (NO_LIMIT, 30000)
    lowered = of_file('max_new_bytes = "1MiB"\nmax_new_files = 5\n')
    assert (lowered.max_new_bytes, lowered.max_new_files) == (2**30, 20_000)
    assert len(lowered.notes) == 2


BAD_SIZES = ["0", "-1", "1.5", "1.5B", "MiB", "10 MB ", " 10", "10  MB", "1e6", "1,5 GB", "10 PB"]


@pytest.mark.parametrize("text", [*BAD_SIZES, "1_000", "٣", "0.0001kB", "9223372036854775808"])
def test_bad_sizes(text):
    assert error_of(from_environ({"CKPT_MAX_FILE_SIZE": text})).message.startswith(
        'CKPT_MAX_FILE_SIZE: expected a size such as "50MiB", got "'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, True) for word in ("true", "Yes", "on", "1")),
        *((word, False) for word in ("false", "No", "off", "0", "")),
    ],
)
def test_booleans_in_git_config_are_gits_words(text, value):
    assert of_git(("enabled", text)).enabled is value


def test_a_word_that_is_no_boolean_is_an_error():
    error = error_of(from_git_config([("enabled", "perhaps", "/x/config")]))

    assert error.message == '/x/config: ckpt.enabled: expected true or false, got "perhaps"'


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("max_file_size = true", 'max_file_size: expected a size such as "50MiB", got true'),
        ("max_file_size = 1.5", 'max_file_size: expected a size such as "50MiB", got 1.5'),
        ("max_file_size = 0", 'max_file_size: expected a size such as "50MiB", got 0'),
        ("max_file_size = [1]", 'max_file_size: expected a size such as "50MiB", got [1]'),
        ("max_new_bytes = -1", 'max_new_bytes: expected a size such as "1GiB", or "none", got -1'),
        ("max_new_bytes = false", 'max_new_bytes: expected a size such as "1GiB", or "none"'),
        ("max_new_files = 1.5", 'max_new_files: expected a number such as 20000, or "none"'),
        ("enabled = 1", "enabled: expected true or false, got 1"),
        ("enabled = 2000-01-01", 'enabled: expected true or false, got "2000-01-01"'),
        ("deny = 5", 'deny: expected a list of patterns such as ["*.log"], '),
        ("deny = [{a.b = 1}]", "deny: expected a list of patterns such as "),
        ('deny = ["x", 3]', "deny: expected a list of patterns such as "),
    ],
)
def test_a_wrong_type_names_file_key_and_what_was_expected(toml, message):
    error = error_of(from_pyproject(f"[tool.ckpt]\n{toml}\n".encode()))

    assert error.message.startswith(f"pyproject.toml: tool.ckpt.{message}")
    assert isinstance(error, UsageError)


@pytest.mark.parametrize("key", ["include", "deny", "allow"])
@pytest.mark.parametrize("pattern", ["!.env", "# x", "", "  ", "x\n!.env", "x\0"])
def test_no_pattern_can_take_back_what_another_list_denies(key, pattern):
    error = error_of(from_git_config([(key, "fine", "/a"), (key, pattern, "/b")]))

    assert error.message.startswith(f"/b: ckpt.{key}: expected a list of patterns such as ")


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (
            from_pyproject(b"[tool.ckpt]\nmax-file-size = 1\n"),
            "pyproject.toml: tool.ckpt.max-file-size: unknown key",
            "did you mean 'max_file_size'?",
        ),
        (
            from_ckpt_toml(b"maxFileSize = 1\n"),
            "ckpt.toml: maxFileSize: unknown key",
            "did you mean 'max_file_size'?",
        ),
        (
            from_git_config([("maxsize", "1", "/x/config")]),
            "/x/config: ckpt.maxsize: unknown key",
            "did you mean 'ckpt.maxFileSize'?",
        ),
        (
            from_ckpt_toml(b"[retention.auto]\nlasst = 1\n"),
            "ckpt.toml: retention.auto.lasst: unknown key",
            "did you mean 'retention.auto.last'?",
        ),
        (
            from_ckpt_toml(b"nothing = 1\n"),
            "ckpt.toml: nothing: unknown key",
            HINT,
        ),
        (
            from_ckpt_toml(b'"\\u001b[2J" = 1\n'),
            'ckpt.toml: "\\u001b[2J": unknown key',
            HINT,
        ),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(source, message, hint):
    error = error_of(source)

    assert (error.message, error.hint) == (message, hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a = 1\nb = \nckpt = 1\n", "invalid value (at line 2, column 5)"),
        (
            b"# ckpt\n\n\xff = 1\n",
            "'utf-8' codec can't decode byte 0xff in position 8: invalid start byte",
        ),
        (b"# ckpt\n" + b"a." * 70 + b"a = 1\n", "key of too many parts"),
    ],
)
def test_invalid_toml_is_an_error_with_file_and_line(text, message):
    for source, name in ((from_pyproject, "pyproject.toml"), (from_ckpt_toml, "ckpt.toml")):
        with pytest.raises(UsageError) as caught:
            source(text)

        assert caught.value.message == f"{name}: invalid TOML: {message}"
        assert caught.value.hint == HINT


HOSTILE = {
    "deep array": b"deny = " + b"[" * 100_000,
    "deep key": b".".join([b"a"] * 50_000) + b" = 1",
    "deep table": b"[" + b" . ".join([b'"\\"."', b"' '"] * 25_000) + b"]",
    "deep key in a list": b"deny = [{" + b".".join([b"a"] * 60) + b" = 1}]",
    "long decimal": b"max_file_size = " + b"9" * 100_000,
    "long hexadecimal": b"max_file_size = 0x" + b"f" * 100_000,
    "not a number": b"max_file_size = nan",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_an_error_like_any_other(text):
    with pytest.raises(UsageError, match=r"^ckpt\.toml: "):
        load([from_ckpt_toml(text)])
