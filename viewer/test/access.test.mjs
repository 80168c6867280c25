// Names and contrasts for all users (WCAG 2.2, level AA).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { clickEvent, command, folder, launch, press, settled, visit } from './browser.mjs';
import { faults } from './faults.mjs';
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
