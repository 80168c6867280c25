// Muted colours that are the same for the same name, with readable text on each. They are computed in OKLCH, where equal
// lightness is perceived as equal, so that one text colour suits all.

/** The user's choice of colours. */
export type Scheme = 'muted' | 'strong' | 'safe';

export interface Palette {
    dark: boolean;
    /** Fill colours of names, 0xAABBGGRR. */
    fills: Uint32Array;
    /** The fill colours of merged events. */
    merged: Uint32Array;
    /** The fill colour of events that are not highlighted. */
    pale: number;
    text: string;
    faint: string;
    line: number;
    instant: number;
    counter: number;
    counterTop: number;
    sample: number;
    busy: number;
    group: number;
    select: string;
    flow: string;
    note: string;
    loss: string;
    lossFill: string;
    lossBar: number;
    range: string;
    mark: number;
    accent: string;
    onAccent: string;
    shade: string;
    ground: number;
    overview: number;
    border: number;
    hit: number;
    states: { running: number; runnable: number; blocked: number; sleeping: number; other: number };
}

const HUES = 18;

/** Converts a colour of OKLCH to red, green and blue between 0 and 1. */
export function oklch(lightness: number, chroma: number, hue: number): [number, number, number] {
    const a = chroma * Math.cos((hue * Math.PI) / 180);
    const b = chroma * Math.sin((hue * Math.PI) / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const gamma = (x: number) => {
        const y = x <= 0.0031308 ? 12.92 * x : 1.055 * Math.max(x, 0) ** (1 / 2.4) - 0.055;
        return Math.min(1, Math.max(0, y));
    };
    return [
        gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
    ];
}

function packed(lightness: number, chroma: number, hue: number, alpha = 1): number {
    const [r, g, b] = oklch(lightness, chroma, hue).map((x) => Math.round(x * 255)) as [number, number, number];
    return ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function css(color: number): string {
    return `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255} / ${((color >>> 24) / 255).toFixed(3)})`;
}

/** Returns the hues around the circle, each in two strengths. The safe ones differ between blue and yellow, and in lightness. */
function fills(lightness: number, chroma: number, scheme: Scheme): Uint32Array {
    const colors = new Uint32Array(HUES * 2);
    const strength = scheme === 'strong' ? 1.5 : 1;
    for (let i = 0; i < HUES; i++) {
        const hue = scheme === 'safe' ? (i % 2 === 0 ? 250 : 85) : (i * 360) / HUES + 8;
        const light = scheme === 'safe' ? lightness + (((i >> 1) % 3) - 1) * 0.045 : lightness;
        colors[2 * i] = packed(light, chroma * strength, hue);
        colors[2 * i + 1] = packed(light + 0.045, chroma * strength * 0.62, hue);
    }
    return colors;
}

/** Returns the fill colours without their hue, for events that are not highlighted. */
function pale(lightness: number): number {
    return packed(lightness, 0.006, 250);
}

/** The hues of running, runnable and blocked threads. */
const STATE_HUES: Record<Scheme, [number, number, number]> = { muted: [150, 85, 28], strong: [150, 85, 28], safe: [250, 95, 50] };

export function palette(dark: boolean, scheme: Scheme = 'muted'): Palette {
    const [running, runnable, blocked] = STATE_HUES[scheme];
    return dark
        ? {
              dark,
              fills: fills(0.44, 0.085, scheme),
              merged: fills(0.4, 0.06, scheme),
              pale: pale(0.29),
              text: '#f2f4f7',
              faint: '#98a2b0',
              line: packed(0.32, 0.01, 250),
              instant: packed(0.78, 0.12, 60),
              counter: packed(0.42, 0.07, 235),
              counterTop: packed(0.7, 0.11, 235),
              sample: packed(0.72, 0.11, 45),
              busy: packed(0.5, 0.08, 235),
              group: packed(0.42, 0.05, 235),
              select: '#ffffff',
              flow: '#e8b04b',
              note: '#c9a4ff',
              loss: '#ef6a5b',
              lossFill: 'rgb(239 106 91 / 0.16)',
              lossBar: 0xff5b6aef,
              range: 'rgb(120 170 255 / 0.15)',
              mark: 0xff75b7f0,
              accent: '#7fb0ff',
              onAccent: '#0d1722',
              shade: 'rgb(8 11 15 / 0.55)',
              ground: 0xff1d1814,
              overview: 0xff272119,
              border: 0xff4a4037,
              hit: 0xff4bc8f0,
              states: {
                  running: packed(0.6, 0.12, running),
                  runnable: packed(0.62, 0.1, runnable),
                  blocked: packed(0.57, 0.14, blocked),
                  sleeping: packed(0.33, 0.012, 250),
                  other: packed(0.45, 0.05, 300),
              },
          }
        : {
              dark,
              fills: fills(0.83, 0.078, scheme),
              merged: fills(0.8, 0.055, scheme),
              pale: pale(0.94),
              text: '#16202b',
              faint: '#5d6875',
              line: packed(0.92, 0.006, 250),
              instant: packed(0.58, 0.15, 45),
              counter: packed(0.86, 0.055, 235),
              counterTop: packed(0.58, 0.12, 240),
              sample: packed(0.6, 0.14, 40),
              busy: packed(0.72, 0.085, 235),
              group: packed(0.8, 0.05, 235),
              select: '#0b1520',
              flow: '#a86400',
              note: '#7a3cc0',
              loss: '#c2321f',
              lossFill: 'rgb(194 50 31 / 0.12)',
              lossBar: 0xff1f32c2,
              range: 'rgb(40 100 220 / 0.13)',
              mark: 0xff0f50b4,
              accent: '#1f5fc4',
              onAccent: '#ffffff',
              shade: 'rgb(226 231 237 / 0.72)',
              ground: 0xffffffff,
              overview: 0xfff9f6f4,
              border: 0xffc9c0b8,
              hit: 0xff0078d0,
              states: {
                  running: packed(0.68, 0.14, running),
                  runnable: packed(0.82, 0.12, runnable),
                  blocked: packed(0.66, 0.16, blocked),
                  sleeping: packed(0.92, 0.008, 250),
                  other: packed(0.78, 0.05, 300),
              },
          };
}

const known = new Map<string, number>();

/** Returns the index of the colour of a name. Digits are ignored, so that `worker-1` and `worker-2` have the same colour. */
export function nameColor(name: string): number {
    let color = known.get(name);
    if (color === undefined) {
        let hash = 0x811c9dc5;
        for (let i = 0; i < name.length; i++) {
            const code = name.charCodeAt(i);
            if (code >= 48 && code <= 57) continue;
            hash = Math.imul(hash ^ code, 0x01000193);
        }
        hash ^= hash >>> 15;
        color = (hash >>> 0) % (HUES * 2);
        if (known.size > 200_000) known.clear();
        known.set(name, color);
    }
    return color;
}

/** Returns true for states of a thread that has ended, which are not drawn. */
export function isGone(state: string): boolean {
    return /^[XxZ]/.test(state);
}

/** Returns the colour of a state of a thread, by the letters of the kernel. */
export function stateColor(state: string, colors: Palette): number {
    if (state === 'Running') return colors.states.running;
    if (state.startsWith('R')) return colors.states.runnable;
    if (state.startsWith('D') || state.includes('U')) return colors.states.blocked;
    if (state.startsWith('S') || state.startsWith('I')) return colors.states.sleeping;
    return colors.states.other;
}

const LETTERS: Record<string, string> = {
    R: 'Runnable',
    'R+': 'Runnable (preempted)',
    S: 'Sleeping',
    D: 'Uninterruptible sleep',
    T: 'Stopped',
    t: 'Traced',
    X: 'Exit (dead)',
    Z: 'Exit (zombie)',
    I: 'Idle',
    P: 'Parked',
    K: 'Wake kill',
    W: 'Waking',
    x: 'Task dead',
    N: 'No load',
};

export function stateName(state: string): string {
    return LETTERS[state] ?? state;
}
