// The form that writes a query: a table, conditions, groups and their amount.

import type { Catalog } from './complete';
import { el } from './dom';

const OPERATORS: Record<string, string> = {
    '=': '=', '<>': '≠', '<': '<', '<=': '≤', '>': '>', '>=': '≥', contains: 'contains', glob: 'matches (*, ?)', null: 'has no value', some: 'has a value',
};

const AMOUNTS: Record<string, string> = { count: 'number of rows', sum: 'sum of', avg: 'mean of', min: 'least', max: 'greatest' };

export interface Condition {
    column: string;
    operator: string;
    value: string;
}

export interface Query {
    table: string;
    conditions: Condition[];
    groups: string[];
    amount: string;
    /** The column of the amount. */
    of: string;
    limit: number;
}

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
const identifier = (name: string) => (/^[a-z_]\w*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

function literal(value: string): string {
    const text = value.trim();
    if (/^'.*'$/s.test(text) && text.length > 1) return quoted(text.slice(1, -1).replaceAll("''", "'"));
    return /^-?\d+(\.\d+)?(e[-+]?\d+)?$/i.test(text) ? text : quoted(text);
}

function condition({ column, operator, value }: Condition): string {
    const of = identifier(column);
    switch (operator) {
        case 'null':
            return `${of} IS NULL`;
        case 'some':
            return `${of} IS NOT NULL`;
        case 'contains':
            return `${of} LIKE ${quoted(`%${value.replace(/[\\%_]/g, '\\$&')}%`)} ESCAPE '\\'`;
        case 'glob':
            return `${of} GLOB ${quoted(value)}`;
        default:
            return `${of} ${operator} ${literal(value)}`;
    }
}

/** Returns the SQL of a query. */
export function sqlOf({ table, conditions, groups, amount, of, limit }: Query): string {
    const where = conditions.length > 0 ? `\nWHERE ${conditions.map(condition).join('\n  AND ')}` : '';
    const from = `FROM ${identifier(table)}${where}`;
    if (groups.length === 0 && amount === '') return `SELECT *\n${from}\nLIMIT ${limit}`;
    const by = groups.map(identifier);
    const isCount = amount === '' || amount === 'count' || of === '';
    const value = isCount ? 'count()' : `${amount}(${identifier(of)})`;
    const name = isCount ? 'count' : identifier(`${amount}_${of}`);
    const sorted = by.length > 0 ? `\nGROUP BY ${by.join(', ')}\nORDER BY ${name} DESC\nLIMIT ${limit}` : '';
    return `SELECT ${[...by, `${value} AS ${name}`].join(', ')}\n${from}${sorted}`;
}

/** A form that calls `write` with the SQL of each change. */
export class Explorer {
    readonly root = el('form', { class: 'explore', hidden: true, 'aria-label': 'Build a query' });
    private query: Query = { table: 'slice', conditions: [], groups: [], amount: '', of: '', limit: 1000 };

    constructor(private catalog: () => Catalog, private write: (sql: string) => void, run: () => void) {
        this.root.addEventListener('submit', (event) => {
            event.preventDefault();
            this.changed();
            run();
        });
    }

    /** Opens or closes the form. */
    toggle(): void {
        this.root.hidden = !this.root.hidden;
        if (this.root.hidden) return;
        this.draw();
        this.changed();
        this.root.querySelector('select')?.focus();
    }

    private changed(): void {
        const conditions = this.query.conditions.filter((it) => it.column !== '');
        this.write(sqlOf({ ...this.query, conditions }));
    }

    /** Changes the query, and draws the form again with the focus where it was. */
    private set(change: () => void): void {
        change();
        const label = document.activeElement?.getAttribute('aria-label');
        this.draw();
        this.changed();
        if (label) this.root.querySelector<HTMLElement>(`[aria-label="${CSS.escape(label)}"]`)?.focus();
    }

    private select(label: string, value: string, options: [string, string][], change: (value: string) => void): HTMLElement {
        const chosen = (event: Event) => this.set(() => change((event.target as HTMLSelectElement).value));
        return el('select', { 'aria-label': label, change: chosen },
            ...options.map(([of, text]) => el('option', { value: of, selected: of === value }, text)));
    }

    private draw(): void {
        const { query } = this;
        const tables = this.catalog().tableNames();
        if (!tables.includes(query.table) && tables.length > 0) query.table = tables[0];
        const columns = this.catalog().columns(query.table);
        const names = (none: string): [string, string][] => [['', none], ...columns.map((name): [string, string] => [name, name])];
        const part = (text: string, ...inputs: (Node | false)[]) => el('div', {}, el('span', { class: 'faint' }, text), ...inputs);
        const conditions = [...query.conditions, { column: '', operator: '=', value: '' }].map((it, at) => {
            const number = at === 0 ? '' : ` ${at + 1}`;
            const column = this.select(`Filter column${number}`, it.column, names(at === 0 ? 'all rows' : 'and…'), (value) => {
                if (value === '') query.conditions.splice(at, 1);
                else query.conditions[at] = { ...it, column: value };
            });
            if (it.column === '') return el('span', {}, column);
            const value = el('input', { 'aria-label': `Filter value${number}`, value: it.value, spellcheck: 'false', autocomplete: 'off' });
            value.addEventListener('input', () => {
                it.value = value.value;
                this.changed();
            });
            return el('span', {}, column,
                this.select(`Filter operator${number}`, it.operator, Object.entries(OPERATORS), (operator) => (it.operator = operator)),
                it.operator !== 'null' && it.operator !== 'some' && value);
        });
        const groups = [...query.groups, ''].slice(0, 3).map((group, at) =>
            this.select(at === 0 ? 'Group by' : `Group by ${at + 1}`, group, names(at === 0 ? 'no groups' : 'then by…'), (value) => {
                query.groups.splice(at, 1, ...(value ? [value] : []));
                if (query.groups.length > 0 && query.amount === '') query.amount = 'count';
                if (query.groups.length === 0) query.amount = '';
            }));
        const amount = this.select('Amount', query.amount, [...(query.groups.length > 0 ? [] : [['', 'the rows'] as [string, string]]), ...Object.entries(AMOUNTS)], (value) => {
            query.amount = value;
            if (!columns.includes(query.of)) query.of = columns.includes('dur') ? 'dur' : (columns[0] ?? '');
        });
        const needsColumn = query.amount !== '' && query.amount !== 'count';
        const limit = el('input', { type: 'number', min: 1, max: 1_000_000, value: query.limit, 'aria-label': 'Most rows' });
        limit.addEventListener('input', () => {
            query.limit = Math.min(Math.max(Math.round(Number(limit.value)) || 1, 1), 1_000_000);
            this.changed();
        });
        this.root.replaceChildren(
            part('from', this.select('Table', query.table, tables.map((name) => [name, name]), (table) => {
                Object.assign(query, { table, conditions: [], groups: [], amount: '', of: '' });
            })),
            part('where', ...conditions),
            part('group by', ...groups),
            part('show', amount, needsColumn && this.select('Amount of', query.of, columns.map((name) => [name, name]), (of) => (query.of = of))),
            part('at most', limit),
            el('button', { type: 'submit', class: 'run' }, 'Run it'));
    }
}
