# SPDX-License-Identifier: MIT
"""Load the settings from all sources, and limit those of the repository's own file.

The repository's file changes with every checkout, so it can only make ckpt keep more and save
fewer secrets; its other settings are ignored, with a note that commands print. Left out: the table
of settings, which is in `sources`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ckpt.errors import UsageError
from ckpt.git.repository import Repository
from ckpt.models import Kind
from ckpt.paths import read_plain_file
from ckpt.settings.sources import (
    CAPS,
    EVERY_TRIGGER,
    NO_LIMIT,
    RETENTION,
    TRUE,
    Row,
    Said,
    from_ckpt_toml,
    from_environ,
    from_flags,
    from_git_config,
    from_pyproject,
    note,
    row_of,
    value_of,
)

_LARGEST = 1 << 20  # bytes of a settings file, which take seconds to parse
SESSION = "CKPT_SESSION"

DENIED_FILES = (
    *("*.env", "!*.env/", "!example.env", "!sample.env", "!template.env"),
    *("!*.example.env", "!*.sample.env", "!*.template.env", ".envrc"),
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *("*.pem", "*.p8", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.keytab", "*.kdbx"),
    # Not `*.key`: a Keynote presentation has that suffix too.
    *("private*.key", "server.key", "client.key", "tls.key", "ssl.key", "ca.key"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".htpasswd"),
    *(".s3cfg", ".boto", ".dockercfg", "**/.docker/config.json", "**/.cargo/credentials.toml"),
    *(".git-credentials", ".terraformrc", ".vault-token", ".vault_pass", ".vault_pass.txt"),
    *("master.key", ".dockerconfigjson", "accessTokens.json", "**/gh/hosts.yml", "**/.config/hub"),
    *("**/gcloud/credentials.db", "**/gcloud/access_tokens.db", "*firebase-adminsdk*.json"),
    # A history may contain passwords.
    *(".bash_history", ".zsh_history", ".psql_history", ".mysql_history", ".python_history"),
    *("*.ovpn", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*"),
    # A directory of that name is usually source code.
    *("credentials", "!credentials/", "kubeconfig", "!kubeconfig/", "**/.kube/config"),
    *("credentials.json", "application_default_credentials.json", "client_secret*.json"),
    *("service-account*.json", "service_account*.json", "gha-creds-*.json"),
    *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", ".gnupg/", ".ssh/"),
)
"""Untracked files that are not saved, in upper case or lower, nor an editor's copies of them; as in
.gitignore, the last pattern that matches decides."""

DEPENDENCY_FOLDERS = (
    # Not `target/`, `build/`, `dist/`, `vendor/`, `env/`, `deps/`, which may have edited files.
    *("node_modules/", "bower_components/", "jspm_packages/", ".pnpm-store/", "**/.yarn/cache/"),
    *(".venv/", "venv/", "__pycache__/", "__pypackages__/", ".eggs/", "*.egg-info/"),
    *(".tox/", ".nox/", ".pixi/", ".direnv/", ".hypothesis/", ".ipynb_checkpoints/"),
    *(".mypy_cache/", ".pytest_cache/", ".pytype/", ".ruff_cache/"),
    *(".gradle/", ".terraform/", ".terragrunt-cache/", ".stack-work/", "dist-newstyle/"),
    *(".dart_tool/", ".zig-cache/", ".cache/", ".parcel-cache/", ".sass-cache/", ".turbo/"),
    *(".next/", ".nuxt/", ".svelte-kit/", ".docusaurus/", "**/.angular/cache/", ".nyc_output/"),
)
"""Untracked folders that a tool can fill again, likewise."""


# -- Retention rules, which `engine.retention` applies. A new rule needs a field here and a row in
# `sources.RULES`.

_WEEK = 7 * 86400
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


class Rules(NamedTuple):
    """The rules for a group of checkpoints; each keeps some, and the others are pruned.

    `within` is in seconds. `hourly` to `monthly` keep the newest checkpoint of each of the last
    periods that have one. `latest_per_name` keeps the newest of each name among those that no other
    rule keeps.
    """

    forever: bool = False
    last: int = 0
    within: float = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    first: int = 0
    latest_per_name: bool = False

    def words(self) -> str:
        """Describe the rules, to explain why a checkpoint is pruned."""
        counted = [f"{name} {getattr(self, name)}" for name in COUNTED if getattr(self, name)]
        told = [f"within {span(self.within)}"] if self.within else []
        return ", ".join(counted + told + ["newest of each name"] * self.latest_per_name)


COUNTED = ("last", "hourly", "daily", "weekly", "monthly", "first")
DEFAULTS: Mapping[Kind, Rules] = {
    Kind.MANUAL: Rules(forever=True),
    Kind.FEATURE: Rules(forever=True),
    Kind.AUTO: Rules(last=5),
    Kind.SESSION: Rules(last=3),
    Kind.HOOK: Rules(last=50, within=_WEEK),
    Kind.SAFETY: Rules(last=20, within=_WEEK),
}


class Policy(NamedTuple):
    """The rules for each kind, with defaults for missing ones, and the caps.

    `max_checkpoints` limits the checkpoints of a worktree, `max_bytes` the objects that only
    checkpoints of the repository hold; None is no limit.
    """

    kinds: Mapping[Kind, Rules] = DEFAULTS
    max_checkpoints: int | None = 500
    max_bytes: int | None = None

    def rules(self, kind: Kind) -> Rules:
        return self.kinds.get(kind, DEFAULTS[kind])

    def check(self) -> None:
        """Refuse rules that keep nothing and caps below 1."""
        for kind, rules in self.kinds.items():
            if rules == Rules():
                told = f"the rules for kind '{kind}' keep nothing"
                raise UsageError(told, hint="keep some, for example the last 5")
        if any(most is not None and most < 1 for most in (self.max_checkpoints, self.max_bytes)):
            told = "max_checkpoints and max_bytes must be at least 1"
            raise UsageError(told, hint="leave them out for no limit")


def span(seconds: float) -> str:
    """Format a duration, as "7d"."""
    units = (unit for unit in _UNITS if seconds >= unit[1] and seconds % unit[1] == 0)
    name, length = next(units, _UNITS[-1])
    return f"{seconds / length:g}{name}"


# -- Settings


class Settings(NamedTuple):
    enabled: bool = True
    max_file_size: int = 50 * 2**20
    max_new_bytes: int = 2**30
    max_new_files: int = 20_000
    include: tuple[str, ...] = ()
    trusted_include: tuple[str, ...] = ()  # the part of `include` that overrides the deny lists
    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    hook_budget: float = 2.0  # seconds
    guard_budget: float = 10.0
    on_error: str = "warn"
    policy: Policy = Policy()
    prunes_by_itself: bool = True
    notes: tuple[str, ...] = ()  # settings that are ignored, and why

    def allows(self, trigger: str | None) -> bool:
        """Check whether a trigger may take checkpoints; commands run by hand do not ask."""
        return self.enabled and {EVERY_TRIGGER, trigger}.isdisjoint(self.disable)

    @property
    def deny_patterns(self) -> tuple[str, ...]:
        """Return the deny patterns that take precedence over DENIED_FILES; the last match wins.

        `allow` re-includes paths of the built-in lists only, a trusted `include` of all lists.
        """
        return (
            *DEPENDENCY_FOLDERS,
            *(f"!{pattern}" for pattern in self.allow),
            *self.deny,
            *(f"!{pattern}" for pattern in self.trusted_include),
        )


def disabled_by_env(env: Mapping[str, str], trigger: str | None = None) -> bool:
    """Check whether CKPT_DISABLE disables this trigger or all, before any file is read."""
    words = env.get("CKPT_DISABLE", "")
    return words.lower() in TRUE or not {EVERY_TRIGGER, trigger}.isdisjoint(words.split(":"))


def session_of_env(env: Mapping[str, str]) -> str | None:
    """Return the session that `git ckpt run` or an agent's launcher set in the environment."""
    session = env.get(SESSION, "").strip()
    return session if session and session.isprintable() else None


# -- Loading


def load(sources: Iterable[Iterable[Said]]) -> Settings:
    """Merge the settings of all sources, given in ascending precedence."""
    values: dict[str, Any] = {}
    caps: dict[str, Any] = {}
    rules = dict(DEFAULTS)
    notes: list[str] = []
    for source in sources:
        ruled: dict[Kind, Said] = {}
        for said in source:
            row = row_of(said)
            value: Any = value_of(said, row)
            *_, kind, name = ("", *row.key.split("."))
            if not (said.trusted or row.heard is None or row.heard(value, _usual(row))):
                notes.append(note(said, row))
            elif not row.key.startswith(RETENTION):
                values[name] = values.get(name, ()) + value if row.type.many else value
                if name == "include" and said.trusted:
                    values["trusted_include"] = values.get("trusted_include", ()) + value
            elif name == "automatic":
                values["prunes_by_itself"] = value
            elif row in CAPS:
                caps[name] = None if value == NO_LIMIT else value
            else:  # a user's rules for a kind replace others, those of the file are added to them
                of = Kind(kind)
                if of not in ruled:
                    rules[of] = Rules() if said.trusted else DEFAULTS[of]
                rules[of], ruled[of] = rules[of]._replace(**{name: value}), said
        for of, said in ruled.items():
            if rules[of] == Rules():
                told = f"{said.place}: the rules for kind '{of}' keep nothing"
                raise UsageError(told, hint="name at least one, such as last = 5")
    return Settings(**values, policy=Policy(rules, **caps), notes=tuple(notes))


def _usual(row: Row) -> Any:
    """Return the default of a setting, as its row reads it."""
    *words, name = row.key.split(".")
    if not words:
        return getattr(Settings(), name)
    usual = getattr(Policy() if len(words) == 1 else DEFAULTS[Kind(words[1])], name)
    return NO_LIMIT if usual is None else usual


def load_settings(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    return load([_said_by_file(repo.worktree), *_trusted_sources(repo, flags)])


def load_forgiving(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    """Load settings, ignoring invalid sources with a note, for commands that must not fail.

    If only the repository's own file is invalid, the user's settings still apply: a commit must not
    be able to disable the user's retention rules.
    """
    notes: dict[str, None] = {}
    for with_file in (True, False):
        try:
            said = _said_by_file(repo.worktree) if with_file else []
            found = load([said, *_trusted_sources(repo, flags)])
            return found._replace(notes=(*notes, *found.notes))
        except UsageError as error:
            notes[f"settings ignored: {error.message}"] = None
    return Settings(notes=tuple(notes))


def _trusted_sources(repo: Repository, flags: Mapping[str, Any] | None) -> list[list[Said]]:
    config = from_git_config(repo.config.items("ckpt"))
    return [config, from_environ(repo.env), from_flags(flags or {})]


def _said_by_file(worktree: str) -> list[Said]:
    top = os.fsencode(worktree)
    own, project = (
        read_plain_file(os.path.join(top, name), _LARGEST)
        for name in (b"ckpt.toml", b"pyproject.toml")
    )
    in_project = from_pyproject(project or b"")
    if own is not None and in_project:
        raise UsageError(
            "settings stand both in 'ckpt.toml' and in [tool.ckpt] of 'pyproject.toml'",
            hint="keep them in one of the two",
        )
    return in_project if own is None else from_ckpt_toml(own)
