// The fragment of the address: a link to the current view.

import type { Page, Tab } from './page';
import type { Tracks } from './trackform';

/** The longest SQL in an address. */
const MAX_SQL = 8000;

export class Link {
    private shown = '';
    private wanted = false;

    constructor(private app: Page) {}

    /** Requests an update of the address when the page is no longer busy. */
    note(): void {
        this.wanted = true;
    }

    write(): void {
        if (!this.wanted) return;
        this.wanted = false;
        const { app } = this;
        const parts = [`at=${Math.round(app.axis.t0)},${Math.round(app.axis.t1)}`];
        if (app.scroll > 0) parts.push(`y=${Math.round(app.scroll)}`);
        if (app.selected) {
            const { node, id, start, dur, depth } = app.selected;
            parts.push(`event=${[node, id, start, dur, depth].join(',')}`);
        }
        if (app.range) {
            const { from, to, boxes } = app.range;
            parts.push(`range=${Math.round(from)},${Math.round(to)}${boxes ? `,${[...boxes].slice(0, 200).join('.')}` : ''}`);
        }
        if (app.layout.pinned.length > 0) parts.push(`pin=${app.layout.pinned.join('.')}`);
        if (app.find.query) parts.push(`find=${encodeURIComponent(app.find.query)}`);
        parts.push(...app.marks.parts());
        if (app.panel.sql.length > 0 && app.panel.sql.length <= MAX_SQL) parts.push(`sql=${encodeURIComponent(app.panel.sql)}`);
        if (app.tracks.length > 0) parts.push(`tracks=${encodeURIComponent(JSON.stringify(app.tracks))}`);
        if (app.panel.shown) parts.push(`tab=${app.panel.shown}`);
        const hash = `#${parts.join('&')}`;
        if (hash === this.shown) return;
        this.shown = hash;
        try {
            history.replaceState(null, '', hash);
        } catch {
            // Browsers limit the rate of changes. The next change includes this one.
            this.shown = '';
        }
    }

    read(): void {
        const { app } = this;
        if (location.hash.length < 2 || location.hash === this.shown) return;
        this.shown = location.hash;
        const parts = new Map(location.hash.slice(1).split('&').map((part) => part.split('=', 2) as [string, string]));
        const tracks = readTracks(decoded(parts.get('tracks')));
        // Pinned rows and the selection may be on further tracks.
        if (tracks.length > 0 && app.tracks.length === 0) return app.setTracks(tracks, () => this.apply(parts));
        this.apply(parts);
    }

    private apply(parts: Map<string, string>): void {
        const { app } = this;
        const numbers = (key: string) => (parts.get(key) ?? '').split(/[,.]/).map(Number);
        const finite = (values: number[], least: number) => values.length >= least && values.every(Number.isFinite) && parts.size > 0;
        const { length } = app.trace.nodes;
        app.marks.read(parts, app.trace.nodes);
        app.setZero(app.marks.zero);
        const there = (node: number) => Number.isInteger(node) && node >= 0 && node < length;
        if (parts.has('pin')) app.layout.pinned = numbers('pin').filter(there);
        const at = numbers('at');
        if (parts.has('at') && finite(at, 2)) app.axis.set(at[0], at[1]);
        if (parts.has('y')) app.scroll = Number(parts.get('y')) || 0;
        const tab = parts.get('tab') as Tab | undefined;
        if (parts.has('range')) {
            const [from, to, ...nodes] = numbers('range');
            if (finite([from, to], 2) && to > from) {
                app.setRange({ from, to, boxes: nodes.length > 0 ? new Set(nodes.filter(there)) : null }, false);
            }
        }
        const [node, id, start, dur, depth] = numbers('event');
        if (parts.has('event') && there(node) && [id, start, dur, depth].every(Number.isFinite)) {
            app.select({ node, id, start, dur, depth, name: '' }, !parts.has('at'));
        }
        if (parts.has('find')) {
            app.find.remember(decoded(parts.get('find')));
        }
        if (parts.has('sql')) app.panel.sql = decoded(parts.get('sql'));
        if (tab) app.panel.open(tab);
        if (parts.has('run')) app.startWith(decoded(parts.get('run')).split(';'));
        app.invalidate();
    }
}

function decoded(text: string | undefined): string {
    try {
        return decodeURIComponent(text ?? '');
    } catch {
        // The address was truncated.
        return '';
    }
}

/** Returns the tracks of an address; none if it is malformed. */
function readTracks(text: string): Tracks[] {
    if (text === '') return [];
    try {
        const list: unknown = JSON.parse(text);
        const isText = (it: any, ...names: string[]) => names.every((name) => typeof it[name] === 'string');
        const isBeside = (it: any) => ['this', 'before'].includes(it.of) && Number.isFinite(it.shift) && Array.isArray(it.nodes) && it.nodes.every((node: unknown) => Number.isInteger(node) && Number(node) >= 0);
        const isQuery = (it: any) => ['slices', 'counter'].includes(it.kind) && isText(it, 'sql', 'ts', 'dur', 'name', 'pivot');
        const isOne = (it: any) => isText(it, 'title') && (it.kind === 'chain' ? [it.node, it.id].every(Number.isInteger) : it.kind === 'beside' ? isBeside(it) : isQuery(it));
        return Array.isArray(list) && list.every((it) => it !== null && isOne(it)) ? list : [];
    } catch {
        return [];
    }
}
