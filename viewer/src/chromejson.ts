// The events of the range as JSON of Chrome, which other viewers open.

import { count } from './format';
import { save } from './grid';
import { title } from './labels';
import { Kind, NONE, type Annotations, type FlowEnd, type Flows, type Tile, type Trace } from './model';
import type { Page } from './page';

const MAX_EVENTS = 1_000_000;
/** The number of nodes of a request. */
const BATCH = 256;
/** The most arrows of a request. */
const MAX_ARROWS = 10_000;
/** The number of the first thread for tracks that belong to none. */
const FIRST_TRACK = 1_000_000_000;

interface Window {
    from: number;
    to: number;
}

interface Place {
    pid: number;
    tid: number;
}

/** Returns the process and the thread of a node. */
function placeOf({ nodes }: Trace, node: number): Place {
    const place = { pid: 0, tid: FIRST_TRACK + node };
    for (let at = node; at !== NONE; at = nodes.parent[at]) {
        if (nodes.kind[at] === Kind.Thread && nodes.number[at] >= 0) place.tid = nodes.number[at];
        if (nodes.kind[at] === Kind.Process && nodes.number[at] >= 0) place.pid = nodes.number[at];
    }
    return place;
}

/** Returns an argument as a number or a truth value if it is one that JSON can represent. */
function valueOf(text: string, type: string): unknown {
    if (type === 'bool') return text === 'true';
    if (!['int', 'uint', 'real'].includes(type)) return text;
    const value = Number(text);
    return Number.isFinite(value) && (type === 'real' || Number.isSafeInteger(value)) ? value : text;
}

function argumentsOf(args: Annotations[1]): Record<string, unknown> {
    return Object.fromEntries(args.map(([key, text, type]) => [key.replace(/^(debug|args)\./, ''), valueOf(text, type)]));
}

async function events({ source, trace }: Page, tile: Tile, { from, to }: Window): Promise<object[]> {
    const { nodes } = trace;
    const { pid, tid } = placeOf(trace, tile.node);
    const all: object[] = [];
    if (nodes.kind[tile.node] === Kind.Counter) {
        for (let row = 0; row < tile.length; row++) {
            const start = tile.start[row];
            if (start >= from && start < to) all.push({ ph: 'C', name: title(nodes, tile.node), pid, ts: start / 1000, args: { value: tile.lastValue[row] } });
        }
        return all;
    }
    const rows: number[] = [];
    for (let row = 0; row < tile.length; row++) if (tile.start[row] < to && tile.start[row] + tile.dur[row] >= from) rows.push(row);
    const annotations = await source.annotations(tile.node, Uint32Array.from(rows, (row) => tile.id[row]));
    rows.forEach((row, i) => {
        const [category, args] = annotations[i];
        const dur = tile.dur[row];
        const event = {
            name: tile.strings[tile.name[row]], pid, tid, ts: tile.start[row] / 1000,
            ...(category && { cat: category }), ...(args.length > 0 && { args: argumentsOf(args) }),
        };
        all.push(dur > 0 ? { ph: 'X', ...event, dur: dur / 1000 } : { ph: 'i', s: 't', ...event });
    });
    return all;
}

/** Returns the arrows between events of a window by their ends, asking for halves of it if they are too many. */
async function arrows(app: Page, { from, to }: Window, found = new Map<string, Flows['rows'][0]>()): Promise<Map<string, Flows['rows'][0]>> {
    const { total, rows } = await app.source.flows({ from, to, nodes: app.rangeNodes() }, MAX_ARROWS);
    const middle = Math.floor((from + to) / 2);
    if (total > rows.length && middle > from) {
        await arrows(app, { from, to: middle }, found);
        return arrows(app, { from: middle, to }, found);
    }
    for (const row of rows) found.set(`${row.from.node} ${row.from.id} ${row.to.node} ${row.to.id}`, row);
    return found;
}

/** Returns both ends of arrows as events. Their times are within the slices that they connect. */
function flowEvents(trace: Trace, all: Iterable<Flows['rows'][0]>): object[] {
    const found: object[] = [];
    let id = 0;
    for (const { from, to } of all) {
        id += 1;
        const end = ({ node, start }: FlowEnd) => ({ name: 'flow', cat: 'flow', id, ...placeOf(trace, node), ts: start / 1000 });
        found.push({ ph: 's', ...end(from) }, { ph: 'f', bp: 'e', ...end(to) });
    }
    return found;
}

/** Returns the names of the processes, threads and tracks of nodes as events. */
function names(trace: Trace, wanted: number[]): object[] {
    const { nodes } = trace;
    const all = new Map<string, object>();
    for (const node of wanted) {
        const { pid, tid } = placeOf(trace, node);
        let thread = node;
        for (let at = node; at !== NONE; at = nodes.parent[at]) {
            if (nodes.kind[at] === Kind.Thread) thread = at;
            if (nodes.kind[at] === Kind.Process) all.set(`${pid}`, { ph: 'M', name: 'process_name', pid, args: { name: nodes.name(at) } });
        }
        all.set(`${pid} ${tid}`, { ph: 'M', name: 'thread_name', pid, tid, args: { name: title(nodes, thread) } });
    }
    return [...all.values()];
}

/** Saves slices, values of state tracks and counters with their arguments and arrows of the range, or of the whole trace, in a file. */
export async function saveEvents(app: Page): Promise<void> {
    const { trace, range } = app;
    const { nodes } = trace;
    const window = { from: range?.from ?? 0, to: range?.to ?? trace.end + 1 };
    const chosen = app.rangeNodes();
    const isWithin = (node: number) => {
        for (let at = node; at !== NONE; at = nodes.parent[at]) if (chosen!.includes(at)) return true;
        return false;
    };
    const wanted: number[] = [];
    for (let node = 0; node < nodes.length; node++) {
        const kind = nodes.kind[node];
        if (nodes.rows[node] > 0 && (kind === Kind.Slices || kind === Kind.Values || kind === Kind.Counter) && (!chosen || isWithin(node))) wanted.push(node);
    }
    const all = names(trace, wanted);
    for (let at = 0; at < wanted.length; at += BATCH) {
        for (const tile of await app.source.tiles({ ...window, level: 0, nodes: wanted.slice(at, at + BATCH) })) {
            for (const event of await events(app, tile, window)) all.push(event);
        }
        if (all.length > MAX_EVENTS) throw new Error(`These are more than ${count(MAX_EVENTS)} events: select a range of time, or convert the file with \`ferretto json\``);
    }
    if (wanted.length === 0) throw new Error('No slices or counters are in the range');
    const there = new Set(wanted);
    const flows = [...(await arrows(app, window)).values()].filter(({ from, to }) => there.has(from.node) && there.has(to.node));
    for (const event of flowEvents(trace, flows)) all.push(event);
    const name = `${trace.name.replace(/\.\w+$/, '') || 'trace'}.json`;
    save(JSON.stringify({ displayTimeUnit: 'ns', traceEvents: all }), name, 'application/json');
    app.say(`The slices, counters and flows are saved as ${name}`);
}
