// The palette: a dialog that finds commands by words, and asks for their arguments.

import type { App } from './app';
import { COMMANDS, execute, type Command } from './commands';
import { byId, el } from './dom';

interface Option {
    text: string;
    note: string;
    run: () => void;
}

const SHOWN = 60;

export function openPalette(app: App): void {
    const dialog = byId<HTMLDialogElement>('palette');
    let asked: Command | null = null;
    let options: Option[] = [];
    let at = 0;
    const input = el('input', {
        type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'palette-list', 'aria-autocomplete': 'list',
        autocomplete: 'off', spellcheck: 'false',
    });
    const list = el('div', { id: 'palette-list', role: 'listbox', 'aria-label': 'Commands' });
    const close = () => dialog.close();
    const run = (command: Command, argument = '') => {
        close();
        execute(app, command, argument);
    };
    const choose = (command: Command) => {
        if (!command.argument) return run(command);
        asked = command;
        input.value = '';
        label();
        fill();
    };
    const label = () => {
        const text = asked ? `${asked.name}: ${asked.argument}` : 'Search commands';
        input.placeholder = text;
        input.setAttribute('aria-label', text);
    };
    const all = (): Option[] => {
        const words = input.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
        // Those that begin with the text come first.
        const rank = (text: string) => (text.toLowerCase().startsWith(words.join(' ')) ? 0 : text.toLowerCase().startsWith(words[0]) ? 1 : 2);
        const has = (text: string) => words.every((word) => text.toLowerCase().includes(word));
        if (asked) {
            const command = asked;
            const chosen = (command.choices?.(app) ?? []).filter(([value, text]) => has(`${value} ${text}`));
            chosen.sort((a, b) => rank(a[0]) - rank(b[0]));
            const own: Option[] = command.choices && command.needs ? [] : [{
                text: input.value.trim() ? `${command.name}: ${input.value.trim()}` : command.name,
                note: input.value.trim() || !command.needs ? '' : `type ${command.argument}`,
                run: () => { if (input.value.trim() || !command.needs) run(command, input.value); },
            }];
            return [...chosen.map(([value, text]) => ({ text, note: value === text ? '' : value, run: () => run(command, value) })), ...own];
        }
        const found = COMMANDS.filter((command) => has(`${command.name} ${command.id} ${command.group}`));
        found.sort((a, b) => rank(a.name) - rank(b.name));
        const commands = found.map((command): Option => ({ text: command.argument ? `${command.name}…` : command.name, note: (command.keys ?? []).join(' '), run: () => choose(command) }));
        if (words.length === 0) return commands;
        const text = input.value.trim();
        const other = ['search', 'filter', 'focus'].map((id) => COMMANDS.find((command) => command.id === id)!);
        return [...commands, ...other.map((command) => ({ text: `${command.name}: ${text}`, note: '', run: () => run(command, text) }))];
    };
    const fill = () => {
        options = all().slice(0, SHOWN);
        at = 0;
        list.replaceChildren(...options.map((option, i) =>
            el('div', { role: 'option', id: `option-${i}`, click: option.run }, el('bdi', {}, option.text), el('kbd', { class: option.note ? '' : 'none' }, option.note))));
        mark();
    };
    const mark = () => {
        [...list.children].forEach((child, i) => child.setAttribute('aria-selected', String(i === at)));
        input.setAttribute('aria-activedescendant', options.length > 0 ? `option-${at}` : '');
        list.children[at]?.scrollIntoView({ block: 'nearest' });
    };
    input.addEventListener('input', fill);
    input.addEventListener('keydown', (event) => {
        const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
        if (by !== 0 && options.length > 0) {
            at = (at + by + options.length) % options.length;
            mark();
        } else if (event.key === 'Enter') options[at]?.run();
        // At once; the browser may take a while, in which the next keys would still be typed here.
        else if (event.key === 'Escape') close();
        else return;
        event.preventDefault();
    });
    dialog.replaceChildren(input, list);
    dialog.onclick = (event) => {
        if (event.target === dialog) close();
    };
    label();
    fill();
    dialog.showModal();
    input.focus();
}
