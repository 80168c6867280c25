// The events of the range as JSON of Chrome, which other viewers open.

import { count } from './format';
import { save } from './grid';
import { title } from './labels';
import { Kind, NONE, type Tile, type Trace } from './model';
import type { Page } from './page';

const MAX_EVENTS = 1_000_000;
/** The number of nodes of a request. */
const BATCH = 256;
/** The number of the first thread for tracks that belong to none. */
const FIRST_TRACK = 1_000_000_000;

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

function events(trace: Trace, tile: Tile, { from, to }: { from: number; to: number }): object[] {
    const { nodes } = trace;
    const { pid, tid } = placeOf(trace, tile.node);
    const all: object[] = [];
    for (let row = 0; row < tile.length; row++) {
        const start = tile.start[row];
        if (nodes.kind[tile.node] === Kind.Counter) {
            if (start >= from && start < to) all.push({ ph: 'C', name: title(nodes, tile.node), pid, ts: start / 1000, args: { value: tile.lastValue[row] } });
            continue;
        }
        const dur = tile.dur[row];
        if (start >= to || start + dur < from) continue;
        const event = { name: tile.strings[tile.name[row]], pid, tid, ts: start / 1000 };
        all.push(dur > 0 ? { ph: 'X', ...event, dur: dur / 1000 } : { ph: 'i', s: 't', ...event });
    }
    return all;
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

/** Saves slices, values of state tracks and counters of the range, or of the whole trace, in a file. */
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
        for (const tile of await app.source.tiles({ ...window, level: 0, nodes: wanted.slice(at, at + BATCH) })) all.push(...events(trace, tile, window));
        if (all.length > MAX_EVENTS) throw new Error(`These are more than ${count(MAX_EVENTS)} events: select a range of time, or convert the file with \`ferretto json\``);
    }
    if (wanted.length === 0) throw new Error('No slices or counters are in the range');
    const name = `${trace.name.replace(/\.\w+$/, '') || 'trace'}.json`;
    save(JSON.stringify({ displayTimeUnit: 'ns', traceEvents: all }), name, 'application/json');
    app.say(`The slices and counters are saved as ${name}`);
}
