// Pictures in arguments of events: screenshots and frames of a video.

import { el } from './dom';

/** The first letters of pictures in base64. */
const KINDS: [string, string][] = [['/9j/', 'jpeg'], ['iVBORw0KGgo', 'png'], ['UklGR', 'webp']];

/** Returns the picture that an argument contains in base64, or null. */
export function pictureOf(key: string, value: string): HTMLElement | null {
    const kind = KINDS.find(([begin]) => value.startsWith(begin));
    if (!kind || value.length < 64 || !/^[A-Za-z0-9+/]+=*$/.test(value)) return null;
    return el('img', { class: 'picture', src: `data:image/${kind[1]};base64,${value}`, alt: `Picture in the argument ${key}` });
}
