// Filters of callstacks: which stacks and which of their frames are drawn.

import { matcher } from './match';
import { NONE, type Stacks } from './model';

export const FILTERS = {
    'show-stack': 'show stacks with',
    'hide-stack': 'hide stacks with',
    'show-frame': 'show only frames',
    'hide-frame': 'hide frames',
    from: 'begin at',
    pivot: 'pivot at',
} as const;
export type FilterKind = keyof typeof FILTERS;

export interface Filter {
    kind: FilterKind;
    /** A part of the name of a function, or a regular expression between slashes. */
    text: string;
}

/** Filtered callstacks. With a pivot, the stacks begin behind its frames, and `callers` has what called them, the nearest first. */
export interface Filtered {
    stacks: Stacks;
    callers: Stacks | null;
}

class Builder {
    private parent: number[] = [];
    private name: number[] = [];
    private file: number[] = [];
    private self: number[] = [];
    private known = new Map<string, number>();

    constructor(private strings: string[]) {}

    add(path: [number, number][], weight: number): void {
        let at = NONE;
        for (const [name, file] of path) {
            const key = `${at} ${name}`;
            let next = this.known.get(key);
            if (next === undefined) {
                next = this.parent.push(at) - 1;
                this.name.push(name);
                this.file.push(file);
                this.self.push(0);
                this.known.set(key, next);
            }
            at = next;
        }
        if (at !== NONE) this.self[at] += weight;
    }

    get stacks(): Stacks {
        const total = Float64Array.from(this.self);
        for (let i = total.length - 1; i >= 0; i--) if (this.parent[i] !== NONE) total[this.parent[i]] += total[i];
        return {
            length: total.length,
            parent: Int32Array.from(this.parent),
            name: Uint32Array.from(this.name),
            file: Uint32Array.from(this.file),
            total,
            self: Float64Array.from(this.self),
            strings: this.strings,
        };
    }
}

/** Applies all filters in order. Fails if a regular expression is wrong. */
export function filter(stacks: Stacks, filters: Filter[]): Filtered {
    if (filters.length === 0) return { stacks, callers: null };
    // The names that match each filter.
    const tests = filters.map(({ kind, text }) => {
        const test = matcher(text);
        return { kind, matches: Uint8Array.from(stacks.strings, (string) => (test(string || 'unknown') ? 1 : 0)) };
    });
    const pivot = tests.find(({ kind }) => kind === 'pivot');
    // Frames of the pivot itself are the only ones that both parts have.
    const strings = stacks.strings;
    const kept = new Builder(strings);
    const callers = pivot ? new Builder(strings) : null;
    for (let i = 0; i < stacks.length; i++) {
        if (stacks.self[i] === 0) continue;
        let path: [number, number][] = [];
        for (let at = i; at !== NONE; at = stacks.parent[at]) path.push([stacks.name[at], stacks.file[at]]);
        path.reverse();
        for (const { kind, matches } of tests) {
            const has = (frame: [number, number]) => matches[frame[0]] === 1;
            if (kind === 'show-stack' && !path.some(has)) path = [];
            else if (kind === 'hide-stack' && path.some(has)) path = [];
            else if (kind === 'show-frame') path = path.filter(has);
            else if (kind === 'hide-frame') path = path.filter((frame) => !has(frame));
            else if (kind === 'from') {
                const first = path.findIndex(has);
                path = first < 0 ? [] : path.slice(first);
            }
            if (path.length === 0) break;
        }
        if (!pivot) {
            if (path.length > 0) kept.add(path, stacks.self[i]);
            continue;
        }
        const at = path.findIndex(([name]) => pivot.matches[name] === 1);
        if (at < 0) continue;
        kept.add(path.slice(at), stacks.self[i]);
        callers!.add(path.slice(0, at).reverse(), stacks.self[i]);
    }
    return { stacks: kept.stacks, callers: callers?.stacks ?? null };
}
