// The tab with the matches of a search.

import { el, name } from './dom';
import { count, duration, instant } from './format';
import { title } from './labels';
import type { Page } from './page';

const SHOWN = 300;

export function found(app: Page): HTMLElement {
    const { found: it } = app.find;
    if (!app.find.query) {
        return el('p', { class: 'hint' }, 'Search for a part of a name or of an argument’s value (', el('kbd', {}, '/'),
            '). Matches are marked above the ruler; ', el('kbd', {}, 'N'), ' goes to the next one.');
    }
    if (!it) return el('p', { class: 'hint' }, 'Searching…');
    const { nodes } = app.trace;
    const line = (at: number) => {
        const row = it.rows[at];
        return el('tr', { 'aria-current': at === app.find.hit ? 'true' : undefined },
            el('td', { class: 'number' }, count(at + 1)),
            el('td', { class: 'name' }, el('button', { class: 'link', click: () => app.find.go(at) }, name(row.name))),
            el('td', { class: 'number' }, instant(row.start)),
            el('td', { class: 'number' }, row.dur > 0 ? duration(row.dur) : ''),
            el('td', { class: 'name' }, name(title(nodes, row.node))));
    };
    const lines = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => line(from + i));
    // The matches around the selected one.
    let first = Math.max(0, Math.min(app.find.hit - SHOWN / 2, it.rows.length - SHOWN));
    let behind = Math.min(first + SHOWN, it.rows.length);
    const body = el('tbody', {}, ...lines(first, behind));
    const earlier = el('button', { class: 'more', hidden: first === 0 }, 'Show earlier ones');
    const later = el('button', { class: 'more', hidden: behind === it.rows.length }, 'Show more');
    earlier.addEventListener('click', () => {
        const from = Math.max(0, first - SHOWN);
        body.prepend(...lines(from, first));
        first = from;
        earlier.hidden = first === 0;
    });
    later.addEventListener('click', () => {
        const to = Math.min(behind + SHOWN, it.rows.length);
        body.append(...lines(behind, to));
        behind = to;
        later.hidden = behind === it.rows.length;
    });
    const head = (text: string, number = false) => el('th', { scope: 'col', class: number ? 'number' : '' }, el('span', { class: 'heading' }, text));
    return el('div', {},
        el('h2', { class: 'title' }, `${count(it.total)} ${it.total === 1 ? 'match' : 'matches'}`, el('span', { class: 'faint' }, name(app.find.query))),
        it.total > it.rows.length ? el('p', { class: 'hint' }, `The first ${count(it.rows.length)} are listed; use a longer search text to narrow the matches.`) : null,
        it.nodes.length > 0
            ? el('section', {}, el('h3', {}, 'Tracks'), el('ul', { class: 'refs' }, ...it.nodes.slice(0, 50).filter((node) => node < nodes.length).map((node) =>
                el('li', {}, el('button', { class: 'link', click: () => app.setFocus(node) }, name(title(nodes, node)))))))
            : null,
        it.rows.length > 0
            ? el('div', {}, earlier,
                el('table', {}, el('thead', {}, el('tr', {}, head('#', true), head('Name'), head('Start', true), head('Duration', true), head('Track'))), body),
                later)
            : it.nodes.length === 0 ? el('p', { class: 'hint' }, 'No name or argument contains this text.') : null);
}
