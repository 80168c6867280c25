// The tab with facts about the trace, and its missing data.

import { contents, legend } from './about';
import { el } from './dom';
import { clock, count, date, duration, instant } from './format';
import type { Page } from './page';

export function facts(app: Page): HTMLElement {
    const { trace } = app;
    const rows: [string, string][] = [
        ['Name', trace.name],
        ['Length', duration(trace.end)],
        ['Rows', count(trace.nodes.length)],
        ['Events', count(trace.nodes.rows.reduce((sum, rows) => sum + rows, 0))],
    ];
    if (trace.wall !== null) rows.push(['Began', `${date(trace.wall)} ${clock(trace.wall, 1e6)}`]);
    rows.push(...trace.facts, ['Drawn with', app.scene.backend]);
    const list = (items: [string, string][]) =>
        el('dl', {}, ...items.flatMap(([key, value]) => [el('dt', {}, el('bdi', {}, key)), el('dd', {}, el('bdi', {}, value))]));
    return el('div', { class: 'columns' },
        el('section', {}, el('h3', {}, 'Recording'), contents(app)),
        el('section', {}, el('h3', {}, 'Trace'), list(rows)),
        el('section', {}, el('h3', {}, 'Missing data'),
            trace.losses.length + trace.remarks.length === 0
                ? el('p', {}, 'The trace reports no missing data.')
                : el('ul', { class: 'refs' },
                    ...trace.remarks.map((remark) => el('li', {}, remark)),
                    ...trace.losses.slice(0, 200).map((loss) => el('li', {},
                        el('button', { class: 'link', click: () => { app.axis.reveal(loss.start, loss.dur); app.invalidate(); } }, instant(loss.start)),
                        ' ', el('span', { class: 'warn' }, loss.text))))),
        el('section', {}, el('h3', {}, 'Colours'), legend(app.colors)));
}
