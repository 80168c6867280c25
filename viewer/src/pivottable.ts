// A table of the events of a range, grouped by columns that the user chooses.

import { css, stateColor, stateName } from './colors';
import { argument } from './disks';
import { el, name, table, type Cell } from './dom';
import { count, duration, percent } from './format';
import { exactly } from './match';
import type { Pivot, PivotOf, PivotRow, Range } from './model';
import type { Page } from './page';

const CAPTIONS: Record<PivotOf, string> = { slices: 'Slices', states: 'States of threads', cpu: 'CPU time', events: 'Kernel events and messages' };

/** The columns of each kind of event. */
const COLUMNS: Record<PivotOf, string[]> = {
    slices: ['name', 'thread', 'process', 'container', 'track', 'category'],
    states: ['state', 'thread', 'process', 'container', 'cpu', 'blocked'],
    cpu: ['thread', 'process', 'container', 'cpu'],
    events: ['name', 'thread', 'process', 'container', 'track'],
};

/** The columns that the user chose last. */
const chosen = new Map<PivotOf, string[]>();

/** Groups events by columns from now on. The first word of the text is the kind of event; unknown columns are arguments. */
export function group(text: string): void {
    const [of, ...by] = text.split(/[\s,]+/).filter(Boolean);
    if (!Object.hasOwn(COLUMNS, of)) throw new Error(`“${of}” is none of ${Object.keys(COLUMNS).join(', ')}`);
    const kind = of as PivotOf;
    if (by.length === 0 || by.length > 3) throw new Error(`events are grouped by one to three columns, such as ${COLUMNS[kind].join(', ')}`);
    chosen.set(kind, by.map((column) => (COLUMNS[kind].includes(column) || column.startsWith('arg:') ? column : `arg:${column}`)));
}

const WORDS: Record<string, string> = { cpu: 'CPU', blocked: 'kernel function' };
const word = (column: string) => (column.startsWith('arg:') ? column.slice(4) : (WORDS[column] ?? column));
const upper = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the table of one kind of event, and the arguments that they have; null if there are none. */
export function pivotTable(app: Page, of: PivotOf, range: Range): Promise<{ root: HTMLElement; args: string[] } | null> {
    const by = chosen.get(of) ?? [COLUMNS[of][0]];
    return app.source.pivot(range, of, by).then((pivot) => {
        if (pivot.rows.length === 0) return null;
        const root = el('div', { class: 'pivot' });
        fill(app, root, of, range, by, pivot);
        return { root, args: pivot.args };
    });
}

function fill(app: Page, root: HTMLElement, of: PivotOf, range: Range, by: string[], pivot: Pivot): void {
    const ask = (columns: string[]) => {
        chosen.set(of, columns);
        const focused = [...root.querySelectorAll('select')].indexOf(document.activeElement as HTMLSelectElement);
        void app.task(app.source.pivot(range, of, columns), (next) => {
            fill(app, root, of, range, columns, next);
            root.querySelectorAll('select')[focused]?.focus();
        });
    };
    const columns = COLUMNS[of].filter((column) => column !== 'container' || app.layout.hasContainers);
    const options = [...columns, ...pivot.args.map((key) => `arg:${key}`)];
    const select = (at: number) => {
        const all = [...new Set([...options, ...by])];
        const change = (event: Event) => {
            const { value } = event.target as HTMLSelectElement;
            ask([...by.slice(0, at), ...(value ? [value] : []), ...by.slice(at + 1)]);
        };
        const own = by[at];
        return el('select', { 'aria-label': `${CAPTIONS[of]}: ${at === 0 ? 'by' : 'then by'}`, change },
            at > 0 && el('option', { value: '' }, '–'),
            ...all.filter((column) => column === own || !by.includes(column)).map((column) => el('option', { value: column, selected: column === own }, word(column))));
    };
    const selects = [...by.map((_, at) => select(at)), ...(by.length < 3 ? [select(by.length)] : [])];
    const controls = el('p', { class: 'by faint' }, 'by ', ...selects.flatMap((it, at) => (at > 0 ? [' then by ', it] : [it])));
    const section = rows(app, of, range, by, pivot);
    section.querySelector('h3')!.after(controls);
    root.replaceChildren(section);
}

function rows(app: Page, of: PivotOf, range: Range, by: string[], pivot: Pivot): HTMLElement {
    const span = range.to - range.from;
    const key = of === 'slices' ? (row: PivotRow) => row.self : (row: PivotRow) => row.total;
    const most = Math.max(1, ...pivot.rows.map(key));
    const time = (value: number, share?: number): Cell => ({ text: duration(value), key: value, ...(share !== undefined && { share }) });
    const cells = (row: PivotRow): Cell[] => {
        const names = row.keys.map((text, at): Cell => {
            const column = by[at];
            const own = column.startsWith('arg:') ? argument(app.trace, column.slice(4), text) : text;
            const shown = column === 'state' ? state(app, text) : name(own, column.startsWith('arg:') ? 'not set' : column === 'name' ? 'unnamed' : 'none');
            return { text: shown, key: text, act: () => pick(app, row, column, text) };
        });
        const number: Cell = { text: count(row.count), key: row.count };
        if (of === 'events') return [...names, number];
        const lengths = [row.min, row.p50, row.p90, row.p99, row.max].map((value) => time(value));
        const mean = time(row.total / row.count);
        const bars: Cell = { text: histogram(row), key: row.max / Math.max(1, row.p50) };
        if (of === 'cpu') return [...names, time(row.total, row.total / most), { text: percent(row.total, span), key: row.total }, number, mean, ...lengths, bars];
        return [...names, number, time(row.total, of === 'states' ? row.total / most : undefined), ...(of === 'slices' ? [time(row.self, row.self / most)] : []), mean, ...lengths, bars];
    };
    const lengths = ['Mean', 'Min', 'p50', 'p90', 'p99', 'Max', 'Histogram'];
    const heads = {
        slices: ['Count', 'Total', 'Self', ...lengths],
        states: ['Count', 'Total', ...lengths],
        cpu: ['CPU time', 'Of the range', 'Count', ...lengths],
        events: ['Count'],
    }[of];
    const sorted = by.length + (of === 'slices' ? 2 : of === 'states' ? 1 : 0);
    const caption = `${CAPTIONS[of]} by ${by.map(word).join(' and ')}`;
    const section = table(caption, [...by.map((column) => upper(word(column))), ...heads], pivot.rows.map(cells), sorted);
    if (pivot.left_out > 0) section.append(el('p', { class: 'hint' }, `${count(pivot.left_out)} more are left out.`));
    return section;
}

/** A state in words, with its colour. */
export function state(app: Page, letters: string): HTMLElement {
    const swatch = el('span', { class: 'swatch' });
    swatch.style.background = css(stateColor(letters, app.colors));
    return el('span', {}, swatch, ' ', stateName(letters));
}

/** Shows the events of a row in the picture: highlights those with the name, and searches for them. */
function pick(app: Page, row: PivotRow, column: string, text: string): void {
    if (column.startsWith('arg:')) return app.find.pick(null, `${column.slice(4)}=${exactly(text)}`);
    if (column === 'name') return app.find.pick(text, exactly(text));
    if (column === 'state') return app.find.pick(text, null);
    if (row.node !== null) app.setFocus(row.node);
}

/** The numbers of events by duration, from the shortest to the longest, as bars. */
function histogram(row: PivotRow): HTMLElement {
    const most = Math.max(1, ...row.bins);
    const text = row.bins.length === 0 ? `${count(row.count)} of ${duration(row.min)}` : `${count(row.count)} from ${duration(row.min)} to ${duration(row.max)}, on a logarithmic scale`;
    const root = el('span', { class: 'bins', role: 'img', 'aria-label': text, title: text });
    for (const bin of row.bins) {
        const bar = el('span');
        bar.style.height = bin === 0 ? '0' : `${Math.max(8, Math.round((100 * bin) / most))}%`;
        root.append(bar);
    }
    return root;
}
