// The tab with statistics of the selected range.

import { el, name, table, type Cell } from './dom';
import { count, duration, instant, quantity } from './format';
import type { CounterSum, PivotOf } from './model';
import { kernelTables } from './kernels';
import { memoryTable } from './memory';
import type { Page } from './page';
import { pivotTable } from './pivottable';

export async function summary(app: Page): Promise<HTMLElement> {
    const { range } = app;
    if (!range) {
        return el('p', { class: 'hint' },
            'Drag across the picture, or on the ruler for all rows, to summarize a time range. ',
            'Without a mouse: ', el('kbd', {}, 'V'), ' selects the visible time, ', el('kbd', {}, 'R'), ' that of the row, ', el('kbd', {}, 'M'), ' the time of the selected event.');
    }
    const { from, to } = range;
    const of = { from, to, nodes: app.rangeNodes() };
    const kinds: PivotOf[] = ['slices', 'cpu', 'states', 'events'];
    const [sums, ...tables] = await Promise.all([app.source.summary(of), ...kinds.map((kind) => pivotTable(app, kind, of))]);
    const parts = tables.filter((part) => part !== null).map(({ root }) => root);
    const kernels = await kernelTables(app, of, tables[0]?.args ?? []);
    if (kernels) parts.unshift(...kernels);
    const { counters, flows } = sums;
    const memory = memoryTable(app, counters);
    if (memory) parts.push(memory);
    if (counters.length > 0) parts.push(counterTable(app, counters));
    if (flows.length > 0) {
        const words = { in: 'into the selection', out: 'out of it', within: 'within it' };
        parts.push(table('Flows', ['From', 'To', 'Direction', 'Count', 'Mean delay'], flows.map((row): Cell[] => [
            { text: name(row.from), key: row.from },
            { text: name(row.to), key: row.to },
            { text: words[row.direction], key: row.direction },
            { text: count(row.count), key: row.count },
            { text: duration(row.mean), key: row.mean },
        ]), 3));
    }
    const span = to - from;
    return el('div', {},
        el('div', { class: 'head' },
            el('h2', { class: 'title' }, duration(span), el('span', { class: 'faint' }, `${instant(from)} – ${instant(to)}`)),
            el('div', { class: 'buttons' },
                el('button', { title: 'F', click: () => { app.selected = null; app.fit(); } }, 'Zoom to range'),
                app.trace.profiles.length > 0 && el('button', { click: () => app.panel.open('flame') }, 'Flamegraph'),
                el('button', { title: 'B', click: () => app.panel.setBaseline() }, 'Keep to compare'),
                el('button', { title: 'I', click: () => app.run('note') }, 'Add a note'))),
        sums.left_out > 0 ? el('p', { class: 'hint' }, `${count(sums.left_out)} more are left out.`) : null,
        parts.length > 0
            ? el('div', { class: 'columns' }, ...parts)
            : el('p', { class: 'hint' }, 'No events on these rows in this time range. A range of other rows, or ', el('kbd', {}, 'V'), ' for all, may have some.'));
}

/** Cumulative counters have a rate, others their extremes. */
function counterTable(app: Page, counters: CounterSum[]): HTMLElement {
    const value = (number: number | null, unit: string): Cell => ({ text: number === null ? '' : quantity(number, unit), key: number ?? -Infinity });
    const some = (has: (row: CounterSum) => boolean) => counters.some(has);
    const owned = some((row) => !!row.process);
    const rates = some((row) => row.rate !== null);
    return table('Counters', ['Counter', ...(owned ? ['Process'] : []), ...(rates ? ['Per second'] : []), 'Least', 'Mean', 'Most', 'Last'], counters.map((row) => [
        { text: name(row.name), key: row.name, act: () => app.setFocus(row.node) },
        ...(owned ? [{ text: name(row.process ?? '', ''), key: row.process ?? '' }] : []),
        ...(rates ? [value(row.rate, row.unit)] : []),
        ...[row.min, row.mean, row.max, row.last].map((number) => value(number, row.unit)),
    ]), 0);
}
