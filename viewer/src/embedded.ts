// A trace embedded in this page, or in another export.

import { REF_NONE } from './frame';
import { Kind, NONE, type Annotations, type By, type Details, type FlowEnd, type Flows, type Found, type Line, type Lines, type Pivot, type PivotOf, type Range, type Ref, type Stacks, type Step, type Summary, type Tile, type Trace, type Window } from './model';
import { args, describe } from './describe';
import { makeTile } from './merge';
import { expression, matcher } from './match';
import { pivot } from './pivots';
import { profile } from './profile';
import type { Source } from './source';
import { lowerBound, readFrames, runs, Store, type Table } from './store';
import { sums } from './sums';

/** The number of steps of the density of matches. */
const STEPS = 800;

export async function openExport(html: string): Promise<Source> {
    // Scripts do not run in a separate document that is never shown.
    const frames = await readFrames(new DOMParser().parseFromString(html, 'text/html'));
    if (!frames) throw new Error('this file is not an export of `ferretto view -o`');
    return new EmbeddedSource(new Store(frames));
}

export class EmbeddedSource implements Source {
    readonly coarse = 0;
    readonly first: Tile[] = [];

    constructor(private store: Store) {}

    async open(): Promise<Trace> {
        return this.store.trace;
    }

    async tiles(window: Window): Promise<Tile[]> {
        return window.nodes.map((node) => makeTile(this.store, node, window));
    }

    async details(node: number, id: number): Promise<Details> {
        return describe(this.store, node, id);
    }

    async annotations(node: number, rows: Uint32Array): Promise<Annotations[]> {
        const { store } = this;
        const name = store.tableName(node);
        const sets = store.column(name, 'args');
        return Array.from(rows, (row) => [store.text(name, 'category', row), args(store, sets[row] ?? 0)]);
    }

    async flows(range: Range, limit: number): Promise<Flows> {
        const { store } = this;
        const table = store.slices;
        const found: Flows = { total: 0, rows: [] };
        if (!table) return found;
        const [from, to] = [store.column('flows', 'from'), store.column('flows', 'to')];
        const nodes = new Set(store.within(range.nodes));
        const end = (id: number): FlowEnd => ({ node: store.nodeOf(table, id), id, start: table.start[id] });
        for (let i = 0; i < from.length; i++) {
            const ends = [end(from[i]), end(to[i])];
            if (!ends.some(({ start }) => start >= range.from && start < range.to) || !ends.some(({ node }) => nodes.has(node))) continue;
            found.total += 1;
            if (found.rows.length < limit) found.rows.push({ from: ends[0], to: ends[1] });
        }
        return found;
    }

    private ref(node: number, table: Table, row: number): Ref {
        return { node, id: row, start: table.start[row], dur: table.dur[row], depth: table.depth[row], name: this.store.name(node, row) };
    }

    async step(from: Ref, to: Step): Promise<Ref | null> {
        const table = this.store.table(from.node);
        const block = table?.blocks.get(from.node);
        if (!table || !block) return null;
        const { id } = from;
        const depth = table.depth[id];
        if (to === 'next' || to === 'previous') {
            const row = to === 'next' ? id + 1 : id - 1;
            const there = row >= block[0] && row < block[1] && table.depth[row] === depth;
            return there ? this.ref(from.node, table, row) : null;
        }
        let found = NONE;
        const [start, end] = [table.start[id], table.start[id] + table.dur[id]];
        runs(table, ...block, (first, last) => {
            if (table.depth[first] !== depth + (to === 'parent' ? -1 : 1)) return;
            if (to === 'child') {
                const at = lowerBound(table.start, first, last, start);
                if (at < last && table.start[at] <= end) found = at;
            } else {
                const at = lowerBound(table.start, first, last, start + 0.5) - 1;
                if (at >= first && table.start[at] + table.dur[at] >= end) found = at;
            }
        });
        return found === NONE ? null : this.ref(from.node, table, found);
    }

    async search(text: string, limit: number): Promise<Found> {
        const { store } = this;
        const matches = matcher(text);
        const pair = expression(text) ? null : /^([^=:]+)[=:](.*)$/.exec(text);
        const sets = this.argumentSets(matches, pair && [matcher(pair[1]), matcher(pair[2])]);
        const rows: Ref[] = [];
        const counts = new Uint32Array(STEPS);
        const step = Math.max(1, store.trace.end / STEPS);
        let total = 0;
        for (const [place, columns] of [['slices', ['name']], ['values', ['name']], ['logs', ['name', 'text']]] as const) {
            const frame = store.frames.get(place);
            const table = place === 'slices' ? store.slices : place === 'values' ? store.values : store.logs;
            if (!frame || !table) continue;
            const matching = Uint8Array.from(frame.strings, (string) => (matches(string) ? 1 : 0));
            const texts = columns.map((column) => store.column(place, column));
            const args = store.column(place, 'args');
            for (let row = 0; row < table.length; row++) {
                let found = sets.has(args[row]);
                for (let i = 0; !found && i < texts.length; i++) found = matching[texts[i][row]] === 1;
                if (!found) continue;
                total += 1;
                counts[Math.min(STEPS - 1, Math.floor(table.start[row] / step))] += 1;
                if (rows.length < limit) rows.push(this.ref(store.nodeOf(table, row), table, row));
            }
        }
        rows.sort((a, b) => a.start - b.start);
        const nodes: number[] = [];
        for (let node = 0; node < store.nodes.length && nodes.length < 1000; node++) {
            if (matches(store.nodes.name(node)) || matches(store.nodes.command(node))) nodes.push(node);
        }
        const most = counts.reduce((most, count) => Math.max(most, count), 1);
        const density = Uint8Array.from(total > 0 ? counts : [], (count) => Math.ceil(Math.sqrt(count / most) * 255));
        return { total, rows, nodes, density };
    }

    /** Returns the sets of arguments with a text in a key or value, or with a value at a key. */
    private argumentSets(matches: (text: string) => boolean, pair: [(text: string) => boolean, (text: string) => boolean] | null): Set<number> {
        const frame = this.store.frames.get('args');
        const sets = new Set<number>();
        if (!frame) return sets;
        const has = (test: (text: string) => boolean) => Uint8Array.from(frame.strings, (string) => (test(string) ? 1 : 0));
        const any = has(matches);
        const [keys, values] = pair ? pair.map(has) : [any, any];
        const [set, key, value] = ['set', 'key', 'value'].map((name) => this.store.column('args', name));
        for (let i = 0; i < set.length; i++) {
            if (any[key[i]] || any[value[i]] || (pair && keys[key[i]] && values[value[i]])) sets.add(set[i]);
        }
        sets.delete(0);
        return sets;
    }

    async summary(range: Range): Promise<Summary> {
        return sums(this.store, range);
    }

    async pivot(range: Range, of: PivotOf, by: string[]): Promise<Pivot> {
        return pivot(this.store, range, of, by);
    }

    async profile(id: number, range: Range, by: By, _before: boolean): Promise<Stacks> {
        return profile(this.store, id, range, by);
    }

    async list(range: Range, offset: number, limit: number): Promise<Lines> {
        const { store } = this;
        const table = store.logs;
        if (!table) return { total: 0, rows: [] };
        const all: number[] = [];
        for (const node of store.within(range.nodes)) {
            const block = store.nodes.kind[node] === Kind.Log ? table.blocks.get(node) : undefined;
            if (!block) continue;
            for (let row = lowerBound(table.start, ...block, range.from); row < block[1] && table.start[row] < range.to; row++) all.push(row);
        }
        all.sort((a, b) => table.start[a] - table.start[b]);
        const thread = store.column('logs', 'thread', REF_NONE);
        const rows = all.slice(offset, offset + limit).map((row): Line => ({
            node: store.nodeOf(table, row),
            id: row,
            start: table.start[row],
            level: store.text('logs', 'level', row),
            name: store.text('logs', 'name', row),
            // Kernel events have arguments instead.
            text: store.text('logs', 'text', row) || args(store, store.column('logs', 'args')[row]).slice(0, 64).map(([key, value]) => `${key}=${value}`).join(' '),
            thread: thread[row] < store.nodes.length ? [store.nodes.name(thread[row]), thread[row]] : null,
        }));
        return { total: all.length, rows };
    }
}
