// The page on what the program makes of a trace: served, and exported. Needs $FERRETTO, the program.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { clickEvent, folder, launch, open, row, seen, settled } from './browser.mjs';

const ferretto = process.env.FERRETTO && resolve(process.env.FERRETTO);
let browser;
let dir;

/** Two threads, nested slices, a flow, a counter and an instant, in Chrome's format. */
function events() {
    const all = [
        { ph: 'M', name: 'process_name', pid: 1, args: { name: 'shop' } },
        { ph: 'M', name: 'thread_name', pid: 1, tid: 1, args: { name: 'front' } },
        { ph: 'M', name: 'thread_name', pid: 1, tid: 2, args: { name: 'back' } },
    ];
    for (let i = 0; i < 50; i++) {
        const ts = 1000 * i;
        all.push(
            { ph: 'X', pid: 1, tid: 1, ts, dur: 800, name: 'order', cat: 'web', args: { number: i, who: '<b>you</b>' } },
            { ph: 'X', pid: 1, tid: 1, ts: ts + 100, dur: 300, name: 'check' },
            { ph: 's', pid: 1, tid: 1, ts: ts + 150, id: i, name: 'pass', cat: 'f' },
            { ph: 'X', pid: 1, tid: 2, ts: ts + 400, dur: 300, name: 'pack' },
            { ph: 'f', bp: 'e', pid: 1, tid: 2, ts: ts + 450, id: i, name: 'pass', cat: 'f' },
            { ph: 'C', pid: 1, ts, name: 'stock', args: { pieces: 100 - i } },
        );
    }
    return JSON.stringify(all);
}

before(async () => {
    if (!ferretto) return;
    browser = await launch();
    dir = folder();
    dir.write('shop.json', events());
});
after(async () => {
    await browser?.close();
    dir?.remove();
});

async function look(url) {
    const { page, wrong, close } = await open(browser, url);
    try {
        assert.ok(await row(page, 'front'));
        await clickEvent(page, 'front', 10.2e6, 12);
        const content = () => page.locator('#content').innerText();
        assert.match(await content(), /order/);
        assert.match(await content(), /<b>you<\/b>/);
        await page.keyboard.press('>');
        await settled(page);
        assert.match(await content(), /^check/);
        await page.keyboard.press(']');
        await settled(page);
        assert.match(await content(), /^pack/);
        assert.match(await content(), /Flows to here/);
        await page.keyboard.press('[');
        await settled(page);
        assert.match(await content(), /^check/);
        await page.keyboard.press('.');
        await settled(page);
        assert.match(await content(), /^check/);
        await page.keyboard.press('/');
        await page.keyboard.type('number=17');
        await page.keyboard.press('Enter');
        await settled(page);
        assert.equal(await page.locator('#hits').innerText(), '1 of 1');
        await page.keyboard.press('Escape');
        await page.keyboard.press('Home');
        await settled(page);
        await page.keyboard.press('v');
        await settled(page);
        assert.match(await content(), /order\s+50\s+40 ms\s+25 ms/);
        assert.match(await content(), /stock/);
        for (const tab of ['3', '4', '5', '6', '1']) {
            await page.keyboard.press(tab);
            await settled(page);
        }
        assert.deepEqual(wrong, []);
        return (await seen(page)).get('range');
    } finally {
        await close();
    }
}

test('a served trace and an exported one show the same', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const server = spawn(ferretto, ['view', '--no-browser', 'shop.json'], { cwd: dir.path, stdio: ['ignore', 'pipe', 'pipe'] });
    try {
        const url = await new Promise((done, failed) => {
            let text = '';
            for (const stream of [server.stdout, server.stderr]) {
                stream.on('data', (part) => {
                    text += part;
                    const found = /http:\/\/127\.0\.0\.1:\d+\/\w+\/\S*/.exec(text);
                    if (found) done(found[0]);
                });
            }
            server.on('exit', () => failed(new Error(`no address: ${text}`)));
        });
        const served = await look(url);
        execFileSync(ferretto, ['view', 'shop.json', '-o', 'shop.html'], { cwd: dir.path, stdio: 'pipe' });
        const exported = await look(pathToFileURL(`${dir.path}/shop.html`).href);
        assert.equal(served, exported);
    } finally {
        server.kill('SIGINT');
        if (server.exitCode === null) await new Promise((done) => server.on('exit', done));
    }
});
