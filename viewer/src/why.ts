// The causes of the time of the selected event, and the chain of waits as a picture.

import { css } from './colors';
import { el, name } from './dom';
import { count, duration } from './format';
import type { Bar, Cause, Thread, Why } from './model';
import type { Page } from './page';

/** Returns a section that is filled once the source has the causes. */
export function why(app: Page): HTMLElement | null {
    const { selected, details } = app;
    const of = selected && details && selected.dur > 0 && ['slice', 'state'].includes(details.kind) ? app.why(selected) : null;
    if (!of) return null;
    const section = el('section', { class: 'why', 'aria-busy': 'true' });
    section.hidden = true;
    void app.task(of, (it) => {
        section.removeAttribute('aria-busy');
        if (!it || it.causes.length === 0) return;
        section.hidden = false;
        section.append(
            el('h3', {}, 'Why it took so long'),
            chain(app, it),
            el('div', { class: 'buttons' }, el('button', { click: () => app.addTrack({ kind: 'chain', node: selected!.node, id: selected!.id, title: `Chain of ${selected!.name || 'the event'}` }) }, 'Draw the chain in the picture')),
            causes(app, it.causes, it.dur, false),
            ...(it.waits.length > 0 ? [el('h3', {}, 'Longest waits'), waits(app, it.waits)] : []),
            ...(it.missing.length > 0 ? [el('h3', {}, 'Missing in this trace'), el('ul', { class: 'refs faint' }, ...it.missing.map((text) => el('li', {}, text)))] : []),
        );
    });
    return section;
}

const percent = (part: number, whole: number) => `${((part * 100) / whole).toFixed(1)} %`;

function color(app: Page, kind: string): string {
    const { states } = app.colors;
    if (kind === 'wait') return css(states.sleeping);
    if (kind.startsWith('cpu')) return css(states.runnable);
    if (['absent', 'lost', 'too-deep'].includes(kind)) return css(states.other);
    return css(states.running);
}

/** The threads that the time belongs to, each below the one that waited for it. */
function chain(app: Page, it: Why): HTMLElement {
    const levels = 1 + Math.max(0, ...it.bars.map((bar) => bar.level));
    const bar = (of: Bar) => {
        const text = `${of.thread[0]} ${of.text}`;
        const more = of.function ? `, in ${of.function}` : '';
        const box = el('button', { title: `${text}, ${duration(of.dur)}${more}`, 'data-kind': of.kind, click: () => of.ref && app.select(of.ref) }, el('bdi', {}, text));
        box.style.left = `${((of.start - it.start) * 100) / it.dur}%`;
        box.style.width = `${(of.dur * 100) / it.dur}%`;
        box.style.top = `${of.level * 1.3}rem`;
        box.style.background = color(app, of.kind);
        return box;
    };
    const picture = el('div', { class: 'chain', role: 'group', 'aria-label': 'The thread, and below it the threads that it waited for' }, ...it.bars.map(bar));
    picture.style.height = `${levels * 1.3}rem`;
    return el('div', { class: 'chains' }, picture,
        it.left_out > 0 && el('p', { class: 'faint' }, `${count(it.left_out)} shorter parts are left out`));
}

function thread(app: Page, [label, node]: Thread): HTMLElement {
    return node === null ? name(label) : el('button', { class: 'link', click: () => app.setFocus(node) }, name(label));
}

function causes(app: Page, list: Cause[], whole: number, inner: boolean): HTMLElement {
    const shown = list.filter((cause) => cause.ns * 100 >= whole);
    return el('ol', { class: 'causes' }, ...shown.map((cause) => {
        const swatch = el('span', { class: 'swatch' });
        swatch.style.background = color(app, cause.kind);
        const isOwn = !inner || ['cpu-behind', 'cpu-wakeup', 'cpu-idle', 'system-call', 'system-call-entry'].includes(cause.kind);
        const functions = cause.functions.map(([function_, ns]) => `${function_} ${percent(ns, cause.ns)}`).join(', ');
        return el('li', {},
            el('span', { class: 'amount' }, percent(cause.ns, whole)), ' ', el('span', { class: 'amount' }, duration(cause.ns)), ' ', swatch, ' ',
            isOwn ? null : thread(app, cause.thread), isOwn ? null : ' ', el('bdi', {}, cause.text),
            cause.kind === 'wait' && cause.count > 1 ? `, ${count(cause.count)} waits` : '',
            functions && el('span', { class: 'faint' }, el('bdi', {}, ` ${functions}`)),
            cause.causes.length > 0 && causes(app, cause.causes, whole, true));
    }));
}

function waits(app: Page, list: Why['waits']): HTMLElement {
    const stack = (caption: string, functions: string[]) => functions.length > 0
        && el('details', {}, el('summary', {}, caption), el('ol', { class: 'refs' }, ...functions.map((it) => el('li', {}, name(it, 'unknown')))));
    return el('ol', { class: 'refs' }, ...list.map((wait) => {
        const { ref, waker } = wait;
        const text = ref ? el('button', { class: 'link', click: () => app.select(ref) }, name(wait.text)) : name(wait.text);
        const by = waker?.[1];
        return el('li', {}, el('span', { class: 'amount' }, duration(wait.dur)), ' ', text,
            by ? el('span', {}, ' ', el('button', { class: 'link', click: () => app.select(by) }, 'Go to the thread that woke it')) : null,
            stack('Where it waited', wait.stack), stack(`Where ${waker?.[0] ?? 'the other thread'} woke it`, wait.waker_stack));
    }));
}
