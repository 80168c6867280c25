// Names of disks, in place of the numbers that arguments of kernel events have.

import type { Trace } from './model';

const known = new WeakMap<Trace, Map<string, string>>();

/** Returns the names of disks by their major and minor number. */
function names(trace: Trace): Map<string, string> {
    let all = known.get(trace);
    if (!all) {
        all = new Map();
        for (const [key, value] of trace.facts) {
            const numbers = /(?:^|\.)ferretto\.disk\.(\d+:\d+)$/.exec(key);
            if (numbers) all.set(numbers[1], value);
        }
        known.set(trace, all);
    }
    return all;
}

/** Returns the name of a device if the argument is one and the trace has its name, or the value itself. */
export function argument(trace: Trace, key: string, value: string): string {
    if (!/(^|[._])dev$/.test(key) || !/^\d+$/.test(value)) return value;
    const device = Number(value);
    const major = Math.floor(device / 256) % 4096;
    const minor = (device % 256) + Math.floor(device / 2 ** 20) * 256;
    return names(trace).get(`${major}:${minor}`) ?? value;
}

/** Returns a list of arguments, as `key=value key=value`, with names of disks. */
export function argumentList(trace: Trace, text: string): string {
    if (names(trace).size === 0) return text;
    return text.replace(/\b(\w*dev)=(\d+)\b/g, (whole, key, value) => {
        const name = argument(trace, key, value);
        return name === value ? whole : `${key}=${name}`;
    });
}
