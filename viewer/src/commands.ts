// All actions of the page: the keys, the palette, the list of keys and macros run these.

import type { App } from './app';
import { saveEvents } from './chromejson';
import { drawBeside } from './changed';
import { byId } from './dom';
import { formats, parseTime, text } from './format';
import { openHelp } from './help';
import { saveImage } from './image';
import { title } from './labels';
import { matcher } from './match';
import { NONE } from './model';
import { openPalette } from './palette';
import { group } from './pivottable';
import { TABS, TAB_NAMES } from './page';
import { openSettings, ownKeys, setKey, SETTINGS, type Settings } from './settings';
import { loadState, saveState } from './statefile';

export type Group = 'Moving' | 'Events' | 'Ranges' | 'Tracks' | 'Notes' | 'Page';

export interface Command {
    /** Its name in macros. */
    id: string;
    name: string;
    group: Group;
    /** Values of `KeyboardEvent.key`. */
    keys?: string[];
    /** A description of the argument, if it takes one. */
    argument?: string;
    /** Set if it does nothing without an argument. */
    needs?: boolean;
    /** The arguments to choose from. */
    choices?: (app: App) => [string, string][];
    /** Set for commands that are not part of recorded macros. */
    outside?: boolean;
    run: (app: App, argument: string) => void;
}

/** The share of the width that a key pans. */
const KEY_PAN = 0.12;
const KEY_ZOOM = 0.75;

const named = (names: Iterable<string>): [string, string][] => [...names].map((name) => [name, name]);

export const COMMANDS: Command[] = [
    { id: 'zoom-in', name: 'Zoom in', group: 'Moving', keys: ['w', '+', '='], run: (app) => app.zoom(KEY_ZOOM) },
    { id: 'zoom-out', name: 'Zoom out', group: 'Moving', keys: ['s', '-'], run: (app) => app.zoom(1 / KEY_ZOOM) },
    { id: 'pan-left', name: 'Pan left', group: 'Moving', keys: ['a'], run: (app) => app.pan(-app.axis.width * KEY_PAN) },
    { id: 'pan-right', name: 'Pan right', group: 'Moving', keys: ['d'], run: (app) => app.pan(app.axis.width * KEY_PAN) },
    { id: 'all', name: 'Show the whole trace', group: 'Moving', keys: ['Home'], run: (app) => app.all() },
    { id: 'fit', name: 'Fit the selected event or range', group: 'Moving', keys: ['f'], run: (app) => app.fit() },
    {
        id: 'go', name: 'Go to a time or range', group: 'Moving', argument: 'a time as 1.5 s or 200ms, or two', needs: true,
        run: (app, argument) => {
            const times = timesOf(argument);
            if (times.length === 2) app.axis.set(times[0], times[1]);
            else app.axis.set(times[0] - app.axis.span / 2, times[0] + app.axis.span / 2);
            app.invalidate();
        },
    },

    { id: 'select', name: 'Select the first visible event of the row', group: 'Events', keys: ['e'], run: (app) => app.selectInFocus() },
    { id: 'next', name: 'Next event', group: 'Events', keys: ['.'], run: (app) => app.step('next') },
    { id: 'previous', name: 'Previous event', group: 'Events', keys: [','], run: (app) => app.step('previous') },
    { id: 'parent', name: 'Parent of the event', group: 'Events', keys: ['<'], run: (app) => app.step('parent') },
    { id: 'child', name: 'First child of the event', group: 'Events', keys: ['>'], run: (app) => app.step('child') },
    { id: 'flow', name: 'Follow a flow forward', group: 'Events', keys: [']'], run: (app) => app.follow(true) },
    { id: 'flow-back', name: 'Follow a flow back', group: 'Events', keys: ['['], run: (app) => app.follow(false) },
    { id: 'waker', name: 'Select what woke the thread', group: 'Events', keys: ['k'], run: (app) => app.toWaker() },
    {
        id: 'search', name: 'Search names and arguments', group: 'Events', keys: ['/'], argument: 'a text, key=value, or /expression/',
        run: (app, argument) => {
            const query = byId<HTMLInputElement>('query');
            if (argument) query.value = argument;
            if (argument) app.find.search(argument);
            else query.focus();
        },
    },
    { id: 'next-match', name: 'Next match', group: 'Events', keys: ['n'], run: (app) => app.find.next(1) },
    { id: 'previous-match', name: 'Previous match', group: 'Events', keys: ['N'], run: (app) => app.find.next(-1) },
    { id: 'clear', name: 'Clear the selection', group: 'Events', run: (app) => app.clear() },

    { id: 'range-event', name: 'Select the time of the event', group: 'Ranges', keys: ['m'], run: (app) => app.rangeOfEvent() },
    {
        id: 'range-visible', name: 'Select the visible time', group: 'Ranges', keys: ['v'],
        run: (app) => app.setRange({ from: Math.max(0, app.axis.t0), to: Math.min(app.trace.end, app.axis.t1), boxes: null }),
    },
    {
        id: 'range-row', name: 'Select the visible time of the row', group: 'Ranges', keys: ['r'],
        run: (app) => {
            if (app.focus === NONE) return app.say('Select a row first');
            app.setRange({ from: Math.max(0, app.axis.t0), to: Math.min(app.trace.end, app.axis.t1), boxes: new Set([app.focus]) });
        },
    },
    {
        id: 'range', name: 'Select a range of time', group: 'Ranges', argument: 'two times, as 1 s 1.5 s', needs: true,
        run: (app, argument) => {
            const [from, to] = timesOf(argument);
            if (to === undefined || to <= from) throw new Error('a range needs two times, the earlier one first');
            app.setRange({ from: Math.max(0, from), to: Math.min(app.trace.end, to), boxes: null });
        },
    },
    {
        id: 'group', name: 'Group the events of the range', group: 'Ranges', argument: 'slices, states, cpu or events, then columns or arguments: slices status thread', needs: true,
        run: (app, argument) => {
            group(argument);
            if (!app.range) throw new Error('Select a range first, as with V');
            app.panel.open('range');
        },
    },
    { id: 'beside', name: 'Draw the changed rows of both ranges or traces together', group: 'Ranges', run: (app) => void app.task(drawBeside(app), () => undefined) },
    { id: 'keep-range', name: 'Keep the range for comparison', group: 'Ranges', keys: ['b'], run: (app) => app.panel.setBaseline() },

    { id: 'tracks', name: 'Go to the list of tracks', group: 'Tracks', keys: ['g'], run: () => byId('labels').focus() },
    { id: 'row-up', name: 'Row above', group: 'Tracks', run: (app) => app.moveFocus(-1) },
    { id: 'row-down', name: 'Row below', group: 'Tracks', run: (app) => app.moveFocus(1) },
    { id: 'toggle', name: 'Open or close the row', group: 'Tracks', keys: ['o'], run: (app) => app.toggle(app.focus) },
    { id: 'pin', name: 'Pin the row to the top', group: 'Tracks', keys: ['p'], run: (app) => app.pin(app.focus) },
    {
        id: 'pin-named', name: 'Pin tracks by name', group: 'Tracks', argument: 'a part of their name, or /expression/', needs: true,
        run: (app, argument) => {
            const matches = matcher(argument);
            const { nodes } = app.trace;
            let pinned = 0;
            for (let node = 0; node < nodes.length && pinned < 50; node++) {
                const row = app.layout.rowOf(node);
                if (!matches(title(nodes, node)) || app.layout.pinned.includes(row)) continue;
                app.layout.pin(row);
                pinned += 1;
            }
            app.say(pinned > 0 ? `${pinned} tracks are pinned` : 'No track has this name');
            app.invalidate();
        },
    },
    { id: 'unpin', name: 'Unpin all rows', group: 'Tracks', run: (app) => { app.layout.pinned = []; app.invalidate(); } },
    {
        id: 'focus', name: 'Go to a track', group: 'Tracks', argument: 'a part of its name, or /expression/', needs: true,
        run: (app, argument) => {
            const matches = matcher(argument);
            const { nodes } = app.trace;
            for (let node = 0; node < nodes.length; node++) if (matches(title(nodes, node)) || matches(nodes.command(node))) return app.setFocus(node);
            app.say('No track has this name');
        },
    },
    {
        id: 'filter', name: 'Filter tracks', group: 'Tracks', argument: 'a part of names or command lines, or /expression/',
        run: (app, argument) => {
            byId<HTMLInputElement>('filter').value = argument;
            app.filter(argument);
            if (argument === '') byId('filter').focus();
        },
    },
    { id: 'open-all', name: 'Open all groups', group: 'Tracks', run: (app) => { app.layout.setAllOpen(true); app.invalidate(); } },
    { id: 'close-all', name: 'Close all groups', group: 'Tracks', run: (app) => { app.layout.setAllOpen(false); app.invalidate(); } },

    { id: 'note', name: 'Add a note to the event, range or time', group: 'Notes', keys: ['i'], argument: 'its text', run: (app, argument) => app.notes.add(argument) },
    { id: 'next-note', name: 'Next note', group: 'Notes', keys: ['}'], run: (app) => app.notes.go(1) },
    { id: 'previous-note', name: 'Previous note', group: 'Notes', keys: ['{'], run: (app) => app.notes.go(-1) },
    {
        id: 'workspace-save', name: 'Save the pinned rows as a workspace', group: 'Notes', argument: 'its name', needs: true,
        run: (app, argument) => app.notes.saveWorkspace(argument),
    },
    {
        id: 'workspace', name: 'Switch to a workspace', group: 'Notes', argument: 'its name', needs: true,
        choices: (app) => named(app.marks.workspaces.keys()), run: (app, argument) => app.notes.useWorkspace(argument),
    },
    {
        id: 'macro-record', name: 'Record a macro', group: 'Notes', argument: 'its name', needs: true, outside: true,
        run: (app, argument) => {
            app.recording = { name: argument, lines: [] };
            app.say(`Recording “${argument}”; the command “End the recording” saves it`);
        },
    },
    { id: 'macro-end', name: 'End the recording of a macro', group: 'Notes', outside: true, run: (app) => app.endRecording() },
    {
        id: 'macro', name: 'Run a macro', group: 'Notes', argument: 'its name', needs: true, outside: true,
        choices: (app) => named(app.marks.macros.keys()),
        run: (app, argument) => {
            const lines = app.marks.macros.get(argument);
            if (lines === undefined) throw new Error(`there is no macro “${argument}”`);
            void runLines(app, lines.split('\n'));
        },
    },
    {
        id: 'zero', name: 'Count times from the selected event or range', group: 'Notes',
        run: (app) => {
            const from = app.selected?.start ?? app.range?.from;
            if (from === undefined) return app.say('Select an event or a range first');
            app.setZero(from);
        },
    },
    { id: 'zero-reset', name: 'Count times from the start of the trace', group: 'Notes', run: (app) => app.setZero(0) },
    { id: 'state-save', name: 'Save the state of the page to a file', group: 'Notes', outside: true, run: (app) => saveState(app) },
    { id: 'state-load', name: 'Load a state from a file', group: 'Notes', outside: true, run: (app) => loadState(app) },
    { id: 'picture', name: 'Save the picture as an image', group: 'Notes', outside: true, run: (app) => saveImage(app) },
    { id: 'json', name: 'Save the events of the range as JSON of Chrome', group: 'Notes', outside: true, run: (app) => void app.task(saveEvents(app), () => undefined) },
    {
        id: 'copy-link', name: 'Copy the address of this view', group: 'Notes', outside: true,
        run: (app) => void app.task(navigator.clipboard.writeText(location.href), () => app.say('The address is copied')),
    },

    ...TABS.map((tab, i): Command => ({
        id: `tab-${tab}`, name: `Show the tab ${TAB_NAMES[tab]}`, group: 'Page', ...(i < 9 && { keys: [String(i + 1)] }), run: (app) => app.panel.open(tab),
    })),
    { id: 'panel-close', name: 'Close the panel', group: 'Page', keys: ['0'], run: (app) => app.panel.close() },
    { id: 'theme', name: 'Dark or light', group: 'Page', keys: ['t'], run: (app) => app.set('theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark') },
    { id: 'settings', name: 'Settings', group: 'Page', keys: [';'], outside: true, run: (app) => openSettings(app) },
    ...(Object.keys(SETTINGS) as (keyof Settings)[]).map((key): Command => ({
        id: `set-${key}`, name: `Set: ${SETTINGS[key].name.toLowerCase()}`, group: 'Page', argument: 'a value', needs: true,
        choices: () => Object.entries(SETTINGS[key].values) as [string, string][], run: (app, argument) => app.set(key, argument),
    })),
    {
        id: 'key', name: 'Give a key a command', group: 'Page', argument: 'the key, then the command as in a macro: x search status=500', needs: true, outside: true,
        run: (app, argument) => {
            const [key, ...rest] = argument.split(' ');
            const id = rest[0] ?? '';
            if (id && !byName.has(id)) throw new Error(`there is no command “${id}”; macros show the names of commands`);
            setKey(key, rest.join(' '));
            app.say(id ? `The key ${key} runs “${rest.join(' ')}”` : `The key ${key} has its own command again`);
        },
    },
    { id: 'palette', name: 'All commands', group: 'Page', keys: [':'], outside: true, run: (app) => openPalette(app) },
    { id: 'help', name: 'List of all keys', group: 'Page', keys: ['?'], outside: true, run: () => openHelp() },
];

const byKey = new Map(COMMANDS.flatMap((command) => (command.keys ?? []).map((key) => [key, command] as const)));
const byName = new Map(COMMANDS.map((command) => [command.id, command]));

/** Runs the command of a key. Returns false if it has none. */
export function runKey(app: App, key: string): boolean {
    const own = ownKeys.get(key);
    const command = byKey.get(key);
    if (own) runLine(app, own);
    else if (command) execute(app, command);
    return own !== undefined || command !== undefined;
}

/** Runs a command, shows its error, and adds it to the macro that is being recorded. */
export function execute(app: App, command: Command, argument = ''): void {
    try {
        command.run(app, argument.trim());
        if (!command.outside) app.recording?.lines.push(`${command.id} ${argument}`.trim());
    } catch (error) {
        app.say(text(error));
    }
}

/** Runs a command as in a macro: its name, then its argument. */
export function runLine(app: App, line: string): void {
    const [id, ...rest] = line.trim().split(' ');
    const command = byName.get(id);
    if (command) execute(app, command, rest.join(' '));
    else app.say(`There is no command “${id}”`);
}

/** Runs commands one after the other. Each waits until the previous one is done. */
export async function runLines(app: App, lines: string[]): Promise<void> {
    const recording = app.recording;
    app.recording = null;
    for (const line of lines.slice(0, 1000)) {
        if (line.trim() === '' || line.trim().startsWith('#')) continue;
        runLine(app, line);
        await app.idle();
    }
    app.recording = recording;
}

/** Returns the one or two times of a text. */
function timesOf(argument: string): number[] {
    const times = argument.match(/[-−]?[\d.,]+\s*(?:ns|us|µs|ms|s|min|h)?/g)?.map(parseTime) ?? [];
    if (times.length === 0 || times.length > 2 || !times.every(Number.isFinite)) throw new Error(`“${argument}” is not a time, such as 1.5 s or 200 ms`);
    return times.map((time) => time + formats.zero);
}
