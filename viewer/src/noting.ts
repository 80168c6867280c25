// Notes on times and workspaces of pinned rows: adding them, and going to them.

import { instant, duration } from './format';
import type { Page } from './page';

/** Returns a description of the time of a note. */
export function noteTime({ from, to }: { from: number; to: number }): string {
    return to > from ? `${instant(from)}, ${duration(to - from)}` : instant(from);
}

export class Notes {
    /** The last shown note. */
    private last = -1;

    constructor(private app: Page) {}

    add(text: string): void {
        const { selected, range, axis, hoverX } = this.app;
        const middle = hoverX === null ? (axis.t0 + axis.t1) / 2 : axis.time(hoverX);
        const [from, to] = selected ? [selected.start, selected.start + selected.dur] : range ? [range.from, range.to] : [middle, middle];
        const at = this.app.marks.add({ from, to, text });
        this.app.panel.open('notes');
        this.app.say(`A note at ${noteTime({ from, to })}`);
        if (!text) document.querySelectorAll<HTMLInputElement>('#content input.note')[at]?.focus();
        this.app.invalidate();
    }

    show(at: number): void {
        const { from, to, text } = this.app.marks.notes[at];
        this.app.axis.reveal(from, to - from);
        this.app.say(text || noteTime({ from, to }));
        this.app.invalidate();
    }

    /** Shows the next or previous note after the middle of the picture. */
    go(by: 1 | -1): void {
        const { notes } = this.app.marks;
        if (notes.length === 0) return this.app.say('There are no notes');
        this.last = (this.last + by + notes.length + (this.last < 0 && by < 0 ? 1 : 0)) % notes.length;
        this.show(this.last);
    }

    saveWorkspace(name: string): void {
        if (!name) throw new Error('a workspace needs a name');
        this.app.marks.workspaces.set(name, [...this.app.layout.pinned]);
        this.app.marks.workspace = name;
        this.app.say(`The pinned rows are saved as “${name}”`);
        this.app.changed();
    }

    useWorkspace(name: string): void {
        const rows = this.app.marks.workspaces.get(name);
        if (!rows) throw new Error(`there is no workspace “${name}”`);
        this.app.marks.workspace = name;
        this.app.layout.pinned = [...rows];
        this.app.say(`Workspace “${name}”`);
        this.app.changed();
    }
}
