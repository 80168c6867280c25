// The rows of the picture: the visible nodes, their order and height, and the lanes of each row. The server sends the events of the
// rows that it expects first: `crates/view/src/sight.rs` follows the order and the open groups here, and the heights in `lanes.ts`.

import { FULL_DEPTHS, isDeep, laneOf, type Lane } from './lanes';
import { matcher } from './match';
import { Kind, NONE, type Nodes } from './model';

/** The order of processes. */
export type Sort = 'activity' | 'tree' | 'start' | 'cpu' | 'name';

export interface Row {
    node: number;
    y: number;
    h: number;
    level: number;
}

/** Returns true if a node contains other nodes and has no events of its own. */
export function isGroup(kind: number): boolean {
    return kind === Kind.Machine || kind === Kind.Process || kind === Kind.Thread || kind === Kind.Group;
}

/** The order of siblings by their kinds. What the trace was recorded for comes first. */
const ORDER: number[][] = [
    [Kind.Machine, Kind.Heap],
    [Kind.Cpu],
    [Kind.Process, Kind.Thread],
    [Kind.Group, Kind.Slices, Kind.Values, Kind.States, Kind.Samples],
    [Kind.Log],
    [Kind.Counter],
];

/** The number of nodes up to which all are open at the start. */
const OPEN_ALL = 90;
const OPEN_ROWS = 60;

export class Layout {
    readonly first: Int32Array;
    readonly next: Int32Array;
    /** The root: the first node without a parent. */
    private root = NONE;
    private open: Uint8Array;
    /** Set for tracks of slices with a reduced height. */
    private low: Uint8Array;
    private shown: Uint8Array | null = null;
    /** The level of each node below the processes that started its process. */
    private indent: Uint8Array;
    private inRow: Uint8Array;
    /** Set for groups of processes: containers and pods. */
    private grouped: Uint8Array;
    /** The only thread of a process, which is drawn in the row of the process. */
    private only: Int32Array;
    /** The number of events of the node and its descendants. */
    readonly weight: Float64Array;
    /** Set for processes that have counters, but no events. They come last if the trace has more. */
    private quiet: Uint8Array;
    private quietLast: boolean;
    /** The counter in the closed row of such a process: its memory, or the first one. */
    private sample: Int32Array;
    pinned: number[] = [];

    private rows: Int32Array = new Int32Array(0);
    private levels: Uint8Array = new Uint8Array(0);
    private tops: Float64Array = new Float64Array(1);
    length = 0;

    constructor(
        public nodes: Nodes,
        /** The height of a slice in pixels. */
        public unit: number,
    ) {
        const { length: count, parent, kind } = nodes;
        this.first = new Int32Array(count).fill(NONE);
        this.next = new Int32Array(count).fill(NONE);
        this.open = new Uint8Array(count);
        this.low = new Uint8Array(count);
        this.inRow = new Uint8Array(count);
        this.indent = new Uint8Array(count);
        this.only = new Int32Array(count).fill(NONE);
        this.weight = new Float64Array(count);
        this.grouped = new Uint8Array(count);
        const cpus = new Uint8Array(count);
        const counters = new Uint8Array(count);
        const events = new Float64Array(count);
        for (let node = count - 1; node >= 0; node--) {
            this.weight[node] += nodes.rows[node];
            if (kind[node] !== Kind.Counter) events[node] += nodes.rows[node];
            this.low[node] = isDeep(nodes, node) ? 1 : 0;
            if (parent[node] === NONE) continue;
            this.weight[parent[node]] += this.weight[node];
            events[parent[node]] += events[node];
            if (kind[node] === Kind.Cpu) cpus[parent[node]] = 1;
            if (this.isProcess(node) && kind[parent[node]] === Kind.Group) this.grouped[parent[node]] = 1;
            if (kind[node] === Kind.Counter && kind[parent[node]] === Kind.Group) counters[parent[node]] = 1;
        }
        this.quiet = Uint8Array.from(events, (some, node) => Number(kind[node] === Kind.Process && some === 0 && this.weight[node] > 0));
        this.quietLast = nodes.subject.includes(1) || kind.some((of, node) => of === Kind.Process && events[node] > 0);
        // CPUs come first, counters and processes without events last. All others keep their order.
        for (let rank = ORDER.length; rank >= 0; rank--) {
            for (let node = count - 1; node >= 0; node--) {
                const of = cpus[node] ? Kind.Cpu : counters[node] ? Kind.Counter : this.grouped[node] ? Kind.Process : kind[node];
                const at = this.isLast(node) ? ORDER.length : nodes.subject[node] ? 0 : ORDER.findIndex((kinds) => kinds.includes(kind[node] === Kind.Machine ? Kind.Machine : of));
                if ((at < 0 ? ORDER.length : at) !== rank) continue;
                const above = parent[node];
                if (above === NONE) {
                    this.next[node] = this.root;
                    this.root = node;
                } else {
                    this.next[node] = this.first[above];
                    this.first[above] = node;
                }
            }
        }
        for (let node = 0; node < count; node++) {
            if (kind[node] !== Kind.Thread) continue;
            for (const lane of this.threadLanes(node)) this.inRow[lane] = 1;
            for (let child = this.first[node]; child !== NONE; child = this.next[child]) {
                if (kind[child] === Kind.States || kind[child] === Kind.Samples) this.inRow[child] = 1;
            }
        }
        for (let node = 0; node < count; node++) {
            if (kind[node] !== Kind.Process) continue;
            const threads: number[] = [];
            for (let child = this.first[node]; child !== NONE; child = this.next[child]) if (kind[child] === Kind.Thread) threads.push(child);
            if (threads.length !== 1 || this.threadLanes(threads[0]).length === 0) continue;
            this.only[node] = threads[0];
            this.inRow[threads[0]] = 1;
        }
        this.sample = Int32Array.from(this.quiet, (quiet, node) => (quiet ? this.counterOf(node) : NONE));
        this.openSome();
        this.arrange();
    }

    /** Returns the memory of a process, or else its first counter. */
    private counterOf(node: number): number {
        let found = NONE;
        for (let child = this.first[node]; child !== NONE; child = this.next[child]) {
            const counter = this.nodes.kind[child] === Kind.Counter ? child : this.counterOf(child);
            if (counter !== NONE && (found === NONE || this.nodes.name(counter) === 'mem.rss')) found = counter;
        }
        return found;
    }

    private isLast(node: number): boolean {
        return this.quietLast && this.quiet[node] === 1;
    }

    /** Returns true if a node is a process or a group of processes. */
    private isProcess(node: number): boolean {
        return this.nodes.kind[node] === Kind.Process || this.grouped[node] === 1;
    }

    get hasContainers(): boolean {
        return this.grouped.includes(1);
    }

    /** Returns the only thread of a process, which has no row of its own. */
    onlyThread(node: number): number {
        return this.only[node];
    }

    /** Returns the thread that is drawn in a row: the node itself, or the only thread of a process. */
    threadIn(node: number): number {
        return this.nodes.kind[node] === Kind.Thread ? node : this.only[node];
    }

    /** Returns true if a process has no children to open except counters, since its row shows the rest. */
    private isPlain(node: number): boolean {
        const thread = this.only[node];
        if (thread === NONE) return false;
        for (let child = this.first[thread]; child !== NONE; child = this.next[child]) {
            if (!this.inRow[child] || this.nodes.kind[child] === Kind.Slices) return false;
        }
        for (let child = this.first[node]; child !== NONE; child = this.next[child]) {
            if (child !== thread && !this.hasCounters(child)) return false;
        }
        return true;
    }

    /** Returns true if a node is a group of counters. These are closed at the start. */
    private hasCounters(node: number): boolean {
        const { kind } = this.nodes;
        return kind[node] === Kind.Group && kind[this.first[node]] === Kind.Counter;
    }

    /** Returns true if a node has no row of its own, but its children do. */
    private isPassed(node: number): boolean {
        return this.inRow[node] === 1 && this.nodes.kind[node] === Kind.Thread;
    }

    /** Replaces the nodes by the same tree with more events. */
    renew(nodes: Nodes): void {
        this.nodes = nodes;
        this.weight.fill(0);
        for (let node = nodes.length - 1; node >= 0; node--) {
            this.weight[node] += nodes.rows[node];
            if (nodes.parent[node] !== NONE) this.weight[nodes.parent[node]] += this.weight[node];
        }
        this.arrange();
    }

    /** Returns the nodes that are drawn in the row of a thread. */
    private threadLanes(thread: number): number[] {
        const lanes: number[] = [];
        let slices = false;
        for (let child = this.first[thread]; child !== NONE; child = this.next[child]) {
            const kind = this.nodes.kind[child];
            if (kind === Kind.States || kind === Kind.Samples) {
                if (this.nodes.rows[child] > 0) lanes.push(child);
            }
            else if (kind === Kind.Slices && !slices && this.first[child] === NONE) {
                slices = true;
                lanes.push(child);
            }
        }
        return lanes;
    }

    /** Takes over what is open and pinned in a layout of the first of these nodes. */
    keep(old: Layout): void {
        const count = Math.min(old.nodes.length, this.nodes.length);
        this.open.set(old.open.subarray(0, count));
        this.low.set(old.low.subarray(0, count));
        this.pinned = old.pinned.filter((node) => node < this.nodes.length);
        this.arrange();
    }

    private openSome(): void {
        const { length: count, kind } = this.nodes;
        const isClosed = (node: number) => this.hasCounters(node) || this.isPlain(node) || this.quiet[node] === 1;
        if (count <= OPEN_ALL) {
            for (let node = 0; node < count; node++) this.open[node] = isClosed(node) ? 0 : 1;
            return;
        }
        // Opens level by level, CPUs and the busiest nodes first, until there are enough rows.
        let rows = 0;
        let level: number[] = [];
        for (let node = this.root; node !== NONE; node = this.next[node]) level.push(node);
        const rank = (node: number) => (kind[this.first[node]] === Kind.Cpu ? Infinity : this.weight[node]);
        while (level.length > 0) {
            const deeper: number[] = [];
            const groups = level.filter((node) => isGroup(kind[node]) && this.first[node] !== NONE && !isClosed(node));
            groups.sort((a, b) => rank(b) - rank(a));
            for (const node of groups) {
                const children: number[] = [];
                for (let child = this.first[node]; child !== NONE; child = this.next[child]) {
                    if (!this.inRow[child]) children.push(child);
                }
                const must = kind[node] === Kind.Machine || groups.length === 1;
                if (!must && rows + children.length > OPEN_ROWS) continue;
                if (!must) rows += children.length;
                this.open[node] = 1;
                for (const child of children) deeper.push(child);
            }
            level = deeper;
        }
    }

    /** Returns the tracks of the row of a thread with a reduced height. */
    private bounded(thread: number): number[] {
        return this.threadLanes(thread).filter((lane) => isDeep(this.nodes, lane) && this.low[lane]);
    }

    isOpen(node: number): boolean {
        if (this.nodes.kind[node] === Kind.Slices) return !this.low[node];
        const thread = this.threadIn(node);
        return this.open[node] === 1 && (thread === NONE || this.bounded(thread).length === 0);
    }

    /** Returns true if a row can be opened or closed. */
    canOpen(node: number): boolean {
        if (this.nodes.kind[node] === Kind.Slices && this.nodes.depth[node] > 1) return true;
        if (this.only[node] !== NONE && this.canOpen(this.only[node])) return true;
        for (let child = this.first[node]; child !== NONE; child = this.next[child]) {
            if (!this.inRow[child]) return true;
            if (this.nodes.kind[child] === Kind.Slices && this.nodes.depth[child] > 1) return true;
        }
        return false;
    }

    setOpen(node: number, open: boolean): void {
        this.open[node] = open ? 1 : 0;
        this.low[node] = open ? 0 : 1;
        // The counters are all that such a process has.
        if (open && this.quiet[node] && this.hasCounters(this.first[node])) this.open[this.first[node]] = 1;
        const thread = this.nodes.kind[node] === Kind.Thread ? node : this.only[node];
        if (thread !== NONE) {
            for (const lane of this.threadLanes(thread)) this.low[lane] = !open && isDeep(this.nodes, lane) ? 1 : 0;
        }
        this.arrange();
    }

    /** Opens or closes all groups. The rows of the top level stay in sight. */
    setAllOpen(open: boolean): void {
        const { kind, parent } = this.nodes;
        const isTop = (node: number) => parent[node] === NONE || kind[node] === Kind.Machine;
        for (let node = 0; node < this.nodes.length; node++) this.open[node] = open || isTop(node) ? 1 : 0;
        for (let node = 0; node < this.nodes.length; node++) this.low[node] = isDeep(this.nodes, node) ? 1 : 0;
        this.arrange();
    }

    /** Draws all tracks at full height if there is enough room. */
    openIfRoom(room: number): void {
        const before = this.low;
        if (this.total > room || !before.includes(1)) return;
        this.low = new Uint8Array(before.length);
        this.arrange();
        if (this.total <= room) return;
        this.low = before;
        this.arrange();
    }

    /** Draws a track at full height if the name of a slice at this depth would not fit. */
    deepen(node: number, depth: number): void {
        if (!isDeep(this.nodes, node) || !this.low[node] || depth < FULL_DEPTHS) return;
        this.low[node] = 0;
        this.arrange();
    }

    /** Opens all ancestors of a node, so that it has a row. */
    reveal(node: number): void {
        let changed = false;
        for (let above = this.nodes.parent[node]; above !== NONE; above = this.nodes.parent[above]) {
            if (!this.open[above]) {
                this.open[above] = 1;
                changed = true;
            }
        }
        if (this.shown && !this.shown[node]) {
            this.shown = null;
            changed = true;
        }
        if (changed) this.arrange();
    }

    /** Shows only nodes whose name or command line contains the text or matches the expression, with their ancestors and
     * descendants. Returns the number of matches. */
    filter(text: string): number {
        const matches = matcher(text);
        if (text.trim() === '') {
            this.shown = null;
            this.arrange();
            return this.nodes.length;
        }
        const { length: count, parent } = this.nodes;
        const shown = new Uint8Array(count);
        let found = 0;
        for (let node = 0; node < count; node++) {
            if (matches(this.nodes.name(node)) || matches(this.nodes.command(node))) {
                shown[node] = 2;
                found += 1;
            } else if (parent[node] !== NONE && shown[parent[node]] === 2) shown[node] = 2;
        }
        for (let node = count - 1; node >= 0; node--) {
            if (shown[node] && parent[node] !== NONE && !shown[parent[node]]) shown[parent[node]] = 1;
        }
        this.shown = shown;
        this.arrange();
        return found;
    }

    get filtered(): boolean {
        return this.shown !== null;
    }

    /** Moves a node before its previous or after its next sibling. */
    move(node: number, down: boolean): boolean {
        const siblings: number[] = [];
        const parent = this.nodes.parent[node];
        let at = parent === NONE ? this.root : this.first[parent];
        for (; at !== NONE; at = this.next[at]) siblings.push(at);
        const from = siblings.indexOf(node);
        let to = from + (down ? 1 : -1);
        while (siblings[to] !== undefined && (this.inRow[siblings[to]] || (this.shown && !this.shown[siblings[to]]))) {
            to += down ? 1 : -1;
        }
        if (siblings[to] === undefined) return false;
        siblings.splice(from, 1);
        siblings.splice(to, 0, node);
        siblings.forEach((sibling, i) => (this.next[sibling] = siblings[i + 1] ?? NONE));
        if (parent === NONE) this.root = siblings[0];
        else this.first[parent] = siblings[0];
        this.arrange();
        return true;
    }

    /** Orders the processes of each machine. Other rows keep their places. */
    sortProcesses(by: Sort): void {
        const { length: count, parent, kind, above, began, cpu } = this.nodes;
        const depth = new Map<number, number>();
        const order = (processes: number[]): number[] => {
            const given = [...processes].sort((a, b) => a - b);
            const last = (time: number) => (Number.isNaN(time) ? -Infinity : time);
            if (by === 'cpu') return given.sort((a, b) => cpu[b] - cpu[a]);
            if (by === 'start') return given.sort((a, b) => last(began[a]) - last(began[b]) || 0);
            if (by === 'name') return given.sort((a, b) => this.nodes.name(a).localeCompare(this.nodes.name(b)));
            if (by !== 'tree') return given;
            const there = new Set(given);
            const children = new Map<number, number[]>();
            for (const node of given) {
                const of = there.has(above[node]) && above[node] !== node ? above[node] : NONE;
                children.set(of, [...(children.get(of) ?? []), node]);
            }
            const sorted: number[] = [];
            const rest: [number, number][] = (children.get(NONE) ?? []).reverse().map((node) => [node, 0]);
            for (let next = rest.pop(); next; next = rest.pop()) {
                if (depth.has(next[0])) continue;
                sorted.push(next[0]);
                depth.set(...next);
                for (const child of (children.get(next[0]) ?? []).reverse()) rest.push([child, next[1] + 1]);
            }
            // Processes that started each other in a circle.
            return [...sorted, ...given.filter((node) => !depth.has(node))];
        };
        const sort = (first: number): number => {
            const siblings: number[] = [];
            for (let at = first; at !== NONE; at = this.next[at]) siblings.push(at);
            const processes = order(siblings.filter((node) => this.isProcess(node)));
            if (by === 'activity') processes.sort((a, b) => Number(this.isLast(a)) - Number(this.isLast(b)));
            if (processes.length < 2) return first;
            const sorted = siblings.map((node) => (this.isProcess(node) ? processes.shift()! : node));
            sorted.forEach((node, i) => (this.next[node] = sorted[i + 1] ?? NONE));
            return sorted[0];
        };
        this.root = sort(this.root);
        for (let node = 0; node < count; node++) {
            if (kind[node] === Kind.Machine || kind[node] === Kind.Group) this.first[node] = sort(this.first[node]);
        }
        for (let node = 0; node < count; node++) {
            const inherited = parent[node] === NONE ? 0 : this.indent[parent[node]];
            this.indent[node] = kind[node] === Kind.Process ? Math.min(depth.get(node) ?? 0, 100) : inherited;
        }
        this.arrange();
    }

    pin(node: number): void {
        this.pinned = this.pinned.includes(node) ? this.pinned.filter((other) => other !== node) : [...this.pinned, node];
    }

    /** Recomputes the rows. */
    arrange(): void {
        const { length: count, parent } = this.nodes;
        if (this.rows.length < count) {
            this.rows = new Int32Array(count);
            this.levels = new Uint8Array(count);
            this.tops = new Float64Array(count + 1);
        }
        let length = 0;
        let y = 0;
        let level = 0;
        let node = this.root;
        while (node !== NONE) {
            const wanted = this.shown === null || this.shown[node] > 0;
            const visible = wanted && !this.inRow[node];
            const passed = this.isPassed(node);
            if (visible) {
                this.rows[length] = node;
                this.levels[length] = Math.min(level + this.indent[node], 255);
                this.tops[length] = y;
                y += this.height(node);
                length += 1;
            }
            const descend =
                this.first[node] !== NONE &&
                (passed ? wanted : visible && (this.open[node] || (this.shown !== null && this.shown[node] === 1)));
            if (descend) {
                node = this.first[node];
                if (!passed) level += 1;
                continue;
            }
            while (node !== NONE && this.next[node] === NONE) {
                node = parent[node];
                if (node === NONE || !this.isPassed(node)) level -= 1;
            }
            if (node !== NONE) node = this.next[node];
        }
        this.tops[length] = y;
        this.length = length;
    }

    get total(): number {
        return this.tops[this.length];
    }

    row(index: number): Row {
        return {
            node: this.rows[index],
            y: this.tops[index],
            h: this.tops[index + 1] - this.tops[index],
            level: this.levels[index],
        };
    }

    /** Returns the node in whose row a node is drawn. */
    rowOf(node: number): number {
        let at = node;
        while (at !== NONE && this.inRow[at]) at = this.nodes.parent[at];
        return at;
    }

    /** Returns the index of the row at a height, or of the nearest row. */
    at(y: number): number {
        let low = 0;
        let high = this.length - 1;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (this.tops[middle] <= y) low = middle;
            else high = middle - 1;
        }
        return low;
    }

    /** Returns the index of the row that shows a node: its own, that of its thread, or that of its nearest closed ancestor. */
    indexOf(node: number): number {
        for (let at = node; at !== NONE; at = this.nodes.parent[at]) {
            if (this.inRow[at]) continue;
            for (let i = 0; i < this.length; i++) if (this.rows[i] === at) return i;
        }
        return -1;
    }

    height(node: number): number {
        const lanes = this.lanes(node);
        const last = lanes[lanes.length - 1];
        const least = isGroup(this.nodes.kind[node]) ? this.unit + 8 : this.unit + 4;
        return Math.max(least, last ? last.y + last.h + 3 : 0);
    }

    lanes(node: number): Lane[] {
        const { kind } = this.nodes;
        const unit = this.unit;
        const thread = this.threadIn(node);
        if (thread !== NONE) {
            let y = 3;
            const lanes: Lane[] = [];
            const order = (lane: number) => (kind[lane] === Kind.States ? 0 : kind[lane] === Kind.Samples ? 1 : 2);
            for (const lane of this.threadLanes(thread).sort((a, b) => order(a) - order(b))) {
                const placed = laneOf(this.nodes, lane, { y, unit, open: this.open[node] === 1, low: this.low[lane] === 1 });
                lanes.push(placed);
                y += placed.h + 2;
            }
            // Centres the lanes in a row that is higher than they are.
            const rest = Math.floor((this.unit + 8 - (y + 1)) / 2);
            if (rest > 0) for (const lane of lanes) lane.y += rest;
            return lanes;
        }
        if (this.isProcess(node) && !this.open[node] && this.sample[node] !== NONE) {
            return [{ node: this.sample[node], y: 2, h: unit + 4, step: unit, full: 1, thin: 0 }];
        }
        if (this.isProcess(node)) return [{ node, y: 2, h: unit + 4, step: unit, full: 1, thin: 0 }];
        if (kind[node] === Kind.Machine || kind[node] === Kind.Group) return [];
        return [laneOf(this.nodes, node, { y: 2, unit, open: true, low: this.low[node] === 1 })];
    }
}
