// Elements of the page. Texts are inserted as text nodes only, so that no part of a trace is parsed as HTML.

import { count } from './format';

type Child = Node | string | null | undefined | false;

export interface Attributes {
    class?: string;
    title?: string;
    role?: string;
    [name: string]: string | number | boolean | undefined | ((event: any) => void);
}

/** Creates an element. Attributes that are functions become listeners; `true` sets an empty attribute, `false` none. */
export function el<T extends keyof HTMLElementTagNameMap>(
    tag: T,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[T] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function') element.addEventListener(name, value);
        else if (value === true) element.setAttribute(name, '');
        else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
    }
    element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
    return element;
}

/** Creates an element for a name of a trace. Its writing direction does not affect the surrounding text. */
export function name(text: string, otherwise = 'unnamed'): HTMLElement {
    return text === '' ? el('i', { class: 'faint' }, otherwise) : el('bdi', {}, text);
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
    return document.getElementById(id) as T;
}

/** A cell of a table that is sorted by a click on a heading: the text, and the key to sort by. */
export interface Cell {
    text: string | Node;
    key: string | number;
    act?: () => void;
    /** The share of the largest value, drawn as a bar behind the number. */
    share?: number;
}

const SHOWN_ROWS = 200;

export function table(caption: string, heads: string[], rows: Cell[][], sorted: number): HTMLElement {
    let by = sorted;
    let down = true;
    let most = SHOWN_ROWS;
    const body = el('tbody');
    const buttons = heads.map((head, column) =>
        el('button', {
            click: () => {
                down = by === column ? !down : typeof rows[0]?.[column]?.key === 'number';
                by = column;
                fill();
            },
        }, head),
    );
    const cells = buttons.map((button, column) =>
        el('th', { scope: 'col', class: typeof rows[0]?.[column]?.key === 'number' ? 'number' : '' }, button),
    );
    const more = el('button', { class: 'more', click: () => { most *= 5; fill(); } });
    const fill = () => {
        rows.sort((a, b) => {
            const [x, y] = [a[by].key, b[by].key];
            const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
            return down ? -order : order;
        });
        cells.forEach((cell, column) =>
            cell.setAttribute('aria-sort', column === by ? (down ? 'descending' : 'ascending') : 'none'),
        );
        body.replaceChildren(
            ...rows.slice(0, most).map((row) =>
                el('tr', {}, ...row.map((cell) => {
                    const content = cell.act ? el('button', { class: 'link', click: cell.act }, cell.text) : cell.text;
                    const td = el('td', { class: typeof cell.key === 'number' ? 'number' : 'name' }, content);
                    if (cell.share !== undefined) {
                        td.classList.add('bar');
                        td.style.setProperty('--share', `${Math.round(cell.share * 100)}%`);
                    }
                    return td;
                })),
            ),
        );
        more.hidden = rows.length <= most;
        more.textContent = `Show more of ${count(rows.length)}`;
    };
    fill();
    return el('section', { class: 'table' },
        el('h3', {}, caption),
        el('table', {}, el('thead', {}, el('tr', {}, ...cells)), body),
        more,
    );
}
