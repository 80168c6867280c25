// The tab with the kept charts, which run their queries over each trace.

import { type Chart, drawChart, type Look } from './chart';
import { el } from './dom';
import { text } from './format';
import type { Page } from './page';
import { readRows, type Rows } from './rows';

/** The least width of a chart beside another. */
const LEAST = 440;
const MOST = 720;

export class ChartsTab {
    readonly root = el('div', { class: 'charts' });
    /** The result of each query. */
    private results = new Map<string, Promise<Rows>>();
    private generation = -1;
    private width = 0;

    constructor(private app: Page) {
        new ResizeObserver(() => {
            if (this.root.isConnected && this.root.clientWidth !== this.width) this.update();
        }).observe(this.root);
    }

    /** Draws all charts. Queries run once. */
    update(): void {
        const { app } = this;
        const { charts } = app.marks;
        this.width = this.root.clientWidth;
        if (this.generation !== app.trace.generation) this.results.clear();
        this.generation = app.trace.generation;
        if (charts.length === 0) {
            this.root.replaceChildren(el('p', { class: 'hint' }, 'No charts are kept. Run a query in the tab “SQL”, then choose “Chart…” and “Keep”. Charts are part of the address, and of a saved state.'));
            return;
        }
        if (!app.source.sql || app.trace.sql !== true) {
            this.root.replaceChildren(el('p', { class: 'hint' }, 'Charts run queries. The tab “SQL” says what they need.'));
            return;
        }
        this.root.replaceChildren(...charts.map((chart, at) => this.figure(chart, at)));
    }

    /** Returns the look of a chart beside others. */
    look(): Look {
        const { app } = this;
        const whole = (this.root.clientWidth || 900) - 24;
        const columns = Math.max(1, Math.min(app.marks.charts.length, Math.floor(whole / LEAST)));
        return lookOf(app, Math.min(MOST, Math.floor(whole / columns) - 26));
    }

    private figure(chart: Chart, at: number): HTMLElement {
        const { app } = this;
        const { charts } = app.marks;
        const body = el('div', {}, el('p', { class: 'hint' }, 'Running…'));
        const change = (act: () => void) => () => {
            act();
            app.changed();
            this.update();
        };
        const swap = (other: number) => change(() => ([charts[at], charts[other]] = [charts[other], charts[at]]));
        const button = (label: string, icon: string, act: () => void, disabled = false) => el('button', { title: label, 'aria-label': `${label}: ${chart.title}`, click: act, disabled }, icon);
        let result = this.results.get(chart.sql);
        if (!result) {
            result = app.source.sql!(chart.sql).then(readRows);
            this.results.set(chart.sql, result);
        }
        const drawn = result.then((rows) => {
            if (rows.error !== null) throw new Error(rows.error);
            body.replaceChildren(drawChart(chart, rows, this.look()));
        }).catch((error) => body.replaceChildren(el('p', { class: 'warn' }, text(error))));
        void app.task(drawn, () => undefined);
        return el('figure', {},
            el('figcaption', {},
                el('bdi', { class: 'what' }, chart.title), el('span', { class: 'grow' }),
                button('Edit the query', 'SQL', () => {
                    app.panel.sql = chart.sql;
                    app.panel.open('sql');
                }),
                button('Move to the front', '‹', swap(at - 1), at === 0),
                button('Move to the back', '›', swap(at + 1), at === charts.length - 1),
                button('Remove', '✕', change(() => charts.splice(at, 1)))),
            body);
    }
}

/** Returns the look of a chart of a width. */
export function lookOf({ settings, trace, colors }: Page, width: number): Look {
    return { width, dark: colors.dark, scheme: settings.colors, start: trace.start };
}
