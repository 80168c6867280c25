// Flows of a selected event as arrows.

import type { Details } from './model';
import type { Arrow } from './scene';

export function flowArrows(details: Details): Arrow[] {
    const self = { node: details.node, id: details.id, start: details.start, dur: details.dur, depth: details.depth ?? 0, name: details.name };
    const arrows: Arrow[] = (details.flows ?? []).map(({ out, to }) => (out ? { from: self, to } : { from: to, to: self }));
    // The wake-ups, from the last to the first.
    let woken = self;
    for (const { ref } of details.chain ?? []) {
        if (ref.start <= woken.start) arrows.push({ from: { ...ref, dur: 0, start: Math.min(ref.start + ref.dur, woken.start) }, to: woken });
        woken = { ...ref };
    }
    return arrows;
}
