// Conversion of the tile of a node to rectangles and texts.

import { isGone, nameColor, stateColor, type Palette } from './colors';
import type { RectList } from './gl';
import { depthHeight, depthTop, type Lane } from './lanes';
import { Kind, type Nodes, type Ref, type Tile } from './model';

/** A text in the picture, in device pixels. */
export interface Label {
    x: number;
    y: number;
    w: number;
    h: number;
    text: string;
}

/** An instant, drawn as a small diamond. */
export interface Mark {
    x: number;
    y: number;
    h: number;
}

/** The visible part of the picture, and its lists of shapes. All lengths are device pixels. */
export interface Brush {
    rects: RectList;
    labels: Label[];
    marks: Mark[];
    colors: Palette;
    ratio: number;
    /** The time at x = 0 and pixels per nanosecond. */
    t0: number;
    scale: number;
    width: number;
    /** The vertical bounds of drawing. */
    top: number;
    bottom: number;
    /** The name of the highlighted events; others are pale. */
    highlight: string | null;
}

const MAX_MARKS = 4000;
const FULL = 255;
const UNKNOWN = 255;

/** The colours of the texts of each reply, by their numbers. They are computed when they are first drawn. */
const huesOfTexts = new WeakMap<string[], Uint8Array>();

function huesOf(strings: string[]): Uint8Array {
    let all = huesOfTexts.get(strings);
    if (!all) huesOfTexts.set(strings, (all = new Uint8Array(strings.length).fill(UNKNOWN)));
    return all;
}

/** Draws the events of a tile between two times. */
export function drawLane(brush: Brush, nodes: Nodes, lane: Lane, y: number, tile: Tile, from: number, to: number): void {
    const kind = nodes.kind[lane.node];
    switch (kind) {
        case Kind.Counter:
            return drawCounter(brush, nodes, lane, y, tile, from, to);
        case Kind.Samples:
        case Kind.Heap:
        case Kind.Log:
            return drawTicks(brush, lane, y, tile, from, to, kind === Kind.Log);
        case Kind.Process:
        case Kind.Group:
            return drawLoad(brush, lane, y, tile, from, to);
        default:
            return drawRows(brush, kind, lane, y, tile, from, to);
    }
}

/** Returns the first row of a depth that ends after a time. The rows must not overlap. */
export function firstAt(tile: Tile, low: number, high: number, time: number): number {
    const first = low;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (tile.start[middle] < time) low = middle + 1;
        else high = middle;
    }
    return low > first && tile.dur.length > 0 && tile.start[low - 1] + tile.dur[low - 1] > time ? low - 1 : low;
}

/** Calls `visit` with the rows of each depth. */
export function depths(tile: Tile, visit: (depth: number, from: number, to: number) => void): void {
    let from = 0;
    while (from < tile.length) {
        const depth = tile.depth[from];
        let low = from + 1;
        let high = tile.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (tile.depth[middle] > depth) high = middle;
            else low = middle + 1;
        }
        visit(depth, from, low);
        from = low;
    }
}

function drawRows(brush: Brush, kind: number, lane: Lane, y: number, tile: Tile, from: number, to: number): void {
    const { rects, labels, marks, colors, ratio, t0, scale, width } = brush;
    const least = 18 * ratio;
    const left = (from - t0) * scale;
    const right = (to - t0) * scale;
    const hues = huesOf(tile.strings);
    depths(tile, (depth, begin, end) => {
        const step = Math.round(depthHeight(lane, depth) * ratio);
        const gap = step > 6 * ratio ? Math.max(1, Math.round(ratio)) : 0;
        const height = kind === Kind.States ? Math.round(lane.h * ratio) : step - gap;
        const labelled = height >= 11 * ratio && kind !== Kind.States;
        const top = y + Math.round(depthTop(lane, depth) * ratio);
        if (top >= brush.bottom || top + height <= brush.top) return;
        if (top >= y + Math.round(lane.h * ratio)) return;
        let covered = -1;
        let marked = NaN;
        for (let i = firstAt(tile, begin, end, from); i < end && tile.start[i] < to; i++) {
            const dur = tile.dur[i];
            const x = (tile.start[i] - t0) * scale;
            const text = tile.strings[tile.name[i]] ?? '';
            const merged = tile.count[i] > 1;
            // A state without duration is the start of a part of a recording and not an event.
            if (kind === Kind.States && (isGone(text) || (dur === 0 && !merged))) continue;
            if (dur === 0 && !merged && kind !== Kind.Cpu) {
                // Those at the same pixel look like one.
                const pixel = Math.round(x);
                if (pixel === marked) continue;
                marked = pixel;
                if (marks.length < MAX_MARKS) marks.push({ x, y: top, h: height });
                else rects.add(pixel, top, Math.max(1, ratio), height, colors.instant);
                if (labelled && x > -least) {
                    const room = (i + 1 < end ? (tile.start[i + 1] - t0) * scale : width) - x - 9 * ratio;
                    if (room > 40 * ratio) labels.push({ x: x + 6 * ratio, y: top, w: room, h: height, text });
                }
                continue;
            }
            let x0 = Math.max(x, left);
            let x1 = Math.min(x + dur * scale, right);
            if (x1 <= covered) continue;
            x0 = Math.max(0, Math.min(Math.floor(x0), width));
            x1 = Math.min(width, Math.max(Math.round(x1), x0 + 1));
            covered = x1;
            let fill: number;
            if (brush.highlight !== null && brush.highlight !== text) fill = colors.pale;
            else if (kind === Kind.States) fill = stateColor(text, colors);
            else {
                let hue = hues[tile.name[i]] ?? 0;
                if (hue === UNKNOWN) hue = hues[tile.name[i]] = nameColor(text);
                fill = (merged ? colors.merged : colors.fills)[hue];
            }
            const w = x1 - x0;
            if (kind === Kind.Cpu && merged) {
                const h = Math.max(1, Math.round((height * tile.load[i]) / 255));
                rects.add(x0, top + height - h, w, h, fill);
                continue;
            }
            rects.add(x0, top, w >= 4 * ratio && kind !== Kind.States ? w - Math.max(1, Math.floor(ratio)) : w, height, fill);
            if (tile.flags[i] & 1 && w > 12 * ratio) {
                // Fades out, since the event has no end.
                for (let k = 0; k < 4; k++) rects.add(x1 - (4 - k) * 3 * ratio, top, ratio * 2, height, colors.line);
            }
            if (labelled && !merged && w >= least) labels.push({ x: x0, y: top, w, h: height, text });
        }
    });
}

function drawTicks(brush: Brush, lane: Lane, y: number, tile: Tile, from: number, to: number, coloured: boolean): void {
    const { rects, colors, ratio, t0, scale } = brush;
    const height = Math.round(lane.h * ratio);
    const thick = Math.max(1, Math.round(ratio));
    let most = 1;
    for (let i = 0; i < tile.length; i++) if (tile.count[i] > most) most = tile.count[i];
    let last = -1;
    for (let i = firstAt(tile, 0, tile.length, from); i < tile.length && tile.start[i] < to; i++) {
        const x = Math.round((tile.start[i] - t0) * scale);
        if (x === last) continue;
        last = x;
        // The height grows with the number of merged events.
        const share = most === 1 ? 1 : 0.35 + (0.65 * Math.log2(1 + tile.count[i])) / Math.log2(1 + most);
        const h = Math.max(2, Math.round(height * share));
        const fill = coloured ? colors.fills[nameColor(tile.strings[tile.name[i]] ?? '')] : colors.sample;
        rects.add(x, y + height - h, coloured ? thick * 2 : thick, h, fill);
    }
}

function drawLoad(brush: Brush, lane: Lane, y: number, tile: Tile, from: number, to: number): void {
    const { rects, colors, ratio, t0, scale, width } = brush;
    const height = Math.round(lane.h * ratio);
    for (let i = firstAt(tile, 0, tile.length, from); i < tile.length && tile.start[i] < to; i++) {
        const x0 = Math.max(0, Math.floor((tile.start[i] - t0) * scale));
        const x1 = Math.min(width, Math.max(x0 + 1, Math.round((tile.start[i] + tile.dur[i] - t0) * scale)));
        const h = Math.max(1, Math.round((height * tile.load[i]) / FULL));
        if (x1 > x0) rects.add(x0, y + height - h, x1 - x0, h, colors.group);
    }
}

/** Returns the range of values of the picture of a counter, which includes zero. */
export function scaleOf(nodes: Nodes, node: number): { low: number; high: number } {
    const low = Math.min(0, nodes.min[node]);
    const high = Math.max(0, nodes.max[node]);
    return high > low ? { low, high } : { low, high: low + 1 };
}

function drawCounter(brush: Brush, nodes: Nodes, lane: Lane, y: number, tile: Tile, from: number, to: number): void {
    const { rects, colors, ratio, t0, scale, width } = brush;
    const height = Math.round(lane.h * ratio);
    const { low, high } = scaleOf(nodes, lane.node);
    const per = height / (high - low);
    const zero = y + height + Math.round(low * per);
    const thick = Math.max(1, Math.round(ratio));
    let first = 0;
    let end = tile.length;
    while (first < end) {
        const middle = (first + end) >> 1;
        if (tile.start[middle] <= from) first = middle + 1;
        else end = middle;
    }
    first = Math.max(0, first - 1);
    let covered = -1;
    for (let i = first; i < tile.length && tile.start[i] < to; i++) {
        const until = i + 1 < tile.length ? Math.min(tile.start[i + 1], to) : to;
        let x0 = Math.max(0, Math.round((Math.max(tile.start[i], from) - t0) * scale));
        const x1 = Math.min(width, Math.round((until - t0) * scale));
        if (x1 <= covered && tile.min[i] === tile.max[i]) continue;
        x0 = Math.max(x0, covered);
        covered = Math.max(covered, x1);
        const at = y + height - Math.round((tile.lastValue[i] - low) * per);
        const w = Math.max(thick, x1 - x0);
        if (at <= zero) rects.add(x0, at, w, Math.max(0, zero - at), colors.counter);
        else rects.add(x0, zero, w, at - zero, colors.counter);
        rects.add(x0, Math.min(at, y + height - thick), w, thick, colors.counterTop);
        if (tile.max[i] > tile.min[i]) {
            const upper = y + height - Math.round((tile.max[i] - low) * per);
            const lower = y + height - Math.round((tile.min[i] - low) * per);
            rects.add(x0, upper, thick, Math.max(thick, lower - upper), colors.counterTop);
        }
    }
}

/** Returns the row of a tile at a depth and a time, with a tolerance. */
export function rowAt(tile: Tile, kind: number, depth: number, time: number, around: number): number {
    let best = -1;
    let least = Infinity;
    const consider = (i: number) => {
        const end = tile.start[i] + (tile.dur[i] ?? 0);
        const distance = time < tile.start[i] ? tile.start[i] - time : time > end ? time - end : 0;
        if (distance <= around && distance < least) {
            best = i;
            least = distance;
        }
    };
    if (kind === Kind.Counter) {
        for (let i = firstAt(tile, 0, tile.length, time) - 1; i < tile.length; i++) {
            if (i < 0) continue;
            if (tile.start[i] > time) break;
            best = i;
        }
        return best;
    }
    const flat = kind === Kind.Samples || kind === Kind.Log || kind === Kind.Heap;
    depths(tile, (at, from, to) => {
        if (at !== depth && !flat) return;
        const near = firstAt(tile, from, to, time - around);
        for (let i = Math.max(from, near - 1); i < to && tile.start[i] <= time + around; i++) consider(i);
    });
    return best;
}

export function refOf(tile: Tile, i: number): Ref {
    return {
        node: tile.node,
        id: tile.id[i],
        start: tile.start[i],
        dur: tile.dur[i] ?? 0,
        depth: tile.depth[i] ?? 0,
        name: tile.strings[tile.name[i]] ?? '',
    };
}
