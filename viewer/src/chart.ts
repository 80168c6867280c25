// Charts of the result of a query: bars, lines, points and histograms, drawn as SVG.

import { oklch, type Scheme } from './colors';
import { count, duration } from './format';
import type { Rows } from './rows';

/** The kinds of charts. */
export const CHARTS = { bars: 'bars', line: 'lines', points: 'points', histogram: 'histogram' } as const;
export type ChartKind = keyof typeof CHARTS;

/** A chart of a query, as the address keeps it. */
export interface Chart {
    kind: ChartKind;
    sql: string;
    title: string;
    /** The column of names, of the horizontal axis, or of the values of a histogram. */
    x: string;
    /** The column of values; empty for the number of rows. */
    y: string;
    /** The column with a colour for each of its values; empty for one colour. */
    by: string;
}

export interface Look {
    width: number;
    dark: boolean;
    scheme: Scheme;
    /** The start of the trace, from which times are counted. */
    start: bigint;
}

const MAX_BARS = 20;
const MAX_SERIES = 8;
const MAX_POINTS = 4000;
const BINS = 40;
const BAR = 20;
const HEIGHT = 220;
const LETTER = 6.8;
const HUES = [250, 45, 150, 320, 95, 200, 20, 285];
const SAFE_HUES = [250, 85];
/** The lines of series differ by their dashes as well as by their colours. */
const DASHES = ['', '6 3', '2 3', '9 3 2 3', '12 4', '4 2', '1 4', '8 2 1 2 1 2'];

type Child = SVGElement | string | null;

function svg(tag: string, attributes: Record<string, string | number>, ...children: Child[]): SVGElement {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.append(...children.filter((child) => child !== null));
    return element;
}

/** Returns a part of a chart with a text that is shown under the mouse. */
function told(element: SVGElement, text: string): SVGElement {
    element.append(svg('title', {}, text));
    return element;
}

function colorOf(series: number, { dark, scheme }: Look): string {
    const hues = scheme === 'safe' ? SAFE_HUES : HUES;
    const light = (dark ? 0.72 : 0.55) + (scheme === 'safe' ? (Math.floor(series / 2) % 3) * (dark ? -0.12 : 0.12) : 0);
    const [r, g, b] = oklch(light, scheme === 'strong' ? 0.17 : 0.12, hues[series % hues.length]);
    return `rgb(${[r, g, b].map((part) => Math.round(part * 255)).join(' ')})`;
}

const isTime = (column: string) => /^(ts|start|time|ts_end)$/i.test(column);
const isDuration = (column: string) => /(^|_)(dur|duration|ns)$|^(dur|self|wait)/i.test(column);

/** Returns a value of a column in the unit that its name suggests. */
export function shown(column: string, value: number): string {
    return isTime(column) || isDuration(column) ? duration(value) : Math.abs(value) >= 1e6 && !Number.isInteger(value) ? value.toPrecision(5) : count(value);
}

/** Returns a distance between ticks of about a fifth of a span. */
function stepOf(span: number): number {
    const rough = span / 5 || 1;
    const size = 10 ** Math.floor(Math.log10(rough));
    return size * ([1, 2, 5].find((by) => by * size >= rough) ?? 10);
}

/** The bounds of an axis, and its ticks. */
interface Scale {
    from: number;
    to: number;
    ticks: number[];
}

function scaleOf(from: number, to: number): Scale {
    const step = stepOf(to - from || Math.abs(to) || 1);
    const [low, high] = [Math.floor(from / step) * step, Math.max(Math.ceil(to / step), Math.floor(from / step) + 1) * step];
    const ticks = Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);
    return { from: low, to: high, ticks };
}

/** A point of a series. */
interface Point {
    x: number;
    y: number;
    series: number;
}

/** The values of the column of colours, the most frequent first. The last one stands for all others. */
class Series {
    readonly names: string[];
    private at = new Map<string, number>();

    constructor(private rows: Rows, private column: number) {
        const counts = new Map<string, number>();
        for (let row = 0; column >= 0 && row < rows.length; row++) {
            const name = rows.text(row, column, 'null');
            counts.set(name, (counts.get(name) ?? 0) + 1);
        }
        const all = [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
        const most = all.length > MAX_SERIES ? MAX_SERIES - 1 : MAX_SERIES;
        all.forEach((name, i) => this.at.set(name, Math.min(i, most)));
        this.names = all.length > MAX_SERIES ? [...all.slice(0, most), `${all.length - most} others`] : all;
    }

    of(row: number): number {
        return this.column < 0 ? 0 : (this.at.get(this.rows.text(row, this.column, 'null')) ?? 0);
    }
}

/** Draws a chart. Fails with a sentence if the rows lack its columns. */
export function drawChart(chart: Chart, rows: Rows, look: Look): SVGElement {
    const at = (name: string) => {
        const column = name === '' ? -1 : rows.columns.indexOf(name);
        if (name !== '' && column < 0) throw new Error(`The query has no column ${name}`);
        return column;
    };
    const [x, y, by] = [at(chart.x), at(chart.y), at(chart.by)];
    if (rows.length === 0) throw new Error('The query has no rows');
    const series = new Series(rows, by);
    const value = (row: number, column: number) => (isTime(rows.columns[column]) ? rows.time(row, column, look.start) : rows.number(row, column));
    if (chart.kind === 'bars') return bars(chart, sums(rows, x, y, series), series.names, look);
    if (chart.kind === 'histogram') {
        const points = Array.from({ length: rows.length }, (_, row) => ({ x: value(row, x), y: 0, series: series.of(row) }));
        return histogram(chart, points.filter((point) => Number.isFinite(point.x)), series.names, look);
    }
    const points = Array.from({ length: rows.length }, (_, row) => ({ x: value(row, x), y: value(row, y), series: series.of(row) }));
    return plot(chart, points.filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y)), series.names, look);
}

/** Returns the sums of values by name and series, the largest first. */
function sums(rows: Rows, x: number, y: number, series: Series): { name: string; parts: number[]; total: number }[] {
    const found = new Map<string, { name: string; parts: number[]; total: number }>();
    for (let row = 0; row < rows.length; row++) {
        const name = rows.text(row, x, 'null');
        const value = y < 0 ? 1 : rows.number(row, y);
        if (!Number.isFinite(value)) continue;
        let sum = found.get(name);
        if (!sum) found.set(name, (sum = { name, parts: [], total: 0 }));
        sum.parts[series.of(row)] = (sum.parts[series.of(row)] ?? 0) + value;
        sum.total += value;
    }
    const all = [...found.values()].sort((a, b) => b.total - a.total);
    if (all.length <= MAX_BARS) return all;
    const others = { name: `${count(all.length - MAX_BARS + 1)} others`, parts: [] as number[], total: 0 };
    for (const { parts, total } of all.splice(MAX_BARS - 1)) {
        parts.forEach((part, i) => (others.parts[i] = (others.parts[i] ?? 0) + part));
        others.total += total;
    }
    return [...all, others];
}

function frame(chart: Chart, names: string[], look: Look, height: number, ...children: Child[]): SVGElement {
    const top = names.length > 0 ? legend(names, look, chart.kind === 'line') : { height: 0, marks: [] };
    const body = svg('g', { transform: `translate(0 ${top.height})` }, ...children);
    const size = { width: look.width, height: height + top.height };
    return svg('svg', { class: 'chart', role: 'img', 'aria-label': `${CHARTS[chart.kind]}: ${chart.title}`, ...size, viewBox: `0 0 ${size.width} ${size.height}` }, ...top.marks, body);
}

function legend(names: string[], look: Look, isDashed: boolean): { height: number; marks: SVGElement[] } {
    let [x, y] = [4, 12];
    const marks = names.map((name, i) => {
        const text = clip(name, 28);
        const width = 30 + text.length * LETTER;
        if (x + width > look.width && x > 4) [x, y] = [4, y + 16];
        const color = colorOf(i, look);
        const key = isDashed
            ? svg('line', { x1: x, x2: x + 18, y1: y - 4, y2: y - 4, stroke: color, 'stroke-width': 2, 'stroke-dasharray': DASHES[i] })
            : svg('rect', { x: x + 4, y: y - 9, width: 10, height: 10, fill: color });
        const mark = told(svg('g', {}, key, svg('text', { x: x + 22, y }, text)), name);
        x += width;
        return mark;
    });
    return { height: y + 6, marks };
}

const clip = (text: string, letters: number) => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);

function bars(chart: Chart, all: ReturnType<typeof sums>, names: string[], look: Look): SVGElement {
    const letters = Math.min(32, Math.max(...all.map(({ name }) => name.length)), Math.floor(look.width * 0.35 / LETTER));
    const left = letters * LETTER + 10;
    const column = chart.y || 'count';
    const right = Math.max(...all.map(({ total }) => shown(column, total).length)) * LETTER + 8;
    const least = Math.min(0, ...all.map(({ total }) => total));
    const most = Math.max(0, ...all.map(({ total }) => total));
    const scale = (look.width - left - right) / (most - least || 1);
    const marks = all.flatMap(({ name, parts, total }, i) => {
        const y = i * BAR;
        let at = total < 0 ? total : 0;
        const boxes = Object.entries(parts).map(([of, part]) => {
            const box = svg('rect', { x: left + (at - least) * scale, y: y + 3, width: Math.max(1, Math.abs(part) * scale), height: BAR - 5, fill: colorOf(Number(of), look) });
            at += Math.abs(part);
            const inside = names.length > 0 ? `${name}, ${names[Number(of)]}` : name;
            return told(box, `${inside}: ${shown(column, part)}`);
        });
        return [
            told(svg('text', { x: left - 6, y: y + 15, 'text-anchor': 'end' }, clip(name, letters)), name),
            ...boxes,
            svg('text', { x: left + (Math.max(total, 0) - least) * scale + 5, y: y + 15, class: 'value' }, shown(column, total)),
        ];
    });
    return frame(chart, names, look, all.length * BAR + 4, ...marks);
}

/** The area of a chart with two axes. */
class Area {
    readonly left: number;
    private bottom = HEIGHT - 36;

    constructor(private look: Look, readonly x: Scale, readonly y: Scale, private columns: [string, string]) {
        this.left = Math.max(...y.ticks.map((tick) => shown(columns[1], tick).length)) * LETTER + 14;
    }

    atX(value: number): number {
        return this.left + ((value - this.x.from) / (this.x.to - this.x.from)) * (this.look.width - this.left - 14);
    }

    atY(value: number): number {
        return this.bottom - ((value - this.y.from) / (this.y.to - this.y.from)) * (this.bottom - 8);
    }

    axes(): SVGElement[] {
        const { look, bottom, left, columns } = this;
        const across = this.y.ticks.flatMap((tick) => [
            svg('line', { class: 'grid', x1: left, x2: look.width - 14, y1: this.atY(tick), y2: this.atY(tick) }),
            svg('text', { x: left - 6, y: this.atY(tick) + 4, 'text-anchor': 'end' }, shown(columns[1], tick)),
        ]);
        const room = (look.width - left) / this.x.ticks.length;
        const every = Math.max(1, Math.ceil((Math.max(...this.x.ticks.map((tick) => shown(columns[0], tick).length)) * LETTER + 10) / room));
        const along = this.x.ticks.filter((_, i) => i % every === 0).map((tick) =>
            svg('text', { x: Math.min(this.atX(tick), look.width - shown(columns[0], tick).length * LETTER / 2), y: bottom + 16, 'text-anchor': 'middle' }, shown(columns[0], tick)));
        return [...across, ...along, svg('text', { x: (left + look.width) / 2, y: bottom + 32, 'text-anchor': 'middle', class: 'value' }, columns[0])];
    }
}

function plot(chart: Chart, points: Point[], names: string[], look: Look): SVGElement {
    if (points.length === 0) throw new Error(`The columns ${chart.x} and ${chart.y} have no numbers`);
    const bounds = (of: (point: Point) => number) => points.reduce(([low, high], point) => [Math.min(low, of(point)), Math.max(high, of(point))], [Infinity, -Infinity]);
    const [low, high] = bounds((point) => point.y);
    const area = new Area(look, scaleOf(...(bounds((point) => point.x) as [number, number])), scaleOf(Math.min(0, low), high), [chart.x, chart.y]);
    const marks = names.length > 0 ? names.map((_, i) => points.filter((point) => point.series === i)) : [points];
    const drawn = marks.flatMap((own, i) => {
        const color = colorOf(i, look);
        if (chart.kind === 'points') {
            const every = Math.ceil(points.length / MAX_POINTS);
            return own.filter((_, at) => at % every === 0).map((point) =>
                told(svg('circle', { cx: area.atX(point.x), cy: area.atY(point.y), r: 2.5, fill: color, 'fill-opacity': 0.7 }), nameOf(chart, point, names[i])));
        }
        own.sort((a, b) => a.x - b.x);
        const line = thinned(own, area).map((point) => `${area.atX(point.x).toFixed(1)},${area.atY(point.y).toFixed(1)}`).join(' ');
        return [told(svg('polyline', { points: line, fill: 'none', stroke: color, 'stroke-width': 1.5, 'stroke-dasharray': DASHES[i] }), names[i] ?? chart.y)];
    });
    return frame(chart, names, look, HEIGHT, ...area.axes(), ...drawn);
}

const nameOf = (chart: Chart, point: Point, name: string | undefined) =>
    `${name ? `${name}, ` : ''}${chart.x} ${shown(chart.x, point.x)}, ${chart.y} ${shown(chart.y, point.y)}`;

/** Returns the points of a line that are visible: the least and the greatest of each pixel. */
function thinned(points: Point[], area: Area): Point[] {
    if (points.length <= MAX_POINTS) return points;
    const found: Point[] = [];
    for (let first = 0; first < points.length; ) {
        const pixel = Math.round(area.atX(points[first].x));
        let [low, high, last] = [first, first, first];
        for (; last < points.length && Math.round(area.atX(points[last].x)) === pixel; last++) {
            if (points[last].y < points[low].y) low = last;
            if (points[last].y > points[high].y) high = last;
        }
        found.push(...[...new Set([first, low, high, last - 1])].sort((a, b) => a - b).map((at) => points[at]));
        first = last;
    }
    return found;
}

function histogram(chart: Chart, points: Point[], names: string[], look: Look): SVGElement {
    if (points.length === 0) throw new Error(`The column ${chart.x} has no numbers`);
    const [low, high] = points.reduce(([low, high], { x }) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);
    const x = scaleOf(low, high);
    const width = (x.to - x.from) / BINS;
    const bins = Array.from({ length: BINS }, () => [] as number[]);
    for (const point of points) {
        const bin = bins[Math.min(BINS - 1, Math.floor((point.x - x.from) / width))];
        bin[point.series] = (bin[point.series] ?? 0) + 1;
    }
    const most = Math.max(...bins.map((bin) => bin.reduce((sum, part) => sum + part, 0)));
    const area = new Area(look, x, scaleOf(0, most), [chart.x, 'count']);
    const marks = bins.flatMap((bin, i) => {
        let at = 0;
        const [left, right] = [area.atX(x.from + i * width), area.atX(x.from + (i + 1) * width)];
        const between = `${shown(chart.x, x.from + i * width)} to ${shown(chart.x, x.from + (i + 1) * width)}`;
        return Object.entries(bin).map(([of, part]) => {
            const [top, foot] = [area.atY(at + part), area.atY(at)];
            at += part;
            const box = svg('rect', { x: left + 0.5, y: top, width: Math.max(1, right - left - 1), height: foot - top, fill: colorOf(Number(of), look) });
            return told(box, `${names.length > 0 ? `${names[Number(of)]}, ` : ''}${between}: ${count(part)}`);
        });
    });
    return frame(chart, names, look, HEIGHT, ...area.axes(), ...marks);
}
