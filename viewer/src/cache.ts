// A cache of tiles. It keeps two for each node: the whole trace at a coarse level, and the last visible part with a
// margin on both sides. Old rows are drawn until better ones arrive.

import type { Tile, Window } from './model';
import type { Source } from './source';
import { emptyTile } from './tiles';

interface Kept {
    whole: Tile | null;
    near: Tile | null;
    used: number;
    generation: number;
}

/** The maximum number of nodes, including those out of sight. */
const KEPT_NODES = 600;
/** The maximum number of nodes in a request. */
const MAX_NODES = 2000;
/** The maximum number of rows, of about 40 bytes each. */
const KEPT_ROWS = 300_000;

export class Cache {
    private nodes = new Map<number, Kept>();
    private clock = 0;
    private generation = 0;
    private running = false;
    /** Called once for each failed request. */
    failed: ((error: unknown) => void) | null = null;

    constructor(
        private source: Source,
        public end: number,
        private changed: () => void,
    ) {
        for (const tile of source.first.splice(0)) this.keep(tile, this.generation);
    }

    get busy(): boolean {
        return this.running;
    }

    /** Returns the best available rows. `near` is drawn over `whole`. */
    tiles(node: number): { whole: Tile | null; near: Tile | null } {
        const kept = this.nodes.get(node);
        if (kept) kept.used = this.clock;
        return kept ?? { whole: null, near: null };
    }

    /** Invalidates all tiles after the trace has changed. They are drawn until new ones arrive. */
    renew(end: number): void {
        this.end = end;
        this.generation += 1;
    }

    /** Requests the missing tiles of nodes between two times; with `bareOnly`, only those of nodes that have none. Returns the
     * marks that are reached. */
    want(nodes: number[], t0: number, t1: number, perPixel: number, bareOnly = false): ('picture' | 'sharp')[] {
        this.clock += 1;
        const level = Math.max(0, Math.floor(Math.log2(Math.max(1, perPixel))));
        const from = Math.max(t0, 0);
        const to = Math.min(t1, this.end);
        const lacking = nodes.filter((node) => !this.serves(node, from, to, level)).slice(0, MAX_NODES);
        if (lacking.length === 0) return ['picture', 'sharp'];
        const bare = lacking.filter((node) => !this.nodes.has(node));
        const got: 'picture'[] = bare.length === 0 ? ['picture'] : [];
        if (this.running || (bareOnly && bare.length === 0)) return got;
        const { coarse } = this.source;
        if (coarse > 0 && bare.length > 0) {
            void this.fetch({ from, to: Math.min(t1, this.end + 1), level: level + coarse, nodes: bare });
            return got;
        }
        const grid = 2 ** level * 1024;
        const room = t1 - t0;
        void this.fetch({
            from: Math.max(0, Math.floor((t0 - room * 0.75) / grid) * grid),
            to: Math.min(this.end + 1, Math.ceil((t1 + room * 0.75) / grid) * grid),
            level,
            nodes: lacking,
        });
        return got;
    }

    private serves(node: number, t0: number, t1: number, level: number): boolean {
        const kept = this.nodes.get(node);
        if (!kept || kept.generation !== this.generation) return false;
        const good = (tile: Tile | null) =>
            tile !== null && tile.from <= t0 && tile.to >= t1 && (tile.exact || tile.level === level);
        return good(kept.near) || good(kept.whole);
    }

    private async fetch(request: Window): Promise<void> {
        this.running = true;
        const { generation } = this;
        try {
            for (const tile of await this.source.tiles(request)) this.keep(tile, generation);
        } catch (error) {
            this.failed?.(error);
            for (const node of request.nodes) this.keep(this.instead(node, request), generation);
        }
        this.running = false;
        this.trim();
        this.changed();
    }

    /** Returns the old rows in place of those that could not be loaded. */
    private instead(node: number, { from, to, level }: Window): Tile {
        const kept = this.nodes.get(node);
        const old = kept?.whole ?? kept?.near;
        return old ? { ...old, from, to, level, exact: false } : emptyTile(node, from, to, level);
    }

    private keep(tile: Tile, generation: number): void {
        const kept = this.nodes.get(tile.node) ?? { whole: null, near: null, used: this.clock, generation: this.generation };
        if (kept.generation !== generation) kept.whole = null;
        if (tile.from <= 0 && tile.to >= this.end && (!kept.whole || !kept.whole.exact || tile.exact)) kept.whole = tile;
        kept.near = tile;
        kept.generation = generation;
        kept.used = this.clock;
        this.nodes.set(tile.node, kept);
    }

    private trim(): void {
        // Tiles of one reply share the memory of its columns, which is freed with the last of them.
        const sharing = new Map<ArrayBufferLike, number>();
        let rows = 0;
        const count = (kept: Kept, by: 1 | -1) => {
            for (const tile of new Set([kept.near, kept.whole])) {
                if (!tile) continue;
                const { buffer } = tile.start;
                const before = sharing.get(buffer) ?? 0;
                sharing.set(buffer, before + by);
                if (before === 0 || before + by === 0) rows += (by * buffer.byteLength) / 8;
            }
        };
        for (const kept of this.nodes.values()) count(kept, 1);
        if (this.nodes.size <= KEPT_NODES && rows <= KEPT_ROWS) return;
        for (const [node, kept] of [...this.nodes].sort((a, b) => a[1].used - b[1].used)) {
            if (kept.used >= this.clock) break;
            this.nodes.delete(node);
            count(kept, -1);
            if (this.nodes.size <= KEPT_NODES / 2 && rows <= KEPT_ROWS / 2) break;
        }
    }
}
