# SPDX-License-Identifier: MIT
"""README, docs/ and man page say what the program does: commands, options, settings, output.

The console and Python blocks of a document are run from top to bottom: those of README in an
empty directory, those of docs/ in the repository that README builds in its first minute. What
differs from run to run (ids, hashes, times) is masked, and nothing else.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, ckpt_here

import ckpt as package
from ckpt import cli, ids
from ckpt.commands import help as manual
from ckpt.errors import CkptError
from ckpt.models import SkipReason
from ckpt.settings import sources
from ckpt.settings.settings import Settings
from ckpt.settings.sources import NO_LIMIT, ROWS

TOP = Path(__file__).resolve().parents[2]
TEXTS = {
    str(path.relative_to(TOP)): path.read_text(encoding="utf-8")
    for path in (TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md")))
}
PAGE = (TOP / "man/git-ckpt.1").read_text(encoding="utf-8").splitlines()
OPTION = r"(?<![\w-])--?[a-zA-Z][\w-]*"
COMMON = {"-C", "--json", "-q", "--quiet", "--store", "-h", "--help", "--version"}

each_command = pytest.mark.parametrize("command", cli.COMMANDS)


# Reading the documents


def table(document: str, first: str) -> list[list[str]]:
    """The rows of the table whose head begins with a word, without backticks."""
    lines = TEXTS[document].splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return found


def blocks(document: str, *languages: str) -> list[tuple[str, str]]:
    """(language, text) of fenced blocks, in order."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", TEXTS[document], re.MULTILINE | re.DOTALL)
    return [block for block in found if block[0] in languages]


def man(title: str) -> list[str]:
    """The lines of a section or, if there is one of that name, a subsection of the page."""
    start = next(n for n, line in enumerate(PAGE) if line in (f".SS {title}", f".SH {title}"))
    ends = (".SH",) if PAGE[start].startswith(".SH") else (".SS", ".SH")
    following = (n for n in range(start + 1, len(PAGE)) if PAGE[n].startswith(ends))
    return PAGE[start + 1 : next(following, len(PAGE))]


def tags(title: str) -> list[str]:
    """What is explained in a section of the page, item by item."""
    lines = man(title)
    after = [lines[n + 1] for n, line in enumerate(lines) if line == ".TP"]
    return [manual.render(line).strip() for line in after]


def words(pattern: str, texts: list[str]) -> set[str]:
    return set(re.findall(pattern, "\n".join(texts)))


# Commands and options


@cache
def options_of(command: str) -> frozenset[str]:
    """What its -h lists, without the options of every command."""
    listed = re.findall(r"^  (-.*?)(?:  |$)", ckpt_here(command, "-h").stdout, re.MULTILINE)
    return frozenset(words(OPTION, listed) - COMMON)


def test_the_man_page_has_a_section_for_each_command_and_no_other() -> None:
    assert list(cli.COMMANDS) == [
        line.removeprefix(".SS ") for line in man("COMMANDS") if line.startswith(".SS ")
    ]


@each_command
def test_the_man_page_explains_every_option_of_a_command_and_no_other(command: str) -> None:
    synopsis = manual.manual(command).split("\n\n")[0]
    shown = words(OPTION, [synopsis])

    assert words(OPTION, tags(command)) == options_of(command)
    assert f"git ckpt {command}" in synopsis
    # Of a short and a long form, one is enough.
    assert options_of(command) - {"--message"} <= shown <= options_of(command)


def test_the_man_page_explains_the_options_of_every_command() -> None:
    assert words(OPTION, tags("OPTIONS")) == COMMON


def test_no_option_is_mentioned_that_does_not_exist() -> None:
    known = COMMON.union(*map(options_of, cli.COMMANDS))
    ours = [
        manual.render("\n".join(man(title)))
        for title in ("COMMANDS", "WHAT IS CAPTURED", "ROLLBACK")
    ]
    ours += re.findall(r"git ckpt [^`\n|#]*", "\n".join(TEXTS.values()))

    of_others = {"-I", "-c", "--no-split-index", "--prune"}
    assert words(OPTION, ours) - of_others <= known
    assert words(r"\bgit ckpt ([a-z][\w-]*)", ours) <= cli.COMMANDS.keys()


def test_the_readme_mentions_every_command_in_ten_minutes() -> None:
    mentioned = [cell for row in table("README.md", "to") for cell in row[1].split(", ")]

    assert {cell.split()[0] for cell in mentioned} == set(cli.COMMANDS)
    assert len(TEXTS["README.md"].splitlines()) <= 250


@each_command
def test_help_prints_the_section_of_a_command(command: str) -> None:
    printed = ckpt_here("help", command, code=0).stdout

    assert printed.split("\n")[0].strip() == command
    assert f"git ckpt {command}" in printed


def test_help_prints_the_whole_manual_and_refuses_what_it_does_not_know() -> None:
    printed = ckpt("help", code=0).stdout

    titles = [line.removeprefix(".SH ") for line in PAGE if line.startswith(".SH ")]
    assert [line for line in printed.splitlines() if line and line[0] != " "] == titles
    assert "teleport" in ckpt("help", "teleport", code=2).stderr


def test_the_man_page_names_the_version() -> None:
    heading = next(line for line in PAGE if line.startswith(".TH "))

    assert f'"git\\-ckpt {package.__version__}"' in heading


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_finds_nothing_wrong_with_the_man_page() -> None:
    ran = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(TOP / "man/git-ckpt.1")], capture_output=True
    )

    assert (ran.returncode, ran.stderr) == (0, b"")


# Settings, environment, exit codes


def test_the_documents_list_every_setting_with_its_default() -> None:
    rows = {row[0]: row[1:] for row in table("docs/settings.md", "key")}

    assert list(rows) == [row.key for row in ROWS]
    assert tags("SETTINGS") == [f"{row.key}, {row.git}, {row.env}" for row in ROWS]
    for row in ROWS:
        git, env, default = rows[row.key][:3]
        assert (git, env) == (row.git, row.env)
        expected = getattr(Settings(), row.key)
        assert expected == (() if default == "none" else row.type.read(default))


def test_the_documents_list_every_rule_and_cap_of_retention() -> None:
    rules = [name for row in table("docs/retention.md", "rule") for name in row[0].split(", ")]
    caps = [(row[0], row[1]) for row in table("docs/retention.md", "key")]
    explained = ", ".join(tags("RETENTION"))

    assert sorted(rules) == sorted(sources.RULES)
    assert [key for key, _ in caps] == [row.key for row in sources.CAPS]
    usual = {"retention.automatic": Settings().prunes_by_itself}
    for name in ("max_checkpoints", "max_bytes"):
        most = getattr(Settings().policy, name)
        usual[f"retention.{name}"] = NO_LIMIT if most is None else most
    for row, (_, default) in zip(sources.CAPS, caps, strict=True):
        assert row.type.read(default) == usual[row.key]
        assert f"{row.key}, {row.git}" in explained
    assert set(sources.RULES) <= set(explained.split(", "))


def test_the_limits_in_the_documents_are_those_of_the_code() -> None:
    from ckpt.engine.prepare import MAX_UNTRACKED_REMOVALS

    assert f"{Settings().max_file_size >> 20} MiB" in TEXTS["README.md"]
    assert f"{MAX_UNTRACKED_REMOVALS:,} untracked" in TEXTS["docs/rollback.md"]
    assert f"{MAX_UNTRACKED_REMOVALS} untracked" in " ".join(man("ROLLBACK"))
    assert f"{ids.MAX_NAME} characters" in " ".join(man("save"))


@cache
def environment_variables() -> set[str]:
    """The names that the code looks up: texts that look like one, and nothing else does."""
    name = re.compile(r"(GIT|CKPT|XDG|SUDO)_[A-Z_]*[A-Z]|NO_COLOR|HOME|TERM")
    found = {row.env for row in ROWS}
    for path in (TOP / "ckpt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if name.fullmatch(node.value) else set()
    return found


def test_the_documents_name_the_environment_variables_that_count() -> None:
    text = manual.render("\n".join(man("ENVIRONMENT")))
    named = words(r"\b(?:CKPT|GIT)_[A-Z_]+\b|\bNO_COLOR\b", list(TEXTS.values()))

    assert set(re.findall(r"\b[A-Z]+_[A-Z_]+\b|\bHOME\b|\bTERM\b", text)) == environment_variables()
    makefile = words(r"CKPT_[A-Z_]+", [(TOP / "Makefile").read_text(), "CKPT_TEST_GIT"])
    retention = {row.env for row in sources.RETENTION_ROWS}
    assert named <= environment_variables() | retention | makefile


def all_errors(base: type[CkptError] = CkptError) -> list[type[CkptError]]:
    import ckpt.commands.run  # noqa: F401  # its errors are classes of their own

    return [base, *(found for child in base.__subclasses__() for found in all_errors(child))]


def test_the_exit_codes_in_the_documents_are_those_of_the_code() -> None:
    expected = sorted({0, 130, *(error.exit_code for error in all_errors())})
    sentence = re.search(r"The `code` of an error is (.+?):", TEXTS["docs/json.md"], re.DOTALL)
    assert sentence

    assert expected == [int(row[0]) for row in table("docs/json.md", "exit code")]
    assert expected == [int(tag) for tag in tags("EXIT STATUS")]
    named = set(re.findall(r"`([\w-]+)`", sentence[1]))
    assert named == {"interrupted", *(error.code for error in all_errors())}


def test_the_reasons_for_leaving_a_file_out_are_those_of_the_code() -> None:
    assert set(tags("WHAT IS CAPTURED")) == {"ignored", *(reason.value for reason in SkipReason)}


# JSON

CALLS = {
    "save": ["save", "second"],
    "list": ["list"],
    "show": ["show"],
    "diff": ["diff"],
    "rollback": ["rollback", "first"],
    "undo": ["undo"],
    "pin": ["pin", "first"],
    "unpin": ["unpin", "first"],
    "drop": ["drop", "first"],
    "trash": ["trash"],
    "restore-dropped": ["restore-dropped", "first"],
    "run": ["run", "--json", "--", "true"],
    "prune": ["prune"],
    "gc": ["gc"],
    "install": ["install"],
    "status": ["status"],
    "doctor": ["doctor"],
    "verify": ["verify"],
    "rescue": ["rescue"],
    "hook": ["hook", "pre-commit"],
    "uninstall": ["uninstall"],
    "help": ["help", "save"],
}


def test_the_fields_of_every_document_are_listed(repo: Path) -> None:
    rows = table("docs/json.md", "command")
    documented = {name: row[1].split(", ") for row in rows for name in row[0].split(", ")}
    ckpt_here("save", "first", code=0)
    (repo / "new.txt").write_text("new\n")

    def document(name: str) -> Any:
        run = ckpt if name == "run" else ckpt_here  # a command needs real streams
        return run(*CALLS[name], "--json", code=0).json

    found = {name: document(name) for name in CALLS}
    found["any"] = ckpt_here("show", "nowhere", "--json", code=3).json
    assert found.keys() - {"any"} == set(cli.COMMANDS)
    for name, document in found.items():
        assert document.pop("schema") == 1
        assert documented.pop(name) == list(document)
    assert list(documented) == ["when it fails"]


def shape(value: Any) -> Any:
    """The keys of a document, all the way down; of a list, those of its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value[:1]] if isinstance(value, list) else None


def test_the_json_in_the_documents_has_the_fields_of_the_real_one(repo: Path) -> None:
    saved, failed = [json.loads(text) for _, text in blocks("docs/json.md", "json")]
    (repo / "notes.txt").write_text("new\n")
    (repo / ".env").write_text("TOKEN=abc\n")

    words = ["save", "named", "-m", "text", "--data", '{"step": 3}', "--json"]
    assert shape(saved) == shape(ckpt_here(*words, code=0).json)
    assert shape(failed) == shape(ckpt_here("rollback", "nowhere", "--json", code=3).json)


# The commands that the documents show

ID = re.compile(r"\d{8}-\d{6}-\d{3}-[0-9a-z]{4}")
CONTINUED = "\0"  # where a command goes on in the next line
MASKS = (
    (re.compile(r"just now|\d+ \w+ ago"), "AGO"),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "HASH"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00)?"), "DATE"),
    (re.compile(r"  +"), "  "),  # columns are as wide as the longest age
)


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


@dataclass
class Reader:
    """Types what a document shows; the ids it shows stand for those that come up."""

    folder: Path
    bin: Path
    ids: dict[str, str] = field(default_factory=dict)

    def follow(self, document: str) -> None:
        for language, text in blocks(document, "console", "python"):
            if language == "console":
                self.type(text)
            else:
                self._run(sys.executable, "-I", "-c", text)

    def type(self, transcript: str) -> None:
        for step in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
            command, _, expected = step.replace("\n> ", CONTINUED).partition("\n")
            command = ID.sub(self._actual, command.replace(CONTINUED, "\n"))
            if command.startswith("cd "):
                self.folder /= command.removeprefix("cd ")
                continue
            found = self._run("sh", "-c", f"PATH={self.bin}:$PATH\n{command}")
            self.ids |= dict(zip(ID.findall(expected), ID.findall(found), strict=False))
            assert masked(ID.sub(self._actual, expected)) == masked(found), f"$ {command}"

    def _actual(self, shown: re.Match[str]) -> str:
        return self.ids.get(shown[0], shown[0])

    def _run(self, *words: str) -> str:
        ran = subprocess.run(
            words,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert ran.returncode == 0, f"{words[-1]}\n{ran.stdout}"
        return ran.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Someone in an empty directory with our `git-ckpt` first on PATH."""
    for name in ("start", "bin"):
        (tmp_path / name).mkdir()
    program = tmp_path / "bin/git-ckpt"
    # -u: warnings come where a terminal shows them.
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -u -I -m ckpt \"$@\"\n")
    program.chmod(0o755)
    return Reader(tmp_path / "start", tmp_path / "bin")


SHOWN = [name for name in TEXTS if blocks(name, "console", "python")]


@pytest.mark.parametrize("document", SHOWN)
def test_the_commands_in_a_document_print_what_it_shows(reader: Reader, document: str) -> None:
    if document != "README.md":
        reader.type(blocks("README.md", "console")[0][1])
    reader.follow(document)


def test_the_python_page_names_only_what_exists() -> None:
    prose = re.sub(r"```.*?```", "", TEXTS["docs/python.md"], flags=re.DOTALL)
    named = set(re.findall(r"`([A-Za-z_]+)`", prose))
    manager = package.CheckpointManager
    known = {*dir(manager), *package.__all__, "hint", "capture", "restore"}
    known |= set(inspect.signature(manager.create).parameters)

    assert named - known == set()
    assert {"create", "get", "delete"} <= named


def test_the_files_that_the_documents_link_to_exist() -> None:
    for name, text in TEXTS.items():
        links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
        assert [link for link in links if not ((TOP / name).parent / link).exists()] == [], name


def test_the_documents_name_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (TOP / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([\w-]+)(?=`| +#)", "\n".join(TEXTS.values())))

    assert {"demo", "test"} <= named <= targets
