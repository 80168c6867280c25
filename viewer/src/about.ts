// A description of the recording: what it was about, and what the page shows when nothing is selected.

import { css, type Palette } from './colors';
import { el, name } from './dom';
import { count, duration } from './format';
import { title } from './labels';
import { Kind, NONE, type Trace } from './model';
import type { Page, Tab } from './page';

const plural = (number: number, one: string, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Counts the nodes of a kind, or their rows. */
function totals({ nodes }: Trace, kind: number): { nodes: number; rows: number } {
    const all = { nodes: 0, rows: 0 };
    for (let node = 0; node < nodes.length; node++) {
        if (nodes.kind[node] !== kind) continue;
        all.nodes += 1;
        all.rows += nodes.rows[node];
    }
    return all;
}

/** Returns the rows that the trace was recorded for: disks and heaps. */
export function subjects({ nodes }: Trace): number[] {
    const found: number[] = [];
    for (let node = 0; node < nodes.length && found.length < 20; node++) if (nodes.subject[node]) found.push(node);
    return found;
}

/** Returns the recorded command, or an empty text. */
function commandOf(trace: Trace): string {
    return trace.facts.find(([key]) => /(^|\.)ferretto\.command$/.test(key))?.[1] ?? '';
}

/** Returns a sentence about the recording. */
export function about(trace: Trace): string {
    const cpus = totals(trace, Kind.Cpu).nodes;
    const processes = totals(trace, Kind.Process).nodes;
    const disks = subjects(trace).filter((node) => trace.nodes.kind[node] !== Kind.Heap).map((node) => trace.nodes.name(node));
    const parts = [
        disks.length > 0 ? `disk ${disks.slice(0, 3).join(', ')}` : '',
        trace.profiles.some(({ kind }) => kind === 'heap') ? 'heap' : '',
        cpus > 0 ? plural(cpus, 'CPU') : '',
        processes > 0 ? plural(processes, 'process', 'processes') : '',
    ];
    const whole = commandOf(trace);
    const command = whole.length > 36 ? `${whole.slice(0, 35).trimEnd()}…` : whole;
    return `${command ? `${command}: ` : ''}${[duration(trace.end), ...parts.filter(Boolean)].join(', ')}`;
}

/** The contents of the trace, each with the number of its events and the tab or row that shows it. */
export function contents(app: Page): HTMLElement {
    const { trace } = app;
    const { nodes } = trace;
    const go = (text: string, node: number) => el('button', { class: 'link', click: () => app.setFocus(node) }, name(text));
    const tab = (text: string, to: Tab) => el('button', { class: 'link', click: () => app.panel.open(to) }, text);
    const items: (HTMLElement | string)[][] = [];
    if (commandOf(trace)) items.push(['Command', name(commandOf(trace))]);
    for (const node of subjects(trace)) {
        const kind = nodes.kind[node] === Kind.Heap ? `Heap of ${title(nodes, nodes.parent[node] === NONE ? node : nodes.parent[node])}` : `Disk ${nodes.name(node)}`;
        items.push([go(kind, node), plural(nodes.rows[node], nodes.kind[node] === Kind.Heap ? 'dump' : 'request')]);
    }
    for (const profile of trace.profiles) items.push([tab(profile.name, 'flame'), 'as flamegraph']);
    const cpus = totals(trace, Kind.Cpu);
    if (cpus.rows > 0) items.push(['Scheduling', `${plural(cpus.nodes, 'CPU')}, ${plural(cpus.rows, 'time', 'times')} on a CPU`]);
    const slices = totals(trace, Kind.Slices);
    if (slices.rows > 0) items.push(['Slices', `${count(slices.rows)} on ${plural(slices.nodes, 'track')}`]);
    const counters = totals(trace, Kind.Counter);
    if (counters.rows > 0) items.push(['Counters', `${count(counters.nodes)} with ${plural(counters.rows, 'value')}`]);
    const logs = totals(trace, Kind.Log);
    if (logs.rows > 0) items.push([tab('Kernel events and messages', 'log'), count(logs.rows)]);
    if (items.length === 0) {
        return el('p', { class: 'hint' }, 'No events. A recording of scheduling (', el('code', {}, 'ferretto record'), '), callstacks (', el('code', {}, '--perf'), '), disks (', el('code', {}, '--io'),
            ') or of a program with the SDK has some.');
    }
    return el('dl', {}, ...items.flatMap(([what, amount]) => [el('dt', {}, what), el('dd', {}, amount)]));
}

/** The colours of states and marks. */
export function legend(colors: Palette): HTMLElement {
    const { states } = colors;
    const all: [string, string][] = [
        [css(states.running), 'Running on a CPU'],
        [css(states.runnable), 'Runnable, waiting for a CPU'],
        [css(states.blocked), 'Uninterruptible sleep, as for a disk'],
        [css(states.sleeping), 'Sleeping, idle'],
        [css(states.other), 'Stopped, traced, parked and others'],
        [css(colors.sample), 'Sample of a callstack'],
        [css(colors.group), 'Load of a process'],
        [css(colors.hit), 'Match of the search'],
        [colors.note, 'Note'],
        [colors.loss, 'Lost data'],
    ];
    return el('ul', { class: 'refs' }, ...all.map(([color, text]) => {
        const swatch = el('span', { class: 'swatch' });
        swatch.style.background = color;
        return el('li', {}, swatch, ' ', text);
    }));
}
