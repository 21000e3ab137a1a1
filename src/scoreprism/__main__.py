"""``python -m scoreprism`` is the command line."""

from __future__ import annotations

from scoreprism.cli import main

if __name__ == "__main__":
    main(prog_name="scoreprism")
