"""Lists and calls every tool of `ferretto mcp` with the client of the PyPI package, in each version of the protocol.

Usage: client.py FERRETTO
"""

import asyncio
import json
import os
import pathlib
import sys
import tempfile

import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

import traces

HOSTILE = int(os.environ.get("HOSTILE", "40"))
SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema" / "tool.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
CALLS = [
    ("overview", {}), ("why", {}), ("why", {"slice": "request", "worst": 3}), ("flamegraph_top", {"depth": 4}),
    ("timeline", {"width": 60}), ("query", {"sql": "select name, ts, dur from slice"}),
]


def check(name, result, most=8192):
    """Returns the answer of a tool, of which hostile names are strings."""
    text = result.content[0].text
    assert len(text.encode()) <= most, f"{name} answers with {len(text.encode())} bytes"
    for code in [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x202E, 0x2028]:
        assert chr(code) not in text, f"{name}: {code:#x} in {text}"
    answer = json.loads(text)
    VALIDATOR.validate(answer)
    assert ("error" in answer) == bool(result.is_error), answer
    assert answer.keys().isdisjoint(["result", "role"]), answer
    return answer


async def everything(session, file, most_pages=100):
    """Calls each tool with arguments for a random trace, and follows the cursors."""
    for name, arguments in CALLS:
        cursor, seen = None, 0
        for _ in range(most_pages):
            given = {"file": file, **arguments, **({"cursor": cursor} if cursor else {})}
            result = await session.call_tool(name, given)
            answer = check(name, result)
            if "error" in answer:
                break
            seen += len(answer.get("items", []))
            cursor = answer.get("next_cursor")
            if not cursor:
                break
        else:
            raise AssertionError(f"{name} does not end")


async def main(program):
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(HOSTILE):
            (pathlib.Path(folder) / f"{seed}.pftrace").write_bytes(traces.trace(seed))
        odd = traces.odd()
        for name, content in odd.items():
            (pathlib.Path(folder) / name).write_bytes(content)
        (pathlib.Path(folder) / "link").symlink_to("/etc/passwd")
        server = StdioServerParameters(command=program, args=["mcp", "--root", folder], env=dict(os.environ))
        # The handshake of the older versions.
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            started = await session.initialize()
            tools = (await session.list_tools()).tools
            names = {tool.name for tool in tools}
            assert "record" not in names, "recording needs --allow-record"
            for seed in range(HOSTILE):
                await everything(session, f"{seed}.pftrace")
            for name in odd:
                await everything(session, name, most_pages=1000)
            check("diff", await session.call_tool("diff", {"before": "0.pftrace", "after": "1.pftrace"}))
            check("diff", await session.call_tool("diff", {"before": "crowded", "after": "extreme"}))
            check("schema", await session.call_tool("schema", {"table": "slice"}))
            if "screenshot" in names:
                picture = await session.call_tool("screenshot", {"file": "0.pftrace"})
                assert picture.content[1].type == "image", picture
            large = await session.call_tool("schema", {"max_bytes": 100_000})
            assert check("schema", large, 100_000)["next_cursor"] is None
            # A file that changes between calls is read again, and one that is gone is named.
            changing = pathlib.Path(folder) / "changing"
            for content in [odd["extreme"], odd["crowded"]]:
                changing.write_bytes(content)
                overview = check("overview", await session.call_tool("overview", {"file": "changing"}))
                assert overview["bytes"] == len(content), overview
            changing.unlink()
            assert "changing" in check("overview", await session.call_tool("overview", {"file": "changing"}))["error"]
            # A hundred calls at once, beside another client.
            async with stdio_client(server) as (read2, write2), ClientSession(read2, write2) as other:
                await other.initialize()
                calls = [one.call_tool("overview", {"file": "extreme"}) for one in [session, other] * 50]
                for result in await asyncio.gather(*calls):
                    assert "error" not in check("overview", result)
            for file in ["link", "../../etc/passwd", "/etc/passwd", "nothing"]:
                refused = await session.call_tool("overview", {"file": file})
                assert "error" in check("overview", refused), file
            for resource in (await session.list_resources()).resources:
                assert (await session.read_resource(resource.uri)).contents
            print(f"{len(names)} tools called on {HOSTILE} hostile traces")
        # Recording, which must be allowed.
        allowed = StdioServerParameters(command=program, args=["mcp", "--root", folder, "--allow-record"], env=dict(os.environ))
        async with stdio_client(allowed) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            assert "record" in {tool.name for tool in (await session.list_tools()).tools}
            steps = []

            async def note(done, _total, _message):
                steps.append(done)
            given = {"output": "recorded.pftrace", "command": [sys.executable, "-c", "print(sum(range(10**6)))"], "perf": True}
            recorded = check("record", await session.call_tool("record", given, progress_callback=note))
            assert recorded["state"] == "complete" and recorded["file"] == "recorded.pftrace", recorded
            assert steps and steps == sorted(set(steps)), steps
            assert "error" not in check("overview", await session.call_tool("overview", {"file": "recorded.pftrace"}))
            for output in ["../outside", "/tmp/outside", "link", ""]:
                assert "error" in check("record", await session.call_tool("record", {"output": output, "seconds": 1}))
        # The newest version that both know.
        async with Client(server) as client:
            listed = await client.list_tools()
            assert {tool.name for tool in listed.tools} == names
            check("overview", await client.call_tool("overview", {"file": "0.pftrace"}))
            print("the newest version of the protocol works, too")


asyncio.run(main(sys.argv[1]))
