// A source with further tracks: those from queries, chains of waits, and rows of another range or trace. Their nodes come after those
// of the trace. The first two kinds have the tables and the code of an exported trace.

import { Beside } from './beside';
import { EmbeddedSource } from './embedded';
import { Frame, type Values } from './frame';
import { Kind, NONE, type Annotations, type By, type Details, type Flows, type Found, type Lines, type Nodes, type Pivot, type PivotOf, type Range, type Ref, type Stacks, type Step, type Summary, type Tile, type Trace, type Why, type Window } from './model';
import { readRows, type Rows } from './rows';
import type { Source } from './source';
import { Store } from './store';
import type { QueryTracks, Tracks } from './trackform';

/** The maximum number of tracks of one query. */
const MAX_TRACKS = 200;
/** The maximum number of rows whose other columns become arguments. */
const MAX_ARGUMENTS = 50_000;

interface Slice {
    start: number;
    dur: number;
    name: string;
    depth: number;
    args: number;
}

interface Track {
    title: string;
    slices: Slice[];
    /** Times and values of a counter. */
    points: [number, number][] | null;
}

/** A group of tracks, with arguments of their slices by number, from 1. */
interface Group {
    title: string;
    tracks: Track[];
    args: [string, string][][];
}

class Texts {
    readonly list = [''];
    private known = new Map([['', 0]]);

    of(text: string): number {
        let at = this.known.get(text);
        if (at === undefined) {
            at = this.list.push(text) - 1;
            this.known.set(text, at);
        }
        return at;
    }
}

const TYPES = new Map<Function, string>([[Uint8Array, 'u8'], [Uint16Array, 'u16'], [Uint32Array, 'u32'], [Int32Array, 'i32'], [Float64Array, 'f64']]);

/** Returns a frame with these columns. */
function frame(header: object, strings: string[], columns: Record<string, Values>): Frame {
    const described: Record<string, unknown> = {};
    let size = 0;
    for (const [name, values] of Object.entries(columns)) {
        described[name] = { type: TYPES.get(values.constructor), offset: size, length: values.length };
        size += Math.ceil(values.byteLength / 8) * 8;
    }
    let text = new TextEncoder().encode(JSON.stringify({ ...header, strings, columns: described }));
    const padded = new Uint8Array(Math.ceil((text.length + 4) / 8) * 8 - 4).fill(32);
    padded.set(text);
    const buffer = new ArrayBuffer(4 + padded.length + size);
    new DataView(buffer).setUint32(0, padded.length, true);
    const bytes = new Uint8Array(buffer);
    bytes.set(padded, 4);
    let at = 4 + padded.length;
    for (const values of Object.values(columns)) {
        bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
        at += Math.ceil(values.byteLength / 8) * 8;
    }
    return Frame.read(buffer);
}

/** Gives slices that overlap different depths. */
function nest(slices: Slice[]): void {
    slices.sort((a, b) => a.start - b.start || b.dur - a.dur);
    const ends: number[] = [];
    for (const slice of slices) {
        let depth = 0;
        while (depth < ends.length && ends[depth] > slice.start) depth += 1;
        slice.depth = depth;
        ends[depth] = slice.start + slice.dur;
    }
}

function fromRows(tracks: QueryTracks, rows: Rows, trace: Trace): Group {
    if (rows.error !== null) throw new Error(`${tracks.title}: ${rows.error.split('\n')[0]}`);
    const column = (name: string) => (name === '' ? NONE : rows.columns.indexOf(name));
    const [ts, dur, name, pivot] = [tracks.ts, tracks.dur, tracks.name, tracks.pivot].map(column);
    if (ts < 0) throw new Error(`${tracks.title}: the query has no column ${tracks.ts}`);
    const found = new Map<string, Track>();
    const group: Group = { title: tracks.title, tracks: [], args: [] };
    const shown = new Set([ts, dur, name]);
    const more = rows.columns.map((_, i) => i).filter((i) => !shown.has(i));
    for (let row = 0; row < rows.length; row++) {
        const key = pivot < 0 ? '' : rows.text(row, pivot, 'null');
        let track = found.get(key);
        if (!track) {
            if (found.size === MAX_TRACKS) continue;
            track = { title: pivot < 0 ? tracks.title : `${tracks.pivot} ${key}`, slices: [], points: tracks.kind === 'counter' ? [] : null };
            found.set(key, track);
            group.tracks.push(track);
        }
        const start = rows.time(row, ts, trace.start);
        if (!Number.isFinite(start)) continue;
        if (track.points) {
            const value = rows.number(row, name);
            if (Number.isFinite(value)) track.points.push([start, value]);
            continue;
        }
        const length = dur < 0 ? 0 : rows.number(row, dur) || 0;
        // A slice without an end extends to that of the trace.
        const whole = length < 0 ? Math.max(0, trace.end - start) : length;
        const args = rows.length <= MAX_ARGUMENTS && more.length > 0 ? group.args.push(more.map((column) => [rows.columns[column], rows.text(row, column, 'null')])) : 0;
        track.slices.push({ start, dur: whole, name: name < 0 ? '' : rows.text(row, name, 'null'), depth: 0, args });
    }
    for (const track of group.tracks) {
        nest(track.slices);
        track.points?.sort((a, b) => a[0] - b[0]);
    }
    return group;
}

function fromChain(title: string, why: Why | null): Group {
    if (!why) throw new Error(`${title}: the event has no chain of waits`);
    const args: [string, string][][] = [];
    const slices = why.bars.map((bar): Slice => {
        const more: [string, string][] = [['thread', bar.thread[0]], ['cause', bar.text]];
        if (bar.function) more.push(['function', bar.function]);
        return { start: bar.start, dur: bar.dur, name: `${bar.thread[0]} ${bar.text}`, depth: bar.level, args: args.push(more) };
    });
    slices.sort((a, b) => a.depth - b.depth || a.start - b.start);
    return { title, tracks: [{ title, slices, points: null }], args };
}

/** Returns the tables of all groups. */
function build(groups: Group[], end: number): Store {
    const names = new Texts();
    const [parent, kind, name, rows, depth, min, max]: number[][] = [[], [], [], [], [], [], []];
    const add = (above: number, of: number, title: string) => {
        parent.push(above);
        name.push(names.of(title));
        [rows, min, max].forEach((list) => list.push(0));
        depth.push(1);
        return kind.push(of) - 1;
    };
    const texts = new Texts();
    const slices: (Slice & { node: number })[] = [];
    const points: [number, number, number][] = [];
    const sets = { texts: new Texts(), set: [] as number[], key: [] as number[], value: [] as number[], type: [] as number[] };
    let args = 0;
    for (const group of groups) {
        const above = group.tracks.length === 1 ? NONE : add(NONE, Kind.Group, group.title);
        for (const track of group.tracks) {
            const node = add(above, track.points ? Kind.Counter : Kind.Slices, track.title);
            for (const slice of track.slices) {
                slices.push({ ...slice, node, args: slice.args && slice.args + args });
                depth[node] = Math.max(depth[node], Math.min(slice.depth + 1, 60_000));
            }
            const values = track.points?.map(([, value]) => value) ?? [];
            track.points?.forEach(([time, value]) => points.push([node, time, value]));
            rows[node] = track.slices.length + values.length;
            min[node] = values.reduce((a, b) => Math.min(a, b), values[0] ?? 0);
            max[node] = values.reduce((a, b) => Math.max(a, b), values[0] ?? 0);
        }
        for (const set of group.args) {
            args += 1;
            for (const [key, value] of set) {
                sets.set.push(args);
                sets.key.push(sets.texts.of(key));
                sets.value.push(sets.texts.of(value));
                sets.type.push(0);
            }
        }
    }
    slices.sort((a, b) => a.node - b.node || a.depth - b.depth || a.start - b.start);
    const blocks = (nodes: number[]) => {
        const [node, count]: number[][] = [[], []];
        for (const of of nodes) {
            if (node[node.length - 1] !== of) {
                node.push(of);
                count.push(0);
            }
            count[count.length - 1] += 1;
        }
        return { node: Uint32Array.from(node), rows: Uint32Array.from(count) };
    };
    const frames = new Map([['trace', frame({ start: '0', end: String(Math.ceil(end)) }, names.list, {
        parent: Int32Array.from(parent), kind: Uint8Array.from(kind), name: Uint32Array.from(name), rows: Uint32Array.from(rows),
        depth: Uint16Array.from(depth), min: Float64Array.from(min), max: Float64Array.from(max), number: new Float64Array(kind.length).fill(NaN),
    })]]);
    if (slices.length > 0) {
        const name = Uint32Array.from(slices, (slice) => texts.of(slice.name));
        frames.set('slices', frame({}, texts.list, {
            start: Float64Array.from(slices, (slice) => slice.start), dur: Float64Array.from(slices, (slice) => slice.dur),
            depth: Uint16Array.from(slices, (slice) => slice.depth), name, category: new Uint32Array(slices.length),
            args: Uint32Array.from(slices, (slice) => slice.args), ...blocks(slices.map((slice) => slice.node)),
        }));
    }
    if (points.length > 0) {
        frames.set('counters', frame({}, [''], {
            time: Float64Array.from(points, (point) => point[1]), value: Float64Array.from(points, (point) => point[2]), ...blocks(points.map((point) => point[0])),
        }));
    }
    if (args > 0) {
        const { texts, set, key, value, type } = sets;
        frames.set('args', frame({}, texts.list, { set: Uint32Array.from(set), key: Uint32Array.from(key), value: Uint32Array.from(value), type: Uint32Array.from(type) }));
    }
    return new Store(frames);
}

function joined(a: Nodes, b: Nodes): Nodes {
    const both = <T extends Values>(x: T, y: T): T => {
        const all = new (x.constructor as new (length: number) => T)(x.length + y.length);
        all.set(x);
        all.set(y, x.length);
        return all;
    };
    return {
        length: a.length + b.length,
        parent: both(a.parent, b.parent.map((node) => (node === NONE ? NONE : node + a.length))),
        kind: both(a.kind, b.kind),
        number: both(a.number, b.number),
        rows: both(a.rows, b.rows),
        depth: both(a.depth, b.depth),
        min: both(a.min, b.min),
        max: both(a.max, b.max),
        first: both(a.first, b.first),
        last: both(a.last, b.last),
        above: both(a.above, b.above),
        began: both(a.began, b.began),
        cpu: both(a.cpu, b.cpu),
        subject: both(a.subject, b.subject),
        command: (node) => (node < a.length ? a.command(node) : ''),
        name: (node) => (node < a.length ? a.name(node) : b.name(node - a.length)),
        unit: (node) => (node < a.length ? a.unit(node) : b.unit(node - a.length)),
    };
}

export class Overlay implements Source {
    readonly coarse: number;
    readonly first: Tile[];
    private trace: Trace | null = null;
    private own: EmbeddedSource | null = null;
    private nodes: Nodes | null = null;
    private beside: Beside[] = [];
    readonly previous?: NonNullable<Source['previous']>;
    readonly sql?: NonNullable<Source['sql']>;
    readonly code?: NonNullable<Source['code']>;
    readonly stop?: NonNullable<Source['stop']>;
    readonly locate?: NonNullable<Source['locate']>;
    readonly why?: NonNullable<Source['why']>;
    readonly follow?: NonNullable<Source['follow']>;

    constructor(private base: Source) {
        this.coarse = base.coarse;
        this.first = base.first;
        if (base.sql) this.sql = base.sql.bind(base);
        if (base.previous) this.previous = base.previous;
        const code = base.code?.bind(base);
        if (code) this.code = (request, range) => code(request, this.within(range));
        if (base.stop) this.stop = base.stop.bind(base);
        if (base.locate) this.locate = base.locate.bind(base);
        if (base.follow) this.follow = base.follow.bind(base);
        const why = base.why?.bind(base);
        if (why) this.why = async (node, id) => (node >= this.count ? null : why(node, id));
    }

    /** The number of nodes of the trace itself. */
    get count(): number {
        return this.trace?.nodes.length ?? 0;
    }

    /** The end of the trace and of all further tracks. */
    get end(): number {
        return Math.max(this.trace?.end ?? 0, ...this.beside.map(({ end }) => end));
    }

    private isOwn(node: number): boolean {
        return this.own !== null && node >= this.count && !this.besideOf(node);
    }

    private besideOf(node: number): Beside | undefined {
        return this.beside.find((beside) => beside.has(node));
    }

    async open(): Promise<Trace> {
        this.trace = await this.base.open();
        return this.whole(this.trace);
    }

    private whole(trace: Trace): Trace {
        return this.nodes ? { ...trace, nodes: joined(trace.nodes, this.nodes) } : trace;
    }

    /** Replaces the further tracks. Returns the trace with them, and the topmost new nodes of each. */
    async draw(all: Tracks[]): Promise<{ trace: Trace; tops: number[] }> {
        const trace = this.trace!;
        const groups: Group[] = [];
        for (const tracks of all) {
            if (tracks.kind === 'beside') continue;
            if (tracks.kind === 'chain') groups.push(fromChain(tracks.title, (await this.why?.(tracks.node, tracks.id)) ?? null));
            else if (!this.sql || trace.sql !== true) throw new Error('Tracks from queries need a trace that `ferretto view` serves, and ferretto-query');
            else groups.push(fromRows(tracks, readRows(await this.sql(tracks.sql)), trace));
        }
        const store = build(groups, trace.end);
        this.nodes = store.nodes;
        this.own = new EmbeddedSource(store);
        this.beside = [];
        const tops: number[] = [];
        for (let node = 0; node < store.nodes.length; node++) if (store.nodes.kind[node] !== Kind.Group) tops.push(node + this.count);
        for (const tracks of all) {
            if (tracks.kind !== 'beside') continue;
            const of = tracks.of === 'before' ? this.previous : { source: this.base, trace: async () => trace };
            if (!of || (tracks.of === 'before' && trace.before === null)) throw new Error('The rows of the previous trace need `ferretto view --before`');
            const beside = new Beside(of.source, await of.trace(), tracks, this.count + this.nodes.length);
            this.beside.push(beside);
            this.nodes = joined(this.nodes, beside.nodes);
            tops.push(...beside.tops);
        }
        return { trace: this.whole(trace), tops };
    }

    private shift(ref: Ref): Ref {
        return { ...ref, node: ref.node + this.count };
    }

    async tiles(window: Window): Promise<Tile[]> {
        if (!this.own) return this.base.tiles(window);
        const of = window.nodes.filter((node) => node < this.count);
        const own = window.nodes.filter((node) => this.isOwn(node)).map((node) => node - this.count);
        const tiles = of.length > 0 ? await this.base.tiles({ ...window, nodes: of }) : [];
        const more = await this.own.tiles({ ...window, nodes: own });
        tiles.push(...more.map((tile) => ({ ...tile, node: tile.node + this.count })));
        for (const beside of this.beside) {
            const nodes = window.nodes.filter((node) => beside.has(node));
            if (nodes.length > 0) tiles.push(...(await beside.tiles({ ...window, nodes })));
        }
        return tiles;
    }

    async details(node: number, id: number): Promise<Details> {
        const beside = this.besideOf(node);
        if (beside) return beside.details(node, id);
        if (!this.isOwn(node)) return this.base.details(node, id);
        const it = await this.own!.details(node - this.count, id);
        return { ...it, node, parents: (it.parents ?? []).map((ref) => this.shift(ref)), flows: [] };
    }

    async annotations(node: number, rows: Uint32Array): Promise<Annotations[]> {
        const beside = this.besideOf(node);
        if (beside) return beside.annotations(node, rows);
        return this.isOwn(node) ? this.own!.annotations(node - this.count, rows) : this.base.annotations(node, rows);
    }

    /** Further tracks have no arrows. */
    flows(range: Range, limit: number): Promise<Flows> {
        const nodes = range.nodes?.filter((node) => node < this.count) ?? null;
        return nodes && nodes.length === 0 ? Promise.resolve({ total: 0, rows: [] }) : this.base.flows({ ...range, nodes }, limit);
    }

    async step(from: Ref, to: Step): Promise<Ref | null> {
        const beside = this.besideOf(from.node);
        if (beside) return beside.step(from, to);
        if (!this.isOwn(from.node)) return this.base.step(from, to);
        const ref = await this.own!.step({ ...from, node: from.node - this.count }, to);
        return ref && this.shift(ref);
    }

    async search(text: string, limit: number): Promise<Found> {
        const found = await this.base.search(text, limit);
        if (!this.own) return found;
        const own = await this.own.search(text, limit);
        const rows = [...found.rows, ...own.rows.map((ref) => this.shift(ref))].sort((a, b) => a.start - b.start);
        return { total: found.total + own.total, rows: rows.slice(0, limit), nodes: [...found.nodes, ...own.nodes.map((node) => node + this.count)], density: found.density };
    }

    async summary(range: Range, before?: boolean): Promise<Summary> {
        if (before) return this.base.summary(range, true);
        const beside = this.onlyBeside(range);
        if (beside) return beside.summary(range);
        const own = range.nodes?.filter((node) => this.isOwn(node)) ?? [];
        if (!this.own || own.length === 0) return this.base.summary(this.within(range));
        const rest = range.nodes!.filter((node) => node < this.count);
        const more = await this.own.summary({ ...range, nodes: own.map((node) => node - this.count) });
        const counters = more.counters.map((counter) => ({ ...counter, node: counter.node + this.count }));
        if (rest.length === 0) return { ...more, counters };
        const sums = await this.base.summary({ ...range, nodes: rest });
        return { ...sums, names: [...sums.names, ...more.names], counters: [...sums.counters, ...counters] };
    }

    /** Returns the rows of another range or trace if all nodes of a range are among them. */
    private onlyBeside(range: Range): Beside | undefined {
        const { nodes } = range;
        return nodes && nodes.length > 0 ? this.beside.find((beside) => nodes.every((node) => beside.has(node))) : undefined;
    }

    private within(range: Range): Range {
        const nodes = range.nodes?.filter((node) => node < this.count);
        return nodes && nodes.length > 0 ? { ...range, nodes } : { ...range, nodes: null };
    }

    pivot(range: Range, of: PivotOf, by: string[]): Promise<Pivot> {
        const beside = this.onlyBeside(range);
        if (beside) return beside.pivot(range, of, by);
        const own = range.nodes?.filter((node) => this.isOwn(node)) ?? [];
        if (this.own && own.length > 0 && own.length === range.nodes!.length) {
            return this.own.pivot({ ...range, nodes: own.map((node) => node - this.count) }, of, by);
        }
        return this.base.pivot(this.within(range), of, by);
    }

    profile(profile: number, range: Range, by: By, before: boolean): Promise<Stacks> {
        return this.base.profile(profile, this.within(range), by, before);
    }

    list(range: Range, offset: number, limit: number): Promise<Lines> {
        return this.base.list(this.within(range), offset, limit);
    }
}
