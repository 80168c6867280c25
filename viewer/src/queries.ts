// The earlier queries of the user, the last one first.

import { keep, kept, keptNow } from './kept';

const MAX = 100;
/** The maximum number of characters of all queries. */
const MAX_LENGTH = 60_000;

function read(value: unknown): string[] {
    return Array.isArray(value) ? value.filter((it): it is string => typeof it === 'string') : [];
}

export function queries(): string[] {
    return read(kept('sql'));
}

/** Returns the queries, also those of other pages. */
export async function allQueries(): Promise<string[]> {
    return read(await keptNow('sql'));
}

/** Adds a query. Returns all of them. */
export async function addQuery(sql: string): Promise<string[]> {
    const others = (await allQueries()).filter((other) => other !== sql);
    let left = MAX_LENGTH;
    const all = [sql, ...others].slice(0, MAX).filter((one) => (left -= one.length) >= 0);
    keep('sql', all);
    return all;
}
