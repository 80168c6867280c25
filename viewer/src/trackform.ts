// The form that draws the result of a query as tracks.

import { el } from './dom';
import { isNumeric, type Rows } from './rows';

/** Tracks from a query, as the address keeps them. */
export interface QueryTracks {
    kind: 'slices' | 'counter';
    sql: string;
    title: string;
    ts: string;
    /** The column of durations; empty for instants and for counters. */
    dur: string;
    /** The column of names, or of a counter's values. */
    name: string;
    /** The column with a track for each of its values; empty for one track. */
    pivot: string;
}

/** Tracks of the chain of waits of an event. */
export interface ChainTracks {
    kind: 'chain';
    node: number;
    id: number;
    title: string;
}

/** Rows of the kept range or of the previous trace, moved in time. */
export interface BesideTracks {
    kind: 'beside';
    title: string;
    of: 'this' | 'before';
    shift: number;
    nodes: number[];
}

export type Tracks = QueryTracks | ChainTracks | BesideTracks;

export function trackForm(rows: Rows, add: (track: QueryTracks) => void): HTMLElement {
    const { columns } = rows;
    const named = (...names: string[]) => columns[rows.column(...names)] ?? '';
    const isNumber = (name: string) => isNumeric(rows, columns.indexOf(name));
    const select = (label: string, chosen: string, none: string | null) => {
        const list = el('select', { 'aria-label': label },
            none !== null && el('option', { value: '' }, none), ...columns.map((name) => el('option', { value: name }, name)));
        list.value = chosen;
        return list;
    };
    const ts = named('ts', 'start', 'time') || (columns.find(isNumber) ?? columns[0]);
    const texts = columns.filter((name) => !isNumber(name));
    const numbers = columns.filter((name) => isNumber(name) && !['ts', 'dur', 'id', 'utid', 'upid', 'track_id', 'cpu', 'ucpu', 'tid', 'pid'].includes(name));
    const hasDur = rows.column('dur') >= 0;
    const kind = el('select', { 'aria-label': 'Kind' }, el('option', { value: 'slices' }, 'slices'), el('option', { value: 'counter' }, 'counter'));
    kind.value = hasDur || numbers.length === 0 ? 'slices' : 'counter';
    const time = select('Time', ts, null);
    const dur = select('Duration', named('dur'), 'instants');
    const name = select('Name', named('name') || (texts[0] ?? ''), 'no name');
    const value = select('Value', named('value') || (numbers[0] ?? ''), null);
    const pivot = select('A track for each', '', 'one track');
    const title = el('input', { type: 'text', 'aria-label': 'Title', value: 'Query', autocomplete: 'off', spellcheck: 'false' });
    const labelled = (text: string, input: HTMLElement) => el('label', {}, el('span', { class: 'faint' }, text), input);
    const [durLabel, nameLabel, valueLabel] = [labelled('duration', dur), labelled('name', name), labelled('value', value)];
    const turn = () => {
        const isCounter = kind.value === 'counter';
        durLabel.hidden = nameLabel.hidden = isCounter;
        valueLabel.hidden = !isCounter;
    };
    kind.addEventListener('change', turn);
    turn();
    const form = el('form', { class: 'controls' },
        labelled('draw', kind), labelled('time', time), durLabel, nameLabel, valueLabel, labelled('a track for each', pivot), labelled('title', title),
        el('button', { type: 'submit' }, 'Draw'));
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        const isCounter = kind.value === 'counter';
        add({
            kind: isCounter ? 'counter' : 'slices',
            sql: '',
            title: title.value.trim() || 'Query',
            ts: time.value,
            dur: isCounter ? '' : dur.value,
            name: isCounter ? value.value : name.value,
            pivot: pivot.value,
        });
    });
    return form;
}
