// The tab with statistics of the selected range.

import { stateName } from './colors';
import { el, name, table, type Cell } from './dom';
import { count, duration, instant, percent, quantity } from './format';
import type { Page } from './page';

const time = (value: number, share?: number): Cell =>
    share === undefined ? { text: duration(value), key: value } : { text: duration(value), key: value, share };

export async function summary(app: Page): Promise<HTMLElement> {
    const { range } = app;
    if (!range) {
        return el('p', { class: 'hint' },
            'Drag across the picture, or on the ruler for all rows, to summarize a time range. ',
            'Without a mouse: ', el('kbd', {}, 'V'), ' selects the visible time, ', el('kbd', {}, 'M'), ' the time of the selected event.');
    }
    const { from, to } = range;
    const sums = await app.source.summary({ from, to, nodes: app.rangeNodes() });
    const span = to - from;
    const parts: HTMLElement[] = [];
    const { names, threads, states, counters } = sums;
    if (names.length > 0) {
        const most = Math.max(...names.map((row) => row.self), 1);
        parts.push(table('Slices by name', ['Name', 'Count', 'Total', 'Self', 'Mean', 'Longest'],
            names.map((row) => [
                { text: name(row.name), key: row.name, act: () => find(app, row.name) },
                { text: count(row.count), key: row.count },
                time(row.total),
                time(row.self, row.self / most),
                time(row.total / Math.max(1, row.count)),
                time(row.max),
            ]), 3));
    }
    if (threads.length > 0) {
        const most = Math.max(...threads.map((row) => row.cpu), 1);
        parts.push(table('CPU time by thread', ['Thread', 'CPU time', 'Of the range'], threads.map((row) => [
            { text: name(row.name), key: row.name, act: () => app.setFocus(row.node) },
            time(row.cpu, row.cpu / most),
            { text: percent(row.cpu, span), key: row.cpu },
        ]), 1));
    }
    if (states.length > 0) {
        parts.push(table('States of threads', ['State', 'Count', 'Total'], states.map((row) => [
            { text: stateName(row.name), key: row.name },
            { text: count(row.count), key: row.count },
            time(row.total),
        ]), 2));
    }
    if (counters.length > 0) {
        parts.push(table('Counters', ['Counter', 'Least', 'Mean', 'Most', 'Last'], counters.map((row) => [
            { text: name(row.name), key: row.name, act: () => app.setFocus(row.node) },
            ...[row.min, row.mean, row.max, row.last].map((value) => ({ text: quantity(value, row.unit), key: value })),
        ]), 3));
    }
    return el('div', {},
        el('h2', { class: 'title' }, duration(span), el('span', { class: 'faint' }, `${instant(from)} – ${instant(to)}`)),
        el('div', { class: 'buttons' },
            el('button', { title: 'F', click: () => { app.selected = null; app.fit(); } }, 'Zoom to range'),
            app.trace.profiles.length > 0 && el('button', { click: () => app.panel.open('flame') }, 'Flamegraph'),
            el('button', { title: 'B', click: () => app.panel.setBaseline() }, 'Keep to compare')),
        sums.left_out > 0 ? el('p', { class: 'hint' }, `${count(sums.left_out)} more names are left out.`) : null,
        parts.length > 0
            ? el('div', { class: 'columns' }, ...parts)
            : el('p', { class: 'hint' }, 'No events on these rows in this time range.'));
}

function find(app: Page, text: string): void {
    const query = document.getElementById('query') as HTMLInputElement;
    query.value = text;
    app.search(text);
}
