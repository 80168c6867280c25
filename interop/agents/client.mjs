// Lists and calls every tool of `ferretto mcp` with the client of the npm package.
//
// Usage: node client.mjs FERRETTO
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const root = mkdtempSync(join(tmpdir(), "ferretto-agents-"));
const transport = new StdioClientTransport({
  command: process.argv[2],
  args: ["mcp", "--root", root, "--allow-record"],
  env: process.env,
});
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const options = { timeout: 300_000 };
try {
  await client.ping();
  const { tools } = await client.listTools();
  const called = new Set();
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args }, undefined, options);
    called.add(name);
    const text = result.content[0].text;
    assert.ok(!result.isError, `${name}: ${text}`);
    assert.ok(Buffer.byteLength(text) <= 8192, `${name} answers with ${Buffer.byteLength(text)} bytes`);
    return [JSON.parse(text), result];
  };
  const burn = "let x = 0; for (let i = 0; i < 3e8; i++) x += i;";
  const command = [process.execPath, "-e", burn];
  const [recorded] = await call("record", { output: "t.pftrace", command, perf: true });
  assert.equal(recorded.state, "complete");
  const file = "t.pftrace";
  const [overview] = await call("overview", { file });
  assert.equal(overview.file, file);
  const [rows] = await call("query", { file, sql: "select count(*) as n from thread" });
  assert.ok(rows.items[0].n > 0);
  await call("schema", {});
  await call("schema", { table: "slice" });
  const why = await client.callTool({ name: "why", arguments: { file } }, undefined, options);
  assert.ok(!why.isError || why.content[0].text.includes("no scheduling"), why.content[0].text);
  called.add("why");
  await call("diff", { before: file, after: file });
  const [top] = await call("flamegraph_top", { file, depth: 3 });
  assert.ok(top.items.length > 0);
  await call("timeline", { file, range: "..500ms" });
  if (tools.some((tool) => tool.name === "screenshot")) {
    const [, result] = await call("screenshot", { file });
    assert.equal(result.content[1].mimeType, "image/png");
  }
  const all = tools.map((tool) => tool.name).sort();
  assert.deepEqual([...called].sort(), all, "every tool is called");
  const { resources } = await client.listResources();
  for (const { uri } of resources) {
    const { contents } = await client.readResource({ uri }, options);
    assert.ok(contents[0].text.length > 100, uri);
  }
  const outside = await client.callTool({ name: "overview", arguments: { file: "/etc/passwd" } });
  assert.ok(outside.isError && outside.content[0].text.includes("is not below"));
  console.log(`the npm client has called ${all.length} tools and read ${resources.length} resources`);
} finally {
  await client.close();
  rmSync(root, { recursive: true });
}
