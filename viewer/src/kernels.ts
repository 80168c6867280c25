// Kernels of computations in a range: one table by kernel, and one of their launches.

import { el, name, table, type Cell } from './dom';
import { count, duration, instant, percent, quantity } from './format';
import type { Range, Ref } from './model';
import type { Page } from './page';

/** The arguments of launches that name a kernel, the most readable first. */
const NAMES = ['kernel_demangled_name', 'kernel_name'];
const GRID = 'launch.grid_size';
const GROUP = 'launch.workgroup_size';
/** Arguments that have columns of their own, or that say nothing about the work. */
const KNOWN = /^(kernel_name|kernel_demangled_name|launch\..*|hw_queue_id|upid|description|stage_iid|correlation_id)$/;
const MAX_LAUNCHES = 10_000;
const MAX_COLUMNS = 12;

interface Launch {
    ref: Ref;
    kernel: string;
    /** The numbers of groups and of items in each along three axes; empty if they are unknown. */
    grid: number[];
    group: number[];
    more: Map<string, [string, string]>;
}

/** Returns tables of the kernels in a range; null if there are none. `keys` are the arguments of its slices. */
export async function kernelTables(app: Page, range: Range, keys: string[]): Promise<HTMLElement[] | null> {
    const key = NAMES.find((name) => keys.includes(name));
    if (!key) return null;
    const { rows } = await app.source.pivot(range, 'slices', [`arg:${key}`, 'track']);
    const nodes = [...new Set(rows.filter(({ keys, node }) => keys[0] !== '' && node !== null).map(({ node }) => node!))];
    const all = await launches(app, range, nodes);
    if (all.length === 0) return null;
    const shown = all.slice(0, MAX_LAUNCHES);
    const columns = [...new Set(shown.flatMap(({ more }) => [...more.keys()]))].slice(0, MAX_COLUMNS);
    const tables = [byKernel(app, shown, columns), byTime(app, shown, columns)];
    for (const section of tables) section.classList.add('kernels');
    if (all.length > shown.length) tables[1].append(el('p', { class: 'hint' }, `These are the first ${count(shown.length)} launches. A shorter range has the others.`));
    return tables;
}

/** Returns the launches of a range by time, at most one more than are shown. */
async function launches({ source }: Page, range: Range, nodes: number[]): Promise<Launch[]> {
    const found: Ref[] = [];
    for (const tile of await source.tiles({ nodes, from: range.from, to: range.to, level: 0 })) {
        for (let row = 0; row < tile.length; row++) {
            const [start, dur] = [tile.start[row], tile.dur[row]];
            if (start >= range.to || start + dur < range.from) continue;
            found.push({ node: tile.node, id: tile.id[row], start, dur, depth: tile.depth[row], name: tile.strings[tile.name[row]] });
        }
    }
    found.sort((a, b) => a.start - b.start);
    found.length = Math.min(found.length, MAX_LAUNCHES + 1);
    const all: Launch[] = [];
    for (const node of nodes) {
        const refs = found.filter((ref) => ref.node === node);
        const annotations = await source.annotations(node, Uint32Array.from(refs, ({ id }) => id));
        refs.forEach((ref, i) => {
            const args = new Map(annotations[i][1].map(([key, text, type]) => [key, [text, type] as [string, string]]));
            const kernel = NAMES.map((name) => args.get(name)?.[0]).find(Boolean);
            const axes = (of: string) => ['x', 'y', 'z'].map((axis) => args.get(`${of}.${axis}`)).filter((it) => it !== undefined).map(([text]) => Number(text));
            if (kernel) all.push({ ref, kernel, grid: axes(GRID), group: axes(GROUP), more: new Map([...args].filter(([key]) => !KNOWN.test(key))) });
        });
    }
    return all.sort((a, b) => a.ref.start - b.ref.start);
}

const product = (axes: number[]) => axes.reduce((all, axis) => all * axis, 1);
const size = (axes: number[]): Cell => ({ text: axes.join(' × '), key: axes.length > 0 ? product(axes) : -1 });
const items = ({ grid, group }: Launch) => (grid.length > 0 && group.length > 0 ? product(grid) * product(group) : NaN);
const isNumber = (value: [string, string] | undefined) => value !== undefined && ['int', 'uint', 'real'].includes(value[1]);
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function byKernel(app: Page, all: Launch[], columns: string[]): HTMLElement {
    const groups = new Map<string, Launch[]>();
    for (const launch of all) groups.set(launch.kernel, [...(groups.get(launch.kernel) ?? []), launch]);
    const whole = all.reduce((sum, { ref }) => sum + ref.dur, 0);
    const total = (own: Launch[]) => own.reduce((sum, { ref }) => sum + ref.dur, 0);
    const most = Math.max(1, ...[...groups.values()].map(total));
    const numbers = columns.filter((column) => all.some(({ more }) => isNumber(more.get(column))));
    const sized = all.some((launch) => items(launch) > 0);
    const time = (value: number): Cell => ({ text: duration(value), key: value });
    const rows = [...groups].map(([kernel, own]): Cell[] => {
        const lengths = own.map(({ ref }) => ref.dur);
        const work = mean(own.map(items).filter(Number.isFinite));
        return [
            { text: name(kernel), key: kernel, act: () => app.find.pick(own[0].ref.name, null) },
            { text: count(own.length), key: own.length },
            { ...time(total(own)), share: total(own) / most },
            { text: percent(total(own), whole), key: total(own) },
            time(total(own) / own.length), time(Math.min(...lengths)), time(Math.max(...lengths)),
            ...(sized ? [{ text: Number.isFinite(work) ? count(Math.round(work)) : '', key: work || -1 }] : []),
            ...numbers.map((column): Cell => {
                const values = own.map(({ more }) => more.get(column)).filter(isNumber).map((value) => Number(value![0]));
                return { text: values.length > 0 ? quantity(mean(values), '') : '', key: values.length > 0 ? mean(values) : -Infinity };
            }),
        ];
    });
    const heads = ['Kernel', 'Launches', 'Total', 'Of all kernels', 'Mean', 'Min', 'Max', ...(sized ? ['Work items'] : []), ...numbers];
    return table('Kernels of computations', heads, rows, 2);
}

function byTime(app: Page, all: Launch[], columns: string[]): HTMLElement {
    const rows = all.map((launch): Cell[] => [
        { text: instant(launch.ref.start), key: launch.ref.start, act: () => app.select(launch.ref, true) },
        { text: name(launch.kernel), key: launch.kernel },
        { text: duration(launch.ref.dur), key: launch.ref.dur },
        size(launch.grid), size(launch.group),
        ...columns.map((column): Cell => {
            const value = launch.more.get(column);
            const number = isNumber(value);
            return { text: value?.[0] ?? '', key: number ? Number(value![0]) : (value?.[0] ?? '') };
        }),
    ]);
    return table('Launches of kernels', ['Start', 'Kernel', 'Duration', 'Groups', 'Items in each', ...columns], rows, 2);
}
