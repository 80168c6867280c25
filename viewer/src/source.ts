import type { Annotations, By, Code, CodeRequest, Details, Flows, Found, Lines, Pivot, PivotOf, Range, Ref, Stacks, Step, Summary, Tile, Trace, Why, Window } from './model';

/** The source of the trace. */
export interface Source {
    /** The number of levels by which the first rows of a node are coarser, for a faster first picture. */
    readonly coarse: number;
    /** Rows that came with the page. */
    readonly first: Tile[];
    open(): Promise<Trace>;
    /** Returns a tile for each node, in the order of the request. */
    tiles(window: Window): Promise<Tile[]>;
    details(node: number, id: number): Promise<Details>;
    /** Returns category and arguments of rows of a node, in the order of the request. */
    annotations(node: number, rows: Uint32Array): Promise<Annotations[]>;
    /** Returns the arrows that begin or end in a range. */
    flows(range: Range, limit: number): Promise<Flows>;
    /** Returns the causes of the time of an event; null if there are none. Exports have none. */
    why?(node: number, id: number): Promise<Why | null>;
    step(from: Ref, to: Step): Promise<Ref | null>;
    search(text: string, limit: number): Promise<Found>;
    /** Returns statistics of a range. With `before`, those of the previous trace. */
    summary(range: Range, before?: boolean): Promise<Summary>;
    /** Returns statistics of events by at most three columns; those of arguments begin with `arg:`. */
    pivot(range: Range, of: PivotOf, by: string[]): Promise<Pivot>;
    profile(profile: number, range: Range, by: By, before: boolean): Promise<Stacks>;
    list(range: Range, offset: number, limit: number): Promise<Lines>;
    /** Returns the code of a function. Exports have none. */
    code?(request: CodeRequest, range: Range): Promise<Code>;
    /** Runs SQL. Returns the reply of the server, or fails if it has no program for SQL. Exports have none. */
    sql?(text: string): Promise<ArrayBuffer>;
    /** Ends the running query. */
    stop?(): Promise<void>;
    /** Returns the event that a row of a query means, by the values of its columns; null if there is none. */
    locate?(row: URLSearchParams): Promise<Ref | null>;
    /** The trace to compare with, with numbers of its own. Exports have none. */
    previous?: { source: Source; trace(): Promise<Trace> };
    /** Calls `grown` when a live trace has grown, and `gone` when the server has ended. */
    follow?(grown: () => void, gone: () => void): void;
}
