// What is kept for the user from one page to the next: by the server, since a browser keeps values by the port of the address, which
// changes each time; for exported files by the browser.

import type { Frame } from './frame';

type Name = 'settings' | 'keys' | 'sql';

let served: Record<string, unknown> | null = null;
let written: Promise<unknown> = Promise.resolve();

/** Lets the server keep values. The frame has those that came with the page. */
export function keepOnServer(frame: Frame): void {
    const { settings, keys } = frame.header as Record<string, unknown>;
    served = { settings, keys };
}

/** Returns a value; null if there is none. */
export function kept(name: Name): unknown {
    if (served) return served[name] ?? null;
    try {
        return JSON.parse(localStorage.getItem(`ferretto.${name}`) ?? 'null');
    } catch {
        // The browser keeps nothing for this page, or something else wrote it.
        return null;
    }
}

/** Returns a value that another page may have changed. */
export async function keptNow(name: Name): Promise<unknown> {
    if (served) {
        await written;
        const reply = await fetch('kept', { cache: 'no-store' }).catch(() => null);
        if (reply?.ok) served = await reply.json();
    }
    return kept(name);
}

/** Replaces a value. It applies until the page is closed if it cannot be kept. */
export function keep(name: Name, value: object): void {
    const text = JSON.stringify(value);
    if (served) {
        served[name] = value;
        written = written.then(() => fetch(`kept?name=${name}`, { method: 'POST', body: text })).catch(() => null);
        return;
    }
    try {
        localStorage.setItem(`ferretto.${name}`, text);
    } catch {
        // There is no storage for this page, or it is full.
    }
}
