// The lanes of a row: their heights, and those of the slices in them. The server follows these in `crates/view/src/sight.rs`.

import { Kind, type Nodes } from './model';

/** Tracks that are deeper have a reduced height until they are opened: the outer slices, and stripes for the inner ones. */
const DEEP = 8;
/** The number of depths that such a track shows at full height. */
export const FULL_DEPTHS = 6;
const STRIPE = 3;
const MAX_STRIPES = 20;

/** The part of a row that shows one node. */
export interface Lane {
    node: number;
    y: number;
    h: number;
    /** The height of one depth of slices, for the first `full` of them. */
    step: number;
    full: number;
    /** The height of one of the deeper depths. */
    thin: number;
}

/** Returns the top of a depth within a lane. */
export function depthTop(lane: Lane, depth: number): number {
    return Math.min(depth, lane.full) * lane.step + Math.max(0, depth - lane.full) * lane.thin;
}

export function depthHeight(lane: Lane, depth: number): number {
    return depth < lane.full ? lane.step : lane.thin;
}

/** Returns the depth at a height within a lane. */
export function depthAt(lane: Lane, y: number): number {
    const below = y - lane.full * lane.step;
    return below < 0 || lane.thin === 0 ? Math.floor(y / lane.step) : lane.full + Math.floor(below / lane.thin);
}

export function isDeep(nodes: Nodes, node: number): boolean {
    return nodes.kind[node] === Kind.Slices && nodes.depth[node] > DEEP;
}

/** Returns the lane of a node at a height within its row. */
export function laneOf(nodes: Nodes, node: number, shown: { y: number; unit: number; open: boolean; low: boolean }): Lane {
    const { y, unit, open, low } = shown;
    const depth = nodes.kind[node] === Kind.Slices ? Math.max(1, nodes.depth[node]) : 1;
    let [step, full, thin] = [unit, depth, 0];
    if (depth > 1 && !open) {
        step = Math.max(STRIPE, Math.round(unit / (depth > 4 ? 6 : 4)));
        full = Math.min(depth, FULL_DEPTHS + MAX_STRIPES);
    } else if (depth > 1 && low) {
        if (isDeep(nodes, node)) [full, thin] = [FULL_DEPTHS, STRIPE];
        else step = Math.max(STRIPE, Math.round(unit / (depth > 4 ? 6 : 4)));
    }
    const stripes = thin > 0 ? Math.min(depth - full, MAX_STRIPES) : 0;
    const h = depth > 1 ? full * step + stripes * thin : heightOf(nodes, node, unit);
    return { node, y, h, step, full, thin };
}

function heightOf(nodes: Nodes, node: number, unit: number): number {
    switch (nodes.kind[node]) {
        case Kind.Counter:
            // A constant counter needs less height.
            return nodes.min[node] === nodes.max[node] ? unit : Math.round(unit * 2.1);
        case Kind.States:
            return Math.round(unit * 0.55);
        case Kind.Samples:
        case Kind.Heap:
            return Math.round(unit * 0.6);
        default:
            return unit;
    }
}
