# SPDX-License-Identifier: MIT
"""A long-running filter for tests: the content in reverse, in git's protocol version 2.

What it does is in the words after its name: `log=FILE` notes every request there, `refuse=NAME`
answers `error` for such a path, `abort` gives up at the first file, `hang` answers nothing,
`die` ends after the first request, `late` takes its success back, `only=clean` can no more,
`chatty` says it a hundred thousand times, `stay` does not end when nobody asks any more.
"""

from __future__ import annotations

import sys
import time

WORDS = dict(word.partition("=")[::2] for word in sys.argv[1:])


def packets():
    while True:
        length = sys.stdin.buffer.read(4)
        if not length:
            time.sleep(1000 if "stay" in WORDS else 0)
            sys.exit(0)
        if length == b"0000":
            return
        yield sys.stdin.buffer.read(int(length, 16) - 4)


def send(*lines: bytes, flush: bool = True) -> None:
    for line in lines:
        sys.stdout.buffer.write(b"%04x%s" % (len(line) + 4, line))
    if flush:
        sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    if "log" in WORDS:
        with open(WORDS["log"], "a") as log:
            log.write(text + "\n")


def serve() -> None:
    request = dict(line.rstrip(b"\n").partition(b"=")[::2] for line in packets())
    content = b"".join(packets())
    path = request[b"pathname"].decode()
    note(f"{request[b'command'].decode()} {path}")
    if "hang" in WORDS:
        time.sleep(1000)
    if "die" in WORDS:
        sys.stderr.write("out of luck\n")
        sys.exit(3)
    if "abort" in WORDS:
        send(b"status=abort\n")
    elif WORDS.get("refuse") == path:
        send(b"status=error\n")
    else:
        send(*[b"status=success\n"] * (100_000 if "chatty" in WORDS else 1))
        reverse = content[::-1]
        for start in range(0, len(reverse), 65516):
            send(reverse[start : start + 65516], flush=False)
        send()
        send(*([b"status=error\n"] if "late" in WORDS else []))


def main() -> None:
    note("start")
    assert list(packets()) == [b"git-filter-client\n", b"version=2\n"]
    send(b"git-filter-server\n", b"version=2\n")
    offered = list(packets())
    assert set(offered) >= {b"capability=clean\n", b"capability=smudge\n"}
    known = [b"capability=clean\n", b"capability=smudge\n"]
    send(*(known[:1] if WORDS.get("only") == "clean" else known))
    while True:
        serve()


if __name__ == "__main__":
    main()
