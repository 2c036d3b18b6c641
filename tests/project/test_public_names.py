# SPDX-License-Identifier: MIT
"""What `import ckpt` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ckpt


@pytest.mark.parametrize("name", ckpt.__all__)
def test_a_public_name_can_be_imported(name: str) -> None:
    assert getattr(ckpt, name) is not None


def test_public_names_are_sorted() -> None:
    assert sorted(ckpt.__all__) == ckpt.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        ckpt.no_such_name  # noqa: B018 - looking it up is the test


def test_importing_the_package_loads_neither_dulwich_nor_argparse() -> None:
    """A hook that has nothing to do must not pay for them."""
    code = "import ckpt, sys; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)

    assert not {"dulwich", "argparse", "json", "subprocess"} & set(ran.stdout.split())
    assert "ckpt" in ran.stdout.split()
