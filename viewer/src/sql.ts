// The tab with SQL: an editor, the result, and what can be done with it.

import { chartForm } from './chartform';
import { lookOf } from './charts';
import { Catalog, CATALOG, Editor } from './complete';
import { el } from './dom';
import { Explorer } from './explore';
import { count, duration, text } from './format';
import { copy, Grid, save } from './grid';
import type { Page } from './page';
import { addQuery, allQueries, queries } from './queries';
import { CellKind, readRows, type Rows } from './rows';
import { trackForm } from './trackform';

const EXAMPLE = 'SELECT name, count() AS count, sum(dur) AS dur FROM slice GROUP BY name ORDER BY dur DESC';

export class SqlTab {
    readonly root = el('div', { class: 'sql' });
    private editor: Editor;
    private grid: Grid;
    private catalog = new Catalog(null);
    private hasCatalog = false;
    private rows: Rows | null = null;
    /** The SQL of the result. */
    private ran = '';
    private start = el('button', { class: 'run', title: 'Ctrl+Enter', click: () => this.run() }, 'Run');
    private stop = el('button', { hidden: true, click: () => void this.app.source.stop?.() }, 'Stop');
    private history = el('select', { 'aria-label': 'Earlier queries', title: 'Earlier queries' });
    private find = el('input', { type: 'search', placeholder: 'Filter rows; /regex/', 'aria-label': 'Filter rows', spellcheck: 'false', autocomplete: 'off' });
    private said = el('span', { class: 'faint', role: 'status' });
    private error = el('pre', { class: 'warn sqlerror', hidden: true });
    private drawn = el('div', { class: 'controls', hidden: true });
    private form = el('div', { class: 'trackform', hidden: true });
    private explorer = new Explorer(() => this.catalog, (sql) => (this.text = sql), () => this.run());
    private actions: HTMLElement;

    constructor(private app: Page) {
        this.editor = new Editor(() => this.catalog, () => this.run());
        this.grid = new Grid((rows, row) => this.link(rows, row), (text) => app.say(text));
        this.editor.area.placeholder = EXAMPLE;
        this.editor.area.addEventListener('change', () => app.invalidate());
        this.actions = el('span', { class: 'buttons' },
            this.find,
            el('button', { click: () => void this.copy() }, 'Copy'),
            el('button', { click: () => save(this.grid.text(','), 'query.csv', 'text/csv') }, 'CSV'),
            el('button', { click: () => this.offer('chart'), title: 'Draw the rows as bars, lines, points or a histogram' }, 'Chart…'),
            el('button', { click: () => this.offer('tracks'), title: 'Draw the rows in the picture' }, 'Draw as tracks…'));
        this.actions.hidden = true;
        this.find.addEventListener('input', () => {
            this.grid.filter(this.find.value);
            this.describe();
        });
        this.history.addEventListener('change', () => {
            if (this.history.value) this.text = this.history.value;
            this.history.selectedIndex = 0;
            this.editor.area.focus();
        });
        this.root.append(
            this.editor.root, this.explorer.root,
            el('div', { class: 'controls' }, this.start, this.stop,
                el('button', { click: () => this.explorer.toggle(), title: 'Choose a table, conditions and groups' }, 'Build…'),
                this.history, this.said, el('span', { class: 'grow' }), this.actions),
            this.form, this.drawn, this.error, this.grid.root);
        this.grid.root.hidden = true;
        this.fillHistory(queries());
    }

    get text(): string {
        return this.editor.area.value;
    }

    set text(sql: string) {
        this.editor.area.value = sql;
        this.app.invalidate();
    }

    /** Shows the tab, and asks once for the names to complete. */
    update(): void {
        const { app } = this;
        if (!app.source.sql || app.trace.sql !== true) return this.explain();
        this.grid.draw();
        this.drawn.hidden = app.tracks.length === 0;
        this.drawn.replaceChildren('In the picture: ', ...app.tracks.map((track) =>
            el('button', { title: `Remove ${track.title} from the picture`, click: () => app.removeTrack(track) }, el('bdi', {}, track.title), ' ✕')));
        if (!this.hasCatalog) {
            this.hasCatalog = true;
            void this.learn();
            void allQueries().then((all) => this.fillHistory(all));
        }
    }

    /** Says how to get SQL. */
    private explain(): void {
        const isServed = this.app.trace.sql === false;
        this.root.className = '';
        this.root.replaceChildren(
            el('p', { class: 'hint' }, isServed
                ? 'SQL needs the program ferretto-query in the folder of ferretto or in $PATH, and a trace in a file. Install it with `cargo install --path query` in Ferretto’s sources, and start `ferretto view` again.'
                : 'An exported file has no SQL. `ferretto view` with the trace has it in this tab, and the program ferretto-query in a terminal:'),
            el('pre', {}, isServed ? 'cargo install --path query' : `ferretto view ${this.app.trace.name || 'trace.pftrace'}\nferretto query ${this.app.trace.name || 'trace.pftrace'} "${EXAMPLE}"`));
    }

    private async learn(): Promise<void> {
        await this.app.task(this.app.source.sql!(CATALOG), (reply) => (this.catalog = new Catalog(readRows(reply))));
    }

    run(): void {
        const { app } = this;
        const sql = this.text.trim();
        if (!sql || !this.stop.hidden || !app.source.sql) return;
        this.busy(true);
        const begin = performance.now();
        const done = app.source.sql(sql).then(readRows).then(
            (rows) => this.show(sql, rows, performance.now() - begin),
            (error) => this.fail(text(error)),
        ).finally(() => this.busy(false));
        void app.task(done, () => app.invalidate());
        void addQuery(sql).then((all) => this.fillHistory(all));
    }

    private busy(isBusy: boolean): void {
        this.start.disabled = isBusy;
        this.stop.hidden = !isBusy;
        if (isBusy) this.said.textContent = 'Running…';
    }

    private show(sql: string, rows: Rows, ms: number): void {
        this.form.hidden = true;
        if (rows.error !== null) return this.fail(rows.error);
        this.rows = rows;
        this.ran = sql;
        this.error.hidden = true;
        this.find.value = '';
        const isEmpty = rows.columns.length === 0;
        this.actions.hidden = this.grid.root.hidden = isEmpty;
        this.grid.show(isEmpty ? null : rows);
        this.describe(ms);
        if (/\b(include|create|drop)\b/i.test(sql)) void this.learn();
    }

    private describe(ms?: number): void {
        const { rows } = this;
        if (!rows) return;
        const all = rows.columns.length === 0 ? 'Done' : `${count(rows.length)} ${rows.length === 1 ? 'row' : 'rows'}`;
        const shown = this.find.value.trim() ? `${count(this.grid.shown)} of ` : '';
        const time = ms === undefined ? '' : `, ${duration(Math.round(ms * 1e3) * 1e3)}`;
        this.said.textContent = `${shown}${all}${time}${rows.isCut ? '; further rows are left out: use LIMIT or fewer columns' : ''}`;
    }

    private fail(message: string): void {
        this.rows = null;
        this.actions.hidden = this.grid.root.hidden = true;
        this.said.textContent = '';
        const place = /--> line (\d+), column (\d+)/.exec(message);
        const [line, column] = place ? [Number(place[1]), Number(place[2])] : [0, 0];
        this.error.hidden = false;
        this.error.setAttribute('role', 'alert');
        this.error.replaceChildren(message, place ? '\n' : '', place ? el('button', { class: 'link', click: () => this.editor.mark(line, column) }, `Go to line ${line}, column ${column}`) : '');
        if (place && this.root.contains(document.activeElement)) this.editor.mark(line, column);
    }

    private copy(): Promise<void> {
        return copy(this.grid.text('\t'), (text) => this.app.say(text));
    }

    /** Returns the action that shows a row in the picture; null if it has no time. */
    private link(rows: Rows, row: number): (() => void) | null {
        const ts = rows.column('ts', 'start', 'time');
        if (ts < 0 || ![CellKind.Int, CellKind.Big].includes(rows.kind(row, ts) as 2)) return null;
        return () => {
            const { app } = this;
            const start = rows.time(row, ts, app.trace.start);
            const length = rows.column('dur');
            const dur = Math.max(0, length < 0 ? 0 : rows.number(row, length) || 0);
            const query = new URLSearchParams({ ts: rows.text(row, ts) });
            const add = (name: string, ...columns: string[]) => {
                const column = rows.column(...columns);
                if (column >= 0 && rows.kind(row, column) === CellKind.Int) query.set(name, rows.text(row, column));
            };
            add('dur', 'dur');
            add('id', 'id', 'slice_id');
            add('track', 'track_id');
            add('utid', 'utid');
            add('ucpu', 'ucpu', 'cpu');
            void app.task(app.source.locate!(query), (ref) => {
                if (ref) return app.select(ref);
                app.setRange({ from: start, to: Math.max(start + dur, start + 1), boxes: null }, false);
                app.axis.reveal(start, dur);
                app.say('The row is no event of the picture; its time is marked');
            });
        };
    }

    /** Opens or closes the form of tracks or of a chart. */
    private offer(what: 'tracks' | 'chart'): void {
        const isOpen = !this.form.hidden && this.form.dataset.of === what;
        this.form.hidden = isOpen || !this.rows;
        this.form.dataset.of = what;
        if (this.form.hidden || !this.rows) return;
        const { app, ran } = this;
        const tracks = (rows: Rows) => trackForm(rows, (track) => {
            this.form.hidden = true;
            app.addTrack({ ...track, sql: ran });
        });
        const chart = (rows: Rows) => chartForm(rows, ran, () => lookOf(app, Math.min(760, this.root.clientWidth - 28)), (chart) => {
            app.marks.addChart(chart);
            app.changed();
            app.panel.open('charts');
        });
        this.form.replaceChildren(what === 'tracks' ? tracks(this.rows) : chart(this.rows));
        this.form.querySelector<HTMLElement>('input, select')?.focus();
    }

    // ---- history

    private fillHistory(entries: string[]): void {
        const shorten = (sql: string) => (sql.length > 80 ? `${sql.slice(0, 79)}…` : sql).replace(/\s+/g, ' ');
        this.history.replaceChildren(el('option', { value: '' }, 'History'), ...entries.map((sql) => el('option', { value: sql }, shorten(sql))));
        this.history.disabled = entries.length === 0;
    }
}
