// The source lines and instructions of a function, of a program that is built here. Needs the program in $FERRETTO.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { command, folder, launch, press, settled, visit } from './browser.mjs';
import { faults } from './faults.mjs';
import { Packets } from './packets.mjs';
import { ferretto, served } from './serve.mjs';

const SOURCE = `int step(int n) {
    return n * 3;
}
int work(int n) {
    int sum = step(n);
    return sum + n;
}
int main(void) { return work(1); }
`;

let browser;
let dir;

before(async () => {
    browser = await launch();
    dir = folder();
});
after(async () => {
    await browser?.close();
    dir?.remove();
});

const content = (page) => page.locator('#content').innerText();
const rows = (page, caption) => page.locator('#content section', { has: page.getByRole('heading', { name: caption }) }).locator('tbody tr').allInnerTexts();

/** Returns why the program cannot be built or disassembled here, or null. */
function build() {
    dir.write('hot.c', SOURCE);
    try {
        execFileSync('cc', ['-g', '-O0', '-Wl,--build-id', '-o', 'hot', `${dir.path}/hot.c`], { cwd: dir.path, stdio: 'pipe' });
        execFileSync('objdump', ['--version'], { stdio: 'pipe' });
        return null;
    } catch (error) {
        if (error.code !== 'ENOENT') throw error;
        return `${error.path} is not installed`;
    }
}

/** Returns the addresses of functions, of the instruction behind the call of `step`, and the build id. */
function program() {
    const text = execFileSync('objdump', ['-d', '--no-show-raw-insn', 'hot'], { cwd: dir.path, encoding: 'utf8' });
    const address = (name) => parseInt(new RegExp(`^(\\w+) <${name}>:$`, 'm').exec(text)[1], 16);
    const back = parseInt(/(?:call|bl)q? .*<step>\n\s*(\w+):/.exec(text)[1], 16);
    const notes = execFileSync('readelf', ['-n', 'hot'], { cwd: dir.path, encoding: 'utf8' });
    const id = Buffer.from(/Build ID: (\w+)/.exec(notes)[1], 'hex');
    return { work: address('work'), step: address('step'), back, id };
}

/** Writes a trace of 30 samples in `work` itself, and 10 in `step`. */
function record(name, { work, step, back, id }) {
    const trace = new Packets();
    const { number, text } = Packets;
    const string = (field, iid, bytes) => text(field, [...number(1, iid), ...text(2, bytes)]);
    const frame = (iid, of, at) => text(6, [...number(1, iid), ...number(2, of), ...number(3, 1), ...number(4, at)]);
    const stack = (iid, ...frames) => text(7, [...number(1, iid), ...frames.flatMap((frame) => number(2, frame))]);
    const interned = [
        ...string(16, 1, id), ...string(17, 1, Buffer.from(`${dir.path}/hot`.slice(1))), ...string(5, 1, Buffer.from('work')), ...string(5, 2, Buffer.from('step')),
        ...text(19, [...number(1, 1), ...number(2, 1), ...number(4, 0x1000), ...number(5, 0x9000), ...number(7, 1)]),
        ...frame(1, 1, work), ...frame(2, 1, back), ...frame(3, 2, step), ...stack(1, 1), ...stack(2, 2, 3),
    ];
    for (let i = 0; i < 40; i++) {
        const sample = [...number(1, 0), ...number(2, 7), ...number(3, 7), ...number(4, i < 30 ? 1 : 2), ...number(5, 2)];
        trace.packet(number(8, 1000 + i), number(10, 1), i === 0 ? [...text(12, interned), ...number(13, 1)] : number(13, 2), text(66, sample));
    }
    dir.write(name, trace.all);
}

test('a function has its source lines and instructions with their shares', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const why = build();
    if (why) return t.skip(why);
    record('hot.pftrace', program());
    await served(dir, ['hot.pftrace'], (url) =>
        visit(browser, url, async (page) => {
            await press(page, '3');
            await page.getByRole('img', { name: 'Flamegraph' }).focus();
            await press(page, 'ArrowDown', 'c');
            assert.match(await content(page), /^work\s*75 % own, 100 % with calls/);
            const lines = await rows(page, 'Source');
            assert.match(lines[0], /hot\.c$/);
            assert.match(lines.find((line) => line.includes('int work')), /^75 %\t75 %\t4\t/);
            assert.match(lines.find((line) => line.includes('step(n)')), /^\t25 %\t5\t/);
            const instructions = await rows(page, 'Instructions');
            assert.match(instructions[0], /^75 %\t75 %\t[0-9a-f]+\t\S.*\thot\.c:4$/);
            assert.match(instructions.find((it) => it.includes('<step>')), /^\t25 %\t[0-9a-f]+\t(call|bl).*\thot\.c:5$/);
            for (const theme of ['light', 'dark']) {
                await command(page, 'Set: theme', theme);
                assert.deepEqual(await faults(page), [], theme);
            }
            // By mouse, the other function.
            await press(page, '3', 'ArrowDown');
            await page.getByRole('img', { name: 'Flamegraph' }).focus();
            await press(page, 'ArrowDown', 'ArrowDown');
            await page.getByRole('button', { name: 'Code', exact: true }).click();
            await settled(page);
            assert.match(await content(page), /^step\s*25 % own, 25 % with calls/);
        }),
    );
});

test('another build of the program is not shown', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const why = build();
    if (why) return t.skip(why);
    const it = program();
    record('other.pftrace', { ...it, id: Buffer.from(it.id.map((byte) => byte ^ 255)) });
    await served(dir, ['other.pftrace'], (url) =>
        visit(browser, url, async (page) => {
            await press(page, '3');
            await page.getByRole('img', { name: 'Flamegraph' }).focus();
            await press(page, 'ArrowDown', 'c');
            assert.match(await content(page), /Instructions are not shown: .*hot: it has another build id/);
            assert.deepEqual(await rows(page, 'Instructions'), []);
        }),
    );
});
