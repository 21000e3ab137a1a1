"""``python -m tests.golden [FILE] [--only NAME ...]``: write down what the code says now: numbers, texts and refusals.

``python -m tests.golden --compare OLD NEW [--tolerance 1e-12]`` lists what differs between two files.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.golden.record import STORED, differences, read, recorded, write


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden")
    parser.add_argument("file", type=Path, nargs="?", default=STORED)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cases whose names begin so")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--tolerance", type=float, default=1e-12)
    options = parser.parse_args(arguments)
    if not options.compare:
        found = recorded(tuple(options.only))
        if options.only and options.file.exists():
            found = read(options.file) | found
        write(options.file, found)
        return 0
    old, new = (read(file) for file in options.compare)
    lines = [f"{name}{line}" for name in old for line in differences(old[name], new.get(name, {}), options.tolerance)]
    print("\n".join(lines) or "nothing differs")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
