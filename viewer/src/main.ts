// The page: opens the embedded trace or that of the server, and draws it.

import { App } from './app';
import { byId } from './dom';
import { embed } from './embedding';
import { EmbeddedSource } from './embedded';
import { text } from './format';
import type { Frame } from './frame';
import { listen } from './input';
import { keepOnServer } from './kept';
import { Overlay } from './overlay';
import { RemoteSource } from './remote';
import { applyFormats, isDark, loadSettings } from './settings';
import type { Source } from './source';
import { readFirst, readFrames, Store } from './store';

async function source(first: Map<string, Frame>): Promise<Overlay> {
    const frames = first.size > 0 ? null : await readFrames(document);
    return new Overlay(frames ? new EmbeddedSource(new Store(frames)) : new RemoteSource('', first));
}

async function main(): Promise<void> {
    const first = readFirst(document);
    const kept = first.get('kept');
    if (kept) keepOnServer(kept);
    const settings = loadSettings();
    applyFormats(settings);
    try {
        const from = await source(first);
        const app = new App(from, await from.open(), settings);
        listen(app);
        embed(app);
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => app.setTheme(isDark(settings)));
        follow(app, from);
    } catch (error) {
        const empty = byId('empty');
        empty.hidden = false;
        empty.textContent = `The trace cannot be shown: ${text(error)}`;
        document.documentElement.dataset.busy = '0';
    }
}

function follow(app: App, from: Source): void {
    const live = byId('live');
    live.hidden = !app.trace.live;
    live.addEventListener('click', () => {
        const on = live.getAttribute('aria-pressed') !== 'true';
        live.setAttribute('aria-pressed', String(on));
        if (on) renew();
    });
    const renew = () =>
        void app.task(from.open(), (trace) => {
            // Replies may arrive out of order.
            if (trace.generation < app.trace.generation) return;
            live.hidden = !trace.live;
            app.renew(trace);
        });
    from.follow?.(
        () => {
            if (live.getAttribute('aria-pressed') === 'true') renew();
        },
        () => app.say('The server has ended; the page shows the last state'),
    );
}

void main();
