// The search: its matches, and which of them is selected.

import { byId } from './dom';
import { count } from './format';
import type { Found, Ref } from './model';
import type { Finding, Page } from './page';

const MAX_HITS = 10_000;

export class Finder implements Finding {
    found: Found | null = null;
    query = '';
    /** The index of the selected match. */
    hit = -1;
    /** The name of the events to highlight. */
    highlight: string | null = null;

    constructor(private app: Page) {}

    /** Sets the query of a search without selecting a match: the address contains the view. */
    remember(query: string): void {
        byId<HTMLInputElement>('query').value = query;
        this.search(query, false);
    }

    search(query: string, go = true): void {
        const { app } = this;
        this.query = query.trim();
        this.hit = -1;
        this.found = null;
        this.show();
        if (this.query === '') return app.changed();
        const wanted = this.query;
        void app.task(app.source.search(wanted, MAX_HITS), (found) => {
            if (wanted !== this.query) return;
            this.found = found;
            this.show();
            app.invalidate();
            if (!go) return;
            app.panel.open('search');
            // Starts at the first visible match, so that the picture does not move.
            this.hit = found.rows.findIndex((row) => row.start >= app.axis.t0) - 1;
            if (this.hit < -1) this.hit = -1;
            if (found.rows.length > 0) this.next(1);
        });
    }

    /** Highlights the events with a name in the picture, and searches for a text. */
    pick(highlight: string | null, query: string | null): void {
        this.highlight = highlight;
        this.app.invalidate();
        if (query === null) return this.app.say('They are highlighted in the picture; Esc shows all');
        this.remember(query);
        this.app.say('N goes to the next of them; Esc shows all');
    }

    next(by: number): void {
        const rows = this.found?.rows;
        if (!rows || rows.length === 0) return;
        this.go((((this.hit + by) % rows.length) + rows.length) % rows.length);
    }

    go(index: number): void {
        this.hit = index;
        this.app.select(this.rows[index]);
        this.show();
    }

    get rows(): Ref[] {
        return this.found?.rows ?? [];
    }

    private show(): void {
        const { found } = this;
        const output = byId('hits');
        const some = found !== null && found.rows.length > 0;
        byId('hit-next').hidden = byId('hit-previous').hidden = !some;
        if (!found) output.textContent = this.query ? '…' : '';
        else if (!some) output.textContent = found.nodes.length > 0 ? `${count(found.nodes.length)} tracks` : 'No match';
        else output.textContent = `${count(this.hit + 1)} of ${count(found.total)}`;
    }
}
