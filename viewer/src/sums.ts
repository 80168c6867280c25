// Statistics of a range of an export.

import { REF_NONE } from './frame';
import { Kind, NONE, type CounterSum, type FlowSum, type NameSum, type Range, type Summary } from './model';
import { named } from './describe';
import { values } from './merge';
import { lowerBound, runs, type Store } from './store';

const MAX_ENTRIES = 1000;

export function sums(store: Store, { from, to, nodes }: Range): Summary {
    const names = new Map<string, NameSum>();
    const states = new Map<string, { name: string; count: number; total: number }>();
    const cpu = new Map<number, number>();
    const running = new Map<number, number>();
    const counters: CounterSum[] = [];
    for (const node of store.within(nodes)) {
        const kind = store.nodes.kind[node];
        const table = store.table(node);
        const block = table?.blocks.get(node);
        if (!table || !block || kind === Kind.Log || kind === Kind.Samples) continue;
        if (kind === Kind.Counter) {
            counters.push(...counter(store, node, from, to));
            continue;
        }
        const place = store.tableName(node);
        const texts = kind === Kind.Cpu ? null : store.column(place, kind === Kind.States ? 'state' : 'name');
        const { strings } = table.frame;
        const threads = kind === Kind.Cpu ? store.column('sched', 'thread', REF_NONE) : null;
        const parent = store.nodes.parent[node];
        let above: [number, number] | null = null;
        runs(table, ...block, (first, end) => {
            let row = lowerBound(table.start, first, end, from);
            if (row > first && table.start[row - 1] + table.dur[row - 1] > from) row -= 1;
            let outer = above ? above[0] : 0;
            for (; row < end && table.start[row] < to; row++) {
                const start = table.start[row];
                const dur = Math.max(0, Math.min(start + table.dur[row], to) - Math.max(start, from));
                if (threads) {
                    cpu.set(threads[row], (cpu.get(threads[row]) ?? 0) + dur);
                    continue;
                }
                const name = strings[texts![row]] ?? '';
                if (kind === Kind.States) {
                    const sum = states.get(name) ?? { name, count: 0, total: 0 };
                    sum.count += 1;
                    sum.total += dur;
                    states.set(name, sum);
                    if (name === 'Running') running.set(parent, (running.get(parent) ?? 0) + dur);
                    continue;
                }
                const sum = names.get(name) ?? { name, count: 0, total: 0, self: 0, min: Infinity, max: 0 };
                sum.count += 1;
                sum.total += dur;
                sum.self += dur;
                sum.min = Math.min(sum.min, dur);
                sum.max = Math.max(sum.max, dur);
                names.set(name, sum);
                if (above) {
                    // The time of a slice does not count as the own time of its parent.
                    while (outer + 1 < above[1] && table.start[outer + 1] <= start) outer += 1;
                    const around = names.get(strings[texts![outer]] ?? '');
                    if (around && table.start[outer] <= start && table.start[outer] + table.dur[outer] >= start + table.dur[row]) around.self -= dur;
                }
            }
            above = [first, end];
        });
    }
    for (const [thread, time] of running) cpu.set(thread, Math.max(time, cpu.get(thread) ?? 0));
    const threads = [...cpu]
        .filter(([node, time]) => node < store.nodes.length && time > 0)
        .map(([node, time]) => ({ node, name: `${store.nodes.name(node)} ${Number.isNaN(store.nodes.number[node]) ? '' : store.nodes.number[node]}`.trim(), cpu: time }))
        .sort((a, b) => b.cpu - a.cpu);
    const all = [...names.values()].sort((a, b) => b.total - a.total);
    return {
        names: all.slice(0, MAX_ENTRIES),
        threads: threads.slice(0, MAX_ENTRIES),
        states: [...states.values()].sort((a, b) => b.total - a.total),
        counters: counters.slice(0, MAX_ENTRIES),
        flows: flowSums(store, { from, to, nodes }).slice(0, MAX_ENTRIES),
        left_out: Math.max(0, all.length - MAX_ENTRIES) + Math.max(0, threads.length - MAX_ENTRIES) + Math.max(0, counters.length - MAX_ENTRIES),
    };
}

function counter(store: Store, node: number, from: number, to: number): CounterSum[] {
    const table = store.counters!;
    const [first, end] = table.blocks.get(node)!;
    const value = values(store);
    let [min, max, area] = [Infinity, -Infinity, 0];
    let row = Math.max(first, lowerBound(table.start, first, end, from) - 1);
    const begin = Math.max(from, table.start[row] ?? from);
    let last = NaN;
    for (; row < end && table.start[row] < to; row++) {
        last = value[row];
        min = Math.min(min, last);
        max = Math.max(max, last);
        const until = row + 1 < end ? Math.min(table.start[row + 1], to) : to;
        area += last * (until - Math.max(table.start[row], from));
    }
    if (Number.isNaN(last)) return [];
    const mean = to > begin ? area / (to - begin) : last;
    let process = node;
    while (process !== NONE && store.nodes.kind[process] !== Kind.Process) process = store.nodes.parent[process];
    return [{
        node, name: store.nodes.name(node), unit: store.nodes.unit(node), min, max, mean, last,
        process: process === NONE ? null : named(store, process), rate: rate(store, first, end, from, to),
    }];
}

/** Returns the growth of a counter per second; null if its values decrease or are all the same. */
function rate(store: Store, first: number, end: number, from: number, to: number): number | null {
    const { start } = store.counters!;
    const value = values(store);
    for (let row = first + 1; row < end; row++) if (value[row] < value[row - 1]) return null;
    if (value[first] === value[end - 1]) return null;
    const at = (time: number) => value[Math.max(first, lowerBound(start, first, end, time + 0.5) - 1)];
    const length = Math.min(to, store.trace.end) - Math.max(from, 0);
    return length > 0 ? (at(to) - at(from)) / (length / 1e9) : null;
}

/** Returns the flows that begin or end in a range, by direction and names. */
function flowSums(store: Store, { from, to, nodes }: Range): FlowSum[] {
    const { slices } = store;
    const [out, into] = [store.column('flows', 'from'), store.column('flows', 'to')];
    if (!slices || out.length === 0) return [];
    const chosen = new Uint8Array(store.nodes.length);
    for (const node of store.within(nodes)) chosen[node] = 1;
    const inside = (row: number) => slices.start[row] >= from && slices.start[row] < to && chosen[store.nodeOf(slices, row)] === 1;
    const found = new Map<string, FlowSum>();
    for (let i = 0; i < out.length; i++) {
        const [begins, ends] = [inside(out[i]), inside(into[i])];
        if (!begins && !ends) continue;
        const direction = begins ? (ends ? 'within' : 'out') : 'in';
        const names = [out[i], into[i]].map((row) => store.text('slices', 'name', row));
        const key = [direction, ...names].join('\0');
        const sum = found.get(key) ?? { direction, from: names[0], to: names[1], count: 0, mean: 0 };
        const delay = slices.start[into[i]] - slices.start[out[i]];
        sum.mean += (delay - sum.mean) / (sum.count + 1);
        sum.count += 1;
        found.set(key, sum);
    }
    return [...found.values()].sort((a, b) => b.count - a.count);
}
