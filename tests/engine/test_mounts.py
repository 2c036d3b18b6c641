# SPDX-License-Identifier: MIT
"""Which file systems are trusted to date their folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ckpt.engine import scan_cache
from ckpt.engine.scan_cache import Clock

TABLE = b"""\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
30 22 8:2 / /mnt/usb rw - vfat /dev/sdb1 rw
31 22 8:3 / /mnt/usb\\040two rw - exfat /dev/sdb2 rw
32 22 8:4 / /mnt/usb/inner rw - xfs /dev/sdc1 rw
33 22 0:44 / /home/me/share rw - fuse.sshfs host:/x rw
34 22 8:5 / /over rw - vfat /dev/sdd1 rw
35 34 8:6 / /over rw master:7 - ext4 /dev/sdd2 rw
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's table of mounts")
@pytest.mark.parametrize(
    ("folder", "is_reliable"),
    [
        ("/home/me/project", True),
        ("/mnt/usb", False),
        ("/mnt/usb/project", False),
        ("/mnt/usbstick", True),
        ("/mnt/usb two/project", False),
        ("/mnt/usb/inner/project", True),
        ("/home/me/share/project", False),
        ("/over/project", True),
    ],
)
def test_the_innermost_mount_says_whether_folders_are_dated(
    folder: str, is_reliable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mountinfo").write_bytes(TABLE)
    monkeypatch.setattr(scan_cache, "_TABLE", str(tmp_path / "mountinfo"))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)

    assert scan_cache.dates_folders(folder) == is_reliable


def test_without_a_table_of_mounts_nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(scan_cache, "_TABLE", "/nonexistent")

    assert not scan_cache.dates_folders("/")


def test_a_folder_on_another_device_is_listed_each_time(tmp_path: Path) -> None:
    status = tmp_path.stat()
    later = status.st_ctime_ns + 10**10

    assert Clock(later, status.st_dev).is_settled_folder(status)
    assert not Clock(later, status.st_dev + 1).is_settled_folder(status)
    assert not Clock(later).is_settled_folder(status)
