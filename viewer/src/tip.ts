// The tooltip at the mouse.

import { stateName } from './colors';
import { byId, el, name } from './dom';
import { count, duration, instant, quantity } from './format';
import { Kind } from './model';
import type { Page } from './page';
import { OVERVIEW, RULER } from './scene';

export function hideTip(): void {
    byId('tip').hidden = true;
}

export function showTip(app: Page, x: number, y: number, pageX: number, pageY: number): void {
    const tip = byId('tip');
    const loss = app.trace.losses.find((loss) => {
        const [x0, x1] = [app.axis.x(loss.start), app.axis.x(loss.start + loss.dur)];
        return y > OVERVIEW && y < OVERVIEW + RULER && x > x0 - 7 && x < x1 + 7;
    });
    const at = app.at(x, y);
    if (loss) tip.replaceChildren(el('b', { class: 'warn' }, 'Data lost'), el('br'), loss.text);
    else if (at) {
        const { tile, row, node } = at;
        const { nodes } = app.trace;
        const kind = nodes.kind[node];
        const word = tile.strings[tile.name[row]] ?? '';
        const dur = tile.dur[row] ?? 0;
        const many = tile.count[row] > 1;
        if (kind === Kind.Counter) {
            const unit = nodes.unit(node);
            tip.replaceChildren(
                el('b', {}, quantity(tile.lastValue[row], unit)),
                tile.min[row] < tile.max[row]
                    ? ` (${quantity(tile.min[row], unit)} – ${quantity(tile.max[row], unit)})`
                    : '',
                el('br'),
                instant(tile.start[row]),
            );
        } else {
            const shown = kind === Kind.States ? el('b', {}, stateName(word)) : el('b', {}, name(word));
            tip.replaceChildren(
                kind === Kind.Samples ? el('b', {}, many ? `${count(tile.count[row])} samples` : 'Sample') : shown,
                el('br'),
                many && kind !== Kind.Samples ? `longest of ${count(tile.count[row])} events in ` : '',
                dur > 0 ? `${duration(dur)}${tile.flags[row] & 1 ? ', did not end' : ''} at ` : '',
                instant(tile.start[row]),
            );
        }
    } else {
        tip.hidden = true;
        return;
    }
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(pageX + 14, innerWidth - width - 6)}px`;
    tip.style.top = `${pageY + 18 + height > innerHeight ? pageY - height - 10 : pageY + 18}px`;
}
