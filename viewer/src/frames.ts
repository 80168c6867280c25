// The animation frames of the page, and whether it is busy: drawing, loading events, or waiting for a reply.

import { text } from './format';

/** The page as its frames see it. */
interface Drawn {
    draw(): void;
    isLoading(): boolean;
    /** The page is no longer busy. */
    rested(): void;
    failed(error: string): void;
}

export class Frames {
    /** The id of the requested animation frame, or 0. */
    private scheduled = 0;
    /** The number of tasks that have not ended. */
    private pending = 0;
    /** The number of pictures. */
    private drawn = 0;
    /** False while pictures follow each other. */
    private rests = true;

    constructor(private readonly page: Drawn) {}

    /** Requests a picture with the next animation frame. */
    request(): void {
        if (this.scheduled) return;
        document.documentElement.dataset.busy = '1';
        this.scheduled = requestAnimationFrame(() => this.now());
    }

    /** Draws a picture without waiting for an animation frame. */
    now(): void {
        if (this.scheduled) cancelAnimationFrame(this.scheduled);
        this.scheduled = 0;
        this.page.draw();
        this.drawn += 1;
        this.rests = false;
        document.documentElement.dataset.frames = String(this.drawn);
        this.finish();
    }

    /** Marks the page as busy until a promise is settled, and shows its error. */
    async task<T>(promise: Promise<T>, then: (value: T) => void): Promise<void> {
        this.pending += 1;
        document.documentElement.dataset.busy = '1';
        try {
            then(await promise);
        } catch (error) {
            this.page.failed(text(error));
        }
        this.pending -= 1;
        this.finish();
    }

    /** Waits until the page is no longer busy. */
    async idle(): Promise<void> {
        await new Promise((done) => requestAnimationFrame(done));
        while (document.documentElement.dataset.busy === '1') {
            await new Promise((done) => document.addEventListener('settled', done, { once: true }));
        }
    }

    /** Ends the busy state, and writes the address: when the picture rests, since browsers take milliseconds for each change. */
    private finish(): void {
        if (this.scheduled || this.pending > 0 || this.page.isLoading()) return;
        if (!this.rests) return this.awaitRest();
        this.page.rested();
        document.documentElement.dataset.busy = '0';
        document.dispatchEvent(new Event('settled'));
    }

    /** Waits for two animation frames without a picture. */
    private awaitRest(frames = 2): void {
        const drawn = this.drawn;
        requestAnimationFrame(() => {
            // The next picture waits again.
            if (this.scheduled || this.drawn !== drawn) return;
            if (frames > 1) return this.awaitRest(frames - 1);
            this.rests = true;
            this.finish();
        });
    }
}
