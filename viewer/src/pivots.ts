// Statistics of the events of an export by columns and arguments, as the server computes them.

import { REF_NONE } from './frame';
import { Kind, NONE, type Pivot, type PivotOf, type PivotRow, type Range } from './model';
import { args, named } from './describe';
import { lowerBound, runs, type Store, type Table } from './store';

const MAX_ENTRIES = 1000;
const BINS = 20;
/** The number of events whose arguments are offered as columns. */
const MAX_OFFERED_OF = 4096;

interface Group {
    keys: string[];
    node: number | null;
    durs: number[];
    own: number;
}

/** Calls `visit` with the rows of a node in a time range, and their durations within it; and with the row around each, or NONE. */
function each(table: Table, block: [number, number], from: number, to: number, visit: (row: number, dur: number, around: number) => void): void {
    let above: [number, number] | null = null;
    runs(table, ...block, (first, end) => {
        let row = lowerBound(table.start, first, end, from);
        if (row > first && table.start[row - 1] + table.dur[row - 1] > from) row -= 1;
        let outer = above ? above[0] : 0;
        for (; row < end && table.start[row] < to; row++) {
            const start = table.start[row];
            let around = NONE;
            if (above) {
                while (outer + 1 < above[1] && table.start[outer + 1] <= start) outer += 1;
                if (table.start[outer] <= start && table.start[outer] + table.dur[outer] >= start + table.dur[row]) around = outer;
            }
            visit(row, Math.max(0, Math.min(start + table.dur[row], to) - Math.max(start, from)), around);
        }
        above = [first, end];
    });
}

export function pivot(store: Store, { from, to, nodes }: Range, of: PivotOf, by: string[]): Pivot {
    const groups = new Map<string, Group>();
    const offered = new Set<string>();
    let looked = 0;
    const { kind, parent, number } = store.nodes;
    const up = (node: number, wanted: number): number => {
        let at = node;
        while (at !== NONE && kind[at] !== wanted) at = parent[at];
        return at;
    };
    const place: Record<number, string> = { [Kind.Slices]: 'slices', [Kind.Values]: 'values', [Kind.Log]: 'logs', [Kind.States]: 'states', [Kind.Cpu]: 'sched' };
    const set = (node: number, row: number) => ([Kind.Slices, Kind.Values, Kind.Log].includes(kind[node] as 5) ? store.column(place[kind[node]], 'args')[row] : 0);
    const threadOf = (node: number, row: number): number => {
        const frame = kind[node] === Kind.Cpu ? 'sched' : kind[node] === Kind.Log ? 'logs' : '';
        if (!frame) return up(node, Kind.Thread);
        const thread = store.column(frame, 'thread', REF_NONE)[row];
        return thread < store.nodes.length ? thread : NONE;
    };
    const shown = (node: number): [string, number | null] => (node === NONE ? ['', null] : [named(store, node), node]);
    const value = (column: string, node: number, row: number): [string, number | null] => {
        switch (column) {
            case 'name':
            case 'state':
                return [store.name(node, row), null];
            case 'category':
                return [kind[node] === Kind.Slices || kind[node] === Kind.Values ? store.text(place[kind[node]], 'category', row) : '', null];
            case 'blocked':
                return [kind[node] === Kind.States ? store.text('states', 'blocked', row) : '', null];
            case 'thread':
                return shown(threadOf(node, row));
            case 'process': {
                const thread = threadOf(node, row);
                return shown(up(thread === NONE ? node : thread, Kind.Process));
            }
            case 'container': {
                const thread = threadOf(node, row);
                const process = up(thread === NONE ? node : thread, Kind.Process);
                const above = process === NONE ? NONE : store.nodes.parent[process];
                return shown(above !== NONE && kind[above] === Kind.Group ? above : NONE);
            }
            case 'track':
                return shown(node);
            case 'cpu': {
                const cpu = kind[node] === Kind.Cpu ? node : kind[node] === Kind.States ? store.column('states', 'cpu', REF_NONE)[row] : REF_NONE;
                return cpu < store.nodes.length ? [store.nodes.name(cpu) || `CPU ${number[cpu]}`, cpu] : ['', null];
            }
        }
        const key = column.startsWith('arg:') ? column.slice(4) : null;
        return [key === null ? '' : (args(store, set(node, row)).find((arg) => arg[0] === key)?.[1] ?? ''), null];
    };
    const group = (node: number, row: number): Group => {
        if (looked++ < MAX_OFFERED_OF) for (const [key] of args(store, set(node, row))) offered.add(key);
        const values = by.map((column) => value(column, node, row));
        const keys = values.map(([text]) => text);
        const nodes = values.map(([, node]) => node);
        const id = values.map(([text, node]) => `${node ?? ''}\0${text}`).join('\n');
        let found = groups.get(id);
        if (!found) groups.set(id, (found = { keys, node: nodes.reduce((last, node) => node ?? last, null), durs: [], own: 0 }));
        return found;
    };
    const add = (node: number, wanted: (row: number) => boolean) => {
        const table = store.table(node);
        const block = table?.blocks.get(node);
        if (!table || !block) return;
        each(table, block, from, to, (row, dur, around) => {
            if (!wanted(row)) return;
            const it = group(node, row);
            it.durs.push(dur);
            it.own += dur;
            if (kind[node] === Kind.Slices && around !== NONE) group(node, around).own -= dur;
        });
    };
    const all = store.within(nodes);
    if (of === 'cpu') cpuTime(store, all, from, to, add);
    else {
        const kinds: number[] = { slices: [Kind.Slices, Kind.Values], states: [Kind.States], events: [Kind.Log] }[of];
        for (const node of all) if (kinds.includes(kind[node])) add(node, () => true);
    }
    const total = (it: Group) => it.durs.reduce((sum, dur) => sum + dur, 0);
    const rows = [...groups.values()].filter((it) => it.durs.length > 0).map((it) => row(it, total(it)));
    rows.sort((a, b) => b.total - a.total || b.count - a.count);
    return { rows: rows.slice(0, MAX_ENTRIES), args: [...offered].sort(), left_out: Math.max(0, rows.length - MAX_ENTRIES) };
}

/** Adds the time of threads on CPUs: CPU slices, or states if there are more of them. */
function cpuTime(store: Store, nodes: number[], from: number, to: number, add: (node: number, wanted: (row: number) => boolean) => void): void {
    const { kind, parent } = store.nodes;
    const times = new Map<number, [number, number]>();
    const thread = store.column('sched', 'thread', REF_NONE);
    const isRunning = (row: number) => store.text('states', 'state', row) === 'Running';
    for (const node of nodes) {
        const table = store.table(node);
        const block = table?.blocks.get(node);
        if (!table || !block || (kind[node] !== Kind.Cpu && kind[node] !== Kind.States)) continue;
        each(table, block, from, to, (row, dur) => {
            if (kind[node] === Kind.States && !isRunning(row)) return;
            const of = kind[node] === Kind.Cpu ? thread[row] : parent[node];
            const known = times.get(of) ?? [0, 0];
            known[kind[node] === Kind.Cpu ? 0 : 1] += dur;
            times.set(of, known);
        });
    }
    const byStates = (of: number) => (times.get(of)?.[1] ?? 0) > (times.get(of)?.[0] ?? 0);
    for (const node of nodes) {
        if (kind[node] === Kind.Cpu) add(node, (row) => !byStates(thread[row]));
        else if (kind[node] === Kind.States && byStates(parent[node])) add(node, isRunning);
    }
}

function row({ keys, node, durs, own }: Group, total: number): PivotRow {
    durs.sort((a, b) => a - b);
    const n = durs.length;
    const rank = (percent: number) => durs[Math.max(1, Math.ceil((n * percent) / 100)) - 1];
    const least = Math.max(1, durs[0]);
    const most = Math.max(least, durs[n - 1]);
    const bins: number[] = n < 2 || most <= least ? [] : new Array(BINS).fill(0);
    if (bins.length > 0) {
        const scale = BINS / Math.log(most / least);
        for (const dur of durs) bins[Math.min(BINS - 1, Math.floor(Math.log(Math.max(dur, least) / least) * scale))] += 1;
    }
    return { keys, node, count: n, total, self: own, min: durs[0], max: durs[n - 1], p50: rank(50), p90: rank(90), p99: rank(99), bins };
}
