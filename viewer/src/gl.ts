// Many rectangles in one call: as WebGL2 instances, or on a 2D canvas without WebGL.

const WORDS = 5;

/** A list of rectangles in device pixels, filled for each frame. */
export class RectList {
    private floats = new Float32Array(4096 * WORDS);
    private words = new Uint32Array(this.floats.buffer);
    length = 0;

    clear(): void {
        this.length = 0;
    }

    add(x: number, y: number, w: number, h: number, color: number): void {
        let at = this.length * WORDS;
        if (at + WORDS > this.floats.length) {
            const more = new Float32Array(this.floats.length * 2);
            more.set(this.floats);
            this.floats = more;
            this.words = new Uint32Array(more.buffer);
        }
        this.floats[at++] = x;
        this.floats[at++] = y;
        this.floats[at++] = w;
        this.floats[at++] = h;
        this.words[at] = color;
        this.length += 1;
    }

    bytes(): Uint8Array {
        return new Uint8Array(this.floats.buffer, 0, this.length * WORDS * 4);
    }

    /**
     * Draws the rectangles into a pixel array. All colours are opaque, so the last one is visible. Of rectangles side by side that
     * have the same height, as dense events, the first line is drawn, and then copied to the others at once.
     */
    fill(pixels: Uint32Array, width: number, height: number): void {
        const { floats, words } = this;
        let [runLeft, runRight, runTop, runEnd] = [0, 0, 0, 0];
        const copy = () => {
            for (let row = runTop + width; row < runEnd; row += width) {
                if (runRight - runLeft > 8) pixels.copyWithin(row + runLeft, runTop + runLeft, runTop + runRight);
                else for (let i = runLeft; i < runRight; i++) pixels[row + i] = pixels[runTop + i];
            }
        };
        for (let at = 0; at < this.length * WORDS; at += WORDS) {
            const left = Math.max(0, Math.round(floats[at]));
            const right = Math.min(width, Math.round(floats[at] + floats[at + 2]));
            const top = Math.max(0, Math.round(floats[at + 1])) * width;
            const end = Math.min(height, Math.round(floats[at + 1] + floats[at + 3])) * width;
            if (right <= left || end <= top) continue;
            if (top !== runTop || end !== runEnd || left < runLeft || left > runRight) {
                copy();
                [runLeft, runRight, runTop, runEnd] = [left, right, top, end];
            } else if (right > runRight) runRight = right;
            const color = words[at + 4];
            if (right - left > 8) pixels.fill(color, top + left, top + right);
            else for (let i = top + left; i < top + right; i++) pixels[i] = color;
        }
        copy();
    }
}

/** Draws rectangles on its canvas. */
export interface Painter {
    readonly name: string;
    draw(list: RectList, width: number, height: number): void;
}

const VERTEX = `#version 300 es
layout(location=0) in vec4 box;
layout(location=1) in vec4 color;
uniform vec2 size;
flat out vec4 fill;
void main() {
    vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    vec2 at = (box.xy + corner * box.zw) / size * 2.0 - 1.0;
    gl_Position = vec4(at.x, -at.y, 0.0, 1.0);
    fill = vec4(color.rgb * color.a, color.a);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
flat in vec4 fill;
out vec4 pixel;
void main() { pixel = fill; }`;

class GlPainter implements Painter {
    readonly name = 'WebGL2';
    private size: WebGLUniformLocation | null = null;
    private capacity = 0;

    constructor(
        private gl: WebGL2RenderingContext,
        canvas: HTMLCanvasElement,
    ) {
        this.prepare();
        canvas.addEventListener('webglcontextlost', (event) => event.preventDefault());
        canvas.addEventListener('webglcontextrestored', () => this.prepare());
    }

    private prepare(): void {
        const gl = this.gl;
        const program = gl.createProgram();
        for (const [type, text] of [
            [gl.VERTEX_SHADER, VERTEX],
            [gl.FRAGMENT_SHADER, FRAGMENT],
        ] as const) {
            const shader = gl.createShader(type)!;
            gl.shaderSource(shader, text);
            gl.compileShader(shader);
            gl.attachShader(program, shader);
        }
        gl.linkProgram(program);
        gl.useProgram(program);
        this.size = gl.getUniformLocation(program, 'size');
        gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
        this.capacity = 0;
        gl.enableVertexAttribArray(0);
        gl.vertexAttribPointer(0, 4, gl.FLOAT, false, WORDS * 4, 0);
        gl.vertexAttribDivisor(0, 1);
        gl.enableVertexAttribArray(1);
        gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, WORDS * 4, 16);
        gl.vertexAttribDivisor(1, 1);
        gl.enable(gl.BLEND);
        gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    }

    draw(list: RectList, width: number, height: number): void {
        const gl = this.gl;
        gl.viewport(0, 0, width, height);
        gl.clearColor(0, 0, 0, 0);
        gl.clear(gl.COLOR_BUFFER_BIT);
        if (list.length === 0) return;
        const bytes = list.bytes();
        if (bytes.length > this.capacity) {
            this.capacity = 2 ** Math.ceil(Math.log2(bytes.length));
            gl.bufferData(gl.ARRAY_BUFFER, this.capacity, gl.DYNAMIC_DRAW);
        }
        gl.bufferSubData(gl.ARRAY_BUFFER, 0, bytes);
        gl.uniform2f(this.size, width, height);
        gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, list.length);
    }
}

/** Draws into memory and copies it to the canvas. */
class FlatPainter implements Painter {
    readonly name = '2D canvas';
    private image: ImageData | null = null;
    private pixels = new Uint32Array(0);

    constructor(private context: CanvasRenderingContext2D) {}

    draw(list: RectList, width: number, height: number): void {
        if (width < 1 || height < 1) return;
        if (this.image?.width !== width || this.image.height !== height) {
            this.image = this.context.createImageData(width, height);
            this.pixels = new Uint32Array(this.image.data.buffer);
        }
        const { pixels } = this;
        pixels.fill(0);
        list.fill(pixels, width, height);
        this.context.putImageData(this.image, 0, 0);
    }
}

/** Creates a painter in memory for the first picture, since it is ready at once. */
export function flat(canvas: HTMLCanvasElement): Painter {
    return new FlatPainter(canvas.getContext('2d', { willReadFrequently: true })!);
}

/**
 * Returns true if there is a graphics card. The check takes some time. Where WebGL is emulated, the 2D canvas is faster by
 * an order of magnitude, since such renderers draw instances one by one.
 */
export function hasCard(): boolean {
    const probe = document.createElement('canvas').getContext('webgl2', { failIfMajorPerformanceCaveat: true });
    if (!probe) return false;
    const name = probe.getExtension('WEBGL_debug_renderer_info')?.UNMASKED_RENDERER_WEBGL ?? probe.RENDERER;
    const card = String(probe.getParameter(name) ?? '');
    probe.getExtension('WEBGL_lose_context')?.loseContext();
    return !/swiftshader|llvmpipe|softpipe|software/i.test(card);
}

/** Creates a painter that uses the graphics card. */
export function accelerated(canvas: HTMLCanvasElement): Painter | null {
    const gl = canvas.getContext('webgl2', { alpha: true, antialias: false, depth: false });
    return gl && new GlPainter(gl, canvas);
}
