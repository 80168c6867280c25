// The visible part of time.

/** The shortest visible duration. */
const CLOSEST = 20;

export class Axis {
    t0 = 0;
    t1 = 1;

    /** `end` is that of the trace. A margin is left on both sides. */
    constructor(
        public end: number,
        public width: number,
    ) {
        this.all();
    }

    get span(): number {
        return this.t1 - this.t0;
    }

    get perPixel(): number {
        return this.span / this.width;
    }

    private get most(): number {
        return Math.max(this.end, CLOSEST) * 1.02;
    }

    all(): void {
        const room = Math.max(this.end, CLOSEST) * 0.01;
        this.set(-room, Math.max(this.end, CLOSEST) + room);
    }

    /** Shows a range. It is extended if it is too short, and moved into the trace. */
    set(t0: number, t1: number): void {
        const span = Math.min(Math.max(t1 - t0, CLOSEST), this.most);
        const middle = (t0 + t1) / 2;
        const room = this.most - Math.max(this.end, CLOSEST);
        const first = -room / 2;
        const last = first + this.most - span;
        this.t0 = Math.min(Math.max(middle - span / 2, first), last);
        this.t1 = this.t0 + span;
    }

    /** Zooms in with a factor below 1 and out with one above. The time at `x` stays in place. */
    zoom(factor: number, x: number): void {
        const at = this.time(x);
        const span = Math.min(Math.max(this.span * factor, CLOSEST), this.most);
        const t0 = at - (x / this.width) * span;
        this.set(t0, t0 + span);
    }

    pan(pixels: number): void {
        const by = pixels * this.perPixel;
        this.set(this.t0 + by, this.t1 + by);
    }

    time(x: number): number {
        return this.t0 + (x / this.width) * this.span;
    }

    x(time: number): number {
        return ((time - this.t0) / this.span) * this.width;
    }

    /** Moves as little as possible to show a range, and zooms if it would be a dot or does not fit. */
    reveal(t0: number, dur: number): void {
        const t1 = t0 + Math.max(dur, 0);
        const pixels = (t1 - t0) / this.perPixel;
        if (dur > 0 && (pixels < 8 || pixels > this.width)) {
            const room = Math.max((t1 - t0) * (pixels < 8 ? 4 : 0.1), CLOSEST / 2);
            this.set(t0 - room, t1 + room);
        } else if (t0 < this.t0 || t1 > this.t1) {
            const middle = (t0 + t1) / 2;
            this.set(middle - this.span / 2, middle + this.span / 2);
        }
    }
}

/** Returns times for the lines of a ruler: round numbers at a distance of about `pixels`. */
export function ticks(t0: number, t1: number, width: number, pixels: number): { step: number; times: number[] } {
    const rough = ((t1 - t0) / width) * pixels;
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? power * 10);
    const times: number[] = [];
    for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) times.push(t === 0 ? 0 : t);
    return { step, times };
}
