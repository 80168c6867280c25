"""A caller without a model finds 20 planted problems through `ferretto mcp`, in at most 6 calls each.

It knows neither the program nor its threads: it asks why the recorded command took so long, and follows the process
that the command waited for.

Usage: planted.py FERRETTO
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "crates/cli/tests/why/planted.c"
PROBLEMS = {
    "lock": "lock", "newlock": "lock", "condition": "lock", "join": "lock", "semaphore": "lock", "timer": "timer",
    "timerfd": "timer", "polltime": "timer", "epolltime": "timer", "locktime": "timer", "pipe": "pipe",
    "fullpipe": "pipe", "socket": "socket", "datagram": "socket", "tcp": "socket", "accept": "socket", "poll": "poll",
    "epoll": "poll", "flock": "file-lock", "child": "child",
}
TIME = "40"
MAX_CALLS = 6
# The program has a real-time priority: a busy machine would add waits for the CPU between those that are planted.
START = ["chrt", "--fifo", "1"]


class Server:
    """A server, whose calls are counted."""

    def __init__(self, program, root):
        command = [program, "mcp", "--root", root, "--allow-record"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.calls = 0

    def call(self, tool, **arguments):
        self.calls += 1
        request = {"jsonrpc": "2.0", "id": self.calls, "method": "tools/call",
                   "params": {"name": tool, "arguments": arguments}}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(json.loads(self.process.stdout.readline())["result"]["content"][0]["text"])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def top_cause(server, **selection):
    """The cause of most of a thread's time that is not the load of the machine."""
    cursor = {}
    for _ in range(MAX_CALLS):
        answer = server.call("why", file="t", **selection, **cursor)
        for item in answer.get("items", []):
            if item.get("section") == "cause" and item["level"] == 0 and item["cause"] not in ("cpu", "absent"):
                return item
        cursor = {"cursor": answer.get("next_cursor")}
        if not cursor["cursor"]:
            break
    raise AssertionError(f"no cause: {json.dumps(answer)[:2000]}")


def kind_of(server, command):
    """Records a command, and returns the kind of the wait that took most of its time."""
    recorded = server.call("record", output="t", command=command, why=True)
    assert recorded.get("state") == "complete", recorded
    overview = server.call("overview", file="t")
    assert overview["recorded"]["switches"], overview
    cause = top_cause(server)
    if cause.get("kind") == "child":
        # The command only waits for another program: that one's time is the question.
        cause = top_cause(server, thread=str(cause["waker"]["tid"]))
    return cause.get("kind", cause["cause"])


def main(program):
    if subprocess.run([*START, "true"], capture_output=True).returncode != 0 or os.geteuid() != 0:
        print("skipped: the planted problems need root, who can record scheduling, and chrt, which sets priorities")
        return
    with tempfile.TemporaryDirectory() as root:
        planted = f"{root}/planted"
        subprocess.run(["cc", "-g", "-O1", "-pthread", "-w", "-o", planted, PROGRAMS], check=True)
        server = Server(program, root)
        most, wrong = 0, {}
        for problem, kind in PROBLEMS.items():
            before = server.calls
            found = kind_of(server, [*START, planted, root, f"{problem}-{TIME}"])
            most = max(most, server.calls - before)
            if found != kind:
                # Another program may have been in the way: a second recording decides.
                print(f"{problem}: {found} in the first recording")
                found = kind_of(server, [*START, planted, root, f"{problem}-{TIME}"])
            if found != kind:
                wrong[problem] = found
        server.close()
        print(f"{len(PROBLEMS) - len(wrong)} of {len(PROBLEMS)} planted problems are found in at most {most} calls each")
        assert not wrong and most <= MAX_CALLS, wrong


main(sys.argv[1])
