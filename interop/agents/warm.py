"""Measures the answers of `ferretto mcp` about a large trace: the first one of each tool, and those after it.

Usage: warm.py FERRETTO MB-OR-TRACE [MOST-MS]

With MOST-MS, it fails if 95 % of the later answers of a tool do not come within this time.
"""

import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import large

ROUNDS = int(os.environ.get("ROUNDS", "20"))
MOST_BYTES = 8192


def texts(files):
    """The texts of files, without those of tasks that have ended."""
    for file in files:
        try:
            yield file.read_text()
        except (FileNotFoundError, ProcessLookupError):
            pass


class Server:
    """A server, whose answers are timed."""

    def __init__(self, program, root):
        self.process = subprocess.Popen([program, "mcp", "--root", root], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ids = itertools.count(1)
        self.progress = 0

    def call(self, tool, arguments):
        """Returns the answer, and the seconds that it took. A call that reads for too long is repeated."""
        start = time.monotonic()
        while True:
            identifier = next(self.ids)
            params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": identifier}}
            request = {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            while "id" not in (message := json.loads(self.process.stdout.readline())):
                self.progress += 1
            text = message["result"]["content"][0]["text"]
            assert len(text.encode()) <= MOST_BYTES, tool
            answer = json.loads(text)
            if "call again" not in answer.get("error", ""):
                return answer, (time.monotonic() - start) * 1e3

    def processes(self):
        """The server, and the programs that it runs."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        children = [text.split() for text in texts(process.glob("task/*/children"))]
        return [process, *(pathlib.Path(f"/proc/{child}") for one in children for child in one)]

    def cpu(self):
        """The milliseconds of CPU time: on a busy machine, the nearest to the time on a calm one."""
        tasks = [task for process in self.processes() for task in process.glob("task/*/schedstat")]
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        # The programs that have ended.
        ended = (int(stat[13]) + int(stat[14])) * 1000 / os.sysconf("SC_CLK_TCK")
        return sum(int(text.split()[0]) for text in texts(tasks)) / 1e6 + ended

    def memory(self, name):
        """The megabytes of a number in the state of the server and the programs that it runs."""
        status = [(process / "status").read_text() for process in self.processes()]
        return sum(int(text.split(name + ":")[1].split()[0]) for text in status) >> 10

    def measured(self, tool, arguments):
        """Calls a tool, and returns the milliseconds of the answer, and those of CPU time."""
        before = self.cpu()
        _, time = self.call(tool, arguments)
        return time, self.cpu() - before


def questions(file, answers, seconds):
    """Different questions of each tool, without end."""
    threads = [item["tid"] for item in answers["overview"]["items"] if item.get("section") == "thread"]
    thread = itertools.cycle(map(str, threads or [0]))
    start = itertools.count()

    def ranged():
        at = next(start) * 37 % 89 / 100 * seconds
        return f"{at:.3f}s", f"{at + seconds / 10:.3f}s"

    def of_range():
        return {"range": "..".join(ranged())}

    def cut():
        return dict(zip(("from", "to"), ranged()))

    yield "overview", lambda: {"file": file}
    yield "why", lambda: {"file": file, "thread": next(thread)}
    yield "why range", lambda: {"file": file, "thread": next(thread), **of_range()}
    yield "flamegraph_top", lambda: {"file": file, "thread": next(thread)}
    yield "flamegraph_top range", lambda: {"file": file, "depth": 5, **cut()}
    yield "timeline", lambda: {"file": file, **of_range()}
    yield "timeline thread", lambda: {"file": file, "thread": next(thread)}
    yield "diff", lambda: {"before": file, "after": file}
    if shutil.which("ferretto-query"):
        sql = "select name, count(*) as n, sum(dur) as dur from slice where track_id = {} group by name order by dur desc"
        yield "query", lambda: {"file": file, "sql": sql.format(next(start))}
        yield "query thread", lambda: {"file": file, "sql": f"select * from thread where tid = {next(thread)}"}
    yield "schema", lambda: {"table": "slice"}


def percentiles(numbers):
    """The 50th and the 95th percentile."""
    numbers = sorted(numbers)
    return numbers[len(numbers) // 2], numbers[min(len(numbers) - 1, len(numbers) * 95 // 100)]


def main(program, what, most=None):
    slow = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        if what.isdigit():
            file = f"{what}.pftrace"
            large.write(f"{folder}/{file}", int(what) << 20)
        else:
            folder, file = os.path.split(os.path.abspath(what))
        server = Server(program, folder)
        answers = {}
        answers["overview"], cold = server.call("overview", {"file": file})
        assert "error" not in answers["overview"], answers
        size, seconds = answers["overview"]["bytes"] >> 20, answers["overview"]["duration_ns"] / 1e9
        print(f"{size} MB, {seconds:.0f} s of trace; the first answer took {cold / 1e3:.1f} s")
        print(f"{'':22}{'first':>10}{'p50':>10}{'p95':>10}{'CPU':>10}{'CPU p95':>10}  ms{'memory':>10}  MB")
        for name, question in questions(file, answers, seconds):
            tool = name.split()[0]
            answer, first = server.call(tool, question())
            assert "error" not in answer, (name, answer)
            rounds = [server.measured(tool, question()) for _ in range(ROUNDS)]
            p50, p95 = percentiles(time for time, _ in rounds)
            cpu, cpu95 = percentiles(cpu for _, cpu in rounds)
            memory = server.memory("VmRSS")
            print(f"{name:22}{first:10.1f}{p50:10.1f}{p95:10.1f}{cpu:10.1f}{cpu95:10.1f}{memory:14}", flush=True)
            if most and p95 > float(most):
                slow.append(name)
        print(f"{server.memory('VmHWM')} MB of memory at most, {server.progress} reports of progress")
        server.process.stdin.close()
        server.process.wait()
    assert not slow, f"slower than {most} ms: {slow}"


main(*sys.argv[1:])
