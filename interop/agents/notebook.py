"""Runs the Python of docs/agents.md as a new user would: the cells of a notebook, with the package installed by pip.

Usage: notebook.py FERRETTO
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import nbclient
import nbformat

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHECK = """
assert len(threads) > 0 and hasattr(threads, "columns"), threads
assert functions and all(function["self"] >= 0 for function in functions), functions
found = dict(zip(slices["name"], slices["n"]))
assert found == {"request": 5, "part": 5}, found
assert isinstance(changes, list)
with ferretto.Trace("after.pftrace") as trace:
    for format in ("pandas", "polars", "arrow"):
        assert len(trace.query("select ts, name from slice", format)) == 10, format
"""


def main(program):
    text = (REPOSITORY / "docs/agents.md").read_text()
    cells = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(cells) >= 3, "docs/agents.md has no Python"
    environment = dict(os.environ, FERRETTO=os.path.abspath(program))
    with tempfile.TemporaryDirectory() as folder:
        # pip builds in the folder of the source.
        source = f"{folder}/source"
        subprocess.run(["cp", "-r", REPOSITORY / "python", source], check=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", source], check=True, env=environment)
        os.environ.update(environment, PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", HOME=folder)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in [*cells, CHECK]])
        client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute()
    print(f"a notebook of the {len(cells)} cells of docs/agents.md works")


main(sys.argv[1])
