# SPDX-License-Identifier: MIT
"""What a user can set, from where, and what the repository's own file may do.

Pure: texts and mappings in, one frozen Settings out; who calls reads the files.
ROWS is the whole of it: to add a setting, add a field and a row. The repository's
file comes with whatever was checked out, so it may make ckpt keep more and save
fewer secrets, and nothing else; what it asks beyond that is not an error but a
note, of which the commands warn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq, ge

from ckpt.errors import UsageError
from ckpt.patterns import lazy_pattern
from ckpt.setting_types import (
    BOOL,
    COUNT,
    DURATION,
    EVERY_TRIGGER,
    LARGEST,
    LIMIT,
    ON_ERROR,
    PATTERNS,
    SIZE,
    TRIGGER_NAMES,
    TRUE,
    Type,
    Unfit,
    Value,
)
from ckpt.values import field, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Kind = Literal["repository file", "git config", "environment", "flag"]

DENIED_FILES = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *("*.pem", "*.p8", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.keytab", "*.kdbx"),
    # Not `*.key`: Keynote presentations end so too.
    *("private*.key", "server.key", "client.key", "tls.key", "ssl.key", "ca.key"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".htpasswd"),
    *(".s3cfg", ".boto", ".dockercfg", "**/.docker/config.json", "**/.cargo/credentials.toml"),
    *(".git-credentials", ".terraformrc", ".vault-token", ".vault_pass", ".vault_pass.txt"),
    # As a folder it is a package that someone writes.
    *("credentials", "!credentials/", "kubeconfig", "!kubeconfig/", "**/.kube/config"),
    *("credentials.json", "application_default_credentials.json", "client_secret*.json"),
    *("service-account*.json", "service_account*.json", "gha-creds-*.json"),
    *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", ".gnupg/"),
)
"""Untracked files that are not saved; as in .gitignore, the last pattern that matches decides."""

DEPENDENCY_FOLDERS = (
    # Not `target/`, `build/`, `dist/`, `vendor/`, `env/`, `deps/`: people write there.
    *("node_modules/", "bower_components/", "jspm_packages/", ".pnpm-store/", "**/.yarn/cache/"),
    *(".venv/", "venv/", "__pycache__/", "__pypackages__/", ".eggs/", "*.egg-info/"),
    *(".tox/", ".nox/", ".pixi/", ".direnv/", ".hypothesis/", ".ipynb_checkpoints/"),
    *(".mypy_cache/", ".pytest_cache/", ".pytype/", ".ruff_cache/"),
    *(".gradle/", ".terraform/", ".terragrunt-cache/", ".stack-work/", "dist-newstyle/"),
    *(".dart_tool/", ".zig-cache/", ".cache/", ".parcel-cache/", ".sass-cache/", ".turbo/"),
    *(".next/", ".nuxt/", ".svelte-kit/", ".docusaurus/", "**/.angular/cache/", ".nyc_output/"),
)
"""Untracked folders that a tool can fill again, likewise."""


@value_class
class Settings:
    enabled: bool = True
    max_file_size: int = 50 * 2**20
    max_new_bytes: int = 2**30
    max_new_files: int = 20_000
    include: tuple[str, ...] = ()
    trusted_include: tuple[str, ...] = ()  # the part of `include` that beats the deny lists
    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    hook_budget: float = 2.0  # seconds
    guard_budget: float = 10.0
    on_error: str = "warn"
    notes: tuple[str, ...] = ()  # what was not followed, and why

    def allows(self, trigger: str | None) -> bool:
        """Whether a trigger may take checkpoints; what a person types always may."""
        return self.enabled and {EVERY_TRIGGER, trigger}.isdisjoint(self.disable)

    @property
    def deny_patterns(self) -> tuple[str, ...]:
        """All that decides on denial, as one ignore file: the last match wins.

        `allow` takes back from the built-in lists only, a trusted `include` from all.
        """
        return (
            *DENIED_FILES,
            *DEPENDENCY_FOLDERS,
            *(f"!{pattern}" for pattern in self.allow),
            *self.deny,
            *(f"!{pattern}" for pattern in self.trusted_include),
        )


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type or of no use; the place is in the message."""


_PLAIN_KEY = lazy_pattern(r"(?a)[\w.-]+")


# Rows


@value_class
class Row:
    """One setting: how it is spelled and read, and how far the repository's file is heard.

    `heard(value, default)` is asked of a value from that file; None hears any. The part
    of such a list that comes from other sources is also put into the field `trusted`.
    """

    key: str
    type: Type
    git: str
    env: str
    help: str
    heard: Callable[[Any, Any], bool] | None = None
    trusted: str | None = None


ROWS = (
    Row(
        "enabled",
        BOOL,
        "ckpt.enabled",
        "CKPT_ENABLED",
        "let hooks and other triggers take checkpoints",
        ge,
    ),
    Row(
        "max_file_size",
        SIZE,
        "ckpt.maxFileSize",
        "CKPT_MAX_FILE_SIZE",
        "leave out untracked files larger than this",
        ge,
    ),
    Row(
        "max_new_bytes",
        LIMIT,
        "ckpt.maxNewBytes",
        "CKPT_MAX_NEW_BYTES",
        "leave out untracked files when a checkpoint adds more than this",
        ge,
    ),
    Row(
        "max_new_files",
        COUNT,
        "ckpt.maxNewFiles",
        "CKPT_MAX_NEW_FILES",
        "leave out untracked files when a checkpoint adds more than so many",
        ge,
    ),
    Row(
        "include",
        PATTERNS,
        "ckpt.include",
        "CKPT_INCLUDE",
        "ignored files to save all the same",
        trusted="trusted_include",
    ),
    Row(
        "deny",
        PATTERNS,
        "ckpt.deny",
        "CKPT_DENY",
        "untracked files never to save, besides the built-in lists",
    ),
    Row(
        "allow",
        PATTERNS,
        "ckpt.allow",
        "CKPT_ALLOW",
        "untracked files to save although the built-in lists deny them",
        eq,
    ),
    Row(
        "disable",
        TRIGGER_NAMES,
        "ckpt.disable",
        "CKPT_DISABLE",
        "triggers that take no checkpoints",
        eq,
    ),
    Row(
        "hook_budget",
        DURATION,
        "ckpt.hookBudget",
        "CKPT_HOOK_BUDGET",
        "how long a hook may take before it leaves out untracked files",
        ge,
    ),
    Row(
        "guard_budget",
        DURATION,
        "ckpt.guardBudget",
        "CKPT_GUARD_BUDGET",
        "how long the guard may take before it leaves out untracked files",
        ge,
    ),
    Row(
        "on_error",
        ON_ERROR,
        "ckpt.onError",
        "CKPT_ON_ERROR",
        "what a hook that fails does to the git command: warn or block",
        eq,
    ),
)
SESSION = "CKPT_SESSION"
_BY_KEY = {row.key: row for row in ROWS}
_BY_GIT_NAME = {row.git.removeprefix("ckpt.").lower(): row for row in ROWS}


# Sources

_KINDS: tuple[Kind, ...] = ("repository file", "git config", "environment", "flag")


@value_class
class Source:
    """Raw values by key, from one place or several of one kind."""

    kind: Kind
    name: str
    values: Mapping[str, object]
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def trusted(self) -> bool:
        return self.kind != "repository file"

    def place(self, key: str) -> str:
        """Where a value stands, as an error names it."""
        return self.places.get(key, f"{self.name}: {_printable(key)}")


def from_pyproject(text: bytes, name: str = "pyproject.toml") -> Source:
    if b"ckpt" not in text:  # spares most repositories a TOML parser
        return Source("repository file", name, {})
    table = _subtable(_toml(text, name), "tool", f"{name}: tool")
    table = _subtable(table, "ckpt", f"{name}: tool.ckpt")
    values = dict(_flat(table))
    places = {key: f"{name}: tool.ckpt.{_printable(key)}" for key in values}
    return Source("repository file", name, values, places)


def from_ckpt_toml(text: bytes, name: str = "ckpt.toml") -> Source:
    return Source("repository file", name, dict(_flat(_toml(text, name))))


def from_git_config(items: Iterable[tuple[str, str, str]]) -> Source:
    """From the (name, value, file) of section `ckpt`, the name in git's lower case."""
    values: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for name, value, file in items:
        row = _BY_GIT_NAME.get(name)
        key, spelling = (row.key, row.git) if row else (name, f"ckpt.{_printable(name)}")
        if row and row.type.many:
            values[key] = (*values.get(key, ()), value)
            files[key] = list(dict.fromkeys((*files.get(key, ()), file)))
        else:
            values[key], files[key] = value, [file]
        places[key] = f"{', '.join(files[key])}: {spelling}"
    return Source("git config", "git config", values, places)


def from_environ(env: Mapping[str, str]) -> Source:
    """Only the names in ROWS count: other programs use CKPT_ too. Empty is not set."""
    values = {row.key: env[row.env] for row in ROWS if env.get(row.env)}
    return Source("environment", "environment", values, {row.key: row.env for row in ROWS})


def disabled_by_env(env: Mapping[str, str], trigger: str | None = None) -> bool:
    """Whether CKPT_DISABLE turns off every trigger, or this one, before anything is read."""
    words = env.get("CKPT_DISABLE", "")
    return words.lower() in TRUE or not {EVERY_TRIGGER, trigger}.isdisjoint(words.split(":"))


def session_of_env(env: Mapping[str, str]) -> str | None:
    """The session that `git ckpt run`, or an agent's own starter, says we are part of."""
    session = env.get(SESSION, "").strip()
    return session if session and session.isprintable() else None


_LONG_DOTTED_KEY = lazy_pattern(
    rb"""(?<![\w\\-])(?:(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\.[ \t]*){64}"""
)


def _toml(text: bytes, name: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    # The parser takes minutes over a key of some ten thousand parts.
    long_key = _LONG_DOTTED_KEY.search(text)
    if long_key:
        line = text.count(b"\n", 0, long_key.start()) + 1
        raise SettingsError(f"{name}: invalid TOML: key of too many parts (at line {line})")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{name}: invalid TOML: not UTF-8 (at line {line})") from error
    except RecursionError as error:
        raise SettingsError(f"{name}: invalid TOML: nested too deeply") from error
    except ValueError as error:
        reason = str(error)
        raise SettingsError(f"{name}: invalid TOML: {reason[:1].lower()}{reason[1:]}") from error


def _subtable(table: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise SettingsError(f"{place}: expected a table, got {_shown(value)}")
    return value


def _flat(
    table: Mapping[str, object], prefix: str = "", depth: int = 3
) -> Iterator[tuple[str, object]]:
    """Tables within tables become dotted keys; no setting of ours lies deeper than three."""
    for key, value in table.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from _flat(value, f"{prefix}{key}.", depth - 1)
        else:
            yield prefix + key, value


# Loading


def load(sources: Iterable[Source]) -> Settings:
    """The settings that follow from all sources, in whatever order they are given."""
    values: dict[str, Any] = {}
    notes: list[str] = []
    for source in sorted(sources, key=lambda source: _KINDS.index(source.kind)):
        for key, raw in source.values.items():
            row = _row(source, key)
            value = _value(source, row, raw)
            if _is_heard(source, row, value):
                _merge(values, source, row, value)
            else:
                notes.append(_note(source, row, raw))
    return Settings(**values, notes=tuple(notes))


def _row(source: Source, key: str) -> Row:
    if key in _BY_KEY:
        return _BY_KEY[key]
    raise SettingsError(f"{source.place(key)}: unknown key", hint=_suggestion(source, key))


def _suggestion(source: Source, key: str) -> str:
    from difflib import get_close_matches

    known = {row.key: row.key for row in ROWS}
    if source.kind == "git config":
        known = {name: row.git for name, row in _BY_GIT_NAME.items()}
    close = get_close_matches(key.lower(), known, n=1)
    return f"did you mean '{known[close[0]]}'?" if close else "known: " + ", ".join(known.values())


def _value(source: Source, row: Row, raw: object) -> Value:
    try:
        # TOML has types of its own: there, a text is never a boolean or a list.
        if isinstance(raw, str) and source.trusted:
            return row.type.of_text(raw)
        return row.type.of_value(raw)
    except Unfit as unfit:
        raise SettingsError(
            f"{source.place(row.key)}: expected {unfit.expected}, got {_shown(unfit.got)}"
        ) from None


def _is_heard(source: Source, row: Row, value: Value) -> bool:
    if source.trusted or row.heard is None:
        return True
    return row.heard(value, getattr(Settings(), row.key))


def _merge(values: dict[str, Any], source: Source, row: Row, value: Value) -> None:
    values[row.key] = values.get(row.key, ()) + value if row.type.many else value
    if row.trusted and source.trusted:
        values[row.trusted] = values.get(row.trusted, ()) + value


def _note(source: Source, row: Row, raw: object) -> str:
    return (
        f"{source.place(row.key)} = {_shown(raw)} is ignored: "
        f"only git config ({row.git}), {row.env} or a flag may say that"
    )


def _shown(raw: object) -> str:
    """A raw value for a message: on one line, short, nothing in it that a terminal obeys."""
    from json import dumps

    if isinstance(raw, list | tuple) and not all(isinstance(item, str) for item in raw):
        return "a list"
    if isinstance(raw, dict):
        return "a table"
    if isinstance(raw, int) and abs(raw) > LARGEST:
        return "a number out of range"
    text = dumps(raw, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _printable(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _shown(key)
