# SPDX-License-Identifier: MIT
"""Whatever gets into a line by whatever way, it is one line, and nothing that is obeyed."""

from __future__ import annotations

import pytest

from ckpt.errors import CkptError
from ckpt.output import Output

EVIL = "a\nb\r\x1b[8m\x1b]0;x\x07\x1b[33m\ud800"
SHOWN = "a\\nb\\r\\x1b[8m\\x1b]0;x\\x07\\x1b[33m\\ud800"


def output(monkeypatch: pytest.MonkeyPatch, *, colours: bool) -> Output:
    monkeypatch.setattr(Output, "colours", lambda *_: colours)
    return Output({})


@pytest.mark.parametrize("colours", [False, True])
def test_each_call_prints_one_line_without_anything_to_obey(
    colours: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = output(monkeypatch, colours=colours)
    out.line(EVIL)
    out.warning(EVIL)
    out.hint(EVIL)
    out.error(CkptError(EVIL, hint=EVIL))

    said = capsys.readouterr()
    error = "\x1b[31merror:\x1b[0m" if colours else "error:"
    assert said.out == f"{SHOWN}\n"
    assert said.err == f"warning: {SHOWN}\nhint: {SHOWN}\n{error} {SHOWN}\nhint: {SHOWN}\n"


def test_our_own_colours_are_for_those_who_see_them_and_hold_nothing_to_obey(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for colours, shown in ((True, f"\x1b[33m{SHOWN}\x1b[0m\n"), (False, f"{SHOWN}\n")):
        out = output(monkeypatch, colours=colours)
        out.line(out.paint("id", EVIL))
        assert capsys.readouterr().out == shown
