// The dialog with all keys.

import { COMMANDS, type Group } from './commands';
import { byId, el } from './dom';

/** What is done with the mouse, and with keys that depend on the focus. */
const OTHER: Record<Group, [string[], string][]> = {
    Moving: [
        [['Ctrl + wheel'], 'zoom to the mouse; pinch on a touchpad'],
        [['Shift + wheel'], 'pan; or swipe sideways'],
        [['Shift + drag'], 'pan in both directions'],
        [['Page ↑', 'Page ↓'], 'scroll'],
    ],
    Events: [
        [['click', 'Enter'], 'select an event'],
        [['Esc'], 'clear the selection'],
    ],
    Ranges: [
        [['drag'], 'select a time range on these rows'],
        [['drag on the ruler'], 'select a range on all rows'],
    ],
    Tracks: [
        [['↑', '↓'], 'row above and below'],
        [['→', '←'], 'open and close (in the list of tracks)'],
        [['Shift + ↑', 'Shift + ↓'], 'move the row'],
    ],
    Notes: [],
    Page: [[['Ctrl + K'], 'all commands']],
};

export function openHelp(): void {
    const help = byId<HTMLDialogElement>('help');
    if (help.childElementCount === 0) {
        const groups = Object.keys(OTHER) as Group[];
        const lower = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);
        const rows = (group: Group): [string[], string][] => [
            ...COMMANDS.filter((command) => command.group === group && command.keys).map(({ keys, name }): [string[], string] =>
                [keys!.slice(0, 2).map((key) => (key === key.toUpperCase() && /^[A-Z]$/.test(key) ? `Shift + ${key}` : key.length === 1 ? key.toUpperCase() : key)), lower(name)]),
            ...OTHER[group],
        ];
        help.append(
            el('h2', { id: 'help-title' }, 'Keys'),
            el('div', { class: 'columns' }, ...groups.map((group) =>
                el('section', {}, el('h3', {}, group), el('dl', {}, ...rows(group).flatMap(([names, what]) => [
                    el('dt', {}, ...names.flatMap((key, i) => [i > 0 ? ' ' : null, el('kbd', {}, key)])),
                    el('dd', {}, what),
                ]))))),
            el('div', { class: 'buttons' }, el('button', { click: () => help.close(), autofocus: true }, 'Close')),
        );
    }
    help.showModal();
}
