# SPDX-License-Identifier: MIT
"""What a user can set, and what the repository's own file may do.

Pure: sources in, one frozen Settings out; who calls reads the files. The table of settings is in
`setting_sources`. The repository's file comes with whatever was checked out, so it may make ckpt
keep more and save fewer secrets, and nothing else; what it asks beyond that is not an error but a
note, of which the commands warn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt.setting_sources import (
    BY_GIT_NAME,
    BY_KEY,
    ORIGINS,
    ROWS,
    Row,
    Source,
    is_of_retention,
    note,
    unknown,
    value_of,
)
from ckpt.setting_types import EVERY_TRIGGER, TRUE, Value
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ckpt.policy import Policy

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
        from ckpt.policy import Policy

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
        from ckpt.setting_retention import read

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
