// The picture: the overview, the ruler, pinned rows and the visible rows, on two canvases, one above the other:
// rectangles below, text above.

import { ticks, type Axis } from './axis';
import type { Cache } from './cache';
import type { Palette } from './colors';
import { drawLane, type Brush, type Label, type Mark } from './draw';
import { clock, date, duration, formats, tick } from './format';
import { accelerated, flat, hasCard, RectList, type Painter } from './gl';
import { depthHeight, depthTop, type Lane } from './lanes';
import type { Layout } from './layout';
import type { Note } from './marks';
import type { Loss, Nodes, Ref } from './model';

export const OVERVIEW = 30;
export const RULER = 40;
/** The most losses in sight whose lines cross the rows. More would hide the picture; their marks in the ruler remain. */
const MAX_LOSS_LINES = 4;

/** A visible row, in CSS pixels from the top of the stage. */
export interface Box {
    node: number;
    y: number;
    h: number;
    level: number;
    pinned: boolean;
}

export interface Arrow {
    from: Ref;
    to: Ref;
}

/** The content of the picture. */
export interface Picture {
    axis: Axis;
    layout: Layout;
    cache: Cache;
    nodes: Nodes;
    scroll: number;
    colors: Palette;
    selected: Ref | null;
    range: { from: number; to: number; boxes: Set<number> | null } | null;
    baseline: { from: number; to: number } | null;
    arrows: Arrow[];
    losses: Loss[];
    hits: Ref[];
    /** The number of matches in equal steps of the trace, from 0 to 255. */
    density: Uint8Array;
    /** The load of the whole trace, from 0 to 255, in equal steps. */
    overview: Uint8Array;
    wall: bigint | null;
    hoverX: number | null;
    end: number;
    notes: Note[];
    /** The name of the highlighted events; others are pale. */
    highlight: string | null;
}

/** Returns the times of the lines of the ruler. They are round numbers since zero. */
function lines(axis: Axis, width: number, room: number): { step: number; times: number[] } {
    const { zero } = formats;
    const { step, times } = ticks(axis.t0 - zero, axis.t1 - zero, width, room);
    return { step, times: times.map((time) => time + zero) };
}

export class Scene {
    private painter: Painter;
    private text: CanvasRenderingContext2D;
    private rects = new RectList();
    private widths = new Map<string, number>();
    private font = '';
    width = 0;
    height = 0;
    ratio = 1;
    em = 13;

    constructor(
        private boxes: HTMLCanvasElement,
        private letters: HTMLCanvasElement,
    ) {
        this.painter = flat(boxes);
        this.text = letters.getContext('2d', { willReadFrequently: true })!;
    }

    /** Switches to the graphics card if there is one. Returns true if it did. */
    useCard(): boolean {
        if (!hasCard()) return false;
        // The kind of context of a canvas cannot be changed, so new canvases replace the old ones.
        const [boxes, letters] = [this.boxes, this.letters].map((canvas) => canvas.cloneNode() as HTMLCanvasElement);
        const painter = accelerated(boxes);
        if (!painter) return false;
        this.boxes.replaceWith(boxes);
        this.letters.replaceWith(letters);
        [this.boxes, this.letters, this.painter] = [boxes, letters, painter];
        this.text = letters.getContext('2d')!;
        return true;
    }

    get backend(): string {
        return this.painter.name;
    }

    /** Returns true if the picture has this size. */
    has(width: number, height: number, ratio: number, em: number): boolean {
        return this.width === width && this.height === height && this.ratio === ratio && this.em === em;
    }

    resize(width: number, height: number, ratio: number, em: number): void {
        this.width = width;
        this.height = height;
        this.ratio = ratio;
        this.em = em;
        for (const canvas of [this.boxes, this.letters]) {
            const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
            if (canvas.width !== w) canvas.width = w;
            if (canvas.height !== h) canvas.height = h;
        }
        const font = `${Math.round(em * 0.92 * ratio)}px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif`;
        if (font !== this.font) this.widths.clear();
        this.font = font;
    }

    /** Returns the top of the rows that scroll. */
    top(picture: Picture): number {
        let y = OVERVIEW + RULER;
        for (const box of this.pinned(picture)) y = box.y + box.h;
        return y;
    }

    private pinned(picture: Picture): Box[] {
        const boxes: Box[] = [];
        let y = OVERVIEW + RULER;
        for (const node of picture.layout.pinned) {
            const h = picture.layout.height(node);
            if (y + h > this.height * 0.6 && boxes.length > 0) break;
            boxes.push({ node, y, h, level: 0, pinned: true });
            y += h;
        }
        return boxes;
    }

    /** Returns the visible rows. */
    visible(picture: Picture): Box[] {
        const boxes = this.pinned(picture);
        const last = boxes[boxes.length - 1];
        const top = last ? last.y + last.h : OVERVIEW + RULER;
        const { layout, scroll } = picture;
        if (layout.length === 0) return boxes;
        for (let i = layout.at(scroll); i < layout.length; i++) {
            const row = layout.row(i);
            const y = top + row.y - scroll;
            if (y >= this.height) break;
            boxes.push({ node: row.node, y, h: row.h, level: row.level, pinned: false });
        }
        return boxes;
    }

    /** Returns the nodes to draw. */
    wanted(picture: Picture): number[] {
        const nodes = new Set<number>();
        for (const box of this.visible(picture)) for (const lane of picture.layout.lanes(box.node)) nodes.add(lane.node);
        return [...nodes];
    }

    draw(picture: Picture): void {
        const { axis, colors, layout } = picture;
        const ratio = this.ratio;
        const width = Math.round(this.width * ratio);
        const height = Math.round(this.height * ratio);
        const text = this.text;
        text.clearRect(0, 0, width, height);
        text.font = this.font;
        text.textBaseline = 'middle';
        this.rects.clear();
        const boxes = this.visible(picture);
        const top = Math.round(this.top(picture) * ratio);
        this.grid(picture, width, height);
        const brush: Brush = {
            rects: this.rects,
            labels: [],
            marks: [],
            colors,
            ratio,
            t0: axis.t0,
            scale: width / axis.span,
            width,
            top,
            bottom: height,
            highlight: picture.highlight,
        };
        for (const pass of [false, true]) {
            if (pass) {
                const start = Math.round((OVERVIEW + RULER) * ratio);
                brush.top = start;
                brush.bottom = top;
                if (top > start) {
                    text.clearRect(0, start, width, top - start);
                    this.rects.add(0, start, width, top - start, colors.ground);
                }
            }
            brush.labels = [];
            brush.marks = [];
            for (const box of boxes) {
                if (box.pinned !== pass) continue;
                const y = Math.round(box.y * ratio);
                this.rects.add(0, y + Math.round(box.h * ratio) - 1, width, 1, colors.line);
                for (const lane of layout.lanes(box.node)) this.lane(picture, brush, lane, y);
            }
            text.save();
            text.beginPath();
            text.rect(0, brush.top, width, Math.max(0, brush.bottom - brush.top));
            text.clip();
            this.marks(brush.marks, colors);
            this.labels(brush.labels, colors);
            this.outline(picture, boxes, pass, brush);
            text.restore();
        }
        if (top > Math.round((OVERVIEW + RULER) * ratio)) this.rects.add(0, top - 1, width, Math.max(1, ratio), colors.border);
        this.ranges(picture, boxes, width, height);
        this.arrows(picture, boxes, brush, top);
        this.head(picture, width);
        this.painter.draw(this.rects, width, height);
    }

    private lane(picture: Picture, brush: Brush, lane: Lane, rowY: number): void {
        const y = rowY + Math.round(lane.y * this.ratio);
        if (y > this.height * this.ratio || y + lane.h * this.ratio < 0) return;
        const { t0, t1 } = picture.axis;
        const { whole, near } = picture.cache.tiles(lane.node);
        const draw = (tile: NonNullable<typeof near>, from: number, to: number) =>
            drawLane(brush, picture.nodes, lane, y, tile, from, to);
        if (near && (!whole || near === whole || (near.to > t0 && near.from < t1))) {
            if (whole && near !== whole && near.from > t0 && near.from > 0) draw(whole, t0, near.from);
            draw(near, Math.max(t0, near.from), near.to >= picture.end ? t1 : Math.min(t1, near.to));
            if (whole && near !== whole && near.to < t1 && near.to < picture.end) draw(whole, near.to, t1);
        } else if (whole) draw(whole, t0, t1);
    }

    private grid(picture: Picture, width: number, height: number): void {
        const { axis, colors } = picture;
        const { times } = lines(axis, this.width, 8 * this.em);
        const top = Math.round(OVERVIEW * this.ratio);
        for (const time of times) this.rects.add(Math.round(axis.x(time) * this.ratio), top, 1, height - top, colors.line);
        for (const time of [0, picture.end]) {
            const x = Math.round(axis.x(time) * this.ratio);
            if (x >= 0 && x < width) this.rects.add(x, top, 1, height - top, colors.border);
        }
    }

    private measure(word: string): number {
        let width = this.widths.get(word);
        if (width === undefined) {
            width = this.text.measureText(word).width;
            if (this.widths.size > 50_000) this.widths.clear();
            this.widths.set(word, width);
        }
        return width;
    }

    /** Truncates a text to the available width, and marks the truncation. */
    private fit(word: string, room: number): string {
        const long = word.length > 400 ? word.slice(0, 400) : word;
        const full = this.measure(long);
        if (full <= room) return long;
        let letters = Math.floor((long.length * room) / full) - 1;
        while (letters > 0) {
            const cut = `${long.slice(0, letters)}…`;
            if (this.measure(cut) <= room) return cut;
            letters -= letters > 12 ? 2 : 1;
        }
        return '';
    }

    private labels(labels: Label[], colors: Palette): void {
        const text = this.text;
        text.fillStyle = colors.text;
        const room = 4 * this.ratio;
        for (const { x, y, w, h, text: word } of labels) {
            const shown = this.fit(word, w - 2 * room);
            if (shown !== '') text.fillText(shown, x + room, y + h / 2 + this.ratio * 0.5);
        }
    }

    /** Draws marks as diamonds of rectangles. A path of thousands of them takes up to 100 ms. */
    private marks(marks: Mark[], colors: Palette): void {
        const size = 4 * this.ratio;
        for (const { x, y, h } of marks) {
            const middle = Math.round(x);
            const half = Math.round(Math.min(size, h / 2));
            for (let by = 0; by <= half; by++) {
                const inset = 1 + Math.round(((h / 2 - 1) * by) / (half + 1));
                this.rects.add(middle - by, y + inset, 2 * by + 1, h - 2 * inset, colors.mark);
            }
        }
    }

    /** Returns the vertical place of an event on the screen, in device pixels. At the edge of its row if its depth is hidden. */
    private place(picture: Picture, boxes: Box[], ref: Ref): { y: number; h: number; box: Box } | null {
        for (const box of boxes) {
            for (const lane of picture.layout.lanes(box.node)) {
                if (lane.node !== ref.node) continue;
                const deep = picture.nodes.depth[ref.node] > 1;
                const h = deep ? depthHeight(lane, ref.depth) : lane.h;
                const y = deep ? Math.min(depthTop(lane, ref.depth), lane.h - h) : 0;
                return { y: (box.y + lane.y + y) * this.ratio, h: h * this.ratio, box };
            }
        }
        return null;
    }

    private outline(picture: Picture, boxes: Box[], pinned: boolean, brush: Brush): void {
        const { selected, colors } = picture;
        if (!selected) return;
        const place = this.place(picture, boxes.filter((box) => box.pinned === pinned), selected);
        if (!place) return;
        const x0 = Math.max((selected.start - brush.t0) * brush.scale, -10);
        const x1 = Math.min((selected.start + selected.dur - brush.t0) * brush.scale, brush.width + 10);
        if (x1 < -9 || x0 > brush.width + 9) return;
        const text = this.text;
        const thick = Math.max(2, Math.round(2 * this.ratio));
        text.strokeStyle = colors.select;
        text.lineWidth = thick;
        const w = Math.max(x1 - x0, 4 * this.ratio);
        const left = x1 - x0 < w ? (x0 + x1 - w) / 2 : x0;
        text.strokeRect(left, place.y + thick / 2, w - 1, Math.max(place.h - thick - 1, 3));
    }

    private ranges(picture: Picture, boxes: Box[], width: number, height: number): void {
        const { axis, range, baseline, colors, losses, hoverX } = picture;
        const text = this.text;
        const ratio = this.ratio;
        const top = Math.round((OVERVIEW + RULER) * ratio);
        const edges = (from: number, to: number) => {
            const x0 = Math.max(-2, axis.x(from) * ratio);
            const x1 = Math.min(width + 2, axis.x(to) * ratio);
            return [x0, Math.max(x1, x0 + 1)] as const;
        };
        if (baseline) {
            const [x0, x1] = edges(baseline.from, baseline.to);
            text.strokeStyle = colors.flow;
            text.lineWidth = ratio;
            text.setLineDash([4 * ratio, 3 * ratio]);
            text.strokeRect(x0, top - 4 * ratio, x1 - x0, height - top + 8 * ratio);
            text.setLineDash([]);
        }
        if (range) {
            const [x0, x1] = edges(range.from, range.to);
            text.fillStyle = colors.range;
            if (range.boxes) {
                for (const box of boxes) {
                    if (range.boxes.has(box.node)) text.fillRect(x0, box.y * ratio, x1 - x0, box.h * ratio);
                }
            } else text.fillRect(x0, top, x1 - x0, height - top);
            text.fillStyle = colors.accent;
            text.fillRect(x0, top - 3 * ratio, x1 - x0, 3 * ratio);
            text.fillRect(x0, top, ratio, height - top);
            text.fillRect(x1 - ratio, top, ratio, height - top);
        }
        const lost = losses.map((loss) => edges(loss.start, loss.start + loss.dur)).filter(([x0, x1]) => x1 >= 0 && x0 <= width);
        lost.sort(([a], [b]) => a - b);
        // Each place is tinted once, however many losses are there.
        let tinted = -Infinity;
        for (const [x0, x1] of lost) {
            const [left, right] = [Math.max(x0, tinted), Math.max(x1, x0 + ratio)];
            text.fillStyle = colors.lossFill;
            if (right > left) text.fillRect(left, top, right - left, height - top);
            tinted = Math.max(tinted, right);
            text.fillStyle = colors.loss;
            if (lost.length <= MAX_LOSS_LINES) text.fillRect(x0, top, Math.max(1, ratio), height - top);
            text.beginPath();
            // Below the times of day.
            text.moveTo(x0 - 5 * ratio, top - 5 * ratio);
            text.lineTo(x0 + 5 * ratio, top - 5 * ratio);
            text.lineTo(x0, top);
            text.fill();
        }
        for (const note of picture.notes) {
            const [x0, x1] = edges(note.from, note.to);
            if (x1 < 0 || x0 > width) continue;
            text.fillStyle = colors.note;
            text.fillRect(x0, top, Math.max(1, ratio), height - top);
            if (note.to > note.from) text.fillRect(x1 - ratio, top, Math.max(1, ratio), height - top);
            text.globalAlpha = 0.1;
            if (note.to > note.from) text.fillRect(x0, top, x1 - x0, height - top);
            text.globalAlpha = 1;
        }
        if (hoverX !== null) {
            text.fillStyle = colors.faint;
            text.fillRect(Math.round(hoverX * ratio), OVERVIEW * ratio, 1, height);
        }
    }

    private arrows(picture: Picture, boxes: Box[], brush: Brush, top: number): void {
        if (picture.arrows.length === 0) return;
        const text = this.text;
        const { layout, scroll } = picture;
        const ratio = this.ratio;
        const height = this.height * ratio;
        // Ends that are not visible are placed at the position of their row.
        const y = (ref: Ref): number => {
            const place = this.place(picture, boxes, ref);
            if (place) return place.y + place.h / 2;
            const index = layout.indexOf(ref.node);
            if (index < 0) return height + 20;
            const row = layout.row(index);
            return top + (row.y + row.h / 2 - scroll) * ratio;
        };
        text.save();
        text.beginPath();
        text.rect(0, (OVERVIEW + RULER) * ratio, brush.width, height);
        text.clip();
        text.strokeStyle = text.fillStyle = picture.colors.flow;
        text.lineWidth = 1.6 * ratio;
        for (const { from, to } of picture.arrows.slice(0, 500)) {
            const x0 = (from.start + from.dur - brush.t0) * brush.scale;
            const x1 = (to.start - brush.t0) * brush.scale;
            if ((x0 < 0 && x1 < 0) || (x0 > brush.width && x1 > brush.width)) continue;
            const [y0, y1] = [y(from), y(to)];
            const bend = Math.min(Math.max(30 * ratio, Math.abs(x1 - x0) / 2), 160 * ratio);
            text.beginPath();
            text.moveTo(x0, y0);
            text.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
            text.stroke();
            text.beginPath();
            text.moveTo(x1, y1);
            text.lineTo(x1 - 8 * ratio, y1 - 4.5 * ratio);
            text.lineTo(x1 - 8 * ratio, y1 + 4.5 * ratio);
            text.fill();
        }
        text.restore();
    }

    /** Draws the overview and the ruler. They cover the rows that scroll below them. */
    private head(picture: Picture, width: number): void {
        const { axis, colors, end, overview, wall } = picture;
        const text = this.text;
        const ratio = this.ratio;
        const [small, head] = [OVERVIEW * ratio, (OVERVIEW + RULER) * ratio];
        this.rects.add(0, 0, width, small, colors.overview);
        this.rects.add(0, small, width, head - small, colors.ground);
        this.rects.add(0, head - 1, width, 1, colors.border);
        const scale = width / Math.max(end, 1);
        const wide = width / Math.max(1, overview.length);
        for (let i = 0; i < overview.length; i++) {
            const h = Math.round((overview[i] / 255) * (small - 6 * ratio));
            if (h > 0) this.rects.add(Math.floor(i * wide), small - h, Math.ceil(wide), h, colors.busy);
        }
        // The density of matches, from the top down.
        const { density } = picture;
        const apart = width / Math.max(1, density.length);
        for (let i = 0; i < density.length; i++) {
            const h = Math.round((density[i] / 255) * 14 * ratio);
            if (h > 0) this.rects.add(Math.floor(i * apart), 0, Math.max(2, Math.ceil(apart)), Math.max(4 * ratio, h), colors.hit);
        }
        for (const loss of picture.losses) {
            const h = Math.round(8 * ratio);
            this.rects.add(Math.round(loss.start * scale), small - h, Math.max(2, ratio), h, colors.lossBar);
        }
        for (const note of picture.notes) {
            text.fillStyle = colors.note;
            text.fillRect(Math.round(note.from * scale), 0, Math.max(2 * ratio, (note.to - note.from) * scale), 4 * ratio);
        }
        const x0 = Math.max(0, axis.t0 * scale);
        const x1 = Math.min(width, axis.t1 * scale);
        text.fillStyle = colors.shade;
        text.fillRect(0, 0, x0, small);
        text.fillRect(x1, 0, width - x1, small);
        text.strokeStyle = colors.accent;
        text.lineWidth = ratio;
        text.strokeRect(x0 + ratio / 2, ratio / 2, Math.max(2 * ratio, x1 - x0 - ratio), small - ratio);

        const { step, times } = lines(axis, this.width, 8 * this.em);
        const upper = small + 11 * ratio;
        const lower = small + 28 * ratio;
        // The length of the range replaces the times of day.
        const { range } = picture;
        const length = range ? duration(range.to - range.from) : '';
        const long = range ? this.measure(length) + 12 * ratio : 0;
        const middle = range ? axis.x((range.from + range.to) / 2) * ratio : 0;
        const badge = Math.min(Math.max(middle - long / 2, 0), width - long);
        let free = -Infinity;
        let freeBelow = -Infinity;
        for (const time of times) {
            const x = axis.x(time) * ratio;
            if (x < 0 || x > width) continue;
            const label = tick(time - formats.zero, step);
            const room = this.measure(label);
            this.rects.add(Math.round(x), small, 1, 6 * ratio, colors.border);
            if (x > free && x + room + 8 * ratio < width) {
                text.fillStyle = colors.text;
                text.fillText(label, x + 4 * ratio, upper);
                free = x + room + 10 * ratio;
            }
            if (wall !== null && x > freeBelow) {
                const at = wall + BigInt(Math.round(time));
                const word = freeBelow === -Infinity && x < width * 0.4 ? `${date(at)} ${clock(at, step)}` : clock(at, step);
                const room = this.measure(word);
                if (x + room + 8 * ratio > width) continue;
                if (range && x + room + 8 * ratio > badge && x < badge + long) continue;
                text.fillStyle = colors.faint;
                text.fillText(word, x + 4 * ratio, lower);
                freeBelow = x + room + 10 * ratio;
            }
        }
        this.flags(picture, width, small, lower);
        if (range) {
            text.fillStyle = colors.accent;
            text.fillRect(badge, small + 19 * ratio, long, 18 * ratio);
            text.fillStyle = colors.onAccent;
            text.fillText(length, badge + 6 * ratio, lower + ratio * 0.5);
        }
    }

    /** Draws the texts of notes as flags over the times of day. */
    private flags(picture: Picture, width: number, small: number, lower: number): void {
        const { axis, colors, notes } = picture;
        const text = this.text;
        const ratio = this.ratio;
        const shown = notes.filter((note) => note.to >= axis.t0 && note.from <= axis.t1);
        shown.forEach((note, i) => {
            const x = Math.max(0, axis.x(note.from) * ratio);
            const next = shown[i + 1];
            const room = Math.min(next ? axis.x(next.from) * ratio : width, width) - x - 2 * ratio;
            const word = room > 30 * ratio ? this.fit(note.text, Math.min(room, 220 * ratio) - 10 * ratio) : '';
            text.fillStyle = colors.note;
            text.fillRect(x, small + 19 * ratio, word ? this.measure(word) + 10 * ratio : 7 * ratio, 18 * ratio);
            text.fillStyle = colors.dark ? '#14181d' : '#ffffff';
            if (word) text.fillText(word, x + 5 * ratio, lower + ratio * 0.5);
        });
    }
}
