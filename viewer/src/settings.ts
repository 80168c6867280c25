// The settings of the page, which are kept, and their dialog.

import type { Scheme } from './colors';
import { byId, el } from './dom';
import { formats } from './format';
import { keep, kept } from './kept';
import type { Sort } from './layout';
import type { Page } from './page';

export interface Settings {
    theme: 'system' | 'light' | 'dark';
    colors: Scheme;
    sort: Sort;
    times: 'units' | 'seconds' | 'ns';
    bytes: 'binary' | 'decimal';
}

/** The name of each setting, and of its values. The first value is the default. */
export const SETTINGS: { [K in keyof Settings]: { name: string; values: Record<Settings[K], string> } } = {
    theme: { name: 'Theme', values: { system: 'as the system', light: 'light', dark: 'dark' } },
    colors: { name: 'Colours', values: { muted: 'muted', strong: 'strong', safe: 'safe for colour-blind people' } },
    sort: {
        name: 'Order of processes',
        values: { activity: 'recorded command, then most CPU time', tree: 'parents before children', start: 'start', cpu: 'CPU time', name: 'name' },
    },
    times: { name: 'Durations', values: { units: 's, ms, µs, ns', seconds: 'seconds', ns: 'nanoseconds' } },
    bytes: { name: 'Sizes', values: { binary: 'KiB, MiB, GiB', decimal: 'kB, MB, GB' } },
};

/** The user's own keys, each with a command and its argument. */
export const ownKeys = new Map<string, string>();

/** Gives a key a command, or takes it away if the command is empty. */
export function setKey(key: string, line: string): void {
    if (line) ownKeys.set(key, line);
    else ownKeys.delete(key);
    keep('keys', Object.fromEntries(ownKeys));
}

function fields(value: unknown): [string, unknown][] {
    return Object.entries(value ?? {});
}

/** Returns the kept settings, and sets the kept keys. */
export function loadSettings(): Settings {
    for (const [key, line] of fields(kept('keys'))) if (typeof line === 'string') ownKeys.set(key, line);
    const found = Object.fromEntries(fields(kept('settings')));
    const all = Object.entries(SETTINGS).map(([key, { values }]) => {
        const value = found[key];
        return [key, typeof value === 'string' && Object.hasOwn(values, value) ? value : Object.keys(values)[0]];
    });
    return Object.fromEntries(all) as Settings;
}

export function saveSettings(settings: Settings): void {
    keep('settings', settings);
}

export function isDark({ theme }: Settings): boolean {
    return theme === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark';
}

/** Applies the settings that do not concern the trace. */
export function applyFormats(settings: Settings): void {
    document.documentElement.dataset.theme = isDark(settings) ? 'dark' : 'light';
    formats.times = settings.times;
    formats.bytes = settings.bytes;
}

export function openSettings(app: Page): void {
    const dialog = byId<HTMLDialogElement>('settings');
    const rows = Object.entries(SETTINGS).map(([key, { name, values }]) => {
        const id = `set-${key}`;
        const of = key as keyof Settings;
        const choose = (event: Event) => app.set(of, (event.target as HTMLSelectElement).value);
        const select = el('select', { id, change: choose }, ...Object.entries(values).map(([value, text]) =>
            el('option', { value, selected: app.settings[of] === value }, text)));
        return [el('dt', {}, el('label', { for: id }, name)), el('dd', {}, select)];
    });
    const zero = el('dd', {},
        el('button', { click: () => app.run('zero') }, 'at the selection'), ' ',
        el('button', { click: () => app.run('zero-reset') }, 'at the start of the trace'));
    dialog.replaceChildren(
        el('h2', { id: 'settings-title' }, 'Settings'),
        el('dl', {}, ...rows.flat(), el('dt', {}, 'Zero of time'), zero,
            ownKeys.size > 0 && el('dt', {}, 'Own keys'),
            ownKeys.size > 0 && el('dd', {}, ...[...ownKeys].flatMap(([key, line]) => [el('kbd', {}, key), ` ${line} `]))),
        el('div', { class: 'buttons' }, el('button', { click: () => dialog.close() }, 'Close')));
    dialog.showModal();
}
