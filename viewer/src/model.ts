// The words that the page's parts share: a trace, its nodes, and what is asked of them, as `crates/view/PROTOCOL.md`
// defines them. Times are nanoseconds since the trace began; a 64-bit float holds 104 days of them exactly.

/** The kinds of nodes. */
export const Kind = {
    Machine: 1,
    Process: 2,
    Thread: 3,
    Group: 4,
    Slices: 5,
    Counter: 6,
    Cpu: 7,
    States: 8,
    Values: 9,
    Samples: 10,
    Log: 11,
    Heap: 12,
} as const;

/** No node, no row, no frame above. */
export const NONE = -1;

/** Data that was lost, or may have been. */
export interface Loss {
    start: number;
    dur: number;
    node: number | null;
    text: string;
}

/** A kind of samples that flamegraphs can be made of. */
export interface Profile {
    id: number;
    kind: string;
    name: string;
    unit: string;
}

/** All nodes, a column each. Parents come before their children. */
export interface Nodes {
    readonly length: number;
    readonly parent: Int32Array;
    readonly kind: Uint8Array;
    readonly number: Float64Array;
    readonly rows: Uint32Array;
    readonly depth: Uint16Array;
    readonly min: Float64Array;
    readonly max: Float64Array;
    readonly first: Float64Array;
    readonly last: Float64Array;
    name(node: number): string;
    unit(node: number): string;
}

export interface Trace {
    name: string;
    end: number;
    /** Nanoseconds since 1970 at the trace's beginning, if a clock of the trace tells. */
    wall: bigint | null;
    live: boolean;
    /** Counts up when there is more of it. */
    generation: number;
    /** There is a second trace to compare profiles with. */
    before: boolean;
    profiles: Profile[];
    losses: Loss[];
    /** Sentences on what is missing. */
    remarks: string[];
    facts: [string, string][];
    /** The load of the whole trace in equal steps, from 0 to 255. */
    overview: Uint8Array;
    nodes: Nodes;
}

/** The events of one node in a window of time: rows sorted by depth, then start; points of counters sorted by time. */
export interface Tile {
    node: number;
    from: number;
    to: number;
    level: number;
    /** Nothing is merged: the tile serves every closer look, too. */
    exact: boolean;
    length: number;
    start: Float64Array;
    dur: Float64Array;
    depth: Uint16Array;
    /** Indexes of `strings`. */
    name: Uint32Array;
    strings: string[];
    id: Uint32Array;
    other: Uint32Array;
    count: Uint32Array;
    load: Uint8Array;
    flags: Uint8Array;
    /** Counters: smallest, largest and last value; `start` has the times. */
    min: Float64Array;
    max: Float64Array;
    lastValue: Float64Array;
}

export interface Window {
    nodes: number[];
    from: number;
    to: number;
    level: number;
}

/** A row of a node: enough to select it. */
export interface Ref {
    node: number;
    id: number;
    start: number;
    dur: number;
    depth: number;
    name: string;
}

export interface Details extends Ref {
    kind: string;
    category?: string;
    facts?: [string, string, (number | null)?][];
    args?: [string, string, string][];
    parents?: Ref[];
    children?: number;
    flows?: { out: boolean; to: Ref }[];
    chain?: { ref: Ref; text: string }[];
    stack?: [string, string, string][];
}

export interface Found {
    total: number;
    rows: Ref[];
    /** Nodes of which the name contains the text. */
    nodes: number[];
}

export interface NameSum {
    name: string;
    count: number;
    total: number;
    self: number;
    min: number;
    max: number;
}

export interface CounterSum {
    node: number;
    name: string;
    unit: string;
    min: number;
    max: number;
    mean: number;
    last: number;
}

export interface Summary {
    names: NameSum[];
    threads: { node: number; name: string; cpu: number }[];
    states: { name: string; count: number; total: number }[];
    counters: CounterSum[];
    left_out: number;
}

/** Callstacks of samples as a tree. Parents come first; roots have the parent NONE. */
export interface Stacks {
    length: number;
    parent: Int32Array;
    name: Uint32Array;
    file: Uint32Array;
    total: Float64Array;
    self: Float64Array;
    strings: string[];
}

export interface Line {
    node: number;
    id: number;
    start: number;
    level: string;
    name: string;
    text: string;
    thread?: [string, number] | null;
}

export interface Lines {
    total: number;
    rows: Line[];
}

export type Step = 'next' | 'previous' | 'parent' | 'child';
export type By = 'none' | 'process' | 'thread';

/** A range of time on all nodes, or on some and all below them. */
export interface Range {
    from: number;
    to: number;
    nodes: number[] | null;
}
