// The page within another: the page around it sends commands, and is told the address of the view.

import type { App } from './app';
import { runLines } from './commands';

/** Listens to the page around this one, if there is one. It can run commands, and learns only the address of the view. */
export function embed(app: App): void {
    if (parent === window) return;
    const tell = (kind: string) => parent.postMessage({ ferretto: kind, address: location.hash }, '*');
    addEventListener('message', (event) => {
        const { data } = event;
        if (event.source !== parent || data?.ferretto !== 'run' || !Array.isArray(data.commands)) return;
        void runLines(app, data.commands.map(String)).then(() => tell('done'));
    });
    document.addEventListener('settled', () => tell('view'));
    tell('ready');
}
