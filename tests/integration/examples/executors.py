#!/usr/bin/env python3
"""executors.py PROGRAM [EMULATOR...]: runs examples/executors 200 times with its seconds 1 ms long.

Each run must print the same ten lines in the same order, each from its thread.
"""
import subprocess
import sys

LINES = """L task start ...
A task 2 start ...
A task 2 returns after 1s.
L returns from task2:  2
T in task 3 start ...
T task 3 returns after 2s.
L returns from task3:  3
L simple task end:  6
M simple task end from get:  6
L run_loop exit.
"""


def main():
    program = sys.argv[2:] + [sys.argv[1], "1"]
    for i in range(20 if sys.argv[2:] else 200):
        run = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if run.returncode != 0 or run.stdout != LINES or run.stderr:
            print("run %d ended with %d and printed:\n%s%s" % (i, run.returncode, run.stdout, run.stderr))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
