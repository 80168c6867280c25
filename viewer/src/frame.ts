// Frames: tables in the encoding of the server and of exports. A header in JSON has the names of the columns, and their
// values follow.

export interface Column {
    type: 'u8' | 'u16' | 'u32' | 'i32' | 'f64';
    offset: number;
    length: number;
    code?: 'delta' | 'varint';
    bytes?: number;
}

export type Values = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array;

const TYPES = {
    u8: Uint8Array,
    u16: Uint16Array,
    u32: Uint32Array,
    i32: Int32Array,
    f64: Float64Array,
} as const;

export class Frame {
    readonly strings: string[];
    private base: number;

    private constructor(
        readonly header: Record<string, any>,
        private buffer: ArrayBuffer,
    ) {
        this.strings = header.strings ?? [''];
        this.base = 4 + new DataView(buffer).getUint32(0, true);
    }

    static read(buffer: ArrayBuffer): Frame {
        const length = new DataView(buffer).getUint32(0, true);
        const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
        return new Frame(header, buffer);
    }

    has(name: string): boolean {
        return this.header.columns[name] !== undefined;
    }

    /** Returns the values of a column. A missing column has `length` default values. */
    private values<T extends keyof typeof TYPES>(name: string, type: T, length: number, missing: number): InstanceType<(typeof TYPES)[T]> {
        const column = this.header.columns[name] as Column | undefined;
        const Type = TYPES[type];
        if (!column) {
            const values = new Type(length);
            if (missing !== 0) values.fill(missing);
            return values as InstanceType<(typeof TYPES)[T]>;
        }
        const at = this.base + column.offset;
        if (column.code) {
            return this.decode(at, column.bytes!, column.code === 'delta', new Type(column.length)) as InstanceType<(typeof TYPES)[T]>;
        }
        const Stored = TYPES[column.type];
        const stored =
            at % Stored.BYTES_PER_ELEMENT === 0
                ? new Stored(this.buffer, at, column.length)
                : new Stored(this.buffer.slice(at, at + column.length * Stored.BYTES_PER_ELEMENT));
        return (column.type === type ? stored : new Type(stored)) as InstanceType<(typeof TYPES)[T]>;
    }

    private decode(at: number, bytes: number, delta: boolean, values: Values): Values {
        const data = new Uint8Array(this.buffer, at, bytes);
        let from = 0;
        let last = 0;
        for (let i = 0; i < values.length; i++) {
            let byte = data[from++];
            let value = byte & 127;
            // Most values are short, and integer operations are faster.
            for (let shift = 7; byte > 127 && shift < 28; shift += 7) {
                byte = data[from++];
                value |= (byte & 127) << shift;
            }
            for (let scale = 2 ** 28; byte > 127; scale *= 128) {
                byte = data[from++];
                value += (byte & 127) * scale;
            }
            if (delta) {
                last += value % 2 === 1 ? -(value + 1) / 2 : value / 2;
                value = last;
            }
            values[i] = value;
        }
        return values;
    }

    f64(name: string, length = 0, missing = 0): Float64Array {
        return this.values(name, 'f64', length, missing);
    }
    u32(name: string, length = 0, missing = 0): Uint32Array {
        return this.values(name, 'u32', length, missing);
    }
    i32(name: string, length = 0, missing = 0): Int32Array {
        return this.values(name, 'i32', length, missing);
    }
    u16(name: string, length = 0, missing = 0): Uint16Array {
        return this.values(name, 'u16', length, missing);
    }
    u8(name: string, length = 0, missing = 0): Uint8Array {
        return this.values(name, 'u8', length, missing);
    }

    /** Returns the number of values of a column, or 0 if there is no such column. */
    length(name: string): number {
        return (this.header.columns[name] as Column | undefined)?.length ?? 0;
    }
}

export const REF_NONE = 0xffff_ffff;
