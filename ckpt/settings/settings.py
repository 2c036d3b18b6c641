# SPDX-License-Identifier: MIT
"""What a user can set, and what the repository's own file may do.

Pure: sources in, one frozen Settings out; who calls reads the files. The table of settings is in
`setting_sources`. The repository's file comes with whatever was checked out, so it may make ckpt
keep more and save fewer secrets, and nothing else; what it asks beyond that is not an error but a
note, of which the commands warn.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ckpt.errors import UsageError
from ckpt.git.repository import Repository
from ckpt.paths import read_plain_file
from ckpt.settings.policy import Policy
from ckpt.settings.sources import (
    BY_GIT_NAME,
    BY_KEY,
    EVERY_TRIGGER,
    ORIGINS,
    ROWS,
    TRUE,
    Row,
    SettingsError,
    Source,
    Value,
    from_environ,
    from_git_config,
    is_of_retention,
    mend,
    note,
    printable,
    shown,
    unknown,
    value_of,
)

SESSION = "CKPT_SESSION"

DENIED_FILES = (
    *("*.env", "!*.env/", "!example.env", "!sample.env", "!template.env"),
    *("!*.example.env", "!*.sample.env", "!*.template.env", ".envrc"),
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *("*.pem", "*.p8", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.keytab", "*.kdbx"),
    # Not `*.key`: Keynote presentations end so too.
    *("private*.key", "server.key", "client.key", "tls.key", "ssl.key", "ca.key"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".htpasswd"),
    *(".s3cfg", ".boto", ".dockercfg", "**/.docker/config.json", "**/.cargo/credentials.toml"),
    *(".git-credentials", ".terraformrc", ".vault-token", ".vault_pass", ".vault_pass.txt"),
    *("master.key", ".dockerconfigjson", "accessTokens.json", "**/gh/hosts.yml", "**/.config/hub"),
    *("**/gcloud/credentials.db", "**/gcloud/access_tokens.db", "*firebase-adminsdk*.json"),
    # What was typed there may have had a password in it.
    *(".bash_history", ".zsh_history", ".psql_history", ".mysql_history", ".python_history"),
    *("*.ovpn", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*"),
    # As a folder it is a package that someone writes.
    *("credentials", "!credentials/", "kubeconfig", "!kubeconfig/", "**/.kube/config"),
    *("credentials.json", "application_default_credentials.json", "client_secret*.json"),
    *("service-account*.json", "service_account*.json", "gha-creds-*.json"),
    *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", ".gnupg/", ".ssh/"),
)
"""Untracked files that are not saved, in upper case or lower, nor an editor's copies of them; as in
.gitignore, the last pattern that matches decides."""

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


@dataclass(frozen=True, slots=True)
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
    retention: Policy | None = None  # None: the usual one
    prunes_by_itself: bool = True
    notes: tuple[str, ...] = ()  # what was not followed, and why

    def allows(self, trigger: str | None) -> bool:
        """Whether a trigger may take checkpoints; what a person types always may."""
        return self.enabled and {EVERY_TRIGGER, trigger}.isdisjoint(self.disable)

    @property
    def policy(self) -> Policy:
        """What is kept, by all that was said of it."""
        if self.retention is not None:
            return self.retention
        from ckpt.settings.policy import Policy

        return Policy()

    @property
    def deny_patterns(self) -> tuple[str, ...]:
        """What decides on denial beside DENIED_FILES and counts more, as one ignore file: the last
        match wins.

        `allow` takes back from the built-in lists only, a trusted `include` from all.
        """
        return (
            *DEPENDENCY_FOLDERS,
            *(f"!{pattern}" for pattern in self.allow),
            *self.deny,
            *(f"!{pattern}" for pattern in self.trusted_include),
        )


def disabled_by_env(env: Mapping[str, str], trigger: str | None = None) -> bool:
    """Whether CKPT_DISABLE turns off every trigger, or this one, before anything is read."""
    words = env.get("CKPT_DISABLE", "")
    return words.lower() in TRUE or not {EVERY_TRIGGER, trigger}.isdisjoint(words.split(":"))


def session_of_env(env: Mapping[str, str]) -> str | None:
    """The session that `git ckpt run`, or an agent's own starter, says we are part of."""
    session = env.get(SESSION, "").strip()
    return session if session and session.isprintable() else None


# Loading


def load(sources: Iterable[Source]) -> Settings:
    """The settings that follow from all sources, in whatever order they are given."""
    values: dict[str, Any] = {}
    notes: list[str] = []
    ordered = sorted(sources, key=lambda source: ORIGINS.index(source.kind))
    for source in ordered:
        for key, raw in source.values.items():
            if is_of_retention(key):
                continue
            row = _row(source, key)
            value = value_of(source, row, raw)
            if _is_heard(source, row, value):
                _merge(values, source, row, value)
            else:
                notes.append(note(source, row, raw))
    if any(is_of_retention(key) for source in ordered for key in source.values):
        from ckpt.settings.policy import read

        values["retention"], values["prunes_by_itself"], ignored = read(ordered)
        notes += ignored
    return Settings(**values, notes=tuple(notes))


def _row(source: Source, key: str) -> Row:
    if key in BY_KEY:
        return BY_KEY[key]
    known = {row.key: row.key for row in ROWS} | {"retention": "retention"}
    if source.kind == "git config":
        known = {name: row.git for name, row in BY_GIT_NAME.items()}
        known["retention"] = "ckpt.retention.*"
    raise unknown(source, key, known)


def _is_heard(source: Source, row: Row, value: Value) -> bool:
    if source.trusted or row.heard is None:
        return True
    return row.heard(value, getattr(Settings(), row.key))


def _merge(values: dict[str, Any], source: Source, row: Row, value: Value) -> None:
    values[row.key] = values.get(row.key, ()) + value if row.type.many else value
    if row.trusted and source.trusted:
        values[row.trusted] = values.get(row.trusted, ()) + value


# -- Settings from the repository's own file, `ckpt.toml` or a table of pyproject.toml


def from_pyproject(text: bytes, name: str = "pyproject.toml") -> Source:
    if b"ckpt" not in text:  # spares most repositories a TOML parser
        return Source("repository file", name, {})
    table = _subtable(_toml(text, name), "tool", f"{name}: tool")
    table = _subtable(table, "ckpt", f"{name}: tool.ckpt")
    values = dict(flat(table))
    places = {key: f"{name}: tool.ckpt.{printable(key)}" for key in values}
    return Source("repository file", name, values, places)


def from_ckpt_toml(text: bytes, name: str = "ckpt.toml") -> Source:
    return Source("repository file", name, dict(flat(_toml(text, name))))


_LONG_DOTTED_KEY = re.compile(
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
        raise _invalid(name, f"key of too many parts (at line {line})")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _invalid(name, f"not UTF-8 (at line {line})") from error
    except RecursionError as error:
        raise _invalid(name, "nested too deeply") from error
    except ValueError as error:
        reason = str(error)
        raise _invalid(name, f"{reason[:1].lower()}{reason[1:]}") from error


def _invalid(name: str, reason: str) -> SettingsError:
    return SettingsError(f"{name}: invalid TOML: {reason}", hint=mend(name))


def _subtable(table: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        file = place.partition(": ")[0]
        raise SettingsError(f"{place}: expected a table, got {shown(value)}", hint=mend(file))
    return value


def flat(
    table: Mapping[str, object], prefix: str = "", depth: int = 3
) -> Iterator[tuple[str, object]]:
    """Tables within tables become dotted keys; no setting of ours lies deeper than three."""
    for key, value in table.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from flat(value, f"{prefix}{key}.", depth - 1)
        else:
            yield prefix + key, value


# -- Gather the settings of a repository from every place they may stand

_LARGEST = 1 << 20  # bytes of a settings file; a parser of TOML takes seconds for as many


def load_settings(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    return load([*_file_sources(repo.worktree), *_trusted_sources(repo, flags)])


def load_forgiving(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings for what must go on: defaults, and a note, in place of what is wrong.

    What is wrong in the repository's own file takes nothing from what the user has said, or
    any commit could make checkpoints go that he keeps.
    """
    notes: dict[str, None] = {}
    for with_file in (True, False):
        try:
            files = _file_sources(repo.worktree) if with_file else []
            found = load([*files, *_trusted_sources(repo, flags)])
            return replace(found, notes=(*notes, *found.notes))
        except UsageError as error:
            notes[f"settings ignored: {error.message}"] = None
    return Settings(notes=tuple(notes))


def _trusted_sources(repo: Repository, flags: Mapping[str, Any] | None) -> list[Source]:
    sources = [from_git_config(repo.config.items("ckpt")), from_environ(repo.env)]
    return [*sources, Source("flag", "settings", _flat(flags))] if flags else sources


def _file_sources(worktree: str) -> list[Source]:
    own = _read(worktree, "ckpt.toml")
    project = _read(worktree, "pyproject.toml")
    has_project = project is not None and b"ckpt" in project
    if own is None and not has_project:
        return []

    sources = []
    if project is not None and has_project:
        sources.append(from_pyproject(project))
    if own is not None:
        if sources and sources[0].values:
            raise UsageError(
                "settings stand both in 'ckpt.toml' and in [tool.ckpt] of 'pyproject.toml'",
                hint="keep them in one of the two",
            )
        sources = [from_ckpt_toml(own)]
    return sources


def _flat(flags: Mapping[str, Any]) -> dict[str, object]:
    """Settings as a caller may nest them, by dotted keys."""
    if not any(isinstance(value, dict) for value in flags.values()):
        return dict(flags)

    return dict(flat(flags))


def _read(worktree: str, name: str) -> bytes | None:
    return read_plain_file(os.path.join(os.fsencode(worktree), name.encode()), _LARGEST)
