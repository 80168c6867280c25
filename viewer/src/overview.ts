// The load of the whole trace: the mean load of its CPUs, or how many events there are, in a few hundred steps.

import { Kind, type Trace } from './model';
import type { Layout } from './layout';
import type { Source } from './source';

const STEPS = 800;
const MOST_NODES = 64;

export async function load(source: Source, trace: Trace, layout: Layout): Promise<Float32Array | null> {
    const { nodes, end } = trace;
    if (end <= 0) return null;
    const cpus: number[] = [];
    const others: number[] = [];
    for (let node = 0; node < nodes.length; node++) {
        if (nodes.rows[node] === 0) continue;
        if (nodes.kind[node] === Kind.Cpu) cpus.push(node);
        else if (others.length < 4096 && nodes.kind[node] !== Kind.Counter && nodes.kind[node] !== Kind.States) others.push(node);
    }
    const wanted =
        cpus.length > 0
            ? cpus.slice(0, MOST_NODES)
            : others.sort((a, b) => layout.weight[b] - layout.weight[a]).slice(0, MOST_NODES);
    if (wanted.length === 0) return null;
    const level = Math.max(0, Math.ceil(Math.log2(end / STEPS)));
    const tiles = await source.tiles({ nodes: wanted, from: 0, to: end + 1, level });
    const sums = new Float64Array(STEPS);
    const step = end / STEPS;
    for (const tile of tiles) {
        for (let i = 0; i < tile.length; i++) {
            const [start, dur] = [tile.start[i], tile.dur[i] ?? 0];
            if (cpus.length === 0) {
                const at = Math.min(STEPS - 1, Math.max(0, Math.floor(start / step)));
                sums[at] += tile.count[i] ?? 1;
                continue;
            }
            const share = tile.count[i] > 1 ? tile.load[i] / 255 : 1;
            for (let at = Math.max(0, Math.floor(start / step)); at < STEPS && at * step < start + dur; at++) {
                const inside = Math.min(start + dur, (at + 1) * step) - Math.max(start, at * step);
                sums[at] += (inside / step) * share;
            }
        }
    }
    const result = new Float32Array(STEPS);
    const most = cpus.length > 0 ? wanted.length : Math.sqrt(Math.max(1, ...sums));
    for (let at = 0; at < STEPS; at++) result[at] = Math.min(1, cpus.length > 0 ? sums[at] / most : Math.sqrt(sums[at]) / most);
    return result;
}
