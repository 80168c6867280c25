// The tab with the flamegraph: callstacks of the range, or of the whole trace.

import { css, nameColor, oklch } from './colors';
import { el, name } from './dom';
import { openExport } from './embedded';
import { FILTERS, filter, type Filter, type FilterKind } from './flamefilter';
import { change, flameTree, layout, matched, type FlameBox, type FlameTree, type Frame } from './flametree';
import { count, duration, percent, quantity, text } from './format';
import type { By, Stacks } from './model';
import type { Page } from './page';
import type { Source } from './source';
import { hideTip } from './tip';

type Against = 'none' | 'range' | 'before' | 'file';

export class FlameTab {
    readonly root = el('div');
    private bar = el('div', { class: 'controls' });
    private box = el('div', { class: 'flamebox' });
    private space = el('div');
    private canvas = el('canvas', { tabindex: 0, role: 'img', 'aria-label': 'Flamegraph' });
    private foot = el('div', { class: 'flamefoot', role: 'status' });
    private profile = el('select', { 'aria-label': 'Samples' });
    private by = el('select', { 'aria-label': 'Grouped' });
    private against = el('select', { 'aria-label': 'Compare with' });
    private find = el('input', { type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions', spellcheck: 'false' });
    private flip = el('button', { 'aria-pressed': 'false', title: 'Root at the bottom' }, 'Flame');
    private turn = el('button', { 'aria-pressed': 'false', title: 'Innermost functions first' }, 'Invert');
    private back = el('button', { title: 'Backspace' }, 'Whole graph');
    private kind = el('select', { 'aria-label': 'Kind of filter' }, ...Object.entries(FILTERS).map(([kind, label]) => el('option', { value: kind }, label)));
    private pattern = el('input', { type: 'text', placeholder: 'function or /regex/', 'aria-label': 'Filter functions', spellcheck: 'false', autocomplete: 'off' });
    private chips = el('span', { class: 'buttons' });
    private filters: Filter[] = [];
    /** The number of rows of callers above the pivot. */
    private above = 0;
    private file = el('input', { type: 'file', accept: '.html,text/html', hidden: true });
    private other: { name: string; source: Source } | null = null;
    private asked = 0;
    private key = '';
    private stacks: Stacks | null = null;
    private before: Stacks | null = null;
    private tree: FlameTree | null = null;
    private rows: FlameBox[][] = [];
    private zoomed: FlameBox | null = null;
    private focus: FlameBox | null = null;
    private line = 18;

    constructor(private app: Page) {
        this.root.className = 'flame-parts';
        this.root.style.display = 'contents';
        const { trace } = app;
        this.profile.append(...trace.profiles.map((profile) => el('option', { value: profile.id }, profile.name)));
        this.by.append(el('option', { value: 'none' }, 'all together'), el('option', { value: 'process' }, 'by process'), el('option', { value: 'thread' }, 'by thread'), el('option', { value: 'event' }, 'by event'));
        this.fillAgainst();
        this.bar.append(
            this.profile, this.by,
            this.flip, this.turn, this.find,
            el('label', {}, el('span', { class: 'faint' }, 'compare with'), this.against), this.file,
            el('span', { class: 'grow' }), this.back,
            el('form', { class: 'filters', submit: (event: Event) => {
                event.preventDefault();
                this.addFilter(this.kind.value as FilterKind, this.pattern.value.trim());
            } }, this.kind, this.pattern, el('button', { type: 'submit' }, 'Filter'), this.chips),
        );
        this.box.append(this.space);
        this.space.append(this.canvas);
        this.root.append(this.bar, this.box, this.foot);
        for (const select of [this.profile, this.by]) select.addEventListener('change', () => this.update());
        this.against.addEventListener('change', () => {
            if (this.against.value === 'file' && !this.other) this.file.click();
            this.update();
        });
        this.file.addEventListener('change', () => void this.openFile());
        this.find.addEventListener('input', () => this.draw());
        this.flip.addEventListener('click', () => {
            press(this.flip);
            this.draw();
        });
        this.turn.addEventListener('click', () => {
            press(this.turn);
            this.build();
        });
        this.back.addEventListener('click', () => this.zoom(null));
        this.box.addEventListener('scroll', () => this.draw());
        new ResizeObserver(() => this.draw()).observe(this.box);
        this.canvas.addEventListener('click', (event) => {
            const box = this.at(event);
            if (box) {
                this.focus = box;
                this.zoom(box.frame.parent ? box : null);
            }
        });
        this.canvas.addEventListener('mousemove', (event) => {
            hideTip();
            this.describe(this.at(event) ?? this.focus);
        });
        this.canvas.addEventListener('mouseleave', () => this.describe(this.focus));
        this.canvas.addEventListener('keydown', (event) => this.typed(event));
    }

    private fillAgainst(): void {
        const chosen = this.against.value || 'none';
        const options: [Against, string, boolean][] = [
            ['none', 'nothing', true],
            ['range', 'the kept range', this.app.baseline !== null],
            ['before', 'the previous trace', this.app.trace.before !== null],
            ['file', this.other ? this.other.name : 'an exported file…', true],
        ];
        this.against.replaceChildren(...options.filter(([, , there]) => there).map(([value, label]) => el('option', { value }, label)));
        this.against.value = chosen;
    }

    /** Selects the comparison with a range that was just kept. */
    compareRange(): void {
        this.fillAgainst();
        this.against.value = 'range';
    }

    private async openFile(): Promise<void> {
        const file = this.file.files?.[0];
        if (!file) return;
        await this.app.task(file.text().then(openExport), (source) => {
            this.other = { name: file.name, source };
            this.fillAgainst();
            this.against.value = 'file';
            this.key = '';
            this.update();
        });
    }

    /** Loads the callstacks for the controls and the range. */
    update(): void {
        const { app } = this;
        const { profiles, end } = app.trace;
        this.line = Math.round(app.scene.em * 1.45);
        this.fillAgainst();
        if (profiles.length === 0) {
            this.bar.hidden = true;
            this.foot.textContent = '';
            this.stacks = null;
            this.rows = [];
            this.space.replaceChildren(el('p', { class: 'hint' }, 'This trace has no callstacks. `ferretto record --perf` records them.'));
            return;
        }
        const id = Number(this.profile.value);
        const by = this.by.value as By;
        const against = this.against.value as Against;
        const range = { from: app.range?.from ?? 0, to: app.range?.to ?? end + 1, nodes: app.rangeNodes() };
        const key = JSON.stringify([id, by, against, range, app.baseline, this.other?.name, end]);
        if (key === this.key) return this.draw();
        this.key = key;
        const asked = ++this.asked;
        const kind = profiles.find((profile) => profile.id === id)?.kind ?? profiles[0].kind;
        const all = async () => {
            let stacks = await app.source.profile(id, range, by, false);
            // If no sample is on the rows of a box, its time range applies to all rows.
            if (stacks.length === 0 && range.nodes) stacks = await app.source.profile(id, { ...range, nodes: null }, by, false);
            return [stacks, await this.base(against, id, kind, range.nodes, by)] as const;
        };
        void app.task(all(), ([stacks, before]) => {
            if (asked !== this.asked) return;
            this.stacks = stacks;
            this.before = before;
            this.build();
        });
    }

    private async base(against: Against, id: number, kind: string, nodes: number[] | null, by: By): Promise<Stacks | null> {
        const { app } = this;
        if (against === 'range' && app.baseline) return app.source.profile(id, { ...app.baseline, nodes }, by, false);
        if (against === 'before') return app.source.profile(id, { from: 0, to: app.trace.end + 1, nodes: null }, by, true);
        if (against === 'file' && this.other) {
            const trace = await this.other.source.open();
            const same = trace.profiles.find((profile) => profile.kind === kind);
            if (!same) throw new Error(`${this.other.name} has no samples of this kind`);
            return this.other.source.profile(same.id, { from: 0, to: trace.end + 1, nodes: null }, by, false);
        }
        return null;
    }

    private addFilter(kind: FilterKind, text: string): void {
        if (text === '') return;
        const only = (other: Filter) => other.kind !== kind || !['from', 'pivot'].includes(kind);
        this.setFilters([...this.filters.filter(only), { kind, text }]);
        this.pattern.value = '';
    }

    private setFilters(filters: Filter[]): void {
        const before = this.filters;
        this.filters = filters;
        try {
            this.build();
        } catch (error) {
            this.filters = before;
            this.app.say(`This filter is no regular expression: ${text(error)}`);
            this.build();
        }
        this.chips.replaceChildren(...this.filters.map((it) =>
            el('button', { title: 'Remove the filter', click: () => this.setFilters(this.filters.filter((other) => other !== it)) },
                `${FILTERS[it.kind]} `, el('bdi', {}, it.text), ' ✕')));
    }

    private build(): void {
        if (!this.stacks) return;
        this.bar.hidden = false;
        const { filters } = this;
        const shown = filter(this.stacks, filters);
        const before = this.before && filter(this.before, filters);
        this.tree = flameTree(shown.stacks, pressed(this.turn), before?.stacks ?? null);
        this.rows = layout(this.tree);
        this.above = 0;
        if (shown.callers) {
            // The callers are above the pivot, the nearest one at its side.
            const callers = layout(flameTree(shown.callers, false, before?.callers ?? null), this.tree.root.total).slice(1).reverse();
            this.above = callers.length;
            const all = [...callers, ...this.rows];
            this.rows = all.map((row, depth) => row.map((box) => Object.assign(box, { depth })));
        }
        this.zoomed = null;
        this.focus = this.rows[this.above]?.[0] ?? null;
        this.space.replaceChildren(this.canvas);
        if (this.tree.root.total === 0) {
            this.space.replaceChildren(el('p', { class: 'hint' }, this.filters.length > 0 ? 'No callstack passes the filters.' : 'No samples in this time range. Select a longer one, or other rows.'));
        }
        this.box.scrollTop = 0;
        this.draw();
        if (pressed(this.flip)) this.box.scrollTop = this.box.scrollHeight;
    }

    private zoom(box: FlameBox | null): void {
        this.zoomed = box;
        this.draw();
    }

    private get unit(): string {
        return this.app.trace.profiles.find((profile) => profile.id === Number(this.profile.value))?.unit ?? '';
    }

    private amount(value: number): string {
        const { unit } = this;
        return unit === 'samples' ? `${count(value)} ${value === 1 ? 'sample' : 'samples'}` : quantity(value, unit);
    }

    /** Returns the left edge and the scale of the visible part. */
    private view(width: number): { left: number; scale: number } {
        const { zoomed } = this;
        return zoomed ? { left: zoomed.x, scale: width / zoomed.w } : { left: 0, scale: width };
    }

    private top(depth: number, height: number): number {
        const y = pressed(this.flip) ? height - (depth + 1) * this.line : depth * this.line;
        return y - this.box.scrollTop;
    }

    private get height(): number {
        return Math.max(this.rows.length * this.line, this.box.clientHeight);
    }

    draw(): void {
        const { tree, canvas, box, app } = this;
        if (!tree || canvas.parentNode !== this.space) return;
        const ratio = devicePixelRatio;
        const width = box.clientWidth;
        const shown = box.clientHeight;
        const height = this.height;
        this.space.style.height = `${height}px`;
        canvas.style.width = `${width}px`;
        canvas.style.height = `${shown}px`;
        if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
        if (canvas.height !== Math.round(shown * ratio)) canvas.height = Math.round(shown * ratio);
        const context = canvas.getContext('2d')!;
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, shown);
        context.font = `${Math.round(app.scene.em * 0.9)}px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif`;
        context.textBaseline = 'middle';
        const wanted = this.find.value.trim().toLowerCase();
        const { left, scale } = this.view(width);
        const letter = context.measureText('abcdefghijklmnopqrstuvwxyz').width / 26;
        this.rows.forEach((row, depth) => {
            const y = this.top(depth, height);
            if (y > shown || y + this.line < 0) return;
            for (const it of row) {
                const x0 = Math.max(0, (it.x - left) * scale);
                const x1 = Math.min(width, (it.x + it.w - left) * scale);
                if (x1 - x0 < 0.4) continue;
                const hit = wanted !== '' && it.frame.parent !== null && it.frame.name.toLowerCase().includes(wanted);
                context.globalAlpha = (wanted !== '' && !hit) || (this.zoomed && depth < this.zoomed.depth) ? 0.4 : 1;
                context.fillStyle = hit ? (app.colors.dark ? '#8a6a12' : '#ffd75e') : this.color(it.frame, tree);
                context.fillRect(x0, y, Math.max(x1 - x0 - (x1 - x0 > 3 ? 1 : 0), 0.5), this.line - 1);
                const room = x1 - x0 - 8;
                if (room > 3 * letter) {
                    context.fillStyle = app.colors.text;
                    const fits = Math.floor(room / letter);
                    let word = it.frame.name || 'unknown';
                    const share = ` ${percent(it.frame.total, tree.root.total)}`;
                    if (it.frame.parent && context.measureText(word + share).width <= room) word += share;
                    while (word.length > 0 && context.measureText(word).width > room) word = `${word.slice(0, Math.min(fits, word.length - 2))}…`;
                    context.fillText(word, x0 + 4, y + this.line / 2);
                }
                context.globalAlpha = 1;
                if (it === this.focus && document.activeElement === canvas) {
                    context.strokeStyle = app.colors.select;
                    context.lineWidth = 2;
                    context.strokeRect(x0 + 1, y + 1, Math.max(2, x1 - x0 - 3), this.line - 3);
                }
            }
        });
        this.back.disabled = this.zoomed === null;
        this.describe(this.focus);
    }

    private color(frame: Frame, tree: FlameTree): string {
        const { colors } = this.app;
        if (frame.parent === null) return css(colors.group);
        if (!tree.compared) return css(colors.fills[nameColor(frame.name)]);
        const by = change(frame, tree.root);
        const strength = Math.min(1, Math.sqrt(Math.abs(by)) * 2);
        const [r, g, b] = oklch(colors.dark ? 0.42 : 0.93 - 0.14 * strength, 0.13 * strength, by > 0 ? 25 : 250);
        return `rgb(${Math.round(r * 255)} ${Math.round(g * 255)} ${Math.round(b * 255)})`;
    }

    private at(event: MouseEvent): FlameBox | null {
        const { left: x0, top } = this.canvas.getBoundingClientRect();
        const [x, y] = [event.clientX - x0, event.clientY - top];
        const within = y + this.box.scrollTop;
        const depth = Math.floor((pressed(this.flip) ? this.height - within : within) / this.line);
        const { left, scale } = this.view(this.box.clientWidth);
        return this.rows[depth]?.find((it) => (it.x - left) * scale <= x && (it.x + it.w - left) * scale > x) ?? null;
    }

    private typed(event: KeyboardEvent): void {
        const { focus, rows } = this;
        if (!focus) return;
        const row = rows[focus.depth];
        const up = pressed(this.flip) ? 'ArrowDown' : 'ArrowUp';
        const down = pressed(this.flip) ? 'ArrowUp' : 'ArrowDown';
        let next: FlameBox | undefined | null;
        // Callers are above what they call, and their parents below them.
        const isNear = (box: FlameBox) => box.frame === focus.frame.parent || box.frame.parent === focus.frame;
        const beside = (depth: number) => rows[depth]?.find(isNear) ?? (focus.depth === this.above ? rows[depth]?.[0] : depth === this.above ? rows[depth]?.[0] : undefined);
        if (event.key === up) next = beside(focus.depth - 1);
        else if (event.key === down) next = beside(focus.depth + 1);
        else if (event.key === 'ArrowLeft') next = row[row.indexOf(focus) - 1];
        else if (event.key === 'ArrowRight') next = row[row.indexOf(focus) + 1];
        else if (event.key === 'c' && focus.frame.parent) this.showCode(focus.frame);
        else if (event.key === 'Enter') this.zoom(focus.frame.parent ? focus : null);
        else if (event.key === 'Backspace' || (event.key === 'Escape' && this.zoomed)) this.zoom(null);
        else return;
        event.preventDefault();
        event.stopPropagation();
        if (!next) return;
        this.focus = next;
        const y = this.top(next.depth, this.height);
        if (y < 0) this.box.scrollTop += y;
        else if (y + this.line > this.box.clientHeight) this.box.scrollTop += y + this.line - this.box.clientHeight;
        this.draw();
    }

    /** Returns the buttons that filter by the focused frame. */
    private actions(frame: Frame): HTMLElement {
        const exact = `/^${frame.name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')}$/`;
        const button = (label: string, kind: FilterKind) => el('button', { class: 'link', click: () => this.addFilter(kind, exact) }, label);
        return el('span', { class: 'flameacts' }, button('Begin here', 'from'), button('Pivot', 'pivot'), button('Hide', 'hide-frame'), button('Hide its stacks', 'hide-stack'),
            this.app.source.code && frame.file !== '' && el('button', { class: 'link', title: 'C', click: () => this.showCode(frame) }, 'Code'));
    }

    private showCode({ name, file }: Frame): void {
        this.app.panel.showCode({ profile: Number(this.profile.value), function: name, file });
    }

    /** Describes a frame below the graph. */
    private describe(box: FlameBox | null): void {
        const { tree } = this;
        if (!tree) return;
        const { range } = this.app;
        const where = range ? `${duration(range.to - range.from)} of the trace` : 'the whole trace';
        const wanted = this.find.value.trim().toLowerCase();
        const hits = wanted ? `“${this.find.value.trim()}”: ${percent(matched(tree.root, wanted), tree.root.total)}  ·  ` : '';
        if (!box || !box.frame.parent) {
            this.foot.textContent = `${hits}${this.amount(tree.root.total)} of ${where}`;
            return;
        }
        const { frame } = box;
        const by = change(frame, tree.root);
        const grown = tree.compared ? `, ${by >= 0 ? '+' : '−'}${(Math.abs(by) * 100).toFixed(1)} points (before: ${percent(frame.before, tree.root.before)})` : '';
        this.foot.replaceChildren(
            hits, name(frame.name, 'unknown'),
            `: ${this.amount(frame.total)}, ${percent(frame.total, tree.root.total)}, self ${this.amount(frame.self)}${grown}`,
            frame.file ? el('span', {}, '  ·  ', name(frame.file)) : '',
            box === this.focus ? this.actions(frame) : '',
        );
    }
}

function pressed(button: HTMLElement): boolean {
    return button.getAttribute('aria-pressed') === 'true';
}

function press(button: HTMLElement): void {
    button.setAttribute('aria-pressed', String(!pressed(button)));
}
