// The tab with the selected event.

import { css, nameColor, stateColor, stateName } from './colors';
import { argument } from './disks';
import { el, name } from './dom';
import { clock, count, date, duration, instant } from './format';
import { title } from './labels';
import type { Details, Ref } from './model';
import type { Page } from './page';
import { pictureOf } from './picture';
import { why } from './why';

function refs(app: Page, caption: string, list: { ref: Ref; note?: string }[]): HTMLElement | null {
    if (list.length === 0) return null;
    return el('section', {}, el('h3', {}, caption), el('ol', { class: 'refs' }, ...list.map(({ ref, note }) =>
        el('li', {},
            el('button', { class: 'link', click: () => app.select(ref) }, name(ref.name)),
            ' ', el('span', { class: 'faint' },
                [ref.dur > 0 ? duration(ref.dur) : '', note ?? ''].filter(Boolean).join(', ')),
        ))));
}

export function details(app: Page): HTMLElement {
    const { details: it, selected } = app;
    if (!selected) {
        return el('p', { class: 'hint' },
            'Click an event to see its details, drag across the picture to summarize a time range. ',
            'The keys W, A, S and D zoom and pan; ', el('kbd', {}, '?'), ' lists all keys.');
    }
    if (!it) return el('p', { class: 'hint' }, '…');
    const { nodes, wall } = app.trace;
    const on = title(nodes, it.node);
    const facts: [string, string | Node][] = [];
    const link = (text: string, node: number) => el('button', { class: 'link', click: () => app.setFocus(node) }, name(text));
    facts.push(['Track', link(on, it.node)]);
    facts.push(['Start', instant(it.start)]);
    if (wall !== null) {
        const at = wall + BigInt(Math.round(it.start));
        facts.push(['Wall clock', `${date(at)} ${clock(at, 1000)}`]);
    }
    if (it.dur > 0) facts.push(['Duration', duration(it.dur)]);
    if (it.category) facts.push(['Category', it.category]);
    for (const [key, value, node] of it.facts ?? []) {
        const shown = key === 'Left in state' ? stateName(value) : /^-?\d+ ns$/.test(value) ? duration(parseInt(value, 10)) : value;
        facts.push([key, node == null ? shown : link(value, node)]);
    }
    const flows = it.flows ?? [];
    const place = (ref: Ref) => `on ${title(nodes, ref.node)}`;
    return el('div', {},
        el('h2', { class: 'title' }, swatch(app, it), name(heading(it)),
            it.dur > 0 ? el('span', { class: 'faint' }, duration(it.dur)) : null),
        el('div', { class: 'buttons' },
            el('button', { title: 'F', click: () => app.fit() }, 'Zoom to event'),
            el('button', { title: ',', click: () => app.step('previous') }, 'Previous'),
            el('button', { title: '.', click: () => app.step('next') }, 'Next'),
            it.dur > 0 && el('button', { title: 'M', click: () => app.setRange({ from: it.start, to: it.start + it.dur, boxes: null }) }, 'Summarize its time'),
            (it.children ?? 0) > 0 && el('button', { title: '>', click: () => app.step('child') }, `First of ${count(it.children!)} children`)),
        why(app),
        el('div', { class: 'columns' },
            el('section', {}, el('h3', {}, 'Event'), list(facts)),
            (it.args?.length ?? 0) > 0 && el('section', {}, el('h3', {}, 'Arguments'), list(it.args!.map(([key, value]) => [key, pictureOf(key, value) ?? argument(app.trace, key, value)]))),
            refs(app, 'Parents', (it.parents ?? []).map((ref) => ({ ref }))),
            refs(app, 'Flows from here', flows.filter((flow) => flow.out).map(({ to }) => ({ ref: to, note: place(to) }))),
            refs(app, 'Flows to here', flows.filter((flow) => !flow.out).map(({ to }) => ({ ref: to, note: place(to) }))),
            refs(app, 'Woken by', (it.chain ?? []).map(({ ref, text }) => ({ ref, note: text }))),
            stack(it)));
}

/** Returns the name of an event: states in words, samples with their kind and weight. */
function heading(it: Details): string {
    if (it.kind === 'state') return stateName(it.name);
    if (it.kind !== 'sample') return it.name;
    const fact = (label: string) => it.facts?.find(([key]) => key === label)?.[1];
    const weight = fact('Weight') ?? fact('Waited');
    return [fact('Kind') ?? 'Sample', weight].filter(Boolean).join(': ');
}

function swatch(app: Page, it: Details): HTMLElement {
    const swatch = el('span', { class: 'swatch' });
    const { colors } = app;
    swatch.style.background = css(it.kind === 'state' ? stateColor(it.name, colors) : it.kind === 'sample' ? colors.sample : colors.fills[nameColor(it.name)]);
    return swatch;
}

function list(rows: [string, string | Node][]): HTMLElement {
    return el('dl', {}, ...rows.flatMap(([key, value]) => [el('dt', {}, name(key)), el('dd', {}, typeof value === 'string' ? el('bdi', {}, value) : value)]));
}

function stack(it: Details): HTMLElement | null {
    if (!it.stack || it.stack.length === 0) return null;
    return el('section', {}, el('h3', {}, 'Callstack, innermost first'), el('ol', { class: 'refs' }, ...it.stack.map(([symbol, file, line]) =>
        el('li', {}, name(symbol, 'unknown'), ' ', el('span', { class: 'faint' }, el('bdi', {}, line || file))))));
}
