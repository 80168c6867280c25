"""Checks answers of all commands against docs/schema: of real recordings, and 1,000 of random traces.

Usage: answers.py FERRETTO FERRETTO-QUERY
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import jsonschema

import traces

RANDOM_ANSWERS = int(os.environ.get("RANDOM_ANSWERS", "1000"))
SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema"
VALIDATORS = {}
for path in SCHEMAS.glob("*.json"):
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    VALIDATORS[path.stem] = jsonschema.Draft202012Validator(schema)
# The answer of `record` has that of `summary`.
WHOLE, PART = VALIDATORS["summary"].schema, VALIDATORS["record"].schema
PART = dict(PART["properties"]["summary"]["anyOf"][0], **{"$defs": PART["$defs"]})
assert PART["properties"].items() == {k: v for k, v in WHOLE["properties"].items() if k != "version"}.items()
assert set(PART["required"]) == set(WHOLE["required"]) - {"version"} and PART["$defs"] == WHOLE["$defs"]
FORBIDDEN = [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x200E, 0x200F, 0x61C, *range(0x202A, 0x202F), 0x2028, 0x2029,
             *range(0x2066, 0x206A)]
FORBIDDEN = {chr(code) for code in FORBIDDEN} - {"\n"}


def visible(text):
    """Fails if a text could control a terminal."""
    found = FORBIDDEN.intersection(text)
    assert not found, f"{found!r} in {text[:2000]!r}"


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


class Commands:
    """Runs commands in a folder, and checks all that they print."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.answers = self.failures = self.messages = 0
        self.kinds = set()

    def run(self, schema, *args, codes=(0, 1, 3)):
        environment = dict(os.environ, TMPDIR=self.folder)
        done = subprocess.run([self.programs[0], *args], cwd=self.folder, capture_output=True, env=environment)
        out, err = done.stdout.decode(), done.stderr.decode()
        what = f"{args}: {done.returncode}\n{out[:2000]}\n{err[:2000]}"
        if done.returncode not in codes:
            raise AssertionError(what)
        visible(out)
        visible(err)
        for line in err.splitlines():
            VALIDATORS["message"].validate(json.loads(line))
            self.messages += 1
        if done.returncode in (1, 2) and not out:
            assert '"event":"error"' in err, what
            self.failures += 1
            return None
        answer = json.loads(out, parse_constant=refuse)
        error = jsonschema.exceptions.best_match(VALIDATORS[schema].iter_errors(answer))
        assert not error, f"{error.json_path}: {error.message[:500]}\n{what}"
        self.answers += 1
        self.kinds.add(schema)
        return answer


RULES = """
[[rule]]
slice = "request"
max = "1ms"
[[rule]]
measure = "loss"
max = 0
[[rule]]
function = "main"
max = "50%"
"""


def odd_answers(run, name):
    """Asks for answers of all kinds about an odd file; they may fail."""
    run.run("summary", "summary", "--json", name)
    for options in [[], ["--slice", "request", "--worst", "5"], ["--range", "0..99h"]]:
        run.run("why", "why", "--json", *options, name)
    for options in [[], ["--heap"], ["--off-cpu"], ["--from", "0s", "--to", "1ms"]]:
        run.run("flamegraph", "flamegraph", "--json", *options, name)
    run.run("diff", "diff", "--json", "extreme", name)
    run.run("assert", "assert", "--json", "rules", name, codes=(0, 1, 2))
    output = name.replace("/", "_")
    run.run("cut", "cut", "--json", "--to", "1s", name, "-o", f"{output}-cut")
    run.run("split", "split", "--json", "--every", "1s", name)
    run.run("merge", "merge", "--json", "extreme", name, "-o", f"{output}-merged")
    run.run("query", "query", "--json", name, "select name, ts, dur from slice")
    run.run("query", "query", "--json", name, "select ts, value, 1e999 as most from counter")


def broken(recording):
    """Returns files by name: a recording that ends early, one with a hole, and one with a hostile name."""
    half = len(recording) // 2
    return {
        "early": recording[:-half], "hole": recording[:half] + bytes(100) + recording[half + 100:],
        "a\nb\x1b]0;x\x07\"'\u202e<script>": recording,
    }


def random_answers(run, seed):
    """Asks for answers of all kinds about a random trace."""
    folder = pathlib.Path(run.folder)
    names = [f"{seed}.pftrace", f"{seed}-2.pftrace"]
    for at, name in enumerate(names):
        (folder / name).write_bytes(traces.trace(2 * seed + at))
    first, second = names
    run.run("summary", "summary", "--json", first)
    run.run("summary", "summary", "--json", second)
    run.run("why", "why", "--json", first)
    run.run("why", "why", "--json", "--slice", "request", "--worst", "3", second)
    run.run("why", "why", "--json", "--slice", "0", second)
    run.run("diff", "diff", "--json", first, second)
    run.run("flamegraph", "flamegraph", "--json", first)
    run.run("flamegraph", "flamegraph", "--json", "--depth", "40", "--by", "thread", second)
    run.run("assert", "assert", "--json", "rules", first, codes=(0, 1, 2))
    run.run("cut", "cut", "--json", "--from", "1ms", "--to", "40ms", first, "-o", f"{seed}-cut")
    run.run("merge", "merge", "--json", first, second, "-o", f"{seed}-merged")
    if seed % 8 == 0:
        run.run("query", "query", "--json", first, "select name, ts, dur, null as nothing from slice")
        run.run("query", "query", "--json", first, "select * from thread; select broken from nothing")
    for path in folder.glob(f"{seed}*"):
        path.unlink()


def real_answers(run):
    """Records, and asks for answers of all kinds about the recordings."""
    burn = "import hashlib, threading\nt = threading.Thread(target=lambda: [hashlib.sha256(b'x' * 100000) for _ in range(3000)])\nt.start(); t.join()"
    options = ["--why", "--heap"] if os.geteuid() == 0 else ["--heap"]
    for name in ["one", "two"]:
        answer = run.run("record", "record", "--json", *options, "-o", name, "--", sys.executable, "-c", burn, codes=(0, 3))
        assert answer["state"] == "complete" and answer["summary"]["command"], answer
        summary = run.run("summary", "summary", "--json", name, codes=(0, 3))
        same = {key: value for key, value in answer["summary"].items() if key not in ("bytes", "packets")}
        assert same.keys() <= summary.keys()
    run.run("record", "record", "--json", "-d", "1500ms", "-o", "three", codes=(0, 3))
    again = run.run("record", "record", "--json", "-o", "three", "--", "true", codes=(0, 3))
    assert again["earlier_file"], again
    if os.geteuid() == 0:
        run.run("why", "why", "--json", "one", codes=(0, 3))
    run.run("diff", "diff", "--json", "one", "two", codes=(0, 3))
    run.run("flamegraph", "flamegraph", "--json", "--heap", "one", codes=(0, 3))
    if os.geteuid() == 0:
        run.run("flamegraph", "flamegraph", "--json", "one", codes=(0, 3))
        run.run("flamegraph", "flamegraph", "--json", "--off-cpu", "--top", "3", "one", codes=(0, 3))
    run.run("cut", "cut", "--json", "--from", "10ms", "one", "-o", "part", codes=(0, 3))
    run.run("split", "split", "--json", "--every", "1s", "one", codes=(0, 3))
    run.run("merge", "merge", "--json", "one", "two", "-o", "both", codes=(0, 3))
    run.run("assert", "assert", "--json", "rules", "one", "two", codes=(0, 1, 2))
    run.run("doctor", "doctor", "--json")
    service = subprocess.Popen([run.programs[0], "traced"], cwd=run.folder, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            status = run.run("status", "status", "--json")
            if status:
                break
        assert status, "no service"
    finally:
        service.terminate()
        service.wait()
    # Wrong command lines.
    for wrong in [["why", "--json", "--nothing"], ["cut", "--json"], ["record", "--json", "-o", "-"]]:
        done = subprocess.run([run.programs[0], *wrong], cwd=run.folder, capture_output=True)
        assert done.returncode in (1, 2) and not done.stdout, done
        VALIDATORS["message"].validate(json.loads(done.stderr))


def main():
    programs = [os.path.abspath(path) for path in sys.argv[1:3]]
    os.environ["PATH"] = f"{os.path.dirname(programs[1])}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("PRODUCER", "CONSUMER"):
            os.environ[f"PERFETTO_{kind}_SOCK_NAME"] = f"{folder}/{kind.lower()}.sock"
        (pathlib.Path(folder) / "rules").write_text(RULES)
        run = Commands(programs, folder)
        real_answers(run)
        print(f"{run.answers} answers about recordings are as docs/schema says", flush=True)
        run.answers = 0
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            odd = traces.odd() | broken((pathlib.Path(folder) / "three").read_bytes())
            for name, content in odd.items():
                (pathlib.Path(folder) / name).write_bytes(content)
            list(pool.map(lambda name: odd_answers(run, name), [*odd, "missing", ".", "/dev/null"]))
            print(f"{run.answers} answers and {run.failures} failures about odd files, too", flush=True)
            run.answers = seed = 0
            while run.answers < RANDOM_ANSWERS:
                seeds = range(seed, seed + 16)
                list(pool.map(lambda seed: random_answers(run, seed), seeds))
                seed += 16
        unseen = VALIDATORS.keys() - run.kinds - {"message", "tool"}
        assert not unseen, f"no answer of {unseen}"
        print(f"{run.answers} answers, {run.failures} failures and {run.messages} messages about random traces, too")


if __name__ == "__main__":
    main()
