#!/usr/bin/env python3
"""executors.py once|often PROGRAM [EMULATOR...]: runs examples/executors.

once: as it is. It takes 3 s, ends with status 0, and its lines come from four threads.
often: 200 times, with its seconds 1 ms long.

Each run must print the same ten lines in the same order, each from its thread.
"""
import glob
import subprocess
import sys
import time

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
# The program takes each line's letter from the name of the thread that prints it.
NAMES = {"L": "my loop", "A": "weft_async", "T": "weft_thread"}


def ended_well(code, out, err):
    if code == 0 and out == LINES and not err:
        return True
    print("ended with %d and printed:\n%s%s" % (code, out, err))
    return False


def look_at_threads(pid, threads):
    """Notes the name of each thread that the process has now. A new thread has its maker's name for a moment."""
    for path in glob.glob("/proc/%d/task/*/comm" % pid):
        try:
            with open(path) as comm:
                threads[int(path.split("/")[4])] = comm.read().rstrip("\n")
        except OSError:
            pass  # it has ended


def are_four(pid, threads):
    """Whether each letter but M had one thread in the whole run, and the main thread had none of their names."""
    of = {letter: {tid for tid, name in threads.items() if name == NAMES[letter]} for letter in NAMES}
    of["M"] = {pid}  # the main thread
    if all(len(tids) == 1 for tids in of.values()) and len(set.union(*of.values())) == 4:
        return True
    print("the threads of each letter: %s; all that were seen: %s" % (of, threads))
    return False


def once(program):
    threads = {}
    begin = time.monotonic()
    run = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while run.poll() is None and time.monotonic() < begin + 60:
        look_at_threads(run.pid, threads)
        time.sleep(0.01)
    seconds = time.monotonic() - begin
    run.kill()
    if not ended_well(run.returncode if run.returncode is not None else -1, *run.communicate()):
        return 1
    if not 3.0 <= seconds < 30:
        print("it took %.3f s" % seconds)
        return 1
    return 0 if are_four(run.pid, threads) else 1


def often(program, times):
    for i in range(times):
        run = subprocess.run(program + ["1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if not ended_well(run.returncode, run.stdout, run.stderr):
            print("in run %d" % i)
            return 1
    return 0


def main():
    program = sys.argv[3:] + [sys.argv[2]]
    return once(program) if sys.argv[1] == "once" else often(program, 20 if sys.argv[3:] else 200)


if __name__ == "__main__":
    sys.exit(main())
