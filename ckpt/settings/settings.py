# SPDX-License-Identifier: MIT
"""What a user can set, and what the repository's own file may do.

From all sources comes one frozen Settings. The repository's file changes with every checkout, so
it may make ckpt keep more and save fewer secrets, and nothing else; what it says beyond that is
not an error but a note, which the commands print. The table of settings is in `sources`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ckpt.errors import UsageError
from ckpt.git.repository import Repository
from ckpt.paths import read_plain_file
from ckpt.settings.policy import Policy, read
from ckpt.settings.sources import (
    EVERY_TRIGGER,
    ORIGINS,
    RETENTION,
    TRUE,
    Row,
    Source,
    Value,
    flat,
    from_ckpt_toml,
    from_environ,
    from_git_config,
    from_pyproject,
    note,
    row_of,
    value_of,
)

_LARGEST = 1 << 20  # bytes of a settings file; a parser of TOML takes seconds for as many
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
        return self.retention or Policy()

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


_DEFAULTS = {name: getattr(Settings(), name) for name in Settings.__slots__}


def disabled_by_env(env: Mapping[str, str], trigger: str | None = None) -> bool:
    """Whether CKPT_DISABLE turns off every trigger, or this one, before anything is read."""
    words = env.get("CKPT_DISABLE", "")
    return words.lower() in TRUE or not {EVERY_TRIGGER, trigger}.isdisjoint(words.split(":"))


def session_of_env(env: Mapping[str, str]) -> str | None:
    """The session that `git ckpt run`, or an agent's own starter, says we are part of."""
    session = env.get(SESSION, "").strip()
    return session if session and session.isprintable() else None


# -- Loading


def load(sources: Iterable[Source]) -> Settings:
    """The settings that follow from all sources, in whatever order they are given."""
    values: dict[str, Any] = {}
    notes: list[str] = []
    retention: list[tuple[Source, dict[Row, Value]]] = []
    for source in sorted(sources, key=lambda source: ORIGINS.index(source.kind)):
        retained: dict[Row, Value] = {}
        for row in [row_of(source, key) for key in source.values]:
            if row is None:
                continue
            value = value_of(source, row)
            if row.key.startswith(RETENTION):
                retained[row] = value
            elif source.trusted or row.heard is None or row.heard(value, _DEFAULTS[row.key]):
                for key in {row.key, *({row.trusted} if row.trusted and source.trusted else ())}:
                    values[key] = values.get(key, ()) + value if row.type.many else value
            else:
                notes.append(note(source, row))
        if retained:
            retention.append((source, retained))
    if retention:
        values["retention"], values["prunes_by_itself"], ignored = read(retention)
        notes += ignored
    return Settings(**values, notes=tuple(notes))


def load_settings(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    return load([*_file_sources(repo.worktree), *_trusted_sources(repo, flags)])


def load_forgiving(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings for what must go on: defaults, and a note, in place of what is wrong.

    What is wrong in the repository's own file takes nothing from what the user has said, or
    any commit could drop checkpoints that the user keeps.
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
    return [*sources, Source("flag", "settings", dict(flat(flags)))] if flags else sources


def _file_sources(worktree: str) -> list[Source]:
    own, project = _read(worktree, "ckpt.toml"), _read(worktree, "pyproject.toml")
    in_project = from_pyproject(project or b"")
    if own is None:
        return [in_project]
    if in_project.values:
        raise UsageError(
            "settings stand both in 'ckpt.toml' and in [tool.ckpt] of 'pyproject.toml'",
            hint="keep them in one of the two",
        )
    return [from_ckpt_toml(own)]


def _read(worktree: str, name: str) -> bytes | None:
    return read_plain_file(os.path.join(os.fsencode(worktree), name.encode()), _LARGEST)
