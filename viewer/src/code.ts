// The tab with the source lines and instructions of a function, each with its share of the samples.

import { el, name } from './dom';
import { percent } from './format';
import type { Code, CodeRequest } from './model';
import type { Page } from './page';

export async function code(app: Page, request: CodeRequest | null): Promise<HTMLElement> {
    const { source, range, trace } = app;
    if (!source.code) return el('p', { class: 'hint' }, 'The code of functions needs their programs: a page that `ferretto view` serves shows it, an exported file does not.');
    if (!request) return el('p', { class: 'hint' }, 'Select a function in the tab “Flamegraph”, then “Code”: its source lines and instructions are shown with their shares of the samples.');
    const within = { from: range?.from ?? 0, to: range?.to ?? trace.end + 1, nodes: app.rangeNodes() };
    const it = await source.code(request, within);
    const shares = `${percent(it.own, it.total)} own, ${percent(it.all, it.total)} with calls`;
    return el('div', {},
        el('h2', { class: 'title' }, name(it.function), el('span', { class: 'faint' }, `${shares}, of the samples of ${range ? 'the range' : 'the trace'}`)),
        el('p', { class: 'hint' }, el('bdi', {}, it.path ?? it.file)),
        ...it.missing.map((sentence) => el('p', { class: 'warn' }, el('bdi', {}, sentence))),
        el('div', { class: 'columns code' }, lines(it), instructions(it)));
}

/** Returns the cells with both shares; empty for none. */
function shares(own: number, all: number, total: number, most: number): HTMLElement[] {
    const cell = (value: number) => {
        const td = el('td', { class: 'number bar' }, value > 0 ? percent(value, total) : '');
        td.style.setProperty('--share', `${Math.round((100 * value) / Math.max(most, 1e-9))}%`);
        return td;
    };
    return [cell(own), cell(all)];
}

function listing(caption: string, heads: string[], rows: HTMLElement[]): HTMLElement | null {
    if (rows.length === 0) return null;
    return el('section', { class: 'table' }, el('h3', {}, caption),
        el('table', {}, el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))), el('tbody', {}, ...rows)));
}

function lines({ lines, total }: Code): HTMLElement | null {
    const most = Math.max(...lines.map(([, , , , all]) => all));
    let last = '';
    const rows = lines.flatMap(([file, line, text, own, all]) => {
        const row = el('tr', {}, ...shares(own, all, total, most), el('td', { class: 'number' }, String(line)), el('td', {}, el('code', {}, text ?? '')));
        if (file === last) return [row];
        last = file;
        return [el('tr', {}, el('th', { colspan: 4, scope: 'rowgroup' }, el('bdi', {}, file))), row];
    });
    return listing('Source', ['Own', 'With calls', 'Line', 'Text'], rows);
}

function instructions({ instructions, total }: Code): HTMLElement | null {
    const most = Math.max(...instructions.map(([, , , all]) => all));
    const rows = instructions.map(([address, text, own, all, line]) =>
        el('tr', {}, ...shares(own, all, total, most), el('td', { class: 'number' }, address), el('td', {}, el('code', {}, text)), el('td', {}, el('bdi', { class: 'faint' }, line ?? ''))));
    return listing('Instructions', ['Own', 'With calls', 'Address', 'Instruction', 'Line'], rows);
}
