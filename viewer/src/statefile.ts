// The state of the page as a file: the view, notes, workspaces, macros and charts.

import type { App } from './app';
import { el } from './dom';
import { save } from './grid';

/** Saves the state as a file. */
export function saveState(app: App): void {
    const name = `${app.trace.name || 'trace'}.state.json`;
    save(app.marks.file(app.trace.nodes, location.hash), name, 'application/json');
    app.say(`The state is saved as ${name}`);
}

/** Asks for a file with a state, and applies it. */
export function loadState(app: App): void {
    const read = (event: Event) => {
        const file = (event.target as HTMLInputElement).files?.[0];
        if (file) void app.task(file.text(), (text) => apply(app, text));
    };
    el('input', { type: 'file', accept: '.json', change: read }).click();
}

function apply(app: App, text: string): void {
    const address = app.marks.readFile(text, app.trace.nodes);
    const marks = app.marks.parts();
    // Numbers of rows in the address are those of the saved trace. Notes and names suit others as well.
    const kept = address.replace(/^#/, '').split('&').filter((part) => part && !/^(notes|spaces|macros|charts|zero|run)=/.test(part));
    location.hash = [...kept, ...marks].join('&');
    app.setZero(app.marks.zero);
}
