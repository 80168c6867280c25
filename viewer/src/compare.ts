// The tab that compares the kept range with the selected one, or with the whole trace.

import { drawBeside } from './changed';
import { stateName } from './colors';
import { el, name, table, type Cell } from './dom';
import { count, duration, instant, quantity } from './format';
import type { CounterSum, Summary } from './model';
import type { Page } from './page';

interface Pair {
    label: string;
    /** The amounts of both ranges. */
    before: number;
    now: number;
}

/** Joins two lists by their names. */
function pairs<T>(before: T[], now: T[], label: (it: T) => string, amount: (it: T) => number): Pair[] {
    const all = new Map<string, Pair>();
    const add = (list: T[], key: 'before' | 'now') => {
        for (const it of list) {
            const pair = all.get(label(it)) ?? { label: label(it), before: 0, now: 0 };
            pair[key] += amount(it);
            all.set(pair.label, pair);
        }
    };
    add(before, 'before');
    add(now, 'now');
    return [...all.values()];
}

export async function compare(app: Page): Promise<HTMLElement> {
    const { baseline, range, trace } = app;
    const [from, to] = range ? [range.from, range.to] : [0, trace.end + 1];
    if (!baseline && trace.before !== null) return compareTraces(app, from, to);
    if (!baseline) {
        return el('p', { class: 'hint' }, 'Select a range and keep it with ', el('kbd', {}, 'B'), ', then select another: this tab compares their slices, CPU time, states and counters.');
    }
    const nodes = app.rangeNodes();
    const [before, now] = await Promise.all([app.source.summary({ ...baseline, nodes }), app.source.summary({ from, to, nodes })]);
    const lengths = [baseline.to - baseline.from, to - from];
    return el('div', {},
        el('div', { class: 'head' },
            el('h2', { class: 'title' }, `${duration(lengths[1])} compared with ${duration(lengths[0])}`,
                el('span', { class: 'faint' }, range ? 'of the kept range' : 'of the kept range; the whole trace, since no other range is selected')),
            together(app)),
        el('p', { class: 'hint' }, 'The change is that of the time in each second of the range.'),
        el('div', { class: 'columns' }, ...tables(before, now, lengths)));
}

/** Compares with the previous trace: the same times since the beginning, or all of both. */
async function compareTraces(app: Page, from: number, to: number): Promise<HTMLElement> {
    const { range, trace } = app;
    const whole = { from: 0, to: (trace.before ?? trace.end) + 1, nodes: null };
    const of = range ? { from, to, nodes: null } : whole;
    const [before, now] = await Promise.all([app.source.summary(of, true), app.source.summary({ from, to, nodes: app.rangeNodes() })]);
    const lengths = [of.to - of.from, to - from];
    return el('div', {},
        el('div', { class: 'head' },
            el('h2', { class: 'title' }, range ? 'Compared with the previous trace' : `${duration(lengths[1])} compared with ${duration(lengths[0])}`,
                el('span', { class: 'faint' }, range ? `at the same times since its beginning, ${instant(from)} – ${instant(to)}` : 'of the previous trace')),
            together(app)),
        el('p', { class: 'hint' }, range ? 'The change is that of the time in each second.' : 'The change is that of the time in each second. With a range, the same times of both traces are compared.'),
        el('div', { class: 'columns' }, ...tables(before, now, lengths)));
}

function together(app: Page): HTMLElement {
    return el('div', { class: 'buttons' }, el('button', { click: () => void app.task(drawBeside(app), () => undefined) }, 'Draw the changed rows together'));
}

function tables(before: Summary, now: Summary, lengths: number[]): HTMLElement[] {
    const rate = (value: number, at: 0 | 1) => value / Math.max(lengths[at], 1);
    const change = ({ before, now }: Pair): Cell => {
        const by = rate(now, 1) - rate(before, 0);
        const text = before === 0 ? 'new' : now === 0 ? 'gone' : `${by < 0 ? '−' : '+'}${duration(Math.abs(by) * 1e9)} a second`;
        return { text, key: Math.abs(by) };
    };
    // Events without a duration have no time.
    const timed = (list: Pair[]) => list.filter(({ before, now }) => before > 0 || now > 0);
    const times = (caption: string, all: Pair[], list = timed(all)) =>
        list.length === 0 ? null : table(caption, ['Name', 'Before', 'Now', 'Change'], list.map((pair) => [
            { text: name(pair.label), key: pair.label },
            { text: duration(pair.before), key: pair.before },
            { text: duration(pair.now), key: pair.now },
            change(pair),
        ]), 3);
    // Nodes of two traces have other numbers.
    const key = ({ name, process }: CounterSum) => `${process?.replace(/ \d+$/, '') ?? ''}\0${name}`;
    const known = new Map(before.counters.map((counter) => [key(counter), counter]));
    const counters = now.counters.filter((counter) => known.has(key(counter))).map((counter): Cell[] => {
        const old = known.get(key(counter))!;
        const by = counter.mean - old.mean;
        return [
            { text: name(counter.name), key: counter.name },
            { text: quantity(old.mean, counter.unit), key: old.mean },
            { text: quantity(counter.mean, counter.unit), key: counter.mean },
            { text: `${by < 0 ? '−' : '+'}${quantity(Math.abs(by), counter.unit)}`, key: Math.abs(by) },
        ];
    });
    const counts = pairs(before.names, now.names, (it) => it.name, (it) => it.count);
    return [
        times('Slices: own time', pairs(before.names, now.names, (it) => it.name, (it) => it.self)),
        counts.length === 0 ? null : table('Slices and events: number', ['Name', 'Before', 'Now'], counts.map((pair) => [
            { text: name(pair.label), key: pair.label }, { text: count(pair.before), key: pair.before }, { text: count(pair.now), key: pair.now },
        ]), 2),
        times('CPU time of threads', pairs(before.threads, now.threads, (it) => it.name, (it) => it.cpu)),
        times('States of threads', pairs(before.states, now.states, (it) => stateName(it.name), (it) => it.total)),
        counters.length === 0 ? null : table('Counters: mean', ['Name', 'Before', 'Now', 'Change'], counters, 3),
    ].filter((it) => it !== null);
}
