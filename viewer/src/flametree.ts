// Callstacks as a tree to draw, which can be inverted and compared.

import { NONE, type Stacks } from './model';

export interface Frame {
    name: string;
    file: string;
    total: number;
    self: number;
    /** The total in the other profile of a comparison. */
    before: number;
    parent: Frame | null;
    children: Map<string, Frame>;
}

export interface FlameTree {
    root: Frame;
    compared: boolean;
}

function frame(name: string, file: string, parent: Frame | null): Frame {
    return { name, file, total: 0, self: 0, before: 0, parent, children: new Map() };
}

function child(parent: Frame, name: string, file: string): Frame {
    let found = parent.children.get(name);
    if (!found) {
        found = frame(name, file, parent);
        parent.children.set(name, found);
    }
    return found;
}

/** Adds callstacks. `before` is true for the other profile of a comparison. */
function add(root: Frame, stacks: Stacks, inverted: boolean, before: boolean): void {
    const { length, parent, strings, name, file, total, self } = stacks;
    const names = (i: number) => [strings[name[i]] ?? '', strings[file[i]] ?? ''] as const;
    const give = (to: Frame, value: number, own: number) => {
        if (before) to.before += value;
        else {
            to.total += value;
            to.self += own;
        }
    };
    if (!inverted) {
        const at: Frame[] = new Array(length);
        for (let i = 0; i < length; i++) {
            const above = parent[i] === NONE ? root : at[parent[i]];
            at[i] = child(above, ...names(i));
            give(at[i], total[i], self[i]);
            if (parent[i] === NONE) give(root, total[i], 0);
        }
        return;
    }
    for (let i = 0; i < length; i++) {
        if (self[i] === 0) continue;
        give(root, self[i], 0);
        let to = root;
        for (let up = i, first = true; up !== NONE; up = parent[up], first = false) {
            to = child(to, ...names(up));
            give(to, self[i], first ? self[i] : 0);
        }
    }
}

export function flameTree(stacks: Stacks, inverted: boolean, before: Stacks | null): FlameTree {
    const root = frame('all', '', null);
    add(root, stacks, inverted, false);
    if (before) add(root, before, inverted, true);
    return { root, compared: before !== null };
}

/** A frame as a box: its horizontal extent between 0 and 1, and its depth. */
export interface FlameBox {
    frame: Frame;
    x: number;
    w: number;
    depth: number;
}

/** Returns boxes by depth, with widths as shares of the whole, each row from left to right. */
export function layout(tree: FlameTree, whole = tree.root.total): FlameBox[][] {
    const rows: FlameBox[][] = [];
    const all = Math.max(whole, Number.MIN_VALUE);
    let level: FlameBox[] = [{ frame: tree.root, x: 0, w: tree.root.total > 0 ? 1 : 0, depth: 0 }];
    while (level.length > 0) {
        rows.push(level);
        const next: FlameBox[] = [];
        for (const box of level) {
            let { x } = box;
            const children = [...box.frame.children.values()].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
            for (const frame of children) {
                const w = frame.total / all;
                if (w > 0) next.push({ frame, x, w, depth: box.depth + 1 });
                x += w;
            }
        }
        level = next;
    }
    return rows;
}

/** Returns the change of the share of a frame, from -1 to 1. */
export function change(frame: Frame, root: Frame): number {
    const now = root.total > 0 ? frame.total / root.total : 0;
    const then = root.before > 0 ? frame.before / root.before : 0;
    return now - then;
}

/** Returns the total of frames whose name contains a text. Frames within such frames count once. */
export function matched(root: Frame, text: string): number {
    let sum = 0;
    const rest = [root];
    for (let at = rest.pop(); at; at = rest.pop()) {
        if (at.parent && at.name.toLowerCase().includes(text)) sum += at.total;
        else rest.push(...at.children.values());
    }
    return sum;
}
