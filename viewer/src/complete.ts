// Completion of SQL: tables, columns, functions and modules of the server's program.

import { el } from './dom';
import type { Rows } from './rows';

/** The query for the names to complete: their kind, the name, and a table's column. */
export const CATALOG = `SELECT 'column', m.name, p.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p
WHERE m.type IN ('table', 'view') AND m.name NOT GLOB '[_]*' AND m.sql NOT LIKE '%USING __perfetto%'
UNION ALL SELECT 'function', lower(name), '' FROM pragma_function_list WHERE name NOT GLOB '[_]*' AND name GLOB '[a-zA-Z]*'
UNION ALL SELECT DISTINCT 'module', module, '' FROM __intrinsic_stdlib_objects
UNION ALL SELECT 'object', name, module FROM __intrinsic_stdlib_objects WHERE object_type <> 'MODULE' AND name NOT GLOB '[_]*'`;

const KEYWORDS = ['SELECT', 'DISTINCT', 'FROM', 'WHERE', 'GROUP BY', 'HAVING', 'ORDER BY', 'LIMIT', 'OFFSET', 'JOIN', 'LEFT JOIN', 'USING', 'ON', 'AS', 'AND', 'OR', 'NOT', 'IN', 'IS NULL', 'IS NOT NULL', 'LIKE', 'GLOB', 'BETWEEN', 'CASE', 'WHEN', 'THEN', 'ELSE', 'END', 'WITH', 'UNION ALL', 'DESC', 'OVER', 'PARTITION BY', 'INCLUDE PERFETTO MODULE', 'CREATE PERFETTO TABLE', 'CREATE PERFETTO VIEW', 'CREATE PERFETTO FUNCTION'];
const SHOWN = 60;

export interface Candidate {
    text: string;
    what: string;
}

export class Catalog {
    private tables = new Map<string, string[]>();
    private functions = new Set<string>();
    private modules: string[] = [];
    private objects: [string, string][] = [];

    constructor(rows: Rows | null) {
        for (let row = 0; rows && row < rows.length; row++) {
            const [kind, name, more] = [0, 1, 2].map((column) => rows.text(row, column));
            if (kind === 'column') {
                const columns = this.tables.get(name);
                if (columns) columns.push(more);
                else this.tables.set(name, [more]);
            } else if (kind === 'function') this.functions.add(name);
            else if (kind === 'module') this.modules.push(name);
            else this.objects.push([name, more]);
        }
        // Tables of modules that are included are no longer objects to find.
        this.objects = this.objects.filter(([name]) => !this.tables.has(name) && !this.functions.has(name.toLowerCase()));
    }

    /** Returns the names of all tables and views, in order. */
    tableNames(): string[] {
        return [...this.tables.keys()].sort();
    }

    columns(table: string): string[] {
        return this.tables.get(table) ?? [];
    }

    /** Returns the names that complete the word before the caret, and the place where it begins. */
    complete(sql: string, caret: number): { from: number; list: Candidate[] } {
        const before = sql.slice(0, caret);
        const begin = Math.max(before.lastIndexOf(';') + 1, 0);
        const end = sql.indexOf(';', caret);
        const statement = sql.slice(begin, end < 0 ? undefined : end);
        const [word] = /[\w.]*$/.exec(before)!;
        const from = caret - word.length;
        const lead = before.slice(begin, from);
        if (/\bmodule\s+$/i.test(lead)) return { from, list: this.pick(word, this.modules.map((text) => ({ text, what: 'module' }))) };
        const sources = new Map<string, string>();
        for (const [, table, alias] of statement.matchAll(/\b(?:from|join|,)\s+(\w+)(?:\s+(?:as\s+)?(?!on\b|using\b|where\b|join\b|left\b|group\b|order\b|limit\b|union\b)(\w+))?/gi)) {
            sources.set((alias ?? table).toLowerCase(), table);
            sources.set(table.toLowerCase(), table);
        }
        const dot = word.lastIndexOf('.');
        if (dot > 0) {
            const table = sources.get(word.slice(0, dot).toLowerCase()) ?? word.slice(0, dot);
            const list = (this.tables.get(table) ?? []).map((text) => ({ text, what: table }));
            return { from: from + dot + 1, list: this.pick(word.slice(dot + 1), list) };
        }
        const tables = [...this.tables.keys()].map((text) => ({ text, what: 'table' }));
        const objects = this.objects.map(([text, module]) => ({ text, what: `in ${module}` }));
        if (/\b(from|join|into)\s+$/i.test(lead)) return { from, list: this.pick(word, [...tables, ...objects]) };
        const known = new Set<string>();
        const columns: Candidate[] = [];
        for (const table of new Set(sources.values())) {
            for (const text of this.tables.get(table) ?? []) {
                if (!known.has(text)) columns.push({ text, what: table });
                known.add(text);
            }
        }
        const functions = [...this.functions].map((text) => ({ text, what: 'function' }));
        const words = KEYWORDS.map((text) => ({ text, what: '' }));
        return { from, list: this.pick(word, [...columns, ...words, ...functions, ...tables, ...objects]) };
    }

    private pick(word: string, list: Candidate[]): Candidate[] {
        const lower = word.toLowerCase();
        const starts = list.filter(({ text }) => text.toLowerCase().startsWith(lower));
        const within = word.length > 1 ? list.filter(({ text }) => text.toLowerCase().indexOf(lower) > 0) : [];
        const found = [...starts, ...within];
        return found.some(({ text }) => text === word) ? [] : found.slice(0, SHOWN);
    }
}

/** A text area with completion. */
export class Editor {
    readonly area = el('textarea', { class: 'sqltext', spellcheck: 'false', autocomplete: 'off', rows: 5, 'aria-label': 'SQL', 'aria-autocomplete': 'list', 'aria-controls': 'sql-words' });
    readonly root = el('div', { class: 'sqledit' }, this.area);
    private popup = el('ul', { class: 'words', role: 'listbox', id: 'sql-words', 'aria-label': 'Completions', hidden: true });
    private list: Candidate[] = [];
    private from = 0;
    private at = 0;
    private isMoved = false;

    constructor(private catalog: () => Catalog, private run: () => void) {
        this.root.append(this.popup);
        this.area.addEventListener('input', () => this.suggest(false));
        this.area.addEventListener('blur', () => this.close());
        this.area.addEventListener('click', () => this.close());
        this.area.addEventListener('keydown', (event) => this.typed(event));
        this.popup.addEventListener('mousedown', (event) => {
            event.preventDefault();
            const item = (event.target as Element).closest('li');
            if (item) this.accept([...this.popup.children].indexOf(item));
        });
    }

    /** Selects the place of an error. Lines and columns begin with 1. */
    mark(line: number, column: number): void {
        const lines = this.area.value.split('\n');
        const before = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
        // Columns count characters, and positions in the text area UTF-16 units.
        const from = before + [...(lines[line - 1] ?? '')].slice(0, column - 1).join('').length;
        const [word] = /^\w*/.exec(this.area.value.slice(from))!;
        this.area.focus();
        this.area.setSelectionRange(from, from + Math.max(1, word.length));
    }

    private suggest(isWanted: boolean): void {
        const { area } = this;
        const { from, list } = this.catalog().complete(area.value, area.selectionEnd);
        const word = area.value.slice(from, area.selectionEnd);
        const isDot = area.value[from - 1] === '.';
        if (list.length === 0 || !(isWanted || isDot || /[a-z_]/i.test(word))) return this.close();
        [this.list, this.from, this.at, this.isMoved] = [list, from, 0, isWanted];
        this.popup.replaceChildren(...list.map(({ text, what }, i) => el('li', { role: 'option', id: `sql-word-${i}` }, el('b', {}, text), ' ', el('span', { class: 'faint' }, what))));
        this.place();
        this.popup.hidden = false;
        this.choose(0);
    }

    /** Puts the list below the word. The text has letters of equal width, and no line is wrapped. */
    private place(): void {
        const { area } = this;
        const before = area.value.slice(0, this.from).split('\n');
        const style = getComputedStyle(area);
        const context = document.createElement('canvas').getContext('2d')!;
        context.font = `${style.fontSize} ${style.fontFamily}`;
        const x = parseFloat(style.paddingLeft) + context.measureText(before[before.length - 1].replaceAll('\t', '    ')).width - area.scrollLeft;
        const y = parseFloat(style.paddingTop) + before.length * parseFloat(style.lineHeight) - area.scrollTop;
        const box = area.getBoundingClientRect();
        this.popup.style.left = `${Math.max(0, Math.min(box.left + x, innerWidth - 340))}px`;
        const top = box.top + Math.min(y, area.clientHeight);
        const isAbove = top + 180 > innerHeight;
        this.popup.style.top = isAbove ? '' : `${top}px`;
        this.popup.style.bottom = isAbove ? `${innerHeight - top + 1.6 * parseFloat(style.lineHeight)}px` : '';
    }

    private choose(at: number): void {
        this.at = (at + this.list.length) % this.list.length;
        [...this.popup.children].forEach((item, i) => item.setAttribute('aria-selected', String(i === this.at)));
        this.popup.children[this.at].scrollIntoView({ block: 'nearest' });
        this.area.setAttribute('aria-activedescendant', `sql-word-${this.at}`);
    }

    private close(): void {
        this.popup.hidden = true;
        this.area.removeAttribute('aria-activedescendant');
    }

    private accept(at: number): void {
        const { text } = this.list[at];
        this.area.setRangeText(text, this.from, this.area.selectionEnd, 'end');
        this.close();
        this.area.dispatchEvent(new Event('change'));
    }

    private typed(event: KeyboardEvent): void {
        const isOpen = !this.popup.hidden;
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
            this.close();
            this.run();
        } else if (event.key === ' ' && event.ctrlKey) this.suggest(true);
        else if (isOpen && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
            this.isMoved = true;
            this.choose(this.at + (event.key === 'ArrowDown' ? 1 : -1));
        } else if (isOpen && (event.key === 'Tab' || (event.key === 'Enter' && this.isMoved))) this.accept(this.at);
        else if (isOpen && event.key === 'Escape') this.close();
        else {
            if (event.key === 'Enter' || event.key.startsWith('Arrow')) this.close();
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }
}
