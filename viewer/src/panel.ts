// The panel below the picture, with one tab at a time. It is closed until it has content.

import { ChartsTab } from './charts';
import { code } from './code';
import { compare } from './compare';
import { details } from './details';
import { byId, el } from './dom';
import { text } from './format';
import { FlameTab } from './flame';
import { found } from './found';
import { facts } from './facts';
import { log } from './log';
import type { CodeRequest } from './model';
import { notes } from './notes';
import { TABS, TAB_NAMES, type Page, type Tab, type Tabs } from './page';
import { SqlTab } from './sql';
import { summary } from './summary';

export class Panel implements Tabs {
    tab: Tab = 'details';
    private content = byId('content');
    private buttons = new Map<Tab, HTMLButtonElement>();
    private flame: FlameTab;
    private query: SqlTab;
    private charts: ChartsTab;
    private drawn = 0;
    private of: CodeRequest | null = null;

    constructor(private app: Page) {
        this.flame = new FlameTab(app);
        this.query = new SqlTab(app);
        this.charts = new ChartsTab(app);
        const tabs = byId('tabs');
        for (const tab of TABS) {
            const toggle = () => (this.shown === tab ? this.close() : this.open(tab));
            const button = el('button', { role: 'tab', id: `tab-${tab}`, 'aria-controls': 'content', click: toggle }, TAB_NAMES[tab]);
            this.buttons.set(tab, button);
            tabs.append(button);
        }
        tabs.addEventListener('keydown', (event) => {
            const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
            if (by === 0) return;
            const at = (TABS.indexOf(this.tab) + by + TABS.length) % TABS.length;
            this.open(TABS[at]);
            this.buttons.get(TABS[at])!.focus();
        });
        byId('panel-close').addEventListener('click', () => this.close());
        this.mark();
    }

    /** The tab that is open, or null. */
    get shown(): Tab | null {
        return document.body.dataset.panel === 'closed' ? null : this.tab;
    }

    open(tab: Tab): void {
        if (!TABS.includes(tab)) return;
        this.tab = tab;
        document.body.dataset.tab = tab;
        delete document.body.dataset.panel;
        this.mark();
        this.redraw();
        this.app.invalidate();
    }

    close(): void {
        if (byId('panel').contains(document.activeElement)) this.buttons.get(this.tab)!.focus();
        document.body.dataset.panel = 'closed';
        this.mark();
        this.app.invalidate();
    }

    private mark(): void {
        const { shown } = this;
        for (const [tab, button] of this.buttons) {
            button.setAttribute('aria-selected', String(tab === shown));
            button.tabIndex = tab === this.tab ? 0 : -1;
        }
        this.content.setAttribute('aria-labelledby', `tab-${this.tab}`);
        byId('panel-close').hidden = shown === null;
    }

    get sql(): string {
        return this.query.text;
    }

    set sql(text: string) {
        this.query.text = text;
        if (this.shown === 'sql' || !this.app.source.sql) return;
        this.query.run();
    }

    /** Shows a tab with new content, unless a list of matches or rows is in use. */
    show(tab: Tab): void {
        if ((this.shown === 'search' || this.shown === 'sql') && tab === 'details') return this.redraw();
        this.open(tab);
    }

    /** Opens a tab whose content is being loaded. */
    loading(tab: Tab): void {
        if (this.shown === tab) this.content.setAttribute('aria-busy', 'true');
    }

    /** Updates the open tab for a new range if it depends on it. */
    ranged(): void {
        this.open(this.shown && ['flame', 'log', 'compare', 'code'].includes(this.shown) ? this.shown : 'range');
    }

    showCode(request: CodeRequest): void {
        this.of = request;
        this.open('code');
    }

    setBaseline(): void {
        const { range } = this.app;
        if (!range) return this.app.say('Select a range first, then keep it with B to compare others with it');
        this.app.baseline = { from: range.from, to: range.to };
        this.app.say('The range is kept; select another to compare it in the flamegraph, or in the tab “Compare”');
        this.flame.compareRange();
        this.redraw();
        this.app.invalidate();
    }

    redraw(): void {
        const { app, content } = this;
        const drawn = ++this.drawn;
        if (this.shown === null) return;
        content.classList.toggle('flame', this.tab === 'flame');
        content.classList.toggle('fixed', this.tab === 'sql');
        content.removeAttribute('aria-busy');
        const put = (...nodes: Node[]) => {
            if (drawn !== this.drawn) return;
            content.replaceChildren(...nodes);
            content.scrollTop = 0;
        };
        const later = (promise: Promise<Node>) => {
            content.setAttribute('aria-busy', 'true');
            void app.task(
                promise.catch((error) => el('p', { class: 'warn' }, text(error))),
                (node) => {
                    put(node);
                    if (drawn === this.drawn) content.removeAttribute('aria-busy');
                },
            );
        };
        switch (this.tab) {
            case 'details':
                return put(details(app));
            case 'range':
                return later(summary(app));
            case 'flame':
                if (this.flame.root.parentNode !== content) content.replaceChildren(this.flame.root);
                return this.flame.update();
            case 'sql':
                if (this.query.root.parentNode !== content) content.replaceChildren(this.query.root);
                return this.query.update();
            case 'charts':
                if (this.charts.root.parentNode !== content) content.replaceChildren(this.charts.root);
                return this.charts.update();
            case 'compare':
                return later(compare(app));
            case 'code':
                return later(code(app, this.of));
            case 'log':
                return later(log(app));
            case 'search':
                put(found(app));
                return content.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' });
            case 'trace':
                return put(facts(app));
            case 'notes':
                return put(notes(app));
        }
    }
}
