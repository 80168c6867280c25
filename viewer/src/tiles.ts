// The frame `tiles`, split into one tile for each node.

import type { Frame } from './frame';
import type { Tile } from './model';
import { REF_NONE } from './frame';

export function readTiles(frame: Frame): Tile[] {
    const { from, to, level } = frame.header as { from: number; to: number; level: number };
    const nodes = frame.u32('node');
    const rows = frame.u32('rows', nodes.length);
    const points = frame.u32('points', nodes.length);
    const n = frame.length('start');
    const start = frame.f64('start');
    const dur = frame.f64('dur', n);
    const depth = frame.u16('depth', n);
    const name = frame.u32('name', n);
    const id = frame.u32('id', n);
    const other = frame.u32('other', n, REF_NONE);
    const count = frame.u32('count', n, 1);
    const load = frame.u8('load', n);
    const flags = frame.u8('flags', n);
    const time = frame.f64('time');
    const m = time.length;
    const min = frame.f64('min', m);
    const max = frame.f64('max', m);
    const last = frame.f64('last', m);
    const point = frame.u32('point', m);
    const none = new Float64Array(0);
    const tiles: Tile[] = [];
    let row = 0;
    let value = 0;
    for (let i = 0; i < nodes.length; i++) {
        const r = rows[i];
        const p = points[i];
        let exact = true;
        for (let k = row; exact && k < row + r; k++) exact = count[k] <= 1;
        for (let k = value; exact && k < value + p; k++) exact = min[k] === max[k];
        // Views of the columns, not copies.
        const cut = <T extends { subarray(from: number, to: number): T }>(column: T) => column.subarray(row, row + r);
        const cutPoints = <T extends { subarray(from: number, to: number): T }>(column: T) => column.subarray(value, value + p);
        tiles.push({
            node: nodes[i],
            from,
            to,
            level,
            exact: exact || level === 0,
            length: p > 0 ? p : r,
            start: p > 0 ? cutPoints(time) : cut(start),
            dur: cut(dur),
            depth: cut(depth),
            name: cut(name),
            strings: frame.strings,
            id: p > 0 ? cutPoints(point) : cut(id),
            other: cut(other),
            count: cut(count),
            load: cut(load),
            flags: cut(flags),
            min: p > 0 ? cutPoints(min) : none,
            max: p > 0 ? cutPoints(max) : none,
            lastValue: p > 0 ? cutPoints(last) : none,
        });
        row += r;
        value += p;
    }
    return tiles;
}

/** Returns an empty tile, in place of one that could not be loaded. */
export function emptyTile(node: number, from: number, to: number, level: number): Tile {
    const none = new Float64Array(0);
    const words = new Uint32Array(0);
    const bytes = new Uint8Array(0);
    return {
        node, from, to, level, exact: false, length: 0, start: none, dur: none, depth: new Uint16Array(0), name: words,
        strings: [''], id: words, other: words, count: words, load: bytes, flags: bytes, min: none, max: none,
        lastValue: none,
    };
}
