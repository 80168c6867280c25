// What a user adds to a trace: notes on times and ranges, workspaces, macros, charts, and the zero of time. They are part of the
// address of the page, and of files with its state.

import { CHARTS, type Chart } from './chart';
import { pathOf, nodeAt } from './labels';
import type { Nodes } from './model';

/** A note on a range, or on a time if both ends are equal. */
export interface Note {
    from: number;
    to: number;
    text: string;
}

const MAX_NOTES = 1000;
const MAX_TEXT = 2000;
const MAX_CHARTS = 50;

export class Marks {
    notes: Note[] = [];
    /** Named sets of pinned rows. */
    workspaces = new Map<string, number[]>();
    /** The name of the workspace in use, or an empty text. */
    workspace = '';
    /** Lists of commands, one on each line. */
    macros = new Map<string, string>();
    charts: Chart[] = [];
    zero = 0;

    addChart(chart: Chart): void {
        if (this.charts.length >= MAX_CHARTS) throw new Error(`a page has at most ${MAX_CHARTS} charts`);
        this.charts.push(chart);
    }

    /** Adds a note in the order of time, and returns its index. */
    add(note: Note): number {
        if (this.notes.length >= MAX_NOTES) throw new Error(`a page has at most ${MAX_NOTES} notes`);
        let at = this.notes.findIndex((other) => other.from > note.from);
        if (at < 0) at = this.notes.length;
        this.notes.splice(at, 0, note);
        return at;
    }

    /** Returns the parts of the address. */
    parts(): string[] {
        const parts: string[] = [];
        const put = (key: string, value: unknown) => parts.push(`${key}=${encodeURIComponent(JSON.stringify(value))}`);
        if (this.notes.length > 0) put('notes', this.notes.map(({ from, to, text }) => [Math.round(from), Math.round(to), text]));
        if (this.workspaces.size > 0) put('spaces', [this.workspace, ...this.workspaces]);
        if (this.macros.size > 0) put('macros', [...this.macros]);
        if (this.charts.length > 0) put('charts', this.charts);
        if (this.zero !== 0) parts.push(`zero=${Math.round(this.zero)}`);
        return parts;
    }

    /** Reads the parts of an address. Invalid ones are ignored. */
    read(parts: Map<string, string>, nodes: Nodes): void {
        const get = (key: string): unknown[] => {
            try {
                const value: unknown = JSON.parse(decodeURIComponent(parts.get(key) ?? '[]'));
                return Array.isArray(value) ? value : [];
            } catch {
                // The address was truncated.
                return [];
            }
        };
        if (parts.has('notes')) this.notes = notesOf(get('notes'));
        if (parts.has('spaces')) {
            const [current, ...all] = get('spaces');
            this.workspaces = new Map();
            for (const entry of all) {
                if (!Array.isArray(entry) || typeof entry[0] !== 'string' || !Array.isArray(entry[1])) continue;
                this.workspaces.set(entry[0], entry[1].filter((node) => Number.isInteger(node) && node >= 0 && node < nodes.length));
            }
            this.workspace = typeof current === 'string' && this.workspaces.has(current) ? current : '';
        }
        if (parts.has('macros')) this.macros = macrosOf(get('macros'));
        if (parts.has('charts')) this.charts = chartsOf(get('charts'));
        if (parts.has('zero')) this.zero = Number(parts.get('zero')) || 0;
    }

    /** Returns the content of a file. Rows are saved by name, so that the file suits other traces. */
    file(nodes: Nodes, address: string): string {
        const spaces = [...this.workspaces].map(([name, rows]) => [name, rows.map((node) => pathOf(nodes, node))]);
        const { notes, charts, zero } = this;
        return JSON.stringify({ ferretto: 'state', version: 1, address, notes: notes.map(({ from, to, text }) => [from, to, text]), spaces, macros: [...this.macros], charts, zero }, null, 1);
    }

    /** Reads the content of a file, and returns the address in it. */
    readFile(text: string, nodes: Nodes): string {
        let all;
        try {
            all = JSON.parse(text);
        } catch {
            throw new Error('this file is not a saved state: it is not JSON');
        }
        if (all?.ferretto !== 'state') throw new Error('this file is not a saved state of this page');
        const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
        this.notes = notesOf(list(all.notes));
        this.workspaces = new Map();
        for (const entry of list(all.spaces)) {
            if (!Array.isArray(entry) || typeof entry[0] !== 'string') continue;
            this.workspaces.set(entry[0], list(entry[1]).map((path) => nodeAt(nodes, String(path))).filter((node) => node >= 0));
        }
        this.workspace = '';
        this.macros = macrosOf(list(all.macros));
        this.charts = chartsOf(list(all.charts));
        this.zero = Number(all.zero) || 0;
        return typeof all.address === 'string' ? all.address : '';
    }
}

function notesOf(list: unknown[]): Note[] {
    const notes: Note[] = [];
    for (const entry of list.slice(0, MAX_NOTES)) {
        if (!Array.isArray(entry)) continue;
        const [from, to, text] = entry;
        if (!Number.isFinite(from) || !Number.isFinite(to) || to < from || typeof text !== 'string') continue;
        notes.push({ from, to, text: text.slice(0, MAX_TEXT) });
    }
    return notes.sort((a, b) => a.from - b.from);
}

function chartsOf(list: unknown[]): Chart[] {
    const isChart = (it: any): it is Chart => it !== null && typeof it === 'object' && it.kind in CHARTS && ['sql', 'title', 'x', 'y', 'by'].every((name) => typeof it[name] === 'string');
    return list.filter(isChart).slice(0, MAX_CHARTS).map(({ kind, sql, title, x, y, by }) => ({ kind, sql, title, x, y, by }));
}

function macrosOf(list: unknown[]): Map<string, string> {
    const macros = new Map<string, string>();
    for (const entry of list) {
        if (Array.isArray(entry) && typeof entry[0] === 'string' && typeof entry[1] === 'string') macros.set(entry[0], entry[1]);
    }
    return macros;
}
