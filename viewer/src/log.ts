// The tab with a list of messages and kernel events of a range.

import { argumentList } from './disks';
import { el, name } from './dom';
import { count, instant } from './format';
import { Kind, type Line } from './model';
import type { Page } from './page';

const PAGE = 500;

export async function log(app: Page): Promise<HTMLElement> {
    const { nodes } = app.trace;
    if (!nodes.kind.includes(Kind.Log)) {
        return el('p', { class: 'hint' }, 'This trace has no messages and no kernel events to list. Programs write messages with the SDK; ', el('code', {}, 'ferretto record'), ' records kernel events.');
    }
    const { range } = app;
    let window = range
        ? { from: range.from, to: range.to, nodes: app.rangeNodes() }
        : { from: 0, to: app.trace.end + 1, nodes: null };
    let { total, rows } = await app.source.list(window, 0, PAGE);
    // If no line is on the rows of a box, its time range applies to all rows.
    if (total === 0 && window.nodes) {
        window = { ...window, nodes: null };
        ({ total, rows } = await app.source.list(window, 0, PAGE));
    }
    const body = el('tbody');
    const add = (lines: Line[]) => body.append(...lines.map((line) => row(app, line)));
    add(rows);
    let shown = rows.length;
    const more = el('button', { class: 'more' }, 'Show more');
    more.hidden = shown >= total;
    more.addEventListener('click', () =>
        void app.task(app.source.list(window, shown, PAGE), (next) => {
            add(next.rows);
            shown += next.rows.length;
            more.hidden = shown >= total || next.rows.length === 0;
        }));
    if (total === 0) return el('p', { class: 'hint' }, 'No lines in this time range. ', el('kbd', {}, 'Esc'), ' clears the range and lists all.');
    return el('div', {},
        el('h2', { class: 'title' }, `${count(total)} ${total === 1 ? 'line' : 'lines'}`, el('span', { class: 'faint' }, range ? 'of the range' : 'of the whole trace')),
        el('table', { class: 'lines' },
            el('thead', {}, el('tr', {}, ...['Time', 'Level', 'Thread', 'Name', 'Text'].map((head) =>
                el('th', { scope: 'col' }, el('span', { class: 'heading' }, head))))),
            body),
        more);
}

function row(app: Page, line: Line): HTMLElement {
    const thread = line.thread;
    return el('tr', {},
        el('td', { class: 'number' }, el('button', {
            class: 'link',
            click: () => app.select({ node: line.node, id: line.id, start: line.start, dur: 0, depth: 0, name: line.name }),
        }, instant(line.start))),
        el('td', {}, line.level ?? ''),
        el('td', {}, thread ? name(thread[0]) : ''),
        el('td', {}, name(line.name, '')),
        el('td', { class: 'text' }, el('bdi', {}, argumentList(app.trace, line.text ?? ''))));
}
