// The state of the page and the operations on it. Panels and labels see it as a `Page`, and do not depend on it or on each other.

import { about } from './about';
import { Axis } from './axis';
import { Cache } from './cache';
import { palette, type Palette } from './colors';
import { byId } from './dom';
import { rowAt, refOf } from './draw';
import { Finder } from './finder';
import { Frames } from './frames';
import { runLine, runLines } from './commands';
import { count, duration, formats, text } from './format';
import { Labels, title } from './labels';
import { Marks } from './marks';
import { Notes } from './noting';
import { depthAt, depthHeight, depthTop } from './lanes';
import { isGroup, Layout } from './layout';
import { Kind, NONE, type Details, type Ref, type Step, type Tile, type Trace, type Why } from './model';
import type { Page, Selection } from './page';
import { Panel } from './panel';
import { Link } from './permalink';
import { OVERVIEW, RULER, Scene, type Arrow, type Box, type Picture } from './scene';
import { applyFormats, isDark, saveSettings, SETTINGS, type Settings } from './settings';
import type { Overlay } from './overlay';
import type { Tracks } from './trackform';
import { flowArrows } from './flows';

const NO_MATCHES = new Uint8Array(0);

export class App implements Page {
    readonly stage = byId('stage');
    readonly scene = new Scene(byId<HTMLCanvasElement>('boxes'), byId<HTMLCanvasElement>('letters'));
    readonly axis: Axis;
    layout: Layout;
    cache: Cache;
    colors: Palette;
    scroll = 0;
    selected: Ref | null = null;
    details: Details | null = null;
    private causes: { node: number; id: number; of: Promise<Why | null> } | null = null;
    range: Selection | null = null;
    baseline: { from: number; to: number } | null = null;
    arrows: Arrow[] = [];
    tracks: Tracks[] = [];
    /** The node of the focused row. */
    focus: number;
    hoverX: number | null = null;
    readonly marks = new Marks();
    /** The macro that is being recorded. */
    recording: { name: string; lines: string[] } | null = null;
    readonly find: Finder;
    readonly labels: Labels;
    readonly panel: Panel;
    private readonly frames = new Frames({
        draw: () => this.draw(),
        isLoading: () => this.cache.busy,
        rested: () => this.link.write(),
        failed: (error) => this.say(error),
    });
    /** True once the first picture is on the screen. Until then, events that only improve it are not requested: decoding
     * and drawing them would delay it. */
    private shown = false;
    private link: Link;
    private asked = 0;
    readonly notes: Notes;

    constructor(
        readonly source: Overlay,
        public trace: Trace,
        readonly settings: Settings,
    ) {
        const em = parseFloat(getComputedStyle(document.body).fontSize);
        this.axis = new Axis(trace.end, 100);
        this.layout = new Layout(trace.nodes, Math.round(em * 1.38));
        this.layout.sortProcesses(settings.sort);
        this.cache = this.newCache();
        this.colors = palette(isDark(settings), settings.colors);
        this.focus = this.layout.length > 0 ? this.layout.row(0).node : NONE;
        this.find = new Finder(this);
        this.notes = new Notes(this);
        this.labels = new Labels(this);
        this.panel = new Panel(this);
        this.link = new Link(this);
        byId('title').textContent = trace.name;
        document.title = trace.name ? `${trace.name} – Ferretto` : 'Ferretto';
        this.sayEmpty();
        byId('where').textContent = about(trace);
        new ResizeObserver(() => this.resize()).observe(this.stage);
        this.resize();
        this.layout.openIfRoom(this.bodyHeight);
        this.link.read();
        // Draws the first picture without waiting for an animation frame.
        this.frames.now();
        addEventListener('hashchange', () => this.link.read());
    }

    private newCache(): Cache {
        const cache = new Cache(this.source, this.trace.end, () => this.invalidate());
        cache.failed = (error) => this.say(`Some events could not be loaded: ${text(error)}`);
        return cache;
    }

    private sayEmpty(): void {
        const { nodes } = this.trace;
        const empty = byId('empty');
        const none = nodes.length === 0 || this.layout.weight.every((weight) => weight === 0);
        empty.hidden = !none;
        if (none) empty.textContent = 'This trace has no events to draw. The tab “Trace” (6) has facts about it, and what is missing.';
    }

    /** Replaces a trace that has grown, and keeps the state. */
    renew(trace: Trace): void {
        const old = this.trace;
        const atEnd = this.axis.t1 >= old.end;
        const whole = this.axis.span >= old.end;
        const renumbered = old.nodes.length !== trace.nodes.length;
        this.trace = trace;
        this.causes = null;
        this.axis.end = this.source.end;
        if (renumbered) {
            const opened = this.layout;
            this.layout = new Layout(trace.nodes, opened.unit);
            this.layout.sortProcesses(this.settings.sort);
            // The nodes of further tracks have other numbers.
            if (this.tracks.length > 0) this.setTracks(this.tracks, (tops) => (this.layout.pinned = tops));
            this.selected = null;
            this.arrows = [];
        } else this.layout.renew(trace.nodes);
        this.cache.renew(this.source.end);
        if (whole) this.axis.all();
        else if (atEnd) this.axis.set(trace.end - this.axis.span * 0.98, trace.end + this.axis.span * 0.02);
        this.sayEmpty();
        this.invalidate();
    }

    setTheme(dark: boolean): void {
        document.documentElement.dataset.theme = dark ? 'dark' : 'light';
        this.colors = palette(dark, this.settings.colors);
        this.panel.redraw();
        this.invalidate();
    }

    private resize(): void {
        const { width, height } = this.stage.getBoundingClientRect();
        const em = parseFloat(getComputedStyle(document.body).fontSize);
        if (this.scene.has(width, height, devicePixelRatio, em)) return;
        const [t0, t1] = [this.axis.t0, this.axis.t1];
        const index = this.layout.indexOf(this.focus);
        const inSight = index >= 0 && this.scene.visible(this.picture).some((box) => box.node === this.layout.row(index).node);
        this.axis.width = Math.max(width, 1);
        this.axis.set(t0, t1);
        this.scene.resize(width, height, devicePixelRatio, em);
        // The focused row stays in sight when the panel opens below it.
        if (inSight) {
            const own = this.selected && this.layout.rowOf(this.selected.node) === this.focus ? this.selected : null;
            this.scrollTo(own?.node ?? this.focus, own?.depth ?? 0);
        }
        this.invalidate();
    }

    get picture(): Picture {
        return {
            axis: this.axis,
            layout: this.layout,
            cache: this.cache,
            nodes: this.trace.nodes,
            scroll: this.scroll,
            colors: this.colors,
            selected: this.selected,
            range: this.range,
            baseline: this.baseline,
            arrows: this.arrows,
            losses: this.trace.losses,
            hits: this.find.rows,
            density: this.find.found?.density ?? NO_MATCHES,
            overview: this.trace.overview,
            wall: this.trace.wall,
            hoverX: this.hoverX,
            end: this.trace.end,
            notes: this.marks.notes,
            highlight: this.find.highlight,
        };
    }

    /** Requests a redraw with the next animation frame. */
    invalidate(): void {
        this.frames.request();
    }

    /** Requests the visible events. Returns which marks are reached: a first picture, and one without coarse rows. */
    private want(): ('picture' | 'sharp')[] {
        const nodes = this.scene.wanted(this.picture);
        return this.cache.want(nodes, this.axis.t0, this.axis.t1, this.axis.perPixel / this.scene.ratio, !this.shown);
    }

    private draw(): void {
        this.setScroll(this.scroll, false);
        const picture = this.picture;
        const got = this.want();
        this.scene.draw(picture);
        this.labels.draw(this.scene.visible(picture));
        for (const mark of got) {
            if (performance.getEntriesByName(mark).length > 0) continue;
            performance.mark(mark);
            if (mark === 'picture') this.awaitScreen();
            if (mark === 'sharp') this.switchToCard();
        }
        this.link.note();
    }

    /** Requests the rest of the events when the first picture is on the screen. */
    private awaitScreen(): void {
        // The timer runs after the browser has drawn the frame.
        const drawn = new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        void this.task(drawn, () => {
            this.shown = true;
            this.invalidate();
        });
    }

    /** Switches to the graphics card if there is one. The check takes some time, and the first picture does not need it. */
    private switchToCard(): void {
        const later = new Promise((done) => setTimeout(done, 100));
        void this.task(later, () => {
            if (!this.scene.useCard()) return;
            this.scene.resize(this.scene.width, this.scene.height, this.scene.ratio, this.scene.em);
            this.invalidate();
        });
    }

    task<T>(promise: Promise<T>, then: (value: T) => void): Promise<void> {
        return this.frames.task(promise, then);
    }

    /** Shows a message, which screen readers announce as well. */
    say(sentence: string): void {
        byId('status').textContent = sentence;
        byId('where').textContent = byId('where').title = sentence || about(this.trace);
    }

    // ---- rows

    get bodyHeight(): number {
        return Math.max(0, this.scene.height - this.scene.top(this.picture));
    }

    setScroll(scroll: number, draw = true): void {
        this.scroll = Math.max(0, Math.min(scroll, this.layout.total - this.bodyHeight));
        const thumb = byId('thumb');
        const all = Math.max(this.layout.total, 1);
        const rail = this.scene.height;
        const size = Math.max(24, Math.min(rail, (rail * this.bodyHeight) / all));
        const most = Math.max(1, this.layout.total - this.bodyHeight);
        thumb.style.height = `${size}px`;
        thumb.style.top = `${((rail - size) * this.scroll) / most}px`;
        thumb.hidden = this.layout.total <= this.bodyHeight;
        if (draw) this.invalidate();
    }

    toggle(node: number): void {
        if (!this.layout.canOpen(node)) return;
        this.layout.setOpen(node, !this.layout.isOpen(node));
        this.invalidate();
    }

    pin(node: number): void {
        if (node === NONE) return;
        this.layout.pin(node);
        this.say(`${title(this.trace.nodes, node)} is ${this.layout.pinned.includes(node) ? 'pinned' : 'no longer pinned'}`);
        this.invalidate();
    }

    addTrack(track: Tracks): void {
        const before = this.trace.nodes.length;
        this.setTracks([...this.tracks, track], (tops) => {
            for (const node of tops) if (node >= before) this.layout.pin(node);
            this.say(`${track.title} is drawn at the top`);
            this.panel.redraw();
        });
    }

    setTracks(tracks: Tracks[], then: (tops: number[]) => void): void {
        void this.task(this.source.draw(tracks), ({ trace, tops }) => {
            const old = this.layout;
            this.tracks = tracks;
            this.trace = trace;
            this.layout = new Layout(trace.nodes, old.unit);
            this.layout.keep(old);
            this.axis.end = this.source.end;
            this.cache.renew(this.source.end);
            then(tops);
            this.link.note();
            this.invalidate();
        });
    }

    removeTrack(track: Tracks): void {
        const kept = this.layout.pinned.filter((node) => node < this.source.count);
        this.setTracks(this.tracks.filter((other) => other !== track), (tops) => {
            this.layout.pinned = [...kept, ...tops];
            this.panel.redraw();
        });
    }

    setFocus(node: number): void {
        this.focus = this.layout.rowOf(node);
        this.revealRow(node);
        this.invalidate();
    }

    moveFocus(by: number): void {
        if (this.layout.length === 0) return;
        const at = Math.max(0, this.layout.indexOf(this.focus));
        const next = Math.min(Math.max(at + by, 0), this.layout.length - 1);
        this.setFocus(this.layout.row(next).node);
    }

    private revealRow(node: number, depth = 0): void {
        this.layout.reveal(node);
        this.layout.deepen(node, depth);
        this.scrollTo(node, depth);
    }

    /** Scrolls the row of a node into view. */
    private scrollTo(node: number, depth: number): void {
        const index = this.layout.indexOf(node);
        if (index < 0) return;
        const row = this.layout.row(index);
        const lane = this.layout.lanes(row.node).find((lane) => lane.node === node);
        const y = row.y + (lane && depth > 0 ? lane.y + depthTop(lane, depth) : 0);
        const h = depth > 0 && lane ? depthHeight(lane, depth) : Math.min(row.h, this.bodyHeight);
        if (y < this.scroll) this.scroll = y;
        else if (y + h > this.scroll + this.bodyHeight) this.scroll = y + h - this.bodyHeight + Math.min(this.bodyHeight / 3, 60);
    }

    // ---- events

    boxAt(y: number): Box | null {
        const boxes = this.scene.visible(this.picture);
        const pinned = boxes.find((box) => box.pinned && y >= box.y && y < box.y + box.h);
        if (pinned) return pinned;
        if (y < this.scene.top(this.picture)) return null;
        return boxes.find((box) => !box.pinned && y >= box.y && y < box.y + box.h) ?? null;
    }

    /** Returns the event at a point of the stage. */
    at(x: number, y: number): { tile: Tile; row: number; node: number } | null {
        const box = y < OVERVIEW + RULER ? null : this.boxAt(y);
        if (!box) return null;
        const time = this.axis.time(x);
        const around = 4 * this.axis.perPixel;
        for (const lane of this.layout.lanes(box.node)) {
            const inside = y - box.y - lane.y;
            if (inside < 0 || inside > lane.h + 1) continue;
            const { near, whole } = this.cache.tiles(lane.node);
            const tile = near && time >= near.from && time <= near.to ? near : whole;
            if (!tile) continue;
            const depth = this.trace.nodes.depth[lane.node] > 1 ? depthAt(lane, inside) : 0;
            const row = rowAt(tile, this.trace.nodes.kind[lane.node], depth, time, around);
            if (row >= 0) return { tile, row, node: lane.node };
        }
        return null;
    }

    clickAt(x: number, y: number): void {
        const box = this.boxAt(y);
        if (box) this.focus = box.node;
        const at = this.at(x, y);
        if (!at) return this.clear();
        if (at.tile.count[at.row] > 1) {
            // Zooms in on merged events instead of selecting one.
            const [from, dur] = [at.tile.start[at.row], at.tile.dur[at.row]];
            this.say(`${count(at.tile.count[at.row])} events are merged; zoom in to separate them`);
            if (dur / this.axis.perPixel > 24) this.select({ ...refOf(at.tile, at.row) }, false);
            else {
                const room = Math.max(dur, this.axis.perPixel * 4);
                this.axis.set(from - room, from + dur + room);
                this.invalidate();
            }
            return;
        }
        this.select(refOf(at.tile, at.row), false);
    }

    select(ref: Ref, reveal = true): void {
        this.selected = ref;
        this.details = null;
        this.arrows = [];
        this.focus = this.layout.rowOf(ref.node);
        if (reveal) {
            this.axis.reveal(ref.start, ref.dur);
            this.revealRow(ref.node, ref.depth);
        }
        const asked = ++this.asked;
        this.panel.loading('details');
        void this.task(this.source.details(ref.node, ref.id), (details) => {
            if (asked !== this.asked) return;
            this.details = details;
            this.selected = { ...ref, start: details.start, dur: details.dur, depth: details.depth ?? ref.depth, name: details.name };
            this.arrows = flowArrows(details);
            this.panel.show('details');
            byId('status').textContent = `${details.name || 'unnamed'}, ${duration(details.dur)}, on ${title(this.trace.nodes, ref.node)}`;
            this.invalidate();
        });
        this.invalidate();
    }

    /** Returns the causes of the time of an event. They are asked for once. */
    why(ref: Ref): Promise<Why | null> | null {
        if (!this.source.why) return null;
        if (this.causes?.node !== ref.node || this.causes.id !== ref.id) {
            this.causes = { node: ref.node, id: ref.id, of: this.source.why(ref.node, ref.id) };
        }
        return this.causes.of;
    }

    step(to: Step): void {
        if (!this.selected) return this.selectInFocus();
        void this.task(this.source.step(this.selected, to), (ref) => {
            if (ref) this.select(ref);
            else this.say({ next: 'This is the last event', previous: 'This is the first event', parent: 'This event has no parent', child: 'This event has no children' }[to]);
        });
    }

    /** Selects the first visible event of the focused row. */
    selectInFocus(): void {
        const index = this.layout.indexOf(this.focus);
        if (index < 0) return;
        const lanes = this.layout.lanes(this.layout.row(index).node);
        for (const lane of [...lanes].reverse()) {
            const { near, whole } = this.cache.tiles(lane.node);
            const tile = near ?? whole;
            if (!tile) continue;
            for (let i = 0; i < tile.length; i++) {
                if (tile.start[i] >= this.axis.t0 && tile.start[i] <= this.axis.t1) return this.select(refOf(tile, i));
            }
        }
        this.say('No event of this row is visible');
    }

    /** Selects the event at the other end of an arrow. */
    follow(out: boolean): void {
        const flow = this.details?.flows?.find((flow) => flow.out === out);
        if (flow) this.select(flow.to);
        else this.say(out ? 'No flow starts at this event' : 'No flow ends at this event');
    }

    fit(): void {
        const target = this.selected ?? (this.range && { start: this.range.from, dur: this.range.to - this.range.from });
        if (!target) return this.all();
        const room = Math.max(target.dur * 0.15, 10);
        this.axis.set(target.start - room, target.start + target.dur + room);
        this.invalidate();
    }

    all(): void {
        this.axis.all();
        this.invalidate();
    }

    zoom(factor: number, x = this.hoverX ?? this.axis.width / 2): void {
        this.axis.zoom(factor, x);
        this.invalidate();
    }

    pan(pixels: number): void {
        this.axis.pan(pixels);
        this.invalidate();
    }

    /** Selects the state of the thread that woke the selected one. */
    toWaker(): void {
        const waker = this.details?.chain?.[0];
        if (waker) this.select(waker.ref);
        else this.say('The trace does not have what woke this thread');
    }

    // ---- ranges

    /** Selects the time of the selected event as a range. */
    rangeOfEvent(): void {
        const { selected } = this;
        if (selected && selected.dur > 0) this.setRange({ from: selected.start, to: selected.start + selected.dur, boxes: null });
        else this.say('Select an event with a duration first');
    }

    setRange(range: Selection | null, show = true): void {
        this.range = range;
        this.invalidate();
        if (!show) return;
        if (range) this.panel.ranged();
        else this.panel.redraw();
    }

    /** Returns the nodes of the box. A row of a group counts only if the box touches no rows of its descendants. */
    rangeNodes(): number[] | null {
        if (!this.range?.boxes) return null;
        const { kind } = this.trace.nodes;
        const all = [...this.range.boxes].map((node) => {
            const thread = this.layout.isOpen(node) ? this.layout.threadIn(node) : NONE;
            return thread === NONE ? node : thread;
        });
        const own = all.filter((node) => !isGroup(kind[node]) || kind[node] === Kind.Thread || !this.layout.isOpen(node));
        return own.length > 0 ? own : all;
    }

    clear(): void {
        this.asked += 1;
        this.selected = null;
        this.details = null;
        this.arrows = [];
        this.range = null;
        this.find.highlight = null;
        this.panel.redraw();
        this.invalidate();
    }

    // ---- commands, settings and notes

    run(line: string): void {
        runLine(this, line);
    }

    startWith(lines: string[]): void {
        void this.idle().then(() => runLines(this, lines));
    }

    idle(): Promise<void> {
        return this.frames.idle();
    }

    set(setting: keyof Settings, value: string): void {
        const { values } = SETTINGS[setting];
        if (!Object.hasOwn(values, value)) throw new Error(`“${value}” is none of ${Object.keys(values).join(', ')}`);
        Object.assign(this.settings, { [setting]: value });
        saveSettings(this.settings);
        applyFormats(this.settings);
        if (setting === 'sort') this.layout.sortProcesses(this.settings.sort);
        this.setTheme(isDark(this.settings));
    }

    setZero(time: number): void {
        this.marks.zero = formats.zero = time;
        this.changed();
    }

    changed(): void {
        this.panel.redraw();
        this.invalidate();
    }

    endRecording(): void {
        if (!this.recording) return this.say('No macro is being recorded');
        const { name, lines } = this.recording;
        this.recording = null;
        this.marks.macros.set(name, lines.join('\n'));
        this.say(`The macro “${name}” has ${lines.length} commands`);
        this.changed();
    }

    /** Shows only tracks with a name or command line. */
    filter(wanted: string): void {
        let found;
        try {
            found = this.layout.filter(wanted);
        } catch (error) {
            return this.say(text(error));
        }
        this.scroll = 0;
        if (wanted.trim()) this.say(found === 0 ? 'No track has such a name' : `${count(found)} tracks`);
        else this.say('');
        this.invalidate();
    }
}
