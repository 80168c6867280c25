// The dialog with all keys.

import { byId, el } from './dom';

const KEYS: [string, [string[], string][]][] = [
    ['Moving', [
        [['W', 'S'], 'zoom in and out'],
        [['A', 'D'], 'pan left and right'],
        [['Home'], 'the whole trace'],
        [['F'], 'fit the selected event or range'],
        [['Ctrl + wheel'], 'zoom to the mouse; pinch on a touchpad'],
        [['Shift + wheel'], 'pan; or swipe sideways'],
        [['Shift + drag'], 'pan in both directions'],
        [['Page ↑', 'Page ↓'], 'scroll'],
    ]],
    ['Events', [
        [['click', 'Enter', 'E'], 'select an event, or the first one of the row'],
        [['.', ','], 'next and previous event'],
        [['<', '>'], 'parent and first child'],
        [[']', '['], 'follow a flow forward or back'],
        [['/'], 'search'],
        [['N', 'Shift + N'], 'next and previous match'],
        [['Esc'], 'clear the selection'],
    ]],
    ['Ranges', [
        [['drag'], 'select a time range on these rows'],
        [['drag on the ruler'], 'select a range on all rows'],
        [['M'], 'select the time of the event'],
        [['V'], 'select the visible time'],
        [['B'], 'keep the range for comparison'],
    ]],
    ['Tracks', [
        [['↑', '↓'], 'row above and below'],
        [['→', '←'], 'open and close (in the list of tracks)'],
        [['P'], 'pin the row to the top'],
        [['Shift + ↑', 'Shift + ↓'], 'move the row'],
        [['G'], 'go to the list of tracks'],
    ]],
    ['Page', [
        [['1', '–', '6'], 'tabs of the panel'],
        [['0'], 'close the panel'],
        [['T'], 'dark or light'],
        [['?'], 'this help'],
    ]],
];

export function openHelp(): void {
    const help = byId<HTMLDialogElement>('help');
    if (help.childElementCount === 0) {
        help.append(
            el('h2', { id: 'help-title' }, 'Keys'),
            el('div', { class: 'columns' }, ...KEYS.map(([title, keys]) =>
                el('section', {}, el('h3', {}, title), el('dl', {}, ...keys.flatMap(([names, what]) => [
                    el('dt', {}, ...names.flatMap((key, i) => [i > 0 ? ' ' : null, key === '–' ? '–' : el('kbd', {}, key)])),
                    el('dd', {}, what),
                ]))))),
            el('div', { class: 'buttons' }, el('button', { click: () => help.close(), autofocus: true }, 'Close')),
        );
    }
    help.showModal();
}
