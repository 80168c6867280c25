// The details of an event of an export.

import { REF_NONE } from './frame';
import { Kind, NONE, type Details, type Ref } from './model';
import { lowerBound, runs, type Store, type Table } from './store';
import { values } from './merge';
import { duration, quantity } from './format';

const MAX_STEPS = 32;
const MAX_FLOWS = 1000;

const KINDS: Record<number, string> = {
    [Kind.Slices]: 'slice',
    [Kind.Cpu]: 'sched',
    [Kind.States]: 'state',
    [Kind.Values]: 'value',
    [Kind.Samples]: 'sample',
    [Kind.Log]: 'line',
    [Kind.Counter]: 'counter',
    [Kind.Heap]: 'dump',
};

type Fact = [string, string, (number | null)?];

export function describe(store: Store, node: number, id: number): Details {
    const { nodes } = store;
    const kind = nodes.kind[node];
    const heap = kind === Kind.Heap ? store.frames.get('heap') : undefined;
    const table = store.table(node);
    if ((!table || id >= table.length) && !heap) throw new Error('there is no such event');
    const facts: Fact[] = [];
    const start = heap ? heap.f64('start')[id] : table!.start[id];
    const details: Details = {
        node,
        id,
        kind: KINDS[kind] ?? '',
        name: store.name(node, id),
        start,
        dur: table?.dur[id] ?? 0,
        depth: table?.depth[id] ?? 0,
        facts,
    };
    if (!table) {
        owner(store, node, facts);
        return details;
    }
    if (table.flags[id] & 1) facts.push(['End', 'open at the end of the trace']);
    switch (kind) {
        case Kind.Slices:
            details.category = store.text('slices', 'category', id);
            owner(store, node, facts);
            details.args = args(store, store.column('slices', 'args')[id]);
            nesting(store, table, node, id, details);
            details.flows = flows(store, id);
            break;
        case Kind.Values:
            details.category = store.text('values', 'category', id);
            owner(store, node, facts);
            details.args = args(store, store.column('values', 'args')[id]);
            break;
        case Kind.Cpu: {
            const thread = store.column('sched', 'thread', REF_NONE)[id];
            facts.push(...threadFacts(store, 'Thread', thread));
            facts.push(['CPU', String(nodes.number[node]), node]);
            facts.push(['Priority', String(store.frames.get('sched')!.i32('priority', table.length)[id])]);
            const state = store.text('sched', 'state', id);
            if (state) facts.push(['Left in state', state]);
            waking(store, stateAt(store, thread, start), details);
            break;
        }
        case Kind.States: {
            const cpu = store.column('states', 'cpu', REF_NONE)[id];
            facts.push(...threadFacts(store, 'Thread', nodes.parent[node]));
            if (cpu < nodes.length) facts.push(['CPU', String(nodes.number[cpu]), cpu]);
            if (table.flags[id] & 2) facts.push(['Waited for', 'input or output']);
            const blocked = store.text('states', 'blocked', id);
            if (blocked) facts.push(['Waited in', blocked]);
            waking(store, id, details);
            break;
        }
        case Kind.Samples:
            owner(store, node, facts);
            {
                const profile = store.trace.profiles[store.column('samples', 'profile', REF_NONE)[id]];
                const weight = store.frames.get('samples')!.f64('weight', table.length, 1)[id];
                if (profile) facts.push(['Kind', profile.name], [profile.kind === 'offcpu' ? 'Waited' : 'Weight', quantity(weight, profile.unit)]);
            }
            details.stack = stack(store, store.column('samples', 'callsite', REF_NONE)[id]);
            break;
        case Kind.Log: {
            const thread = store.column('logs', 'thread', REF_NONE)[id];
            if (thread < nodes.length) facts.push(...threadFacts(store, 'Thread', thread));
            const text = store.text('logs', 'text', id);
            if (text) facts.push(['Text', text]);
            details.args = args(store, store.column('logs', 'args')[id]);
            break;
        }
        case Kind.Counter: {
            const value = values(store);
            const [first, end] = table.blocks.get(node)!;
            details.dur = (id + 1 < end ? table.start[id + 1] : store.trace.end) - start;
            facts.push(['Value', quantity(value[id], nodes.unit(node))]);
            if (id > first) facts.push(['Change', quantity(value[id] - value[id - 1], nodes.unit(node))]);
            break;
        }
    }
    return details;
}

/** Adds the thread and the process of a node. */
function owner(store: Store, node: number, facts: Fact[]): void {
    const { nodes } = store;
    for (let at = node; at !== NONE; at = nodes.parent[at]) {
        if (nodes.kind[at] === Kind.Thread) facts.push(['Thread', named(store, at), at]);
        if (nodes.kind[at] === Kind.Process) facts.push(['Process', named(store, at), at]);
    }
}

export function named(store: Store, node: number): string {
    const number = store.nodes.number[node];
    return `${store.nodes.name(node)}${Number.isNaN(number) ? '' : ` ${number}`}`.trim();
}

function threadFacts(store: Store, label: string, thread: number): Fact[] {
    if (thread >= store.nodes.length) return [];
    const facts: Fact[] = [[label, named(store, thread), thread]];
    const above = store.nodes.parent[thread];
    if (label === 'Thread' && above !== NONE && store.nodes.kind[above] === Kind.Process) facts.push(['Process', named(store, above), above]);
    return facts;
}

export function args(store: Store, set: number): [string, string, string][] {
    const sets = store.column('args', 'set');
    if (!set || sets.length === 0) return [];
    let low = 0;
    let high = sets.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (sets[middle] < set) low = middle + 1;
        else high = middle;
    }
    const found: [string, string, string][] = [];
    for (; low < sets.length && sets[low] === set; low++) {
        found.push([store.text('args', 'key', low), store.text('args', 'value', low), store.text('args', 'type', low)]);
    }
    return found;
}

export function refAt(store: Store, node: number, table: Table, row: number): Ref {
    return { node, id: row, start: table.start[row], dur: table.dur[row], depth: table.depth[row], name: store.name(node, row) };
}

function nesting(store: Store, table: Table, node: number, id: number, details: Details): void {
    const parents: Ref[] = [];
    const end = details.start + details.dur;
    let children = 0;
    runs(table, ...table.blocks.get(node)!, (first, last) => {
        const depth = table.depth[first];
        if (depth < details.depth) {
            const at = lowerBound(table.start, first, last, details.start + 0.5) - 1;
            if (at >= first && table.start[at] + table.dur[at] >= end && at !== id) parents.push(refAt(store, node, table, at));
        } else if (depth === details.depth + 1) {
            children = lowerBound(table.start, first, last, end) - lowerBound(table.start, first, last, details.start);
        }
    });
    details.parents = parents;
    details.children = children;
}

function flows(store: Store, id: number): NonNullable<Details['flows']> {
    const from = store.column('flows', 'from');
    const to = store.column('flows', 'to');
    const found: NonNullable<Details['flows']> = [];
    const table = store.slices!;
    for (let i = 0; i < from.length && found.length < MAX_FLOWS; i++) {
        if (from[i] !== id && to[i] !== id) continue;
        const out = from[i] === id;
        const other = out ? to[i] : from[i];
        if (other < table.length) found.push({ out, to: refAt(store, store.nodeOf(table, other), table, other) });
    }
    return found;
}

function stateAt(store: Store, thread: number, time: number): number {
    const table = store.states;
    const node = thread < store.nodes.length ? store.below(thread, Kind.States) : NONE;
    const block = table?.blocks.get(node);
    if (!table || !block) return NONE;
    const at = lowerBound(table.start, ...block, time + 0.5) - 1;
    return at >= block[0] ? at : NONE;
}

/** Adds the chain of wake-ups: the thread that woke this one, the thread that woke that one, and so on. */
function waking(store: Store, state: number, details: Details): void {
    const table = store.states;
    if (!table || state === NONE) return;
    const waker = store.column('states', 'waker', REF_NONE);
    const wakerState = store.column('states', 'waker_state', REF_NONE);
    const chain: NonNullable<Details['chain']> = [];
    const thread = (row: number) => store.nodes.parent[store.nodeOf(table, row)];
    for (let at = state; chain.length < MAX_STEPS; ) {
        let runnable = at;
        if (waker[at] === REF_NONE) {
            const before = at - 1;
            const same = before >= 0 && store.nodeOf(table, before) === store.nodeOf(table, at);
            if (store.text('states', 'state', at) !== 'Running' || !same || !store.text('states', 'state', before).startsWith('R')) break;
            runnable = before;
        }
        if (chain.length === 0) {
            if (runnable !== at) details.facts!.push(['Waited for a CPU', duration(table.dur[runnable])]);
            if (waker[runnable] < store.nodes.length) details.facts!.push(['Woken by', named(store, waker[runnable]), waker[runnable]]);
        }
        if (waker[runnable] >= store.nodes.length) break;
        const interrupt = (table.flags[runnable] & 4) !== 0;
        const next = wakerState[runnable] < table.length ? wakerState[runnable] : stateAt(store, waker[runnable], table.start[runnable]);
        if (next === NONE) break;
        const names = `${named(store, waker[runnable])} woke ${named(store, thread(runnable))}`;
        chain.push({ ref: refAt(store, store.nodeOf(table, next), table, next), text: interrupt ? `an interrupt during ${names}` : names });
        // Times must decrease, so that the chain ends.
        if (interrupt || table.start[next] >= table.start[at]) break;
        at = next;
    }
    details.chain = chain;
}

function stack(store: Store, callsite: number): [string, string, string][] {
    const parent = store.column('callsites', 'parent', REF_NONE);
    const frames: [string, string, string][] = [];
    for (let at = callsite; at < parent.length && frames.length < 4096; at = parent[at]) {
        frames.push(['name', 'file', 'line'].map((column) => store.text('callsites', column, at)) as [string, string, string]);
        if (parent[at] >= at) break;
    }
    return frames;
}
