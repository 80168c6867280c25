// A headless browser without a network, and operations of tests on the page.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const candidates = [process.env.CHROMIUM, '/usr/lib/chromium/chromium', '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Starts a browser without a graphics card. With `gl`, WebGL is emulated. */
export async function launch(gl = false, ...more) {
    const { existsSync } = await import('node:fs');
    const executablePath = candidates.find((path) => path && existsSync(path));
    if (!executablePath) throw new Error('no Chromium found; install the package `chromium`, or name the program in $CHROMIUM');
    return chromium.launch({
        executablePath,
        args: ['--no-sandbox', ...(gl ? ['--use-angle=swiftshader', '--enable-unsafe-swiftshader'] : []), '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1', '--disable-background-networking', ...more],
    });
}

export function folder() {
    const path = mkdtempSync(join(tmpdir(), 'ferretto-viewer-'));
    return { path, write: (name, text) => (writeFileSync(join(path, name), text), pathToFileURL(join(path, name)).href), remove: () => rmSync(path, { recursive: true }) };
}

/** Opens a page and waits until it is completely drawn. */
export async function open(browser, url, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light', offline: url.startsWith('file:'), ...options });
    const page = await context.newPage();
    const wrong = [];
    page.on('pageerror', (error) => wrong.push(String(error)));
    page.on('console', (message) => {
        if (message.type() === 'error' || message.text().includes('Content Security Policy')) wrong.push(message.text());
    });
    page.on('request', (request) => {
        if (!/^(file:|data:|blob:|http:\/\/127\.0\.0\.1)/.test(request.url())) wrong.push(`asked for ${request.url()}`);
    });
    await page.goto(url);
    await settled(page);
    return { page, wrong, close: () => context.close() };
}

/** Runs a test on a page of its own. Fails on any error of the page. */
export async function visit(browser, address, work, options) {
    const { page, wrong, close } = await open(browser, address, options);
    try {
        await work(page);
        assert.deepEqual(wrong, []);
    } finally {
        await close();
    }
}

export async function press(page, ...keys) {
    for (const key of keys) {
        await page.keyboard.press(key);
        await settled(page);
    }
}

/** Waits until the page has been idle for some frames, since keyboard events may still be on their way. */
export async function settled(page) {
    await page.evaluate(
        () =>
            new Promise((done) => {
                let calm = 0;
                const look = () => {
                    calm = document.documentElement.dataset.busy === '0' ? calm + 1 : 0;
                    if (calm === 5) done();
                    else requestAnimationFrame(look);
                };
                setTimeout(look);
            }),
    );
}

/** Returns the parameters of the address. */
export async function seen(page) {
    const hash = await page.evaluate(() => location.hash);
    return new Map(hash.slice(1).split('&').map((part) => part.split('=', 2)));
}

export async function span(page) {
    return (await seen(page)).get('at').split(',').map(Number);
}

/** Returns the place of a row on the screen, by the name on its label or that of its thread. */
export async function row(page, name) {
    const label = page.locator('#labels .label:visible', { has: page.locator('.what, .meta', { hasText: name }) }).first();
    return label.boundingBox();
}

/** Returns the horizontal place of a time on the screen. */
export async function xOf(page, time) {
    const [from, to] = await span(page);
    const box = await page.locator('#stage').boundingBox();
    return box.x + ((time - from) / (to - from)) * box.width;
}

export async function clickEvent(page, name, time, dy = 12) {
    const { y } = await row(page, name);
    await page.mouse.click(await xOf(page, time), y + dy);
    await settled(page);
}

/** Runs a command by its name from the palette, with an argument. */
export async function command(page, name, argument = '') {
    await page.keyboard.press('Control+k');
    await page.locator('#palette input').fill(name);
    await page.keyboard.press('Enter');
    if (argument) {
        await page.locator('#palette input').fill(argument);
        await page.keyboard.press('Enter');
    }
    await settled(page);
}

/** Returns the colour of a point of one of the canvases, in pixels from its corner. */
export async function pixel(page, id, { x, y }) {
    return page.evaluate(({ id, x, y }) => [...document.getElementById(id).getContext('2d').getImageData(x, y, 1, 1).data], { id, x, y });
}
