// Names and contrasts for all users (WCAG 2.2, level AA).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { clickEvent, command, folder, launch, press, settled, visit } from './browser.mjs';
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

/** Returns what is wrong with the visible elements: controls without a name, duplicate ids, and texts with a contrast below 4.5. */
const faults = (page) =>
    page.evaluate(() => {
        const wrong = [];
        const seen = new Set();
        for (const { id } of document.querySelectorAll('[id]')) {
            if (seen.has(id)) wrong.push(`two elements have the id ${id}`);
            seen.add(id);
        }
        const visible = (it) => it.checkVisibility({ visibilityProperty: true, opacityProperty: true });
        for (const it of document.querySelectorAll('button, input, select, textarea, [role="separator"], [role="tree"], [role="listbox"], [role="img"], dialog[open], canvas:not([aria-hidden])')) {
            if (!visible(it)) continue;
            const by = it.getAttribute('aria-labelledby');
            const label = it.labels?.[0]?.textContent || it.getAttribute('aria-label') || (by && document.getElementById(by)?.textContent) || (it.matches('button') && it.textContent) || '';
            if (label.trim() === '') wrong.push(`no name: ${it.outerHTML.slice(0, 120)}`);
        }
        const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
        const rgba = (color) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
        };
        const light = ([r, g, b]) => {
            const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
            return 0.2126 * x + 0.7152 * y + 0.0722 * z;
        };
        const behind = (it) => {
            for (let at = it; at; at = at.parentElement) {
                const color = rgba(getComputedStyle(at).backgroundColor);
                if (color[3] === 255) return color;
            }
            return rgba(getComputedStyle(document.body).backgroundColor);
        };
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
            const it = node.parentElement;
            if (!node.textContent.trim() || !visible(it) || it.closest(':disabled, script, style')) continue;
            const [one, other] = [light(rgba(getComputedStyle(it).color)), light(behind(it))].sort((a, b) => b - a);
            const contrast = (one + 0.05) / (other + 0.05);
            if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ${node.textContent.trim().slice(0, 40)} in ${it.className || it.tagName}`);
        }
        return [...new Set(wrong)];
    });

for (const colorScheme of ['light', 'dark']) {
    test(`controls have names and texts have contrast (${colorScheme})`, () =>
        visit(browser, url, async (page) => {
            const check = async (what) => assert.deepEqual(await faults(page), [], what);
            await check('opened');
            await clickEvent(page, 'CPU 1', 103 * MS);
            await check('details');
            await command(page, 'Add a note', 'here');
            await command(page, 'Pin tracks by name', 'rss');
            await command(page, 'Save the pinned rows', 'memory');
            await command(page, 'Record a macro', 'go');
            await press(page, 'w');
            await command(page, 'End the recording');
            await press(page, '7');
            await check('notes');
            await press(page, 'v');
            await check('range');
            await command(page, 'Search names', 'status');
            for (const tab of ['3', '4', '5', '6']) {
                await press(page, tab);
                await check(`tab ${tab}`);
            }
            await command(page, 'Select a range of time', '0 50 ms');
            await press(page, 'b');
            await command(page, 'Select a range of time', '100 ms 200 ms');
            await press(page, '9');
            await check('comparison');
            await page.getByRole('button', { name: 'Draw the changed rows together' }).click();
            await settled(page);
            await check('rows of both ranges');
            await command(page, 'Show the tab Code');
            await check('code');
            for (const key of ['?', ';', ':']) {
                await press(page, key);
                await check(`dialog ${key}`);
                await press(page, 'Escape');
            }
        }, { colorScheme }));
}
