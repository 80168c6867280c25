// The tables of an export.

import { Frame, REF_NONE } from './frame';
import { Kind, NONE, type Nodes, type Trace } from './model';
import { readTrace } from './trace';

/** Rows of several nodes, grouped by node. */
export interface Table {
    frame: Frame;
    /** Start and end of the rows of each node. */
    blocks: Map<number, [number, number]>;
    /** Blocks in order, to look up the node of a row. */
    nodes: Uint32Array;
    ends: Uint32Array;
    start: Float64Array;
    dur: Float64Array;
    depth: Uint16Array;
    flags: Uint8Array;
    length: number;
}

function table(frame: Frame | undefined, time = 'start'): Table | null {
    if (!frame) return null;
    const start = frame.f64(time);
    const nodes = frame.u32('node');
    const rows = frame.u32('rows', nodes.length);
    const blocks = new Map<number, [number, number]>();
    const ends = new Uint32Array(nodes.length);
    let at = 0;
    for (let i = 0; i < nodes.length; i++) {
        const end = Math.min(at + rows[i], start.length);
        blocks.set(nodes[i], [at, end]);
        ends[i] = at = end;
    }
    return {
        frame,
        blocks,
        nodes,
        ends,
        start,
        dur: frame.f64('dur', start.length),
        depth: frame.u16('depth', start.length),
        flags: frame.u8('flags', start.length),
        length: start.length,
    };
}

export class Store {
    readonly trace: Trace;
    readonly slices: Table | null;
    readonly sched: Table | null;
    readonly states: Table | null;
    readonly values: Table | null;
    readonly counters: Table | null;
    readonly logs: Table | null;
    readonly samples: Table | null;
    private columns = new Map<string, Uint32Array>();
    /** For each node, the index after its last descendant. */
    readonly behind: Uint32Array;

    constructor(readonly frames: Map<string, Frame>) {
        const trace = frames.get('trace');
        if (!trace) throw new Error('this page contains no trace');
        this.trace = readTrace(trace);
        this.slices = table(frames.get('slices'));
        this.sched = table(frames.get('sched'));
        this.states = table(frames.get('states'));
        this.values = table(frames.get('values'));
        this.counters = table(frames.get('counters'), 'time');
        this.logs = table(frames.get('logs'));
        this.samples = table(frames.get('samples'));
        const { nodes } = this.trace;
        this.behind = new Uint32Array(nodes.length);
        for (let node = nodes.length - 1; node >= 0; node--) {
            if (this.behind[node] <= node) this.behind[node] = node + 1;
            const above = nodes.parent[node];
            if (above !== NONE && this.behind[above] < this.behind[node]) this.behind[above] = this.behind[node];
        }
    }

    get nodes(): Nodes {
        return this.trace.nodes;
    }

    /** Returns a column of a frame, which is decoded once. */
    column(frame: string, name: string, missing = 0): Uint32Array {
        const key = `${frame} ${name}`;
        let column = this.columns.get(key);
        if (!column) {
            const from = this.frames.get(frame);
            const length = from ? Math.max(...Object.values(from.header.columns as Record<string, { length: number }>).map((it) => it.length), 0) : 0;
            column = from ? from.u32(name, length, missing) : new Uint32Array(0);
            this.columns.set(key, column);
        }
        return column;
    }

    text(frame: string, column: string, row: number): string {
        return this.frames.get(frame)?.strings[this.column(frame, column)[row]] ?? '';
    }

    table(node: number): Table | null {
        switch (this.nodes.kind[node]) {
            case Kind.Slices:
                return this.slices;
            case Kind.Cpu:
                return this.sched;
            case Kind.States:
                return this.states;
            case Kind.Values:
                return this.values;
            case Kind.Counter:
                return this.counters;
            case Kind.Log:
                return this.logs;
            case Kind.Samples:
                return this.samples;
            default:
                return null;
        }
    }

    tableName(node: number): string {
        const table = this.table(node);
        for (const [name, frame] of this.frames) if (table?.frame === frame) return name;
        return '';
    }

    nodeOf(table: Table, row: number): number {
        let low = 0;
        let high = table.ends.length - 1;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (table.ends[middle] > row) high = middle;
            else low = middle + 1;
        }
        return table.nodes[low] ?? NONE;
    }

    name(node: number, row: number): string {
        switch (this.nodes.kind[node]) {
            case Kind.Cpu: {
                const thread = this.column('sched', 'thread', REF_NONE)[row];
                return this.nodes.length > thread ? this.nodes.name(thread) : '';
            }
            case Kind.States:
                return this.text('states', 'state', row);
            case Kind.Samples:
            case Kind.Counter:
                return this.nodes.name(node);
            default:
                return this.text(this.tableName(node), 'name', row);
        }
    }

    /** Returns the child of a kind. */
    below(node: number, kind: number): number {
        for (let at = node + 1; at < this.behind[node]; at++) {
            if (this.nodes.parent[at] === node && this.nodes.kind[at] === kind) return at;
        }
        return NONE;
    }

    /** Returns all nodes with events among some nodes and their descendants. */
    within(nodes: number[] | null): number[] {
        const chosen = new Uint8Array(this.nodes.length);
        if (nodes === null) chosen.fill(1);
        else for (const node of nodes) if (node < chosen.length) chosen.fill(1, node, this.behind[node]);
        const found: number[] = [];
        for (let node = 0; node < chosen.length; node++) if (chosen[node]) found.push(node);
        return found;
    }
}

/** Calls `visit` with the bounds of the rows of each depth within the rows of a node. */
export function runs(table: Table, from: number, to: number, visit: (from: number, to: number) => void): void {
    for (let at = from; at < to; ) {
        const depth = table.depth[at];
        let low = at + 1;
        let high = to;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (table.depth[middle] > depth) high = middle;
            else low = middle + 1;
        }
        visit(at, low);
        at = low;
    }
}

/** Returns the first row in a range that starts at or after a time. */
export function lowerBound(times: Float64Array, from: number, to: number, time: number): number {
    while (from < to) {
        const middle = (from + to) >> 1;
        if (times[middle] < time) from = middle + 1;
        else to = middle;
    }
    return from;
}

/** Reads the frames of a document: this page, or another export. */
export async function readFrames(page: Document): Promise<Map<string, Frame> | null> {
    const elements = [...page.querySelectorAll<HTMLScriptElement>('script.ferretto-frame')];
    if (elements.length === 0) return null;
    const frames = new Map<string, Frame>();
    await Promise.all(
        elements.map(async (element) => {
            const kind = element.dataset.kind ?? '';
            const text = element.textContent ?? '';
            // Frees the text, which is most of the memory of the page.
            if (page === document) element.remove();
            frames.set(kind, Frame.read(await unpack(bytes(text.trim()))));
        }),
    );
    return frames;
}

/** Reads the uncompressed frames of the first picture, which the server put into the page. */
export function readFirst(page: Document): Map<string, Frame> {
    const frames = new Map<string, Frame>();
    for (const element of page.querySelectorAll<HTMLScriptElement>('script.ferretto-first')) {
        frames.set(element.dataset.kind ?? '', Frame.read(bytes((element.textContent ?? '').trim()).buffer));
        element.remove();
    }
    return frames;
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
    const native = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
    if (native.fromBase64) return native.fromBase64(text);
    const binary = atob(text);
    const result = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) result[i] = binary.charCodeAt(i);
    return result;
}

async function unpack(data: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
    return new Response(new Blob([data]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}
