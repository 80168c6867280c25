import type { By, Details, Found, Lines, Range, Ref, Stacks, Step, Summary, Tile, Trace, Window } from './model';

/** The place that the page has its trace from. */
export interface Source {
    /** The levels by which rows are coarser where there are none yet: less to wait for. */
    readonly coarse: number;
    /** Rows that are there already. */
    readonly first: Tile[];
    open(): Promise<Trace>;
    /** Answers for each node in the order of the request. */
    tiles(window: Window): Promise<Tile[]>;
    details(node: number, id: number): Promise<Details>;
    step(from: Ref, to: Step): Promise<Ref | null>;
    search(text: string, limit: number): Promise<Found>;
    summary(range: Range): Promise<Summary>;
    profile(profile: number, range: Range, by: By, before: boolean): Promise<Stacks>;
    list(range: Range, offset: number, limit: number): Promise<Lines>;
    /** Calls back when a live trace has grown, and when the other side is gone. */
    follow?(grown: () => void, gone: () => void): void;
}
