#!/usr/bin/env python3
"""Runs the rows of tests/http/requirements/ against tests/http/server.c.

    must.py [EMULATOR...] SERVER    runs all rows; 0: all hold. Closes with "conformance: N passed, N failed, 0 skipped"
"""
import importlib
import os
import sys

sys.dont_write_bytecode = True

import program  # noqa: E402
import rows  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def load_folder(folder):
    """Imports all modules of a folder, so that none is forgotten."""
    for name in sorted(os.listdir(os.path.join(HERE, folder))):
        if name.endswith(".py"):
            importlib.import_module(f"{folder}.{name[:-3]}")


def load():
    """All rows."""
    if not rows.ROWS:
        load_folder("requirements")
    return rows.ROWS


def run(s, row):
    try:
        row.test(s)
        return True
    except Exception as wrong:  # whatever goes wrong, the others run
        print(f"FAILED {row.name} ({row.section}): {type(wrong).__name__}: {wrong}")
        return False


def main():
    all_rows = load()
    with program.Server(sys.argv[1:]) as s:
        passed = sum([run(s, row) for row in all_rows])
    print(f"conformance: {passed} passed, {len(all_rows) - passed} failed, 0 skipped")
    return 0 if passed == len(all_rows) else 1


if __name__ == "__main__":
    sys.exit(main())
