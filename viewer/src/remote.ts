// A trace of the server.

import { Frame } from './frame';
import type { Annotations, By, Code, CodeRequest, Details, Flows, Found, Lines, Pivot, PivotOf, Range, Ref, Stacks, Step, Summary, Tile, Trace, Why, Window } from './model';
import type { Source } from './source';
import { readStacks } from './stacks';
import { readTiles } from './tiles';
import { readTrace } from './trace';

/** The most rows of a request for arguments. */
const MAX_ANNOTATED = 10_000;

export class RemoteSource implements Source {
    readonly coarse = 3;
    readonly first: Tile[];
    private trace: Frame | undefined;
    private generation = 0;
    private queries: Promise<unknown> = Promise.resolve();
    readonly previous?: NonNullable<Source['previous']>;

    /** Requests are relative to the address of the page, which contains the token. The page may contain some frames. */
    constructor(
        private base: string,
        first: Map<string, Frame>,
        private of: 'this' | 'before' = 'this',
    ) {
        if (of === 'this') {
            const source = new RemoteSource(base, new Map(), 'before');
            let trace: Promise<Trace> | undefined;
            this.previous = { source, trace: () => (trace ??= source.open()) };
        }
        const tiles = first.get('tiles');
        this.first = tiles ? readTiles(tiles) : [];
        this.trace = first.get('trace');
    }

    private async ask(path: string, body?: unknown): Promise<Response> {
        const of = this.of === 'this' ? '' : `${path.includes('?') ? '&' : '?'}of=${this.of}`;
        const request = fetch(
            this.base + path + of,
            body === undefined
                ? { cache: 'no-store' }
                : { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body) },
        );
        const response = await request.catch(() => {
            throw new Error('the server does not answer');
        });
        if (!response.ok) throw new Error((await response.text()) || `the server answered ${response.status}`);
        return response;
    }

    private async frame(path: string, body?: unknown): Promise<Frame> {
        return Frame.read(await (await this.ask(path, body)).arrayBuffer());
    }

    async open(): Promise<Trace> {
        const frame = this.trace ?? (await this.frame('trace'));
        this.trace = undefined;
        this.generation = frame.header.generation ?? 0;
        return readTrace(frame);
    }

    async tiles(window: Window): Promise<Tile[]> {
        return readTiles(await this.frame('tiles', window));
    }

    async details(node: number, id: number): Promise<Details> {
        return (await this.ask(`details?node=${node}&id=${id}`)).json();
    }

    async annotations(node: number, rows: Uint32Array): Promise<Annotations[]> {
        const all: Annotations[] = [];
        for (let at = 0; at < rows.length; at += MAX_ANNOTATED) {
            const part: Annotations[] = await (await this.ask('args', { node, rows: [...rows.subarray(at, at + MAX_ANNOTATED)] })).json();
            for (const one of part) all.push(one);
        }
        return all;
    }

    async flows(range: Range, limit: number): Promise<Flows> {
        const frame = await this.frame('flows', { ...range, limit });
        const length = frame.f64('from_time').length;
        const end = (side: 'from' | 'to') => {
            const [node, id, start] = [frame.u32(`${side}_node`, length), frame.u32(`${side}_id`, length), frame.f64(`${side}_time`, length)];
            return (row: number) => ({ node: node[row], id: id[row], start: start[row] });
        };
        const [from, to] = [end('from'), end('to')];
        return { total: frame.header.total ?? length, rows: Array.from({ length }, (_, row) => ({ from: from(row), to: to(row) })) };
    }

    async why(node: number, id: number): Promise<Why | null> {
        return (await this.ask(`why?node=${node}&id=${id}`)).json();
    }

    async code({ profile, function: of, file }: CodeRequest, range: Range): Promise<Code> {
        return (await this.ask('code', { profile, function: of, file, ...range })).json();
    }

    /** The server runs one query at a time. */
    sql(text: string): Promise<ArrayBuffer> {
        const reply = this.queries.then(async () => (await this.ask('sql', text)).arrayBuffer());
        this.queries = reply.catch(() => undefined);
        return reply;
    }

    async stop(): Promise<void> {
        await this.ask('stop', '');
    }

    async locate(row: URLSearchParams): Promise<Ref | null> {
        return (await this.ask(`locate?${row}`)).json();
    }

    async step(from: Ref, to: Step): Promise<Ref | null> {
        return (await this.ask(`next?node=${from.node}&id=${from.id}&to=${to}`)).json();
    }

    async search(text: string, limit: number): Promise<Found> {
        const frame = await this.frame(`search?text=${encodeURIComponent(text)}&in=all&limit=${limit}`);
        const node = frame.u32('node');
        const id = frame.u32('id', node.length);
        const depth = frame.u32('depth', node.length);
        const start = frame.f64('start', node.length);
        const dur = frame.f64('dur', node.length);
        const name = frame.u32('name', node.length);
        const rows: Ref[] = [];
        for (let i = 0; i < node.length; i++) {
            rows.push({
                node: node[i],
                id: id[i],
                start: start[i],
                dur: dur[i],
                depth: depth[i],
                name: frame.strings[name[i]] ?? '',
            });
        }
        return { total: frame.header.total ?? rows.length, rows, nodes: frame.header.nodes ?? [], density: frame.u8('density') };
    }

    async summary(range: Range, before = false): Promise<Summary> {
        return (await this.ask('summary', { ...range, of: before ? 'before' : 'this' })).json();
    }

    async pivot(range: Range, of: PivotOf, by: string[]): Promise<Pivot> {
        return (await this.ask('pivot', { ...range, of, by })).json();
    }

    async profile(profile: number, range: Range, by: By, before: boolean): Promise<Stacks> {
        return readStacks(await this.frame('profile', { profile, ...range, by, of: before ? 'before' : 'this' }));
    }

    async list(range: Range, offset: number, limit: number): Promise<Lines> {
        return (await this.ask('list', { ...range, offset, limit })).json();
    }

    follow(grown: () => void, gone: () => void): void {
        const stream = new EventSource(`${this.base}alive?generation=${this.generation}`);
        stream.addEventListener('more', grown);
        // The browser reopens a broken stream without end.
        let tries = 0;
        stream.addEventListener('open', () => (tries = 0));
        stream.addEventListener('error', () => {
            tries += 1;
            if (stream.readyState !== EventSource.CLOSED && tries < 2) return;
            stream.close();
            gone();
        });
    }
}

