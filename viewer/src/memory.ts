// The memory of processes, from their counters: one row for each process.

import { name, table, type Cell } from './dom';
import { quantity } from './format';
import type { CounterSum } from './model';
import type { Page } from './page';

/** The counters of a process and their headings. Those of smaps count shared pages by their share. */
const COLUMNS: [string, string][] = [
    ['mem.rss', 'Resident'], ['mem.rss.anon', 'Anonymous'], ['mem.rss.file', 'Files'], ['mem.rss.shmem', 'Shared'], ['mem.swap', 'Swapped'],
    ['mem.rss.watermark', 'Peak'], ['mem.smaps.pss', 'Own share'], ['mem.smaps.pss.anon', 'Own anonymous'], ['mem.smaps.pss.file', 'Own files'], ['mem.smaps.swap', 'Own swapped'],
];

/** Returns a table with the last values in a range, and how much the resident memory varied; null if no process has such counters. */
export function memoryTable(app: Page, counters: CounterSum[]): HTMLElement | null {
    const processes = new Map<string, Map<string, CounterSum>>();
    for (const counter of counters) {
        if (!counter.process || !COLUMNS.some(([key]) => key === counter.name)) continue;
        const own = processes.get(counter.process) ?? new Map<string, CounterSum>();
        processes.set(counter.process, own.set(counter.name, counter));
    }
    if (processes.size === 0) return null;
    const shown = COLUMNS.filter(([key]) => [...processes.values()].some((own) => own.has(key)));
    const value = (number: number | undefined, unit = 'bytes'): Cell => ({ text: number === undefined ? '' : quantity(number, unit), key: number ?? -Infinity });
    const rows = [...processes].map(([process, own]): Cell[] => {
        const rss = own.get('mem.rss') ?? own.get('mem.smaps.pss') ?? [...own.values()][0];
        return [
            { text: name(process), key: process, act: () => app.setFocus(rss.node) },
            ...shown.map(([key]) => value(own.get(key)?.last, own.get(key)?.unit)),
            value(rss.max - rss.min, rss.unit),
        ];
    });
    return table('Memory of processes', ['Process', ...shown.map(([, heading]) => heading), 'Variation'], rows, 1);
}
