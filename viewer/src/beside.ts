// Rows of a kept range or of the previous trace below those of this one, with their times moved so that both begin together.

import { duration } from './format';
import { REF_NONE } from './frame';
import { Kind, NONE, type Annotations, type Details, type Nodes, type Pivot, type Range, type Ref, type Step, type Summary, type Tile, type Trace, type Window } from './model';
import type { Source } from './source';
import type { BesideTracks } from './trackform';

/** The maximum number of rows within one, as of a thread with many tracks. */
const MAX_WITHIN = 64;

/** Nodes of a source, with other numbers and other times. */
export class Beside {
    readonly nodes: Nodes;
    /** The new numbers of the topmost nodes. */
    readonly tops: number[] = [];
    /** The time at which the last of them can end. */
    readonly end: number;
    /** The nodes of the source by their new numbers, and the reverse. */
    private of: number[] = [];
    private own = new Map<number, number>();

    constructor(
        private source: Source,
        trace: Trace,
        private tracks: BesideTracks,
        private first: number,
    ) {
        const { nodes } = trace;
        this.end = trace.end + tracks.shift;
        for (const top of tracks.nodes) {
            if (top >= nodes.length || this.own.has(top)) continue;
            this.tops.push(first + this.of.length);
            const begin = this.of.length;
            // Parents come before their children, and descendants follow without gaps.
            for (let node = top; node < nodes.length && this.of.length - begin < MAX_WITHIN; node++) {
                if (node !== top && !this.own.has(nodes.parent[node])) break;
                this.own.set(node, this.of.push(node) - 1);
            }
        }
        const { of, own } = this;
        const pick = <T extends { constructor: Function; [at: number]: number }>(column: T): T => (column.constructor as unknown as { from(list: number[]): T }).from(of.map((node) => column[node]));
        const isTop = (at: number) => this.tops.includes(first + at);
        this.nodes = {
            length: of.length,
            parent: Int32Array.from(of, (node, at) => (isTop(at) ? NONE : (own.get(nodes.parent[node]) ?? NONE))),
            kind: pick(nodes.kind),
            number: pick(nodes.number),
            rows: pick(nodes.rows),
            depth: pick(nodes.depth),
            min: pick(nodes.min),
            max: pick(nodes.max),
            first: pick(nodes.first).map((time) => time + tracks.shift),
            last: pick(nodes.last).map((time) => time + tracks.shift),
            above: new Int32Array(of.length).fill(NONE),
            began: new Float64Array(of.length).fill(NaN),
            cpu: pick(nodes.cpu),
            subject: new Uint8Array(of.length),
            command: () => '',
            name: (at) => (isTop(at) ? `${tracks.title}: ${rowName(nodes, of[at])}` : nodes.name(of[at])),
            unit: (at) => nodes.unit(of[at]),
        };
    }

    has(node: number): boolean {
        return node >= this.first && node < this.first + this.of.length;
    }

    private base(node: number): number {
        return this.of[node - this.first];
    }

    private ref(ref: Ref): Ref | null {
        const node = this.own.get(ref.node);
        return node === undefined ? null : { ...ref, node: node + this.first, start: ref.start + this.tracks.shift };
    }

    async tiles({ nodes, from, to, level }: Window): Promise<Tile[]> {
        const { shift, of } = this.tracks;
        const tiles = await this.source.tiles({ nodes: nodes.map((node) => this.base(node)), from: from - shift, to: to - shift, level });
        return tiles.map((tile, i) => ({
            ...tile,
            node: nodes[i],
            from,
            to,
            start: tile.start.map((time) => time + shift),
            // Nodes of the previous trace have other numbers.
            other: of === 'before' ? new Uint32Array(tile.other.length).fill(REF_NONE) : tile.other,
        }));
    }

    async details(node: number, id: number): Promise<Details> {
        const it = await this.source.details(this.base(node), id);
        const { shift, of, title } = this.tracks;
        const facts = (it.facts ?? []).map(([label, value, at]): [string, string, (number | null)?] => [label, value, of === 'before' ? null : (at ?? null)]);
        const moved = `${shift < 0 ? '−' : '+'}${duration(Math.abs(shift))}`;
        const refs = (list: Ref[] | undefined) => (list ?? []).map((ref) => this.ref(ref)).filter((ref) => ref !== null);
        return { ...it, node, start: it.start + shift, facts: [['Of', `${title}, moved by ${moved}`], ...facts], parents: refs(it.parents), flows: [], chain: [] };
    }

    annotations(node: number, rows: Uint32Array): Promise<Annotations[]> {
        return this.source.annotations(this.base(node), rows);
    }

    async step(from: Ref, to: Step): Promise<Ref | null> {
        const ref = await this.source.step({ ...from, node: this.base(from.node), start: from.start - this.tracks.shift }, to);
        return ref && this.ref(ref);
    }

    /** Returns the range of the source. */
    private range({ from, to, nodes }: Range): Range {
        const { shift } = this.tracks;
        return { from: from - shift, to: to - shift, nodes: (nodes ?? []).map((node) => this.base(node)) };
    }

    async summary(range: Range): Promise<Summary> {
        const sums = await this.source.summary(this.range(range));
        return this.tracks.of === 'this' ? sums : { ...sums, threads: [], counters: [] };
    }

    async pivot(range: Range, of: Parameters<Source['pivot']>[1], by: string[]): Promise<Pivot> {
        const pivot = await this.source.pivot(this.range(range), of, by);
        return this.tracks.of === 'this' ? pivot : { ...pivot, rows: pivot.rows.map((row) => ({ ...row, node: null })) };
    }
}

/** Returns the name of a row that shows a node: that of the thread for a thread's own slices. */
export function rowName(nodes: Nodes, node: number): string {
    const name = nodes.name(node) || (nodes.parent[node] === NONE ? '' : nodes.name(nodes.parent[node]));
    return nodes.kind[node] === Kind.Cpu && !name ? `CPU ${nodes.number[node]}` : name;
}
