// The types that the parts of the page share: a trace, its nodes, and the requests for it, as defined in
// `crates/view/PROTOCOL.md`. Times are nanoseconds since the start of the trace; a 64-bit float represents 104 days of
// them exactly.

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

/** No node, no row, and no parent frame. */
export const NONE = -1;

/** Data that was lost, or may have been. */
export interface Loss {
    start: number;
    dur: number;
    node: number | null;
    text: string;
}

/** A profile to draw as a flamegraph. */
export interface Profile {
    id: number;
    kind: string;
    name: string;
    unit: string;
}

/** All nodes, as one array for each field. Parents come before their children. */
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
    /** The process that started a process, or NONE. */
    readonly above: Int32Array;
    /** The time at which a process started; NaN if it is unknown. */
    readonly began: Float64Array;
    /** The CPU time of a process or thread. */
    readonly cpu: Float64Array;
    /** 1 for nodes that the trace was recorded for, as disks. */
    readonly subject: Uint8Array;
    name(node: number): string;
    unit(node: number): string;
    /** The command line of a process. */
    command(node: number): string;
}

export interface Trace {
    name: string;
    /** The start in nanoseconds of the trace's clock. */
    start: bigint;
    end: number;
    /** The Unix time of the start of the trace in nanoseconds, if it is known. */
    wall: bigint | null;
    live: boolean;
    /** Increases whenever the trace has grown. */
    generation: number;
    /** The length of a second trace to compare with, or null. */
    before: number | null;
    /** True if the server runs SQL, false if it has no program for it, null in an export. */
    sql: boolean | null;
    profiles: Profile[];
    losses: Loss[];
    /** Sentences about missing data. */
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
    /** Set if no rows are merged, so that the tile serves all finer levels as well. */
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

/** A row of a node, with enough fields to select it. */
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

/** A label, and the node of a thread. */
export type Thread = [string, number | null];

/** A cause of the time of an event, with those within it. */
export interface Cause {
    text: string;
    kind: string;
    thread: Thread;
    ns: number;
    count: number;
    functions: [string, number][];
    causes: Cause[];
}

/** A part of the chain of waits: level 0 is the thread itself, level 1 the one that it waited for. */
export interface Bar {
    level: number;
    start: number;
    dur: number;
    kind: string;
    text: string;
    thread: Thread;
    ref: Ref | null;
    function: string | null;
}

/** The causes of the time of an event. */
export interface Why {
    start: number;
    dur: number;
    causes: Cause[];
    bars: Bar[];
    left_out: number;
    waits: { start: number; dur: number; text: string; ref: Ref | null; waker: [string, Ref | null] | null; stack: string[]; waker_stack: string[] }[];
    /** Sentences about data that the trace lacks. */
    missing: string[];
}

/** The category of a row, and its arguments: key, value and type. */
export type Annotations = [string, [string, string, string][]];

/** An end of an arrow. */
export interface FlowEnd {
    node: number;
    id: number;
    start: number;
}

/** Arrows between slices, at most as many as requested. */
export interface Flows {
    total: number;
    rows: { from: FlowEnd; to: FlowEnd }[];
}

export interface Found {
    total: number;
    rows: Ref[];
    /** The nodes whose name or command line contains the text. */
    nodes: number[];
    /** The number of matches in equal steps of the trace, from 0 to 255. */
    density: Uint8Array;
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
    process: string | null;
    /** The growth per second of a cumulative counter, null for others. */
    rate: number | null;
}

/** Flows that begin or end in a range, by direction and names. */
export interface FlowSum {
    direction: 'in' | 'out' | 'within';
    from: string;
    to: string;
    count: number;
    mean: number;
}

/** The events of a pivot. */
export type PivotOf = 'slices' | 'states' | 'cpu' | 'events';

/** The events with the same values of the columns of a pivot. */
export interface PivotRow {
    keys: string[];
    /** The node of the last value that is one. */
    node: number | null;
    count: number;
    total: number;
    self: number;
    min: number;
    max: number;
    p50: number;
    p90: number;
    p99: number;
    /** The numbers of events in steps of equal ratio from the shortest to the longest. */
    bins: number[];
}

export interface Pivot {
    rows: PivotRow[];
    /** The keys of arguments that are columns as well. */
    args: string[];
    left_out: number;
}

export interface Summary {
    names: NameSum[];
    threads: { node: number; name: string; cpu: number }[];
    states: { name: string; count: number; total: number }[];
    counters: CounterSum[];
    flows: FlowSum[];
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

/** A function of a profile. */
export interface CodeRequest {
    profile: number;
    function: string;
    /** The path of its program or library. */
    file: string;
}

/** The code of a function with the weight of its samples: own ones, and those with calls. */
export interface Code {
    function: string;
    file: string;
    /** The file with the instructions, if it is there. */
    path?: string;
    /** The weight of all samples. */
    total: number;
    own: number;
    all: number;
    /** Address, text, own weight, with calls, and file and line. */
    instructions: [string, string, number, number, string | null][];
    /** File, line, its text, own weight, with calls. */
    lines: [string, number, string | null, number, number][];
    /** Sentences about what is missing. */
    missing: string[];
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
export type By = 'none' | 'process' | 'thread' | 'event';

/** A time range on all nodes, or on some and their descendants. */
export interface Range {
    from: number;
    to: number;
    nodes: number[] | null;
}
