// The rows whose time changed most between two ranges or traces.

import { rowName } from './beside';
import { Kind, NONE, type Nodes, type Range } from './model';
import type { Page } from './page';
import type { Source } from './source';
import type { BesideTracks } from './trackform';

/** The number of pairs of rows to draw. */
const PAIRS = 8;
/** The height of the picture that is enough beside the panel, in letters. */
const ROOM = 30;

/** A row of one of both, and its time on CPUs and in slices for each nanosecond of the range. */
interface Amount {
    key: string;
    node: number;
    cpu: number;
    slices: number;
}

async function amounts(source: Source, nodes: Nodes, range: Range, byName: boolean): Promise<Amount[]> {
    const length = Math.max(1, range.to - range.from);
    const all = new Map<number, Amount>();
    for (const of of ['cpu', 'slices'] as const) {
        const { rows } = await source.pivot(range, of, ['process', of === 'cpu' ? 'thread' : 'track']);
        for (const { node: found, keys, self, total } of rows) {
            if (found === null) continue;
            // A thread's own slices are drawn in its row.
            const above = nodes.parent[found];
            const node = nodes.kind[found] === Kind.Slices && above !== NONE && nodes.kind[above] === Kind.Thread ? above : found;
            const amount = all.get(node) ?? { key: byName ? `${keys[0].replace(/ \d+$/, '')}\0${rowName(nodes, node)}` : String(node), node, cpu: 0, slices: 0 };
            amount[of] += (of === 'cpu' ? total : self) / length;
            all.set(node, amount);
        }
    }
    return [...all.values()];
}

/** A row of each of both; null if one of them lacks it. */
export interface Pair {
    before: number | null;
    now: number | null;
    change: number;
}

/** Returns the rows whose time changed most, the largest change first. Several rows with the same name are paired by their amount. */
export function changed(before: Amount[], now: Amount[]): Pair[] {
    const bySize = (a: Amount, b: Amount) => b.cpu + b.slices - a.cpu - a.slices;
    const waiting = new Map<string, Amount[]>();
    for (const amount of [...before].sort(bySize)) waiting.set(amount.key, [...(waiting.get(amount.key) ?? []), amount]);
    const pairs: Pair[] = [...now].sort(bySize).map((amount) => {
        const old = waiting.get(amount.key)?.shift();
        return { before: old?.node ?? null, now: amount.node, change: Math.max(Math.abs(amount.cpu - (old?.cpu ?? 0)), Math.abs(amount.slices - (old?.slices ?? 0))) };
    });
    for (const amount of [...waiting.values()].flat()) pairs.push({ before: amount.node, now: null, change: Math.max(amount.cpu, amount.slices) });
    return pairs.sort((a, b) => b.change - a.change);
}

/** Draws the rows that changed most at the top, each above its row of the kept range or of the previous trace. */
export async function drawBeside(app: Page): Promise<void> {
    const { baseline, range, trace, source } = app;
    const previous = baseline === null ? source.previous : undefined;
    if (!baseline && (!previous || trace.before === null)) throw new Error('Keep a range with B and select another, or open a trace with --before');
    const to = range ? range.to : trace.end + 1;
    const from = range ? range.from : 0;
    const other = previous ? previous.source : source;
    const old = previous ? await previous.trace() : trace;
    const of = baseline ?? (range ? { from, to } : { from: 0, to: old.end + 1 });
    const nodes = app.rangeNodes();
    const [before, now] = await Promise.all([
        amounts(other, old.nodes, { ...of, nodes: previous ? null : nodes }, previous !== undefined),
        amounts(source, trace.nodes, { from, to, nodes }, previous !== undefined),
    ]);
    const pairs = changed(before, now).slice(0, PAIRS);
    if (pairs.length === 0) throw new Error('Neither has slices or threads on CPUs');
    // The kept range is moved to the start of the other one.
    const tracks: BesideTracks = { kind: 'beside', title: previous ? 'before' : 'kept', of: previous ? 'before' : 'this', shift: from - of.from, nodes: pairs.flatMap(({ before }) => before ?? []) };
    const others = app.tracks.filter(({ kind }) => kind !== 'beside');
    app.setTracks([...others, tracks], (tops) => {
        const own = tops.slice(tops.length - tracks.nodes.length);
        app.layout.pinned = pairs.flatMap(({ before, now }) => [...(now === null ? [] : [app.layout.rowOf(now)]), ...(before === null ? [] : [own.shift()!])]);
        app.scroll = 0;
        // On a small screen the panel would leave no space for the second row of a pair.
        if (app.scene.height < ROOM * app.scene.em) app.panel.close();
        app.say(`The ${pairs.length} rows that changed most are at the top, each above that of ${previous ? 'the previous trace' : 'the kept range'}`);
    });
}
