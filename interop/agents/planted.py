"""A caller without a model finds 20 planted problems through `ferretto mcp`, in at most 6 calls each.

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
# A problem is found if one of these recordings shows it: a busy machine adds causes of its own.
RECORDINGS = 5
# Even then, one may be hidden in all of them.
MIN_FOUND = len(PROBLEMS) - 1


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


def finds(server, problem, kind):
    """Asks why the thread took so long, until an answer has a cause that is not the load of the machine."""
    before = server.calls
    overview = server.call("overview", file="t")
    assert overview["recorded"]["switches"], overview
    cursor = {}
    while server.calls - before < MAX_CALLS:
        answer = server.call("why", file="t", thread=f"{problem}-{TIME}", **cursor)
        for item in answer.get("items", []):
            if item.get("section") == "cause" and item["level"] == 0 and item["cause"] not in ("cpu", "absent"):
                return item.get("kind") == kind
        if not answer.get("next_cursor"):
            return False
        cursor = {"cursor": answer["next_cursor"]}
    return False


def main(program):
    if os.geteuid() != 0:
        print("skipped: only root can record scheduling")
        return
    with tempfile.TemporaryDirectory() as root:
        planted = f"{root}/planted"
        subprocess.run(["cc", "-g", "-O1", "-pthread", "-w", "-o", planted, PROGRAMS], check=True)
        found = set()
        for _ in range(RECORDINGS):
            server = Server(program, root)
            recorded = server.call("record", output="t", command=[planted, root, TIME], why=True)
            assert recorded.get("state") == "complete", recorded
            missing = PROBLEMS.keys() - found
            found |= {problem for problem in missing if finds(server, problem, PROBLEMS[problem])}
            server.process.stdin.close()
            server.process.wait()
            if len(found) == len(PROBLEMS):
                break
        print(f"{len(found)} of {len(PROBLEMS)} planted problems are found in at most {MAX_CALLS} calls each")
        assert len(found) >= MIN_FOUND, f"not found: {PROBLEMS.keys() - found}"


main(sys.argv[1])
