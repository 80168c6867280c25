"""Cancels running queries of `ferretto mcp`, and loads traces that take more memory than it may use.

Usage: cancel.py FERRETTO
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import large
import traces

# It ends after hours.
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
SORTED = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n order by -i"


class Server:
    """A server, whose messages are read one by one."""

    def __init__(self, program, root, *options):
        command = [program, "mcp", "--root", root, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.last = 0

    def send(self, method, **params):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **params}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, tool, **arguments):
        """Sends a call, and returns its id."""
        self.last += 1
        meta = {"progressToken": self.last}
        self.send("tools/call", id=self.last, params={"name": tool, "arguments": arguments, "_meta": meta})
        return self.last

    def answer(self):
        """Returns the id and the answer of the next response."""
        while "id" not in (message := json.loads(self.process.stdout.readline())):
            pass
        return message["id"], json.loads(message["result"]["content"][0]["text"])

    def call(self, tool, **arguments):
        asked = self.ask(tool, **arguments)
        answered, answer = self.answer()
        assert answered == asked, (answered, asked)
        return answer

    def cancel(self, call):
        self.send("notifications/cancelled", params={"requestId": call})

    def close(self):
        """Ends the server, and returns its messages for people."""
        self.process.stdin.close()
        messages = self.process.stderr.read().decode()
        assert self.process.wait() == 0
        return messages


def children(pid):
    """The processes that a process has started."""
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    found = set()
    for task in [path, *pathlib.Path(f"/proc/{pid}/task").glob("*/children")]:
        try:
            found.update(map(int, task.read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            # The thread has ended.
            pass
    return found


def cpu(pid):
    """The ticks of CPU time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def cancelled(program, folder):
    """A cancelled query gets no answer, ends, and lets the next one run."""
    server = Server(program, folder)
    assert server.call("query", file="t", sql="select 1 as one")["items"] == [{"one": 1}]
    loaded = children(server.process.pid)
    for sql in [ENDLESS, SORTED]:
        running = server.ask("query", file="t", sql=sql)
        while not children(server.process.pid) - loaded:
            pass
        server.cancel(running)
        # The response to the cancelled call would come before.
        assert server.call("query", file="t", sql="select 2 as two")["items"] == [{"two": 2}]
        assert server.call("overview", file="t")["file"] == "t"
    # One that waits is never run.
    running, waiting = server.ask("query", file="t", sql=ENDLESS), server.ask("query", file="t", sql="select 3")
    server.cancel(waiting)
    server.cancel(running)
    assert server.call("query", file="t", sql="select 4 as four")["items"] == [{"four": 4}]
    assert children(server.process.pid) == loaded, "the trace is loaded once"
    server.close()


def too_large(program, folder):
    """A trace that takes too much memory is refused with advice, at once when it is asked for again."""
    server = Server(program, folder, "--max-memory", "1K")
    for tool, arguments in [("overview", {}), ("query", {"sql": "select 1"}), ("overview", {})]:
        assert "--max-memory" in server.call(tool, file="t", **arguments)["error"], tool
    server.close()
    # Either the tables for all tools do not fit, or those for SQL.
    memory, refused = 64 << 10, []
    while not refused:
        server = Server(program, folder, "--max-memory", f"{memory}K")
        asked = [("overview", {}), ("query", {"sql": "select 1"})] * 2
        answers = [server.call(tool, file="large", **arguments) for tool, arguments in asked]
        refused = [answer["error"] for answer in answers if "error" in answer]
        server.close()
        memory = memory * 4 // 5
    assert all("large" in reason and "--max-memory" in reason for reason in refused), refused
    # The program for SQL says so, too.
    query = [program, "query", "--trace-memory", "1K", f"{folder}/large", "select 1"]
    done = subprocess.run(query, capture_output=True, text=True)
    assert done.returncode == 1 and "--trace-memory" in done.stderr and not done.stdout, done


def least(works, enough=64):
    """The least number that is enough, up to one that is known to be."""
    few = 0
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if works(middle) else (middle, enough)
    return enough


def in_turn(program, folder):
    """SQL gets the memory that it needs alone: what other tools have loaded is closed for it, and read again."""
    query = [("query", {"sql": "select count(*) as n from slice"})]
    others = [("overview", {}), ("timeline", {}), ("why", {}), ("flamegraph_top", {})]

    def refused(memory, calls):
        server = Server(program, folder, "--max-memory", f"{memory}M")
        answers = [server.call(tool, file="busy", **arguments) for tool, arguments in calls]
        server.close()
        return [answer["error"] for answer in answers if "--max-memory" in answer.get("error", "")]

    def loads(memory):
        command = [program, "query", "--trace-memory", f"{memory}M", f"{folder}/busy", "select 1"]
        return b"--trace-memory" not in subprocess.run(command, capture_output=True).stderr

    # Statements may take 48 MB beside the tables.
    memory = least(loads) + 48
    assert not (reasons := refused(memory, others + query + others + query)), (memory, reasons)


def named(program, folder):
    """Messages name traces as the calls do."""
    server = Server(program, folder)
    for tool, arguments in [("overview", {}), ("flamegraph_top", {}), ("query", {"sql": "select 1"})]:
        server.call(tool, file="damaged", **arguments)
    messages = server.close()
    assert "damaged" in messages and "/proc/" not in messages, messages


def left_behind(program, folder):
    """A recording ends with its command, also if that leaves a program behind that keeps its output open."""
    server = Server(program, folder, "--allow-record")
    pid = pathlib.Path(folder) / "pid"
    command = ["sh", "-c", f"sleep 1000 & echo $! > {pid}; echo said >&2"]
    recorded = server.call("record", output="recorded", command=command)
    left = int(pid.read_text())
    os.kill(left, signal.SIGKILL)
    assert recorded["state"] == "complete", recorded
    server.close()


def main(program):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        whole = traces.trace(1)
        for name, content in [("t", whole), ("large", whole * 40), ("damaged", whole + b"\x0a\xff\x7f")]:
            (pathlib.Path(folder) / name).write_bytes(content)
        large.write(f"{folder}/busy", 2 << 20)
        cancelled(program, folder)
        too_large(program, folder)
        in_turn(program, folder)
        named(program, folder)
        left_behind(program, folder)
    print("cancelled queries end, and traces take no more memory than they may")


main(sys.argv[1])
