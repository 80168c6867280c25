// The page as its panels and labels see it.

import type { Axis } from './axis';
import type { Palette } from './colors';
import type { Layout } from './layout';
import type { Marks } from './marks';
import type { CodeRequest, Details, Found, Ref, Step, Tile, Trace, Why } from './model';
import type { Scene } from './scene';
import type { Settings } from './settings';
import type { Source } from './source';
import type { Tracks } from './trackform';

/** The tabs of the panel, in order. */
export const TABS = ['details', 'range', 'flame', 'log', 'search', 'trace', 'notes', 'sql', 'compare', 'code', 'charts'] as const;
export type Tab = (typeof TABS)[number];

export const TAB_NAMES: Record<Tab, string> = {
    details: 'Details',
    range: 'Range',
    flame: 'Flamegraph',
    log: 'Log',
    search: 'Search',
    trace: 'Trace',
    notes: 'Notes',
    sql: 'SQL',
    compare: 'Compare',
    code: 'Code',
    charts: 'Charts',
};

export interface Selection {
    from: number;
    to: number;
    /** The rows that the box touches; null for all. */
    boxes: Set<number> | null;
}

/** The panel as the tabs and the address of the page see it. */
export interface Tabs {
    /** The tab that is open, or null. */
    readonly shown: Tab | null;
    /** The text of the tab with SQL. */
    sql: string;
    open(tab: Tab): void;
    close(): void;
    setBaseline(): void;
    showCode(request: CodeRequest): void;
}

/** The search as the tabs and the address of the page see it. */
export interface Finding {
    readonly found: Found | null;
    readonly query: string;
    /** The index of the selected match. */
    readonly hit: number;
    remember(query: string): void;
    search(query: string, go?: boolean): void;
    go(index: number): void;
    /** Highlights the events with a name in the picture, and searches for a text. */
    pick(highlight: string | null, query: string | null): void;
}

export interface Page {
    readonly source: Source;
    readonly trace: Trace;
    readonly scene: Scene;
    readonly axis: Axis;
    readonly layout: Layout;
    readonly colors: Palette;
    readonly panel: Tabs;
    /** Notes, workspaces, macros and charts. */
    readonly marks: Marks;
    readonly settings: Settings;
    /** The place of the mouse in the picture, or null. */
    readonly hoverX: number | null;
    scroll: number;
    selected: Ref | null;
    readonly details: Details | null;
    readonly range: Selection | null;
    baseline: { from: number; to: number } | null;
    /** The tracks that are drawn besides those of the trace. */
    readonly tracks: Tracks[];
    readonly find: Finding;
    /** The node of the focused row. */
    focus: number;

    /** Runs a command as in a macro: its name, then its argument. */
    run(line: string): void;
    set(setting: keyof Settings, value: string): void;
    /** Draws the panel and the picture again after a change of notes, workspaces or macros. */
    changed(): void;
    readonly notes: { show(at: number): void };
    setZero(time: number): void;
    /** Runs commands of the address once the trace is drawn. */
    startWith(lines: string[]): void;

    /** Draws the page again. */
    invalidate(): void;
    say(sentence: string): void;
    /** Marks the page as busy until a promise is settled, and shows its error. */
    task<T>(promise: Promise<T>, then: (value: T) => void): Promise<void>;
    toggle(node: number): void;
    pin(node: number): void;
    addTrack(track: Tracks): void;
    removeTrack(track: Tracks): void;
    /** Replaces the further tracks, and calls `then` with the topmost new nodes. */
    setTracks(tracks: Tracks[], then: (tops: number[]) => void): void;
    setFocus(node: number): void;
    at(x: number, y: number): { tile: Tile; row: number; node: number } | null;
    select(ref: Ref, reveal?: boolean): void;
    step(to: Step): void;
    /** Returns the causes of the time of a row, or null if the source cannot compute them. */
    why(ref: Ref): Promise<Why | null> | null;
    fit(): void;
    setRange(range: Selection | null, show?: boolean): void;
    rangeNodes(): number[] | null;
}
