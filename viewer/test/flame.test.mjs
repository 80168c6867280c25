// Filters of flamegraphs, and comparisons of ranges, with the network blocked.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { folder, launch, press, settled, visit, xOf } from './browser.mjs';
import { server } from './traces.mjs';

const MS = 1e6;
let browser;
let dir;
let url;

before(async () => {
    browser = await launch();
    dir = folder();
    url = dir.write('server.html', server().html());
});
after(async () => {
    await browser?.close();
    dir?.remove();
});

const foot = (page) => page.locator('.flamefoot').innerText();

async function filter(page, kind, text) {
    await page.getByLabel('Kind of filter').selectOption({ label: kind });
    await page.getByLabel('Filter functions').fill(text);
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await settled(page);
}

/** Returns the names of the boxes of a row of the flamegraph, by keyboard. */
async function names(page, depth) {
    await page.locator('#content canvas').focus();
    for (let i = 0; i < 40; i++) await page.keyboard.press('ArrowUp');
    await press(page, ...Array(depth).fill('ArrowDown'));
    const found = [];
    for (let text = ''; text !== (await foot(page)); await press(page, 'ArrowRight')) {
        text = await foot(page);
        found.push(/^(.*?): \d/.exec(text)?.[1] ?? 'all');
    }
    return found;
}

test('filters keep and hide callstacks and frames', () =>
    visit(browser, url, async (page) => {
        await press(page, '3');
        assert.match(await foot(page), /^240 samples/);
        assert.deepEqual(await names(page, 3), ['parse', 'query']);
        await filter(page, 'show stacks with', 'utf8');
        const parse = Number(/^(\d+) samples/.exec(await foot(page))[1]);
        assert.ok(parse > 100 && parse < 240);
        assert.deepEqual(await names(page, 3), ['parse']);
        await page.getByRole('button', { name: 'show stacks with utf8 ✕' }).click();
        await settled(page);
        await filter(page, 'hide stacks with', '/^utf[0-9]$/');
        assert.match(await foot(page), new RegExp(`^${240 - parse} samples`));
        await filter(page, 'hide frames', 'scan');
        assert.deepEqual(await names(page, 4), ['compare']);
        await filter(page, 'begin at', 'query');
        assert.deepEqual(await names(page, 1), ['query']);
        // A wrong expression changes nothing.
        await filter(page, 'hide frames', '/(/');
        assert.match(await page.locator('#where').innerText(), /regular expression/);
        assert.deepEqual(await names(page, 1), ['query']);
    }));

test('a pivot has its callers above, and what it calls below', () =>
    visit(browser, url, async (page) => {
        await press(page, '3');
        await filter(page, 'pivot at', 'scan');
        // From the outermost caller to the innermost function.
        assert.deepEqual(await names(page, 0), ['main']);
        assert.deepEqual(await names(page, 1), ['serve']);
        assert.deepEqual(await names(page, 2), ['query']);
        assert.deepEqual(await names(page, 3), ['all']);
        assert.deepEqual(await names(page, 4), ['scan']);
        assert.deepEqual(await names(page, 5), ['compare']);
        assert.match(await foot(page), /100 %/);
    }));

test('callstacks are grouped by events', () =>
    visit(browser, url, async (page) => {
        await press(page, '3');
        await page.getByLabel('Grouped').selectOption({ label: 'by event' });
        await settled(page);
        assert.deepEqual((await names(page, 1)).sort(), ['parse', 'query', 'request', 'wait']);
    }));

test('twenty rows of a flamegraph are visible on a large screen, and boxes have shares', () =>
    visit(browser, url, async (page) => {
        await press(page, '3');
        const { height } = await page.locator('.flamebox').boundingBox();
        const line = await page.evaluate(() => Math.round(parseFloat(getComputedStyle(document.body).fontSize) * 1.45));
        assert.ok(height >= 20 * line, `${height} pixels for rows of ${line}`);
        // The texts that are drawn on the picture.
        const texts = await page.evaluate(() => {
            const drawn = [];
            const { fillText } = CanvasRenderingContext2D.prototype;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                drawn.push(text);
                return fillText.call(this, text, ...rest);
            };
            document.querySelector('.flamebox').dispatchEvent(new Event('scroll'));
            CanvasRenderingContext2D.prototype.fillText = fillText;
            return drawn;
        });
        assert.ok(texts.includes('main 100 %'), texts.join());
        assert.ok(texts.some((text) => /^query \d+(\.\d)? %$/.test(text)));
    }, { viewport: { width: 1400, height: 900 } }));

test('two ranges are compared', () =>
    visit(browser, url, async (page) => {
        const { y } = await page.locator('#stage').boundingBox();
        const select = async (from, to) => {
            await page.mouse.move(await xOf(page, from), y + 45);
            await page.mouse.down();
            await page.mouse.move(await xOf(page, to), y + 45, { steps: 4 });
            await page.mouse.up();
            await settled(page);
        };
        await press(page, '9');
        assert.match(await page.locator('#content').innerText(), /keep it with B/);
        await select(0, 50 * MS);
        await press(page, 'b');
        await select(100 * MS, 200 * MS);
        const text = await page.locator('#content').innerText();
        assert.match(text, /^(99|100)(\.\d+)? ms compared with (49|50)(\.\d+)? ms/);
        assert.match(text, /Slices: own time[^]*query\s+10(\.\d+)? ms\s+20(\.\d+)? ms/);
        assert.match(text, /call 0\s+[\d.]+ ms\s+0 ns\s+gone/);
        assert.match(text, /call 12\s+0 ns\s+[\d.]+ ms\s+new/);
        assert.match(text, /worker-1/);
    }));
