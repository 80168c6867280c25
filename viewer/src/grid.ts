// A table of many rows, of which only the visible ones have elements.

import { el } from './dom';
import { count, duration } from './format';
import { matcher } from './match';
import { CellKind, filtered, type Rows, separated, sort } from './rows';

/** Browsers bound the height of elements. Rows beyond it are reached with proportional steps. */
const MAX_HEIGHT = 8_000_000;
/** The number of rows whose cells decide the width of columns. */
const MEASURED = 300;
const MAX_LETTERS = 60;

export class Grid {
    readonly root = el('div', { class: 'gridbox', tabindex: 0, role: 'grid', 'aria-label': 'Result' });
    private head = el('div', { class: 'gridhead', role: 'row' });
    private space = el('div', { class: 'gridspace' });
    private pool: HTMLElement[] = [];
    private rows: Rows | null = null;
    private order = new Uint32Array(0);
    private current = -1;
    private sorted: { column: number; down: boolean } | null = null;
    private wanted = '';
    private line = 20;

    /** `link` returns the action of a row that is a link into the picture. */
    constructor(private link: (rows: Rows, row: number) => (() => void) | null, private say: (text: string) => void) {
        this.root.append(this.head, this.space);
        this.root.addEventListener('scroll', () => this.draw());
        new ResizeObserver(() => this.draw()).observe(this.root);
        this.root.addEventListener('keydown', (event) => this.typed(event));
        this.space.addEventListener('click', (event) => {
            const line = (event.target as Element).closest<HTMLElement>('.gridrow');
            if (!line) return;
            this.current = Number(line.dataset.at);
            if ((event.target as Element).closest('.link')) this.open();
            this.draw();
        });
        this.space.addEventListener('dblclick', () => this.open());
    }

    get shown(): number {
        return this.order.length;
    }

    show(rows: Rows | null): void {
        this.rows = rows;
        this.sorted = null;
        this.current = -1;
        this.wanted = '';
        this.arrange();
        this.root.scrollTop = this.root.scrollLeft = 0;
        if (!rows) return;
        const size = getComputedStyle(document.body).fontSize;
        this.line = Math.round(parseFloat(size) * 1.55);
        const widths = rows.columns.map((name, column) => {
            let letters = name.length + 2;
            for (let row = 0; row < Math.min(rows.length, MEASURED); row++) letters = Math.max(letters, rows.text(row, column, 'null').length);
            return Math.min(letters, MAX_LETTERS) + 2;
        });
        const own = `${String(rows.length).length + 2}ch`;
        this.root.style.setProperty('--columns', [own, ...widths.map((letters) => `${letters}ch`)].join(' '));
        this.heads();
        this.draw();
    }

    filter(text: string): void {
        this.wanted = text.trim();
        this.current = -1;
        this.arrange();
        this.draw();
    }

    /** Returns the shown rows, with a heading. */
    text(separator: ',' | '\t'): string {
        return this.rows ? separated(this.rows, this.order, separator) : '';
    }

    private arrange(): void {
        const { rows, sorted, wanted } = this;
        if (!rows) this.order = new Uint32Array(0);
        else if (wanted) {
            try {
                this.order = filtered(rows, matcher(wanted));
            } catch (error) {
                this.say(`This is no regular expression: ${wanted}`);
            }
        } else this.order = Uint32Array.from({ length: rows.length }, (_, i) => i);
        if (rows && sorted) sort(rows, this.order, sorted.column, sorted.down);
        this.root.setAttribute('aria-rowcount', String(this.order.length + 1));
    }

    private heads(): void {
        const { rows, sorted } = this;
        if (!rows) return;
        const head = (name: string, column: number) => {
            const by = sorted?.column === column ? sorted : null;
            const turn = () => {
                this.sorted = !by ? { column, down: false } : by.down ? null : { column, down: true };
                this.arrange();
                this.heads();
                this.draw();
            };
            return el('div', { role: 'columnheader', 'aria-sort': by ? (by.down ? 'descending' : 'ascending') : 'none' }, el('button', { click: turn, title: name }, el('bdi', {}, name)));
        };
        this.head.replaceChildren(el('div', { role: 'columnheader', class: 'faint' }, '#'), ...rows.columns.map(head));
    }

    private get height(): number {
        return Math.min(this.order.length * this.line, MAX_HEIGHT);
    }

    private get room(): number {
        return Math.max(this.line, this.root.clientHeight - this.head.offsetHeight);
    }

    /** Returns the first visible row, with the part of it that is above. */
    private get first(): number {
        const most = this.height - this.room;
        return most <= 0 ? 0 : (Math.min(this.root.scrollTop, most) / most) * (this.order.length - this.room / this.line);
    }

    draw(): void {
        const { rows, order, line } = this;
        this.space.style.height = `${this.height}px`;
        const visible = rows ? Math.min(order.length, Math.ceil(this.room / line) + 1) : 0;
        const { first } = this;
        const begin = Math.min(Math.floor(first), Math.max(0, order.length - visible));
        while (this.pool.length < visible) {
            const element = el('div', { class: 'gridrow', role: 'row' });
            this.pool.push(element);
            this.space.append(element);
        }
        const top = Math.min(this.root.scrollTop, Math.max(0, this.height - this.room)) - (first - begin) * line;
        this.pool.forEach((element, i) => {
            element.hidden = i >= visible;
            if (i >= visible || !rows) return;
            const at = begin + i;
            const row = order[at];
            element.style.top = `${top + i * line}px`;
            element.style.height = `${line}px`;
            element.dataset.at = String(at);
            element.setAttribute('aria-rowindex', String(at + 2));
            element.setAttribute('aria-selected', String(at === this.current));
            const isLink = this.link(rows, row) !== null;
            const ts = rows.column('ts', 'start', 'time');
            element.replaceChildren(
                el('div', { role: 'rowheader', class: 'number faint' }, count(at + 1)),
                ...rows.columns.map((name, column) => {
                    const kind = rows.kind(row, column);
                    const text = rows.text(row, column, 'null');
                    const isNumber = kind === CellKind.Int || kind === CellKind.Real || kind === CellKind.Big;
                    const hint = isNumber && /(^|_)dur(ation)?(_ns)?$/.test(name) ? duration(rows.number(row, column)) : text;
                    const content = isLink && column === ts ? el('span', { class: 'link' }, text) : el('bdi', {}, text);
                    return el('div', { role: 'gridcell', class: isNumber ? 'number' : kind === CellKind.Null || kind === CellKind.Blob ? 'faint' : '', title: hint }, content);
                }),
            );
        });
    }

    private open(): void {
        if (!this.rows || this.current < 0) return;
        this.link(this.rows, this.order[this.current])?.();
    }

    private typed(event: KeyboardEvent): void {
        const { rows, order } = this;
        if (!rows) return;
        const page = Math.max(1, Math.floor(this.room / this.line) - 1);
        const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
        if ((event.ctrlKey || event.metaKey) && event.key === 'c' && !String(getSelection())) {
            const lines = this.current >= 0 ? separated(rows, [order[this.current]], '\t').split('\n')[1] : this.text('\t');
            void copy(lines, this.say);
        } else if (event.ctrlKey || event.metaKey || event.altKey) return;
        else if (event.key === 'Enter' && event.target === this.root) this.open();
        else if (event.key in by && order.length > 0) {
            this.current = Math.max(0, Math.min(order.length - 1, this.current + by[event.key]));
            this.reveal();
        } else return;
        event.preventDefault();
        event.stopPropagation();
    }

    private reveal(): void {
        const rows = this.room / this.line;
        const { first, current } = this;
        const wanted = current < first ? current : current + 1 > first + rows ? current + 1 - rows : first;
        const most = this.order.length - rows;
        this.root.scrollTop = most <= 0 ? 0 : (wanted / most) * (this.height - this.room);
        this.draw();
    }
}

/** Copies a text, and says so. */
export async function copy(text: string, say: (text: string) => void): Promise<void> {
    try {
        await navigator.clipboard.writeText(text);
        say(`Copied ${count(text.split('\n').filter(Boolean).length)} lines`);
    } catch {
        say('The browser does not let this page copy');
    }
}

/** Saves a text or another content as a file. */
export function save(content: string | Blob, name: string, kind: string): void {
    const url = URL.createObjectURL(new Blob([content], { type: kind }));
    el('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
