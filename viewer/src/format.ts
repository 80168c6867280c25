// Times and numbers as readable text.

/** The user's choices. */
export const formats: { times: 'units' | 'seconds' | 'ns'; bytes: 'binary' | 'decimal'; zero: number } = { times: 'units', bytes: 'binary', zero: 0 };

const UNITS: [number, string][] = [
    [86_400e9, 'd'],
    [3600e9, 'h'],
    [60e9, 'min'],
    [1e9, 's'],
    [1e6, 'ms'],
    [1e3, 'µs'],
    [1, 'ns'],
];

/** Formats a number with groups of three digits and a number of decimals between two bounds. `toLocaleString` would take longer than a frame. */
function decimal(value: number, least: number, most: number): string {
    const [whole, behind = ''] = Math.abs(value).toFixed(most).split('.');
    let end = behind.length;
    while (end > least && behind[end - 1] === '0') end -= 1;
    const sign = value < 0 && /[1-9]/.test(whole + behind) ? '-' : '';
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
    return sign + grouped + (end > 0 ? `.${behind.slice(0, end)}` : '');
}

const digits = (value: number, most: number) => decimal(value, 0, most);
const two = (value: number) => String(value).padStart(2, '0');

/** Formats a duration with about four significant digits. */
export function duration(ns: number): string {
    if (ns < 0) return `−${duration(-ns)}`;
    if (formats.times === 'seconds') return `${digits(ns / 1e9, 9)} s`;
    if (formats.times === 'ns') return `${digits(ns, 0)} ns`;
    for (const [size, unit] of UNITS) {
        if (ns >= size || size === 1) {
            const value = ns / size;
            return `${digits(value, size === 1 ? 0 : value < 10 ? 3 : value < 100 ? 2 : 1)} ${unit}`;
        }
    }
    return '0 ns';
}

/** Formats a time since zero with nanoseconds. */
export function instant(time: number): string {
    const ns = time - formats.zero;
    const sign = ns < 0 ? '−' : '';
    const whole = Math.round(Math.abs(ns));
    const seconds = Math.floor(whole / 1e9);
    const fraction = String(whole % 1e9).padStart(9, '0');
    return `${sign}${count(seconds)}.${fraction.slice(0, 3)} ${fraction.slice(3, 6)} ${fraction.slice(6)} s`;
}

/** Returns the nanoseconds of a text such as `1.5 s`, `200ms` or `3`, which are seconds; NaN if it is none. */
export function parseTime(text: string): number {
    const parts = /^\s*([-−]?)([\d.,]+)\s*(ns|us|µs|ms|s|min|h|)\s*$/.exec(text);
    if (!parts) return NaN;
    const sizes: Record<string, number> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9 };
    return (parts[1] ? -1 : 1) * Number(parts[2].replaceAll(',', '')) * sizes[parts[3] || 's'];
}

/** Formats a time of the ruler with the precision of its step. */
export function tick(ns: number, step: number): string {
    const [size, unit] = UNITS.find(([size]) => Math.max(Math.abs(ns), step) >= size && size <= 1e9) ?? [1, 'ns'];
    const places = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
    const value = ns / size;
    return `${decimal(value, places, places)} ${unit}`;
}

/** Formats a local time of day with the precision of a step. */
export function clock(unixNs: bigint, step: number): string {
    const date = new Date(Number(unixNs / 1_000_000n));
    const base = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
    const places = Math.min(9, Math.max(0, Math.ceil(Math.log10(1e9 / step) - 1e-9)));
    if (places === 0) return base;
    return `${base}.${String(unixNs % 1_000_000_000n).padStart(9, '0').slice(0, places)}`;
}

export function date(unixNs: bigint): string {
    const date = new Date(Number(unixNs / 1_000_000n));
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

export function count(value: number): string {
    return decimal(value, 0, 3);
}

/** Formats a value with its unit: bytes with binary prefixes, times with decimal ones. */
export function quantity(value: number, unit: string): string {
    if (!Number.isFinite(value)) return '–';
    if (unit === 'ns') return duration(value);
    if (unit === 'bytes' || unit === 'B') {
        const [base, steps] = formats.bytes === 'binary' ? [1024, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']] : [1000, ['bytes', 'kB', 'MB', 'GB', 'TB']];
        let step = 0;
        while (Math.abs(value) >= base && step < steps.length - 1) {
            value /= base;
            step += 1;
        }
        return `${digits(value, step === 0 || value >= 100 ? 0 : 1)} ${steps[step]}`;
    }
    const text =
        Math.abs(value) >= 1e15 || (value !== 0 && Math.abs(value) < 1e-3)
            ? value.toExponential(3)
            : digits(value, Math.abs(value) >= 1000 ? 0 : 3);
    return unit ? `${text} ${unit}` : text;
}

export function percent(part: number, whole: number): string {
    return whole > 0 ? `${digits((100 * part) / whole, 1)} %` : '–';
}

/** Returns the message of an error. */
export function text(error: unknown): string {
    return error instanceof Error ? error.message : String(error);
}
