// Measures the page with a trace: `node test/speed.mjs FILE.pftrace|FILE.html`. The program in $FERRETTO serves traces.
// Prints the time of the first picture, frames per second while panning and zooming, and the memory of the tab.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch, settled } from './browser.mjs';

const [file] = process.argv.slice(2);
let server;
let url = pathToFileURL(resolve(file)).href;
if (!file.endsWith('.html')) {
    const began = performance.now();
    server = spawn(process.env.FERRETTO ?? 'ferretto', ['view', file, '--no-browser'], { stdio: ['ignore', 'pipe', 'inherit'] });
    url = await new Promise((done, failed) => {
        let text = '';
        server.stdout.on('data', (part) => {
            text += part;
            const found = /http:\/\/\S+/.exec(text);
            if (found) done(found[0]);
        });
        server.on('exit', () => failed(new Error(`no address: ${text}`)));
    });
    console.log(`server ready after ${Math.round(performance.now() - began)} ms, import included`);
}
const browser = await launch();
const session = await browser.newBrowserCDPSession();
const renderers = async () => (await session.send('SystemInfo.getProcessInfo')).processInfo.filter((it) => it.type === 'renderer').map((it) => it.id);
const times = async () => {
    const of = (id) => {
        try {
            const stat = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ')[1].split(' ');
            return 10 * (Number(stat[11]) + Number(stat[12]));
        } catch {
            return 0; // It has just ended.
        }
    };
    return (await renderers()).map(of);
};
/** Returns the CPU time of the process of the page in milliseconds. Other programs do not count. */
const used = async () => Math.max(...(await times()));
/** Returns the CPU time of all pages. */
const all = async () => (await times()).reduce((sum, time) => sum + time, 0);
try {
    // Waits until the browser has started and loaded its own window, since traces open in a tab.
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const other = await context.newPage();
    await other.setContent('<canvas></canvas>');
    await other.evaluate(() => document.querySelector('canvas').getContext('2d').fillRect(0, 0, 9, 9));
    for (let calm = 0, last = -1; calm < 5; await other.waitForTimeout(100)) {
        const now = await all();
        calm = now === last ? calm + 1 : 0;
        last = now;
    }
    const page = await context.newPage();
    await page.goto(url);
    await settled(page);
    const [picture, painted, sharp, bytes] = await page.evaluate(() => {
        const at = (mark) => performance.getEntriesByName(mark)[0].startTime;
        const [navigation] = performance.getEntriesByType('navigation');
        const asked = performance.getEntriesByType('resource').filter((it) => it.responseEnd <= at('picture'));
        const all = [navigation, ...asked].reduce((sum, it) => sum + it.transferSize, 0);
        return [at('picture'), Math.max(at('picture'), at('first-contentful-paint')), at('sharp'), all];
    });
    const ms = (time) => `${Math.round(time)} ms`;
    console.log(`first picture drawn ${ms(picture)} after navigation, of ${Math.round(bytes / 1000)} KB, on the screen after ${ms(painted)}; sharp after ${ms(sharp)}`);
    for (const [name, make] of [
        ['zooming', (i) => ({ ctrlKey: true, deltaY: i % 120 < 60 ? -30 : 30 })],
        ['panning', (i) => ({ deltaX: i % 120 < 60 ? 25 : -25 })],
    ]) {
        const before = await used();
        const { frames, elapsed, worst } = await page.evaluate(async (text) => {
            const make = new Function(`return ${text}`)();
            const stage = document.getElementById('stage');
            const { left, top, width } = stage.getBoundingClientRect();
            const begin = performance.now();
            const first = Number(document.documentElement.dataset.frames);
            let last = begin;
            let worst = 0;
            for (let i = 0; i < 240; i++) {
                stage.dispatchEvent(new WheelEvent('wheel', { clientX: left + width / 2, clientY: top + 200, bubbles: true, cancelable: true, ...make(i) }));
                await new Promise(requestAnimationFrame);
                const now = performance.now();
                worst = Math.max(worst, now - last);
                last = now;
            }
            return { frames: Number(document.documentElement.dataset.frames) - first, elapsed: performance.now() - begin, worst };
        }, make.toString());
        console.log(`${name}: ${((1000 * frames) / elapsed).toFixed(1)} frames/s, the longest took ${Math.round(worst)} ms; ${(((await used()) - before) / frames).toFixed(1)} ms of CPU time each`);
        await settled(page);
    }
    for (const id of await renderers()) {
        const of = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'));
        console.log(`memory of a renderer process: ${Math.round(Number(of[1]) / 1024)} MB`);
    }
    const metrics = await (await page.context().newCDPSession(page)).send('Runtime.getHeapUsage');
    console.log(`of which script: ${Math.round((metrics.usedSize + (metrics.backingStorageSize ?? 0)) / 1e6)} MB`);
} finally {
    await browser.close();
    server?.kill('SIGINT');
}
