// The form that draws the result of a query as a chart.

import { CHARTS, type Chart, type ChartKind, drawChart, type Look } from './chart';
import { el } from './dom';
import { text } from './format';
import { isNumeric, type Rows } from './rows';

/** Columns that are numbers, but name something. */
const NAMES = /^(id|.*_id|utid|upid|tid|pid|cpu|ucpu|depth|ts|type)$/i;

/** Returns a form with the chart below it. `keep` takes the chart. */
export function chartForm(rows: Rows, sql: string, look: () => Look, keep: (chart: Chart) => void): HTMLElement {
    const { columns } = rows;
    const numeric = columns.filter((_, column) => isNumeric(rows, column));
    const texts = columns.filter((name) => !numeric.includes(name));
    const amounts = numeric.filter((name) => !NAMES.test(name));
    const time = columns[rows.column('ts', 'start', 'time')];
    const kind: ChartKind = time && amounts.some((name) => name !== 'dur') ? 'line' : texts.length > 0 ? 'bars' : numeric.length > 1 ? 'points' : 'histogram';
    const chart: Chart = { kind, sql, title: '', x: '', y: '', by: '' };
    const form = el('form', { class: 'controls' });
    const picture = el('div', { class: 'preview' });
    const draw = () => {
        try {
            picture.replaceChildren(drawChart(chart, rows, look()));
        } catch (error) {
            picture.replaceChildren(el('p', { class: 'warn' }, text(error)));
        }
    };
    const fit = () => {
        const names = [...texts, ...columns.filter((name) => !texts.includes(name))];
        const [first, second] = [numeric[0] ?? columns[0], numeric[1] ?? numeric[0] ?? columns[0]];
        if (chart.kind === 'bars') Object.assign(chart, { x: names[0], y: amounts[0] ?? '', by: '' });
        else if (chart.kind === 'histogram') Object.assign(chart, { x: columns[rows.column('dur')] ?? amounts[0] ?? first, y: '', by: '' });
        else Object.assign(chart, { x: time ?? first, y: amounts.find((name) => name !== (time ?? first)) ?? second, by: '' });
    };
    const select = (label: string, value: string, options: [string, string][], change: (value: string) => void) =>
        el('label', {}, el('span', { class: 'faint' }, label), el('select', {
            'aria-label': `Chart: ${label}`,
            change: (event) => {
                change((event.target as HTMLSelectElement).value);
                show();
                form.querySelector<HTMLElement>(`[aria-label="Chart: ${label}"]`)?.focus();
            },
        }, ...options.map(([of, text]) => el('option', { value: of, selected: of === value }, text))));
    const all = columns.map((name): [string, string] => [name, name]);
    const title = el('input', { type: 'text', 'aria-label': 'Chart: title', placeholder: 'Title', autocomplete: 'off', spellcheck: 'false' });
    const show = () => {
        const { kind } = chart;
        const isBars = kind === 'bars';
        form.replaceChildren(
            select('draw', kind, Object.entries(CHARTS), (value) => {
                chart.kind = value as ChartKind;
                fit();
            }),
            select(isBars ? 'for each' : kind === 'histogram' ? 'of' : 'across', chart.x, all, (value) => (chart.x = value)),
            ...(kind === 'histogram' ? [] : [select(isBars ? 'length' : 'up', chart.y, isBars ? [['', 'number of rows'], ...all] : all, (value) => (chart.y = value))]),
            select('colours by', chart.by, [['', 'one colour'], ...all], (value) => (chart.by = value)),
            title,
            el('button', { type: 'submit', title: 'Keep the chart in the tab “Charts”, and in the address' }, 'Keep'));
        draw();
    };
    form.addEventListener('submit', (event) => {
        event.preventDefault();
        keep({ ...chart, title: title.value.trim() || titleOf(chart) });
    });
    fit();
    show();
    return el('div', { class: 'charting' }, form, picture);
}

function titleOf({ kind, x, y, by }: Chart): string {
    const what = kind === 'histogram' ? x : y || 'count';
    const across = kind === 'bars' ? ` by ${x}` : kind === 'histogram' ? '' : ` over ${x}`;
    return `${what}${across}${by ? ` and ${by}` : ''}`;
}
