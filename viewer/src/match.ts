// Tests of texts: parts of them, or regular expressions.

/** Returns the expression between two slashes, ignoring case; null if the text is none. */
export function expression(text: string): RegExp | null {
    const between = /^\/(.+)\/$/s.exec(text.trim());
    if (!between) return null;
    try {
        return new RegExp(between[1], 'i');
    } catch {
        throw new Error(`${text.trim()} is not a valid regular expression`);
    }
}

/** Returns a function that tests if texts contain a text, ignoring case. A text between slashes is a regular expression. */
export function matcher(text: string): (text: string) => boolean {
    const wanted = expression(text);
    if (wanted) return (it) => wanted.test(it);
    const lower = text.trim().toLowerCase();
    return (it) => it.toLowerCase().includes(lower);
}

/** Returns an expression, between slashes, that matches exactly one text. */
export function exactly(text: string): string {
    return `/^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$/`;
}
