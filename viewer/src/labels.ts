// The names of the rows, left of the picture: a tree that is accessible by keyboard and screen reader.

import { byId, el } from './dom';
import { count, quantity } from './format';
import { isGroup } from './layout';
import { Kind, NONE, type Nodes } from './model';
import type { Page } from './page';
import { OVERVIEW, RULER, type Box } from './scene';

const NAMES: Record<number, string> = {
    [Kind.Machine]: 'Machine',
    [Kind.Process]: 'Process',
    [Kind.Thread]: 'Thread',
    [Kind.Group]: 'Group',
    [Kind.Slices]: 'Slices',
    [Kind.Counter]: 'Counter',
    [Kind.Cpu]: 'CPU',
    [Kind.States]: 'States',
    [Kind.Values]: 'Values',
    [Kind.Samples]: 'Samples',
    [Kind.Log]: 'Log',
    [Kind.Heap]: 'Heap dumps',
};

/** Returns the displayed name of a node. */
export function title(nodes: Nodes, node: number): string {
    const name = nodes.name(node);
    const kind = nodes.kind[node];
    const number = nodes.number[node];
    if (kind === Kind.Cpu) return name || `CPU ${number}`;
    // A thread's own slices take its name.
    if (name === '' && kind === Kind.Slices && nodes.parent[node] >= 0 && nodes.kind[nodes.parent[node]] === Kind.Thread) {
        return title(nodes, nodes.parent[node]);
    }
    const shown = name || NAMES[kind] || 'Track';
    return kind === Kind.Process && Number.isNaN(number) === false ? `${shown} ${number}` : shown;
}

/** Returns the names of a node and of its ancestors, from the outermost on. */
export function pathOf(nodes: Nodes, node: number): string {
    const names: string[] = [];
    for (let at = node; at !== NONE; at = nodes.parent[at]) names.unshift(nodes.name(at) || NAMES[nodes.kind[at]] || '');
    return names.join(' › ');
}

/** Returns the node with such a path, or NONE. */
export function nodeAt(nodes: Nodes, path: string): number {
    for (let node = 0; node < nodes.length; node++) if (path.endsWith(nodes.name(node) || NAMES[nodes.kind[node]] || '') && pathOf(nodes, node) === path) return node;
    return NONE;
}

function meta(nodes: Nodes, node: number): string {
    const kind = nodes.kind[node];
    const number = nodes.number[node];
    switch (kind) {
        case Kind.Thread:
            return Number.isNaN(number) ? '' : String(number);
        case Kind.Counter:
            return nodes.rows[node] > 0 ? extremes(nodes, node) : '';
        case Kind.Log:
            return count(nodes.rows[node]);
        default:
            return '';
    }
}

function extremes(nodes: Nodes, node: number): string {
    const [min, max] = [nodes.min[node], nodes.max[node]].map((value) => quantity(value, nodes.unit(node)));
    return min === max ? min : `${min} – ${max}`;
}

/** Returns a name without the folders of a program. */
function short(name: string): string {
    const [program, ...rest] = name.split(' ');
    const at = program.lastIndexOf('/');
    return at >= 0 && at + 1 < program.length && !program.startsWith('<') ? [program.slice(at + 1), ...rest].join(' ') : name;
}

/** Returns the arguments of the command line of a process; for others, the name of its only thread if it differs. */
function another(nodes: Nodes, node: number, thread: number): string {
    const command = nodes.command(node);
    const [program, ...rest] = command.split(' ');
    if (rest.length > 0) return short(program) === short(nodes.name(node)).split(' ')[0] ? rest.join(' ') : short(command);
    if (thread === NONE) return '';
    const name = nodes.name(thread);
    return short(nodes.name(node)).startsWith(name) ? '' : name;
}

interface Label {
    root: HTMLElement;
    twist: HTMLElement;
    what: HTMLElement;
    meta: HTMLElement;
    pin: HTMLButtonElement;
    key: string;
    node: number;
}

export class Labels {
    private root = byId('labels');
    private pool: Label[] = [];

    constructor(private app: Page) {
        this.root.addEventListener('click', (event) => {
            const label = this.of(event.target as Node);
            if (!label) return;
            if ((event.target as Element).closest('.pin')) return this.app.pin(label.node);
            this.app.focus = label.node;
            const low = isGroup(this.app.trace.nodes.kind[label.node]) || !this.app.layout.isOpen(label.node);
            if (low || (event.target as Element).closest('.twist')) this.app.toggle(label.node);
            this.app.invalidate();
        });
    }

    private of(target: Node): Label | undefined {
        return this.pool.find((label) => label.root.contains(target));
    }

    private make(): Label {
        const twist = el('span', { class: 'twist', 'aria-hidden': 'true' });
        const what = el('bdi', { class: 'what' });
        const meta = el('span', { class: 'meta' });
        const pin = el('button', { class: 'pin', tabindex: -1, title: 'Pin (P)', 'aria-label': 'Pin' }, '⚲');
        const root = el('div', { class: 'label', role: 'treeitem' }, twist, what, meta, pin);
        this.root.append(root);
        return { root, twist, what, meta, pin, key: '', node: -1 };
    }

    draw(boxes: Box[]): void {
        const { app } = this;
        const { nodes } = app.trace;
        while (this.pool.length < boxes.length) this.pool.push(this.make());
        const above = OVERVIEW + RULER;
        const lastPinned = boxes.filter((box) => box.pinned).length - 1;
        const bodyTop = lastPinned >= 0 ? boxes[lastPinned].y + boxes[lastPinned].h : above;
        let active = '';
        this.pool.forEach((label, i) => {
            const box = boxes[i];
            label.root.hidden = !box;
            if (!box) {
                // Another label may get its id.
                label.key = '';
                label.root.removeAttribute('id');
                return;
            }
            const { node } = box;
            const { style } = label.root;
            label.node = node;
            // The name of a partly hidden row is at the top of its visible part.
            const cut = box.pinned ? 0 : Math.max(0, Math.min(bodyTop - box.y, box.h - app.layout.unit - 4));
            const top = box.y + cut - above;
            style.top = `${top}px`;
            style.height = `${box.h - cut}px`;
            const focused = app.focus === node && !box.pinned;
            const openable = app.layout.canOpen(node);
            const open = app.layout.isOpen(node);
            const key = `${node} ${box.level} ${box.pinned} ${focused} ${openable} ${open} ${i === lastPinned} ${nodes.rows[node]}`;
            if (focused) active = `row-${node}`;
            if (key === label.key) return;
            label.key = key;
            const kind = nodes.kind[node];
            label.root.id = `${box.pinned ? 'pin' : 'row'}-${node}`;
            label.root.className = [
                'label',
                isGroup(kind) && kind !== Kind.Thread ? 'group' : '',
                kind === Kind.Machine ? 'machine' : '',
                box.pinned ? 'pinned' : '',
                i === lastPinned ? 'last-pinned' : '',
                focused ? 'focus' : '',
            ].filter(Boolean).join(' ');
            label.root.setAttribute('aria-level', String(box.level + 1));
            if (openable) label.root.setAttribute('aria-expanded', String(open));
            else label.root.removeAttribute('aria-expanded');
            label.root.setAttribute('aria-selected', String(focused));
            style.paddingLeft = `${0.25 + Math.min(box.level, 8) * 0.7}rem`;
            label.twist.textContent = openable ? (open ? '▾' : '▸') : '';
            const shown = title(nodes, node);
            const thread = app.layout.onlyThread(node);
            label.what.textContent = kind === Kind.Process ? short(shown) : shown;
            const threadName = thread === NONE ? '' : `, thread ${[title(nodes, thread), meta(nodes, thread)].join(' ').trim()}`;
            const command = nodes.command(node) && nodes.command(node) !== nodes.name(node) ? `, ${nodes.command(node)}` : '';
            label.root.title = `${shown}${command}${threadName}${nodes.rows[node] ? `, ${count(nodes.rows[node])} events` : ''}`;
            const deep = kind === Kind.Slices && !open && nodes.depth[node] > 1;
            const more = deep ? `${nodes.depth[node]} deep` : kind === Kind.Process ? another(nodes, node, thread) : meta(nodes, node);
            label.meta.textContent = more;
            label.meta.classList.toggle('short', more.length <= 8);
            label.pin.setAttribute('aria-pressed', String(box.pinned));
        });
        if (active) this.root.setAttribute('aria-activedescendant', active);
        else this.root.removeAttribute('aria-activedescendant');
    }
}
