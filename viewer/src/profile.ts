// Callstacks of an exported trace as a tree.

import { REF_NONE } from './frame';
import { Kind, NONE, type By, type Range, type Stacks } from './model';
import { lowerBound, runs, type Store } from './store';

export function profile(store: Store, id: number, { from, to, nodes }: Range, by: By): Stacks {
    const strings: string[] = [''];
    const index = new Map<string, number>([['', 0]]);
    const intern = (text: string) => {
        let at = index.get(text);
        if (at === undefined) {
            at = strings.push(text) - 1;
            index.set(text, at);
        }
        return at;
    };
    const parents: number[] = [];
    const names: number[] = [];
    const files: number[] = [];
    const self: number[] = [];
    const places = new Map<string, number>();
    const place = (parent: number, name: string, file: string): number => {
        const key = `${parent} ${name}`;
        let at = places.get(key);
        if (at === undefined) {
            at = parents.push(parent) - 1;
            names.push(intern(name));
            files.push(intern(file));
            self.push(0);
            places.set(key, at);
        }
        return at;
    };
    const parent = store.column('callsites', 'parent', REF_NONE);
    // The callsites with a place in the tree, for each group.
    const known = new Map<number | string, Map<number, number>>();
    const node = (group: number | string, callsite: number): number => {
        let mine = known.get(group);
        if (!mine) known.set(group, (mine = new Map()));
        const chain: number[] = [];
        let at = callsite;
        while (at < parent.length && !mine.has(at) && chain.length < 4096) {
            chain.push(at);
            at = parent[at] < at ? parent[at] : REF_NONE;
        }
        let to = at < parent.length ? mine.get(at)! : group === NONE ? NONE : place(NONE, typeof group === 'string' ? group : label(store, group), '');
        for (const site of chain.reverse()) {
            to = place(to, store.text('callsites', 'name', site), store.text('callsites', 'file', site));
            mine.set(site, to);
        }
        return to === NONE ? place(NONE, '', '') : to;
    };
    const chosen = new Uint8Array(store.nodes.length);
    for (const it of store.within(nodes)) chosen[it] = 1;
    const group = (thread: number): number => {
        if (by === 'none' || by === 'event') return NONE;
        const wanted = by === 'thread' ? Kind.Thread : Kind.Process;
        let at = thread;
        while (at !== NONE && store.nodes.kind[at] !== wanted) at = store.nodes.parent[at];
        return at;
    };
    const { samples } = store;
    if (samples) {
        const profiles = store.column('samples', 'profile');
        const callsite = store.column('samples', 'callsite', REF_NONE);
        const weight = store.frames.get('samples')!.f64('weight', samples.length, 1);
        for (const [of, block] of samples.blocks) {
            if (!chosen[of]) continue;
            for (let row = lowerBound(samples.start, ...block, from); row < block[1] && samples.start[row] < to; row++) {
                if (profiles[row] === id) self[node(by === 'event' ? event(store, of, samples.start[row]) : group(of), callsite[row])] += weight[row];
            }
        }
    }
    const heap = store.frames.get('heap');
    if (heap) {
        const start = heap.f64('start');
        const [profiles, process, callsite] = [store.column('heap', 'profile'), store.column('heap', 'process', REF_NONE), store.column('heap', 'callsite', REF_NONE)];
        const weight = heap.f64('weight', start.length, 1);
        for (let row = 0; row < start.length; row++) {
            if (profiles[row] !== id || start[row] < from || start[row] >= to || !chosen[process[row]]) continue;
            self[node(group(process[row]), callsite[row])] += weight[row];
        }
    }
    const total = Float64Array.from(self);
    for (let i = parents.length - 1; i >= 0; i--) if (parents[i] !== NONE) total[parents[i]] += total[i];
    return {
        length: parents.length,
        parent: Int32Array.from(parents),
        name: Uint32Array.from(names),
        file: Uint32Array.from(files),
        total,
        self: Float64Array.from(self),
        strings,
    };
}

function label(store: Store, node: number): string {
    if (node === NONE) return 'no process';
    const number = store.nodes.number[node];
    return `${store.nodes.name(node)} ${Number.isNaN(number) ? '' : number}`.trim();
}

/** Returns the name of the innermost slice of the thread of a node at a time. */
function event(store: Store, node: number, time: number): string {
    const thread = store.nodes.parent[node];
    const slices = thread === NONE ? NONE : store.below(thread, Kind.Slices);
    const block = store.slices?.blocks.get(slices);
    let found = 'no event';
    if (!store.slices || !block) return found;
    const { start, dur } = store.slices;
    runs(store.slices, ...block, (first, end) => {
        const at = lowerBound(start, first, end, time + 0.5) - 1;
        if (at >= first && start[at] + dur[at] > time) found = store.name(slices, at) || 'unnamed';
    });
    return found;
}
