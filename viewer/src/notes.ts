// The tab with notes, workspaces and macros.

import { noteTime } from './noting';
import { el } from './dom';
import type { Page } from './page';
import { title } from './labels';

export function notes(app: Page): HTMLElement {
    const { marks } = app;
    const { nodes } = app.trace;
    const changed = () => app.changed();
    const note = (at: number) => {
        const it = marks.notes[at];
        const text = el('input', { value: it.text, 'aria-label': `Text of the note at ${noteTime(it)}`, placeholder: 'Text', class: 'note' });
        text.addEventListener('input', () => { it.text = text.value; app.invalidate(); });
        return el('li', {},
            el('button', { class: 'link', click: () => app.notes.show(at) }, noteTime(it)), ' ', text, ' ',
            el('button', { 'aria-label': 'Remove the note', title: 'Remove', click: () => { marks.notes.splice(at, 1); changed(); } }, '✕'));
    };
    const space = (name: string, rows: number[]) => el('li', {},
        el('button', { class: 'link', 'aria-current': name === marks.workspace ? 'true' : undefined, click: () => app.run(`workspace ${name}`) }, el('bdi', {}, name)), ' ',
        el('span', { class: 'faint' }, rows.slice(0, 4).map((node) => title(nodes, node)).join(', '), rows.length > 4 ? ' …' : ''), ' ',
        el('button', { 'aria-label': `Remove the workspace ${name}`, title: 'Remove', click: () => { marks.workspaces.delete(name); changed(); } }, '✕'));
    const macro = (name: string, lines: string) => {
        const text = el('textarea', { rows: Math.min(8, lines.split('\n').length + 1), cols: 40, spellcheck: 'false', 'aria-label': `Commands of the macro ${name}` });
        text.value = lines;
        text.addEventListener('change', () => { marks.macros.set(name, text.value); app.invalidate(); });
        return el('li', {}, el('button', { class: 'link', click: () => app.run(`macro ${name}`) }, el('bdi', {}, name)), ' ',
            el('button', { 'aria-label': `Remove the macro ${name}`, title: 'Remove', click: () => { marks.macros.delete(name); changed(); } }, '✕'), el('br'), text);
    };
    const section = (caption: string, empty: (string | Node)[], rows: HTMLElement[]) => el('section', {}, el('h3', {}, caption),
        rows.length > 0 ? el('ul', { class: 'refs notes' }, ...rows) : el('p', { class: 'hint' }, ...empty));
    return el('div', {},
        el('div', { class: 'buttons' },
            el('button', { title: 'I', click: () => app.run('note') }, 'Add a note'),
            el('button', { click: () => app.run('state-save') }, 'Save all to a file'),
            el('button', { click: () => app.run('state-load') }, 'Load from a file')),
        el('div', { class: 'columns' },
            section('Notes', [el('kbd', {}, 'I'), ' adds a note to the selected event or range, or to the middle of the picture. Notes are part of the address.'],
                marks.notes.map((_, at) => note(at))),
            section('Workspaces', ['A workspace is a named set of pinned rows. Pin rows with ', el('kbd', {}, 'P'), ', and save them with the command “Save the pinned rows as a workspace” (', el('kbd', {}, ':'), ').'],
                [...marks.workspaces].map(([name, rows]) => space(name, rows))),
            section('Macros', ['A macro is a list of commands. The command “Record a macro” (', el('kbd', {}, ':'), ') records those that follow.'],
                [...marks.macros].map(([name, lines]) => macro(name, lines)))));
}
