"""The package with the built programs: $FERRETTO, $FERRETTO_QUERY and $FERRETTO_C_LIBRARY."""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../interop/agents"))

import ferretto  # noqa: E402
import traces  # noqa: E402

APP = """
import ferretto, sys, time
assert ferretto.enable_spans()
@ferretto.traced
def work(): time.sleep(0.001)
with ferretto.span("outer", user='a"b'):
    work()
ferretto.instant("done")
"""


class Package(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def random(self, seed):
        path = self.path(f"{seed}.pftrace")
        with open(path, "wb") as file:
            file.write(traces.trace(seed))
        return path

    def test_queries_return_rows_and_frames(self):
        sql = "select 1 as a, 'x' as b, null as c union all select 2, 'y', 3.5"
        with ferretto.Trace(self.random(1)) as trace:
            self.assertEqual(trace.rows(sql), [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": "y", "c": 3.5}])
            self.assertEqual(trace.query(sql, "rows"), trace.rows(sql))
            self.assertEqual(trace.query("-- nothing\nselect 1 as a where 0", "rows"), [])
            for format, count in [("pandas", len), ("polars", len), ("arrow", lambda table: table.num_rows)]:
                try:
                    frame = trace.query(sql, format)
                except ImportError:
                    print(f"skipped: {format} is not installed")
                    continue
                self.assertEqual(count(frame), 2)
                self.assertEqual([int(value) for value in frame["a"].to_pylist()] if format == "arrow"
                                 else [int(value) for value in frame["a"]], [1, 2])
                trace.query("select 1 as a where 0", format)
            with self.assertRaisesRegex(ferretto.FerrettoError, "nothing_there"):
                trace.query("select * from nothing_there")
            server = trace._server
        self.assertIsNotNone(server.returncode)

    def test_answers_are_dicts(self):
        before, after = self.random(2), self.random(4)
        trace = ferretto.Trace(before)
        self.assertEqual(trace.summary()["version"], 1)
        self.assertEqual(ferretto.diff(before, after)["recordings"], {"before": 1, "after": 1})
        self.assertEqual(ferretto.diff([before, after], [after])["recordings"], {"before": 2, "after": 1})
        with self.assertRaisesRegex(ferretto.FerrettoError, "the trace has no slice --nothing|no scheduling"):
            trace.why(slice="--nothing")
        with self.assertRaises(FileNotFoundError):
            ferretto.Trace(self.path("nothing"))
        with open(self.path("bad"), "wb") as file:
            file.write(b"no trace at all")
        with self.assertRaises(ferretto.FerrettoError):
            ferretto.Trace(self.path("bad")).query("select 1")

    def test_recordings_end_with_their_block(self):
        path = self.path("block.pftrace")
        with ferretto.record(path) as recording:
            sum(range(1000))
        self.assertEqual(recording.answer["state"], "complete")
        self.assertGreater(recording.trace().query("select count(*) as n from stats", "rows")[0]["n"], 0)
        command = ferretto.record(self.path("command"), command=[sys.executable, "-c", "print('out')"])
        self.assertIn("-c", command["summary"]["command"]["command"])
        with self.assertRaisesRegex(ferretto.FerrettoError, "unexpected argument|--nothing"):
            ferretto.record(self.path("wrong"), duration="1s", nothing=True)
        with self.assertRaises(ferretto.FerrettoError):
            with ferretto.record("/nowhere/at/all"):
                self.fail("it did not start")

    def test_spans_are_slices(self):
        if not os.environ.get("FERRETTO_C_LIBRARY"):
            print("skipped: $FERRETTO_C_LIBRARY is not set")
            return
        environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(ferretto.__file__)))
        program = [os.environ.get("FERRETTO", "ferretto"), "record", "-q", "-o", self.path("t"), "--", sys.executable, "-c", APP]
        subprocess.run(program, env=environment, check=True)
        names = [row["name"] for row in ferretto.Trace(self.path("t")).rows("select name from slice order by ts, id")]
        self.assertEqual(names, ["outer", "work", "done"])


if __name__ == "__main__":
    unittest.main()
