// Traces for tests in the format of exports: frames in the page, as defined in crates/view/PROTOCOL.md.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

export const Kind = {
    Machine: 1, Process: 2, Thread: 3, Group: 4, Slices: 5, Counter: 6, Cpu: 7, States: 8, Values: 9, Samples: 10, Log: 11, Heap: 12,
};
const NONE = 0xffffffff;
const MARK = '<!-- ferretto:data -->';
const page = () => readFileSync(new URL('../../crates/view/page/index.html', import.meta.url), 'utf8');

/** Encodes a frame. `columns` has type and values by name. */
export function frame(kind, fields, strings, columns) {
    const header = { kind, ...fields, strings, columns: {} };
    const parts = [];
    let offset = 0;
    for (const [name, [type, values, code]] of Object.entries(columns)) {
        let bytes;
        if (code) {
            bytes = encode(values, code === 'delta');
            header.columns[name] = { type, offset, length: values.length, code, bytes: bytes.length };
        } else {
            const Type = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f64: Float64Array }[type];
            bytes = Buffer.from(Type.from(values).buffer);
            header.columns[name] = { type, offset, length: values.length };
        }
        parts.push(bytes, Buffer.alloc((8 - (bytes.length % 8)) % 8));
        offset += bytes.length + ((8 - (bytes.length % 8)) % 8);
    }
    let text = Buffer.from(JSON.stringify(header));
    text = Buffer.concat([text, Buffer.alloc((8 - ((text.length + 4) % 8)) % 8, ' ')]);
    const size = Buffer.alloc(4);
    size.writeUInt32LE(text.length);
    return Buffer.concat([size, text, ...parts]);
}

function encode(values, delta) {
    const out = [];
    let last = 0;
    for (const value of values) {
        let rest = value;
        if (delta) {
            const by = value - last;
            last = value;
            rest = by < 0 ? -2 * by - 1 : 2 * by;
        }
        while (rest > 127) {
            out.push((rest % 128) | 128);
            rest = Math.floor(rest / 128);
        }
        out.push(rest);
    }
    return Buffer.from(out);
}

class Texts {
    list = [''];
    places = new Map([['', 0]]);
    of(text = '') {
        let at = this.places.get(text);
        if (at === undefined) {
            at = this.list.push(text) - 1;
            this.places.set(text, at);
        }
        return at;
    }
}

export class Trace {
    header = { version: 1, name: 'test.pftrace', start: '0', wall: '1763800000000000000', profiles: [], losses: [], remarks: [], facts: [], left_out: null };
    end = 0;
    nodes = [];
    rows = { slices: [], sched: [], states: [], values: [], counters: [], logs: [], samples: [], heap: [] };
    flows = [];
    sets = [];
    sites = [];
    siteKeys = new Map();

    node(parent, kind, name, more = {}) {
        return this.nodes.push({ parent, kind, name, number: NaN, unit: '', depth: 1, rows: 0, min: 0, max: 0, above: -1, began: NaN, cpu: 0, subject: 0, command: '', ...more }) - 1;
    }
    grow(time) {
        if (time > this.end) this.end = time;
    }
    slice(node, start, dur, name, more = {}) {
        const row = { node, start, dur, name, depth: 0, category: '', args: 0, flags: 0, ...more };
        if (more.args) row.args = this.sets.push(more.args);
        this.nodes[node].depth = Math.max(this.nodes[node].depth, row.depth + 1);
        this.nodes[node].rows += 1;
        this.rows.slices.push(row);
        this.grow(start + dur);
        return row;
    }
    add(table, node, row) {
        const full = { node, dur: 0, ...row };
        if (row.args) full.args = this.sets.push(row.args);
        this.nodes[node].rows += 1;
        this.rows[table].push(full);
        this.grow((row.start ?? row.time) + full.dur);
        return full;
    }
    counter(node, time, value) {
        const it = this.nodes[node];
        if (it.rows === 0) it.min = it.max = value;
        it.min = Math.min(it.min, value);
        it.max = Math.max(it.max, value);
        return this.add('counters', node, { time, value });
    }
    flow(from, to) {
        this.flows.push([from, to]);
    }
    /** Returns the callsite of functions, the outermost first. */
    callsite(...names) {
        let parent = NONE;
        let key = '';
        for (const name of names) {
            key += `\n${name}`;
            let at = this.siteKeys.get(key);
            if (at === undefined) {
                at = this.sites.push({ parent, name }) - 1;
                this.siteKeys.set(key, at);
            }
            parent = at;
        }
        return parent;
    }

    /** Returns the share of each of 200 steps in which CPUs are busy. */
    overview() {
        const step = this.end / 200;
        const cpus = this.nodes.filter(({ kind }) => kind === Kind.Cpu).length;
        return Array.from({ length: 200 }, (_, i) => {
            const inside = ({ start, dur }) => Math.max(0, Math.min(start + dur, (i + 1) * step) - Math.max(start, i * step));
            const busy = this.rows.sched.reduce((sum, row) => sum + inside(row), 0);
            return cpus > 0 ? Math.round((255 * busy) / (step * cpus)) : 0;
        });
    }

    frames() {
        const texts = new Texts();
        const { nodes } = this;
        const column = (rows, name, type, missing = 0) => [type, rows.map((row) => row[name] ?? missing)];
        const named = (rows, name, own) => ['u32', rows.map((row) => own.of(row[name]))];
        const frames = [
            ['trace', frame('trace', { ...this.header, end: String(this.end) }, texts.list, {
                parent: column(nodes, 'parent', 'i32'),
                kind: column(nodes, 'kind', 'u8'),
                name: named(nodes, 'name', texts),
                number: column(nodes, 'number', 'f64'),
                rows: column(nodes, 'rows', 'u32'),
                depth: column(nodes, 'depth', 'u16'),
                unit: named(nodes, 'unit', texts),
                min: column(nodes, 'min', 'f64'),
                max: column(nodes, 'max', 'f64'),
                above: column(nodes, 'above', 'i32'),
                began: column(nodes, 'began', 'f64'),
                cpu: column(nodes, 'cpu', 'f64'),
                subject: column(nodes, 'subject', 'u8'),
                command: named(nodes, 'command', texts),
                overview: ['u8', this.end > 0 ? this.overview() : []],
            })],
        ];
        const ordered = {};
        for (const [kind, rows] of Object.entries(this.rows)) {
            rows.sort((a, b) => a.node - b.node || (a.depth ?? 0) - (b.depth ?? 0) || (a.start ?? a.time) - (b.start ?? b.time));
            rows.forEach((row, i) => (row.id = i));
            ordered[kind] = rows;
        }
        const blocks = (rows) => {
            const node = [];
            const count = [];
            for (const row of rows) {
                if (node[node.length - 1] !== row.node) {
                    node.push(row.node);
                    count.push(0);
                }
                count[count.length - 1] += 1;
            }
            return { node: ['u32', node], rows: ['u32', count] };
        };
        const put = (kind, columns) => {
            const rows = ordered[kind];
            if (rows.length === 0) return;
            const own = new Texts();
            const built = columns(rows, (name) => named(rows, name, own), (name, type, missing) => column(rows, name, type, missing));
            frames.push([kind, frame(kind, {}, own.list, built)]);
        };
        const delta = (rows, name) => ['f64', rows.map((row) => row[name]), 'delta'];
        const varint = (rows, name) => ['f64', rows.map((row) => row[name]), 'varint'];
        put('slices', (rows, text, value) => ({
            start: delta(rows, 'start'), dur: varint(rows, 'dur'), depth: value('depth', 'u16'), name: text('name'), category: text('category'),
            args: value('args', 'u32'), flags: value('flags', 'u8'), ...blocks(rows),
        }));
        put('sched', (rows, text, value) => ({
            start: delta(rows, 'start'), dur: varint(rows, 'dur'), thread: value('thread', 'u32'), priority: value('priority', 'i32'), state: text('state'), ...blocks(rows),
        }));
        const states = ordered.states;
        for (const row of states) row.waker_state = row.wakerState?.id ?? NONE;
        put('states', (rows, text, value) => ({
            start: delta(rows, 'start'), dur: varint(rows, 'dur'), state: text('state'), cpu: value('cpu', 'u32', NONE), waker: value('waker', 'u32', NONE),
            waker_state: value('waker_state', 'u32', NONE), blocked: text('blocked'), flags: value('flags', 'u8'), ...blocks(rows),
        }));
        put('values', (rows, text, value) => ({
            start: delta(rows, 'start'), dur: varint(rows, 'dur'), name: text('name'), category: text('category'), args: value('args', 'u32'), ...blocks(rows),
        }));
        put('counters', (rows, _, value) => ({ time: delta(rows, 'time'), value: value('value', 'f64'), ...blocks(rows) }));
        put('logs', (rows, text, value) => ({
            start: delta(rows, 'start'), name: text('name'), text: text('text'), level: text('level'), thread: value('thread', 'u32', NONE), args: value('args', 'u32'), ...blocks(rows),
        }));
        put('samples', (rows, _, value) => ({
            start: delta(rows, 'start'), profile: value('profile', 'u32'), callsite: value('callsite', 'u32'), weight: value('weight', 'f64', 1), ...blocks(rows),
        }));
        put('heap', (rows, _, value) => ({
            start: delta(rows, 'start'), process: value('process', 'u32'), profile: value('profile', 'u32'), callsite: value('callsite', 'u32'), weight: value('weight', 'f64', 1),
        }));
        if (this.sites.length > 0) {
            const own = new Texts();
            frames.push(['callsites', frame('callsites', {}, own.list, {
                parent: column(this.sites, 'parent', 'u32'), name: named(this.sites, 'name', own), file: named(this.sites, 'file', own), line: named(this.sites, 'line', own),
            })]);
        }
        if (this.flows.length > 0) {
            frames.push(['flows', frame('flows', {}, [''], { from: ['u32', this.flows.map(([from]) => from.id)], to: ['u32', this.flows.map(([, to]) => to.id)] })]);
        }
        if (this.sets.length > 0) {
            const own = new Texts();
            const flat = this.sets.flatMap((args, i) => Object.entries(args).map(([key, value]) => ({ set: i + 1, key, value: String(value), type: typeof value === 'number' ? 'int' : 'string' })));
            frames.push(['args', frame('args', {}, own.list, {
                set: column(flat, 'set', 'u32'), key: named(flat, 'key', own), type: named(flat, 'type', own), value: named(flat, 'value', own),
            })]);
        }
        // All names in the header of the trace frame are known only after the other frames.
        return frames.map(([kind, bytes]) => [kind, bytes]);
    }

    html() {
        return embed(this.frames());
    }
}

export function embed(frames) {
    const scripts = frames.map(([kind, bytes]) => `<script type="text/plain" class="ferretto-frame" data-kind="${kind}">${gzipSync(bytes).toString('base64')}</script>`);
    return page().replace(MARK, () => scripts.join('\n'));
}
