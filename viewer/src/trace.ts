// The frame `trace`: the nodes and the properties of the trace.

import { NONE, type Nodes, type Trace } from './model';
import type { Frame } from './frame';

export function readTrace(frame: Frame): Trace {
    const { header, strings } = frame;
    const start = BigInt(header.start ?? '0');
    const end = Number(BigInt(header.end ?? '0') - start);
    return {
        name: header.name ?? '',
        start,
        end: Math.max(0, end),
        wall: header.wall == null ? null : BigInt(header.wall),
        live: header.live === true,
        generation: header.generation ?? 0,
        before: header.before ?? null,
        sql: header.sql ?? null,
        profiles: header.profiles ?? [],
        losses: header.losses ?? [],
        remarks: [...(header.remarks ?? []), ...(header.left_out ? [header.left_out] : [])],
        facts: header.facts ?? [],
        overview: frame.u8('overview'),
        nodes: readNodes(frame, strings),
    };
}

function readNodes(frame: Frame, strings: string[]): Nodes {
    const length = frame.length('kind');
    const parent = frame.i32('parent', length, NONE);
    // Walks up the tree end only if parents come before their children.
    for (let node = 0; node < length; node++) if (parent[node] >= node) parent[node] = NONE;
    const names = frame.u32('name', length);
    const units = frame.u32('unit', length);
    const commands = frame.u32('command', length);
    return {
        length,
        parent,
        kind: frame.u8('kind', length),
        number: frame.f64('number', length, NaN),
        rows: frame.u32('rows', length),
        depth: frame.u16('depth', length, 1),
        min: frame.f64('min', length),
        max: frame.f64('max', length),
        first: frame.f64('first', length, NaN),
        last: frame.f64('last', length, NaN),
        above: frame.i32('above', length, NONE),
        began: frame.f64('began', length, NaN),
        cpu: frame.f64('cpu', length),
        subject: frame.u8('subject', length),
        command: (node) => strings[commands[node]] ?? '',
        name: (node) => strings[names[node]] ?? '',
        unit: (node) => strings[units[node]] ?? '',
    };
}
