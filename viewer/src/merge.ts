// Levels of detail of an export, computed on demand.

import { REF_NONE } from './frame';
import { Kind, type Tile, type Window } from './model';
import { lowerBound, runs, type Store, type Table } from './store';
import { emptyTile } from './tiles';

/** The rows of a tile under construction. */
class Rows {
    start: number[] = [];
    dur: number[] = [];
    depth: number[] = [];
    row: number[] = [];
    count: number[] = [];
    load: number[] = [];
    min: number[] = [];
    max: number[] = [];
    last: number[] = [];
}

export function makeTile(store: Store, node: number, window: Window): Tile {
    const table = store.table(node);
    const { from, to, level } = window;
    const kind = store.nodes.kind[node];
    if (kind === Kind.Process || kind === Kind.Group) return activity(store, node, window);
    if (kind === Kind.Heap) return dumps(store, node, window);
    const block = table?.blocks.get(node);
    const empty = { ...emptyTile(node, from, to, level), exact: true };
    if (!table || !block) return empty;
    const rows = new Rows();
    if (kind === Kind.Counter) points(store, table, block, window, rows);
    else runs(table, ...block, (first, end) => merge(table.start, table.dur, table.depth, first, end, window, rows));
    return finish(store, node, kind, window, table, rows);
}

/** Merges rows that are shorter than a step with their neighbours in the same step. */
function merge(start: Float64Array, dur: Float64Array, depth: Uint16Array, first: number, end: number, window: Window, rows: Rows): void {
    const step = 2 ** window.level;
    let i = lowerBound(start, first, end, window.from);
    if (i > first && start[i - 1] + dur[i - 1] > window.from) i -= 1;
    while (i < end && start[i] < window.to) {
        let best = i;
        let last = start[i] + dur[i];
        let count = 1;
        let busy = dur[i];
        if (window.level > 0 && dur[i] < step) {
            const bucket = Math.floor(start[i] / step);
            for (let k = i + 1; k < end && dur[k] < step && Math.floor(start[k] / step) === bucket; k++) {
                if (dur[k] > dur[best]) best = k;
                last = Math.max(last, start[k] + dur[k]);
                busy += dur[k];
                count += 1;
            }
        }
        const length = last - start[i];
        rows.start.push(start[i]);
        rows.dur.push(length);
        rows.depth.push(depth[i]);
        rows.row.push(best);
        rows.count.push(count);
        rows.load.push(length > 0 ? Math.min(255, Math.round((255 * busy) / length)) : 0);
        i += count;
    }
}

function points(store: Store, table: Table, [first, end]: [number, number], window: Window, rows: Rows): void {
    const value = values(store);
    const step = 2 ** window.level;
    let i = Math.max(first, lowerBound(table.start, first, end, window.from) - 1);
    while (i < end && table.start[i] < window.to) {
        const bucket = Math.floor(table.start[i] / step);
        let [min, max] = [value[i], value[i]];
        let k = i + 1;
        if (window.level > 0) {
            for (; k < end && Math.floor(table.start[k] / step) === bucket; k++) {
                if (value[k] < min) min = value[k];
                if (value[k] > max) max = value[k];
            }
        }
        rows.start.push(table.start[i]);
        rows.row.push(k - 1);
        rows.count.push(k - i);
        rows.min.push(min);
        rows.max.push(max);
        rows.last.push(value[k - 1]);
        i = k;
    }
}

/** Returns the values of counters, which are not integers as other columns are. */
export function values(store: Store): Float64Array {
    const frame = store.frames.get('counters')!;
    const known = cached.get(frame);
    if (known) return known;
    const read = frame.f64('value');
    cached.set(frame, read);
    return read;
}
const cached = new WeakMap<object, Float64Array>();

function finish(store: Store, node: number, kind: number, window: Window, table: Table, rows: Rows): Tile {
    const strings: string[] = [''];
    const index = new Map<string, number>();
    const place = store.tableName(node);
    const texts = kind === Kind.States ? 'state' : 'name';
    let name: Uint32Array;
    let shown = strings;
    if (kind === Kind.Samples || kind === Kind.Counter) name = new Uint32Array(rows.row.length);
    else if (kind === Kind.Cpu) {
        name = Uint32Array.from(rows.row, (row) => {
            const text = store.name(node, row);
            let at = index.get(text);
            if (at === undefined) {
                at = strings.push(text) - 1;
                index.set(text, at);
            }
            return at;
        });
    } else {
        const column = store.column(place, texts);
        name = Uint32Array.from(rows.row, (row) => column[row]);
        shown = table.frame.strings;
    }
    const thread = kind === Kind.Cpu ? store.column('sched', 'thread', REF_NONE) : null;
    return {
        node,
        from: window.from,
        to: window.to,
        level: window.level,
        exact: rows.count.every((count) => count === 1),
        length: rows.start.length,
        start: Float64Array.from(rows.start),
        dur: Float64Array.from(rows.dur),
        depth: Uint16Array.from(rows.depth),
        name,
        strings: shown,
        id: Uint32Array.from(rows.row),
        other: Uint32Array.from(rows.row, (row) => (thread ? thread[row] : REF_NONE)),
        count: Uint32Array.from(rows.count),
        load: Uint8Array.from(rows.load),
        flags: Uint8Array.from(rows.row, (row) => table.flags[row] ?? 0),
        min: Float64Array.from(rows.min),
        max: Float64Array.from(rows.max),
        lastValue: Float64Array.from(rows.last),
    };
}

/** Returns the times of heap dumps. Many allocations have the same time. */
function dumps(store: Store, node: number, window: Window): Tile {
    const frame = store.frames.get('heap');
    const tile = { ...emptyTile(node, window.from, window.to, window.level), exact: true };
    if (!frame) return tile;
    const start = frame.f64('start');
    const process = store.column('heap', 'process', REF_NONE);
    const times = new Map<number, number>();
    for (let i = 0; i < start.length; i++) {
        if (process[i] === store.nodes.parent[node] && start[i] >= window.from && start[i] < window.to && !times.has(start[i])) times.set(start[i], i);
    }
    const all = [...times].sort((a, b) => a[0] - b[0]);
    const n = all.length;
    return {
        ...tile,
        length: n,
        start: Float64Array.from(all, ([time]) => time),
        dur: new Float64Array(n),
        depth: new Uint16Array(n),
        name: new Uint32Array(n),
        id: Uint32Array.from(all, ([, row]) => row),
        other: new Uint32Array(n).fill(REF_NONE),
        count: new Uint32Array(n).fill(1),
        load: new Uint8Array(n),
        flags: new Uint8Array(n),
    };
}

/** The maximum number of steps of a window. */
const MAX_STEPS = 8192;

/** Returns the load of a process: the share of each step in which its threads run, relative to the CPUs it can use. The
 * server computes the same. */
function activity(store: Store, node: number, window: Window): Tile {
    const tile = { ...emptyTile(node, window.from, window.to, window.level) };
    const states = store.states;
    const [from, to] = [Math.max(0, window.from), Math.min(window.to, store.trace.end + 1)];
    const step = Math.max(2 ** (window.level + 1), Math.ceil((to - from) / MAX_STEPS));
    const sums = new Map<number, number>();
    if (!states) return tile;
    const state = store.column('states', 'state');
    const running = states.frame.strings.indexOf('Running');
    let threads = 0;
    for (let child = node + 1; child < store.behind[node]; child++) {
        const block = store.nodes.kind[child] === Kind.States ? states.blocks.get(child) : undefined;
        if (!block) continue;
        threads += 1;
        let i = Math.max(block[0], lowerBound(states.start, ...block, from) - 1);
        for (; i < block[1] && states.start[i] < to; i++) {
            if (state[i] !== running) continue;
            const end = Math.min(states.start[i] + states.dur[i], to);
            for (let at = Math.max(states.start[i], from); at < end; ) {
                const bucket = Math.floor(at / step);
                const until = Math.min(end, (bucket + 1) * step);
                sums.set(bucket, (sums.get(bucket) ?? 0) + until - at);
                at = until;
            }
        }
    }
    const cpus = Math.max(1, Math.min(threads, store.trace.nodes.kind.reduce((sum, kind) => sum + (kind === Kind.Cpu ? 1 : 0), 0)));
    const all = [...sums].sort((a, b) => a[0] - b[0]);
    const n = all.length;
    return {
        ...tile,
        length: n,
        start: Float64Array.from(all, ([bucket]) => bucket * step),
        dur: new Float64Array(n).fill(step),
        depth: new Uint16Array(n),
        name: new Uint32Array(n),
        id: new Uint32Array(n),
        other: new Uint32Array(n).fill(REF_NONE),
        count: new Uint32Array(n).fill(2),
        load: Uint8Array.from(all, ([, sum]) => Math.min(255, Math.round((255 * sum) / step / cpus))),
        flags: new Uint8Array(n),
    };
}
