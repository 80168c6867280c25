// Mouse, touchpad and keyboard.

import type { App } from './app';
import { runKey } from './commands';
import { byId } from './dom';
import { OVERVIEW, RULER } from './scene';
import { showTip, hideTip } from './tip';

/** The distance in pixels below which a press is a click. */
const SLOP = 4;

export function listen(app: App): void {
    pointer(app);
    wheel(app);
    edges(app);
    scrollbar(app);
    keys(app);
    bar(app);
}

function pointer(app: App): void {
    const { stage } = app;
    type Drag = { mode: 'overview' | 'ruler' | 'box' | 'pan'; x: number; y: number; lastX: number; lastY: number; moved: boolean; time: number };
    let drag: Drag | null = null;
    // Two fingers zoom and pan at once.
    const fingers = new Map<number, readonly [number, number]>();
    const pinch = () => {
        const [[x0, y0], [x1, y1]] = [...fingers.values()];
        return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, apart: Math.max(20, Math.hypot(x1 - x0, y1 - y0)) };
    };
    const at = (event: PointerEvent | MouseEvent) => {
        const { left, top } = stage.getBoundingClientRect();
        return [event.clientX - left, event.clientY - top] as const;
    };
    const centre = (x: number) => {
        const time = (x / app.axis.width) * Math.max(app.trace.end, 1);
        app.axis.set(time - app.axis.span / 2, time + app.axis.span / 2);
        app.invalidate();
    };
    for (const event of ['keydown', 'blur']) stage.addEventListener(event, () => stage.classList.remove('clicked'));
    stage.addEventListener('pointerdown', (event) => {
        if (event.button > 1) return;
        const [x, y] = at(event);
        if (event.pointerType === 'touch' && fingers.size < 2) fingers.set(event.pointerId, [x, y]);
        if (fingers.size === 2) {
            drag = null;
            stage.setPointerCapture(event.pointerId);
            return event.preventDefault();
        }
        const mode =
            event.button === 1 || event.shiftKey || event.pointerType === 'touch'
                ? 'pan'
                : y < OVERVIEW
                  ? 'overview'
                  : y < OVERVIEW + RULER
                    ? 'ruler'
                    : 'box';
        drag = { mode, x, y, lastX: x, lastY: y, moved: false, time: app.axis.time(x) };
        stage.setPointerCapture(event.pointerId);
        stage.focus({ preventScroll: true });
        // A frame around the picture is of use only to the keyboard.
        stage.classList.add('clicked');
        hideTip();
        if (mode === 'overview') centre(x);
        event.preventDefault();
    });
    stage.addEventListener('pointermove', (event) => {
        const [x, y] = at(event);
        if (fingers.has(event.pointerId)) {
            const before = fingers.size === 2 ? pinch() : null;
            fingers.set(event.pointerId, [x, y]);
            if (before) {
                const now = pinch();
                app.zoom(before.apart / now.apart, before.x);
                app.pan(before.x - now.x);
                return app.setScroll(app.scroll + before.y - now.y);
            }
            if (!drag) return;
        }
        app.hoverX = event.pointerType === 'touch' ? null : x;
        if (!drag) {
            showTip(app, x, y, event.clientX, event.clientY);
            app.invalidate();
            return;
        }
        if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < SLOP) return;
        drag.moved = true;
        if (drag.mode === 'overview') centre(x);
        else if (drag.mode === 'pan') {
            stage.classList.add('panning');
            app.pan(drag.lastX - x);
            app.setScroll(app.scroll + drag.lastY - y);
        } else {
            const time = app.axis.time(x);
            const [from, to] = [Math.max(0, Math.min(drag.time, time)), Math.min(app.trace.end, Math.max(drag.time, time))];
            let boxes: Set<number> | null = null;
            if (drag.mode === 'box') {
                const [top, bottom] = [Math.min(drag.y, y), Math.max(drag.y, y)];
                boxes = new Set(
                    app.scene
                        .visible(app.picture)
                        .filter((box) => box.y < bottom && box.y + box.h > top)
                        .map((box) => box.node),
                );
            }
            if (to > from) app.setRange({ from, to, boxes }, false);
        }
        drag.lastX = x;
        drag.lastY = y;
    });
    const end = (event: PointerEvent) => {
        fingers.delete(event.pointerId);
        if (!drag) return;
        const { mode, moved } = drag;
        drag = null;
        stage.classList.remove('panning');
        const [x, y] = at(event);
        if (moved && (mode === 'box' || mode === 'ruler')) app.setRange(app.range);
        else if (!moved && mode !== 'overview') {
            if (mode === 'ruler') app.clear();
            else app.clickAt(x, y);
        }
    };
    stage.addEventListener('pointerup', end);
    stage.addEventListener('pointercancel', (event) => {
        fingers.delete(event.pointerId);
        drag = null;
    });
    stage.addEventListener('pointerleave', () => {
        app.hoverX = null;
        hideTip();
        app.invalidate();
    });
    stage.addEventListener('dblclick', () => app.fit());
}

function wheel(app: App): void {
    const turn = (event: WheelEvent) => {
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? app.scene.height : 1;
        const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
        const { left } = app.stage.getBoundingClientRect();
        hideTip();
        // Touchpads report pinches as wheel events with Ctrl.
        if (event.ctrlKey || event.metaKey) {
            const strength = Math.abs(dy) < 40 ? 0.012 : 0.0025;
            app.zoom(Math.exp(Math.max(-1, Math.min(1, dy * strength))), Math.max(0, event.clientX - left));
        } else if (event.shiftKey && dx === 0) app.pan(dy);
        else if (Math.abs(dx) > Math.abs(dy)) app.pan(dx);
        else app.setScroll(app.scroll + dy);
    };
    app.stage.addEventListener('wheel', turn, { passive: false });
    byId('labels').addEventListener('wheel', turn, { passive: false });
}

/** Makes the bar between two parts movable with the mouse and the arrow keys. */
function edge(id: string, variable: string, value: () => number, of: (event: PointerEvent) => number, keys: [string, string], least: number, most: () => number): void {
    const bar = byId(id);
    const set = (size: number) => {
        const pixels = Math.round(Math.min(Math.max(size, least), most()));
        document.documentElement.style.setProperty(variable, `${pixels}px`);
        bar.setAttribute('aria-valuenow', String(pixels));
    };
    bar.addEventListener('pointerdown', (event) => bar.setPointerCapture(event.pointerId));
    bar.addEventListener('pointermove', (event) => {
        if (bar.hasPointerCapture(event.pointerId)) set(of(event));
    });
    bar.addEventListener('keydown', (event) => {
        const by = event.key === keys[0] ? 24 : event.key === keys[1] ? -24 : 0;
        if (by === 0) return;
        event.preventDefault();
        event.stopPropagation();
        set(value() + by);
    });
}

function edges(app: App): void {
    const side = byId('side');
    const panel = byId('panel');
    edge('side-edge', '--side', () => side.offsetWidth, (event) => event.clientX - side.getBoundingClientRect().left,
        ['ArrowRight', 'ArrowLeft'], 120, () => innerWidth * 0.6);
    edge('panel-edge', '--panel', () => panel.offsetHeight, (event) => innerHeight - event.clientY,
        ['ArrowUp', 'ArrowDown'], 60, () => innerHeight * 0.75);
    for (const event of ['pointerdown', 'keydown']) {
        byId('panel-edge').addEventListener(event, (of) => {
            const key = (of as KeyboardEvent).key;
            if (!app.panel.shown && (key === undefined || key === 'ArrowUp')) app.panel.open(app.panel.tab);
        });
    }
}

function scrollbar(app: App): void {
    const rail = byId('scroll');
    const thumb = byId('thumb');
    let grip = 0;
    rail.addEventListener('pointerdown', (event) => {
        rail.setPointerCapture(event.pointerId);
        const box = thumb.getBoundingClientRect();
        grip = event.target === thumb ? event.clientY - box.top : box.height / 2;
        move(event);
    });
    const move = (event: PointerEvent) => {
        if (!rail.hasPointerCapture(event.pointerId)) return;
        const { top, height } = rail.getBoundingClientRect();
        const free = Math.max(1, height - thumb.offsetHeight);
        app.setScroll(((event.clientY - top - grip) / free) * (app.layout.total - app.bodyHeight));
    };
    rail.addEventListener('pointermove', move);
}

function keys(app: App): void {
    const labels = byId('labels');
    document.addEventListener('keydown', (event) => {
        const target = event.target as HTMLElement;
        const typing = target.matches('input, select, textarea');
        if (document.querySelector('dialog[open]')) return;
        if (event.key === 'k' && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            return app.run('palette');
        }
        if (event.key === 'Escape') {
            if (typing) target.blur();
            else app.clear();
            return;
        }
        if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
        if (target.closest('[role="tablist"]') && event.key.startsWith('Arrow')) return;
        const inContent = target.closest('#content') !== null;
        const inTree = target === labels;
        const actions: Record<string, () => void> = {};
        if (!inContent) {
            Object.assign(actions, {
                ArrowUp: () => (event.shiftKey ? moveRow(app, false) : app.moveFocus(-1)),
                ArrowDown: () => (event.shiftKey ? moveRow(app, true) : app.moveFocus(1)),
                PageUp: () => app.setScroll(app.scroll - app.bodyHeight * 0.85),
                PageDown: () => app.setScroll(app.scroll + app.bodyHeight * 0.85),
                ArrowLeft: () => (inTree ? openRow(app, false) : app.run('pan-left')),
                ArrowRight: () => (inTree ? openRow(app, true) : app.run('pan-right')),
                Enter: () => {
                    if (target === labels || target === app.stage) app.selectInFocus();
                },
            });
            if (target.matches('button') && (event.key === 'Enter' || event.key === ' ')) return;
        }
        const action = actions[event.key];
        if (action) action();
        else if (!runKey(app, event.key) && !(event.shiftKey && runKey(app, event.key.toLowerCase()))) return;
        event.preventDefault();
    });
}

function moveRow(app: App, down: boolean): void {
    if (app.focus >= 0 && app.layout.move(app.focus, down)) app.setFocus(app.focus);
}

function openRow(app: App, open: boolean): void {
    const { layout, focus } = app;
    if (focus < 0) return;
    if (layout.canOpen(focus) && layout.isOpen(focus) !== open) return app.toggle(focus);
    if (open) return app.moveFocus(1);
    const above = app.trace.nodes.parent[focus];
    if (above >= 0) app.setFocus(above);
}

function bar(app: App): void {
    const query = byId<HTMLInputElement>('query');
    byId('find').addEventListener('submit', (event) => {
        event.preventDefault();
        if (query.value.trim() === app.find.query && app.find.found) app.find.next(1);
        else app.find.search(query.value);
    });
    query.addEventListener('input', () => {
        if (query.value === '') app.find.search('');
    });
    byId('hit-next').addEventListener('click', () => app.find.next(1));
    byId('hit-previous').addEventListener('click', () => app.find.next(-1));
    byId('zoom-in').addEventListener('click', () => app.zoom(0.5, app.axis.width / 2));
    byId('zoom-out').addEventListener('click', () => app.zoom(2, app.axis.width / 2));
    byId('zoom-all').addEventListener('click', () => app.all());
    const filter = byId<HTMLInputElement>('filter');
    filter.addEventListener('input', () => {
        app.filter(filter.value);
    });
    for (const id of ['open-all', 'close-all', 'settings-open', 'palette-open', 'theme', 'help-open']) {
        byId(id).addEventListener('click', () => app.run(id.replace('-open', '')));
    }
}
