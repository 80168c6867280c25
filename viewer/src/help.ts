// The keys, on one page.

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
        [['click', 'Enter', 'E'], 'select an event; first one of the row'],
        [['.', ','], 'next and previous one'],
        [['<', '>'], 'the one around it, the first within it'],
        [[']', '['], 'follow a flow onwards, or back'],
        [['/'], 'search'],
        [['N', 'Shift + N'], 'next and previous match'],
        [['Esc'], 'select nothing'],
    ]],
    ['Ranges', [
        [['drag'], 'select a range of time on these rows'],
        [['drag on the ruler'], 'select a range on all rows'],
        [['M'], 'the time of the selected event'],
        [['V'], 'all that is in sight'],
        [['B'], 'keep the range to compare others with'],
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
