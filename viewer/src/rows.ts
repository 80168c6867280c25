// Results of SQL: the reply of the server, which consists of upstream's messages `QueryResult`.

/** The kinds of cells. `Big` is an integer that a number does not represent exactly. */
export const CellKind = { Null: 1, Int: 2, Real: 3, Text: 4, Blob: 5, Big: 6 } as const;

export class Rows {
    columns: string[] = [];
    /** The number of rows. */
    length = 0;
    /** The message of the statement that failed, with its place. */
    error: string | null = null;
    /** True if rows were left out because the result is too large. */
    isCut = false;
    /** The duration of the query in milliseconds. */
    ms = 0;
    /** The kinds and the values of all cells, row by row. A value is a number, an index of `texts`, or the size of a blob. */
    kinds = new Uint8Array(0);
    values = new Float64Array(0);
    texts: string[] = [];

    kind(row: number, column: number): number {
        return this.kinds[row * this.columns.length + column];
    }

    /** Returns a cell as a number, or NaN. */
    number(row: number, column: number): number {
        const at = row * this.columns.length + column;
        const kind = this.kinds[at];
        if (kind === CellKind.Int || kind === CellKind.Real) return this.values[at];
        if (kind === CellKind.Text || kind === CellKind.Big) return Number(this.texts[this.values[at]] || NaN);
        return NaN;
    }

    /** Returns a cell as text; `null` and blobs as the page shows them. */
    text(row: number, column: number, none = ''): string {
        const at = row * this.columns.length + column;
        switch (this.kinds[at]) {
            case CellKind.Int:
            case CellKind.Real:
                return String(this.values[at]);
            case CellKind.Text:
            case CellKind.Big:
                return this.texts[this.values[at]];
            case CellKind.Blob:
                return `blob of ${this.values[at]} bytes`;
            default:
                return none;
        }
    }

    /** Returns the column with one of these names, or -1. */
    column(...names: string[]): number {
        for (const name of names) {
            const at = this.columns.findIndex((column) => column.toLowerCase() === name);
            if (at >= 0) return at;
        }
        return -1;
    }

    /** Returns a time of the trace's clock as one of the page, or NaN. */
    time(row: number, column: number, start: bigint): number {
        const at = row * this.columns.length + column;
        if (this.kinds[at] === CellKind.Big) return Number(BigInt(this.texts[this.values[at]]) - start);
        return this.number(row, column) - Number(start);
    }
}

/** Returns true if the first values of a column are numbers. */
export function isNumeric(rows: Rows, column: number): boolean {
    for (let row = 0; row < Math.min(rows.length, 50); row++) {
        const kind = rows.kind(row, column);
        if (kind !== CellKind.Null) return kind === CellKind.Int || kind === CellKind.Real || kind === CellKind.Big;
    }
    return false;
}

/** Calls `visit` with the number and the bounds of each field. A number has the bounds `value, -1`. */
function walk(data: Uint8Array, from: number, to: number, visit: (field: number, from: number, to: number) => void): void {
    let at = from;
    const varint = () => {
        let value = 0;
        for (let scale = 1; at < to; scale *= 128) {
            const byte = data[at++];
            value += (byte & 127) * scale;
            if (byte < 128) break;
        }
        return value;
    };
    while (at < to) {
        const key = varint();
        const [field, wire] = [key >>> 3, key & 7];
        if (wire === 0) visit(field, varint(), -1);
        else {
            const length = wire === 2 ? varint() : wire === 1 ? 8 : wire === 5 ? 4 : NaN;
            if (!(at + length <= to)) throw new Error('the reply of the server is malformed');
            visit(field, at, at + length);
            at += length;
        }
    }
}

export function readRows(buffer: ArrayBuffer): Rows {
    const data = new Uint8Array(buffer);
    const view = new DataView(buffer);
    const decoder = new TextDecoder();
    const text = (from: number, to: number) => decoder.decode(data.subarray(from, to));
    const rows = new Rows();
    const batches: [number, number][] = [];
    let cells = 0;
    walk(data, 0, data.length, (field, from, to) => {
        if (field === 2) rows.isCut = from === 1;
        if (field !== 1) return;
        walk(data, from, to, (field, from, to) => {
            if (field === 1) rows.columns.push(text(from, to));
            else if (field === 2) rows.error = text(from, to);
            else if (field === 7) rows.ms = view.getFloat64(from, true);
            else if (field === 3) {
                batches.push([from, to]);
                walk(data, from, to, (field, from, to) => {
                    if (field === 1) cells += to - from;
                });
            }
        });
    });
    rows.kinds = new Uint8Array(cells);
    rows.values = new Float64Array(cells);
    const known = new Map<string, number>();
    let at = 0;
    for (const [from, to] of batches) {
        let kinds = data.subarray(0, 0);
        let [ints, floats] = [0, 0];
        const blobs: number[] = [];
        let texts: string[] = [];
        walk(data, from, to, (field, from, to) => {
            if (field === 1) kinds = data.subarray(from, to);
            else if (field === 2) ints = from;
            else if (field === 3) floats = from;
            else if (field === 4) blobs.push(to - from);
            else if (field === 5) texts = text(from, to).split('\0');
        });
        let [blob, string] = [0, 0];
        const intern = (text: string) => {
            let index = known.get(text);
            if (index === undefined) {
                index = rows.texts.push(text) - 1;
                // Columns of names repeat; others would only fill the memory.
                if (known.size < 100_000) known.set(text, index);
            }
            return index;
        };
        for (const kind of kinds) {
            rows.kinds[at] = kind;
            if (kind === CellKind.Int) {
                let value = 0;
                let scale = 1;
                let count = 0;
                const begin = ints;
                for (let byte = 128; byte > 127; scale *= 128, count++) {
                    byte = data[ints++];
                    value += (byte & 127) * scale;
                }
                if (count > 7 && value > Number.MAX_SAFE_INTEGER) {
                    let exact = 0n;
                    for (let i = 0; i < count; i++) exact |= BigInt(data[begin + i] & 127) << BigInt(7 * i);
                    const signed = BigInt.asIntN(64, exact);
                    value = Number(signed);
                    if (!Number.isSafeInteger(value)) {
                        rows.kinds[at] = CellKind.Big;
                        value = intern(String(signed));
                    }
                }
                rows.values[at] = value;
            } else if (kind === CellKind.Real) {
                rows.values[at] = view.getFloat64(floats, true);
                floats += 8;
            } else if (kind === CellKind.Text) rows.values[at] = intern(texts[string++] ?? '');
            else if (kind === CellKind.Blob) rows.values[at] = blobs[blob++] ?? 0;
            at += 1;
        }
    }
    rows.length = rows.columns.length > 0 ? Math.floor(at / rows.columns.length) : 0;
    return rows;
}

/** Returns the rows with a text in one of their cells, or with a match of a regular expression between slashes. */
export function filtered(rows: Rows, wanted: (text: string) => boolean): Uint32Array<ArrayBuffer> {
    const { columns, length, kinds, values, texts } = rows;
    const matching = Uint8Array.from(texts, (text) => (wanted(text) ? 1 : 0));
    const found = new Uint32Array(length);
    let count = 0;
    for (let row = 0; row < length; row++) {
        for (let at = row * columns.length, end = at + columns.length; at < end; at++) {
            const kind = kinds[at];
            const isMatch = kind === CellKind.Text || kind === CellKind.Big ? matching[values[at]] === 1 : kind !== CellKind.Null && wanted(String(values[at]));
            if (!isMatch) continue;
            found[count++] = row;
            break;
        }
    }
    return found.subarray(0, count);
}

/** Sorts rows by a column: as in SQL, nothing before numbers, and numbers before texts. */
export function sort(rows: Rows, order: Uint32Array, column: number, down: boolean): void {
    const { columns, kinds, values, texts } = rows;
    const ranks = [0, 0, 1, 1, 2, 3, 1];
    // Texts are compared once for each pair of different ones.
    const places = new Float64Array(texts.length);
    const sorted = Uint32Array.from(texts, (_, i) => i);
    if (kinds.includes(CellKind.Text)) sorted.sort((a, b) => (texts[a] < texts[b] ? -1 : texts[a] > texts[b] ? 1 : 0)).forEach((text, i) => (places[text] = i > 0 && texts[sorted[i - 1]] === texts[text] ? places[sorted[i - 1]] : i));
    const key = new Float64Array(rows.length);
    const rank = new Uint8Array(rows.length);
    for (const row of order) {
        const at = row * columns.length + column;
        const kind = kinds[at];
        rank[row] = ranks[kind];
        key[row] = kind === CellKind.Text ? places[values[at]] : kind === CellKind.Big ? Number(texts[values[at]]) : kind === CellKind.Null ? 0 : values[at];
    }
    const sign = down ? -1 : 1;
    order.sort((a, b) => sign * (rank[a] - rank[b] || key[a] - key[b]) || a - b);
}

/** Returns rows as text with a separator between cells. */
export function separated(rows: Rows, order: ArrayLike<number>, separator: ',' | '\t'): string {
    const clean = (text: string) => {
        if (separator === '\t') return text.replace(/[\t\r\n]+/g, ' ');
        return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [rows.columns.map(clean).join(separator)];
    for (let i = 0; i < order.length; i++) {
        lines.push(rows.columns.map((_, column) => clean(rows.text(order[i], column))).join(separator));
    }
    return `${lines.join('\n')}\n`;
}
