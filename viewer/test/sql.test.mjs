// SQL in the page. Needs the program in $FERRETTO, and ferretto-query in $FERRETTO_QUERY or query/target.
import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { command, folder, launch, press, row, seen, settled, span, visit } from './browser.mjs';
import { faults } from './faults.mjs';
import { ferretto, query, served } from './serve.mjs';
import { server } from './traces.mjs';

let browser;
let dir;

/** Fifty orders of one thread and a counter, in the format of Chrome. */
function events() {
    const all = [
        { ph: 'M', name: 'process_name', pid: 1, args: { name: 'shop' } },
        { ph: 'M', name: 'thread_name', pid: 1, tid: 1, args: { name: 'front' } },
    ];
    for (let i = 0; i < 50; i++) {
        all.push(
            { ph: 'X', pid: 1, tid: 1, ts: 1000 * i, dur: 800, name: i % 2 ? 'order' : 'offer', cat: 'web' },
            { ph: 'X', pid: 1, tid: 1, ts: 1000 * i + 100, dur: 300 + i, name: 'check' },
            { ph: 'C', pid: 1, ts: 1000 * i, name: 'stock', args: { pieces: 100 - i } },
        );
    }
    return JSON.stringify(all);
}

before(async () => {
    browser = await launch();
    dir = folder();
    dir.write('shop.json', events());
});
after(async () => {
    await browser?.close();
    dir?.remove();
});

const why = () => (!ferretto ? '$FERRETTO names no program' : !query ? 'skipped: ferretto-query is not built' : '');

/** Runs a test on the tab with SQL. */
async function inTab(t, work, args = ['shop.json'], hash = '') {
    if (why()) return t.skip(why());
    await served(dir, args, (url) =>
        visit(browser, url + hash, async (page) => {
            if (!hash) await press(page, '8');
            await work(page, url);
        }), { sql: true });
}

const area = (page) => page.locator('.sqltext');
async function run(page, sql) {
    await area(page).fill(sql);
    await page.keyboard.press('Control+Enter');
    await settled(page);
}
const cells = (page, i) => page.locator('.gridrow:visible').nth(i).locator('[role="gridcell"]').allInnerTexts();
const said = (page) => page.locator('.sql [role="status"]').innerText();

test('a query has a result that is sorted, filtered and saved', (t) =>
    inTab(t, async (page) => {
        await run(page, 'SELECT name, count() AS n, sum(dur) AS dur, NULL AS lacking FROM slice GROUP BY name ORDER BY name');
        assert.match(await said(page), /^3 rows, /);
        assert.deepEqual(await cells(page, 0), ['check', '50', '16225000', 'null']);
        const head = page.getByRole('columnheader', { name: 'dur' });
        await head.getByRole('button').click();
        await settled(page);
        assert.equal((await cells(page, 0))[0], 'check');
        assert.equal(await head.getAttribute('aria-sort'), 'ascending');
        await head.getByRole('button').click();
        await settled(page);
        assert.deepEqual([(await cells(page, 0))[2], (await cells(page, 2))[2]], ['20000000', '16225000']);
        await page.getByLabel('Filter rows').fill('/^o[rx]/');
        await settled(page);
        assert.match(await said(page), /^1 of 3 rows/);
        assert.deepEqual((await cells(page, 0)).slice(0, 2), ['order', '25']);
        await page.getByLabel('Filter rows').fill('');
        const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()]);
        assert.equal(readFileSync(await file.path(), 'utf8').split('\n')[0], 'name,n,dur,lacking');
        await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
        await page.getByRole('button', { name: 'Copy' }).click();
        await page.waitForFunction(async () => (await navigator.clipboard.readText()).startsWith('name\tn\tdur\tlacking\n'));
        // The history, and the address, have the query.
        const sql = decodeURIComponent((await seen(page)).get('sql'));
        assert.match(sql, /^SELECT name/);
        await area(page).fill('');
        await page.getByLabel('Earlier queries').selectOption({ index: 1 });
        await settled(page);
        assert.equal(await area(page).inputValue(), sql);
    }));

test('queries, settings and keys are there again on another port, and those of two pages add up', (t) =>
    inTab(t, async (page, url) => {
        await run(page, 'SELECT 1');
        await command(page, 'Settings');
        await page.getByLabel('Theme').selectOption('dark');
        await page.getByRole('button', { name: 'Close', exact: true }).click();
        await command(page, 'Give a key a command', 'x search order');
        await served(dir, ['shop.json'], (another) => {
            assert.notEqual(new URL(another).port, new URL(url).port);
            return visit(browser, another, async (page) => {
                assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
                await press(page, 'x');
                assert.match(await page.locator('#hits').innerText(), /of 25$/);
                await press(page, '8');
                await run(page, 'SELECT 2');
                await page.getByLabel('Earlier queries').locator('option', { hasText: 'SELECT 2' }).waitFor({ state: 'attached' });
            });
        }, { sql: true });
        await run(page, 'SELECT 3');
        await page.getByLabel('Earlier queries').locator('option', { hasText: 'SELECT 3' }).waitFor({ state: 'attached' });
        const all = await page.getByLabel('Earlier queries').locator('option').allInnerTexts();
        assert.deepEqual(all.slice(0, 4), ['History', 'SELECT 3', 'SELECT 2', 'SELECT 1']);
        rmSync(join(dir.path, 'state'), { recursive: true });
    }));

test('a form writes the query', (t) =>
    inTab(t, async (page) => {
        await page.waitForFunction(() => document.documentElement.dataset.busy === '0');
        await page.getByRole('button', { name: 'Build…' }).click();
        const choose = (label, value) => page.getByLabel(label, { exact: true }).selectOption(value);
        await choose('Table', 'slice');
        assert.equal(await area(page).inputValue(), 'SELECT *\nFROM slice\nLIMIT 1000');
        await choose('Filter column', 'name');
        await page.getByLabel('Filter value', { exact: true }).fill("o'r");
        await settled(page);
        assert.match(await area(page).inputValue(), /WHERE name = 'o''r'/);
        await choose('Filter operator', 'contains');
        await page.getByLabel('Filter value', { exact: true }).fill('o');
        await choose('Filter column 2', 'dur');
        await choose('Filter operator 2', '>=');
        await page.getByLabel('Filter value 2').fill('800000');
        await choose('Group by', 'name');
        await choose('Amount', 'avg');
        await choose('Amount of', 'dur');
        assert.equal(await area(page).inputValue(),
            "SELECT name, avg(dur) AS avg_dur\nFROM slice\nWHERE name LIKE '%o%' ESCAPE '\\'\n  AND dur >= 800000\nGROUP BY name\nORDER BY avg_dur DESC\nLIMIT 1000");
        await page.getByLabel('Most rows').press('Enter');
        await settled(page);
        assert.match(await said(page), /^2 rows, /);
        assert.deepEqual([await cells(page, 0), await cells(page, 1)].map(([, mean]) => Number(mean)), [800000, 800000]);
        // Conditions and groups are removed again.
        await choose('Filter column', '');
        await choose('Group by', '');
        assert.equal(await area(page).inputValue(), 'SELECT *\nFROM slice\nWHERE dur >= 800000\nLIMIT 1000');
    }));

test('integers keep all their digits', (t) =>
    inTab(t, async (page) => {
        await run(page, "SELECT 9223372036854775807 AS a, -9223372036854775808 AS b, -1 AS c, 9007199254740993 AS d, 0.5 AS e, x'0102' AS f, 'ü,\"' AS g");
        assert.deepEqual(await cells(page, 0), ['9223372036854775807', '-9223372036854775808', '-1', '9007199254740993', '0.5', 'blob of 2 bytes', 'ü,"']);
    }));

test('an error is shown with its place', (t) =>
    inTab(t, async (page) => {
        await run(page, 'SELECT name\nFROM slice\nWHERE nme = 1');
        assert.match(await page.getByRole('alert').innerText(), /nme[^]*line 3, column 7/);
        const chosen = await area(page).evaluate((it) => it.value.slice(it.selectionStart, it.selectionEnd));
        assert.equal(chosen, 'nme');
        // The session is as before.
        await run(page, 'SELECT 1 AS one');
        assert.deepEqual(await cells(page, 0), ['1']);
    }));

test('names are completed', (t) =>
    inTab(t, async (page) => {
        const words = page.locator('.words li:visible');
        const type = async (text) => {
            await area(page).fill('');
            await area(page).pressSequentially(text);
        };
        await type('SELECT s.track FROM slice s');
        for (let i = 0; i < ' FROM slice s'.length; i++) await page.keyboard.press('ArrowLeft');
        await page.keyboard.press('Control+ ');
        await settled(page);
        assert.match(await words.first().innerText(), /^track_id\s+slice/);
        await page.keyboard.press('Tab');
        await settled(page);
        assert.equal(await area(page).inputValue(), 'SELECT s.track_id FROM slice s');
        await type('SELECT * FROM thread_sta');
        assert.match(await words.first().innerText(), /^thread_state\s+table/);
        await type('SELECT percent');
        assert.match((await words.allInnerTexts()).join(), /percentile[^,]*function/i);
        await type('INCLUDE PERFETTO MODULE slices.wi');
        assert.match(await words.first().innerText(), /^slices\.with_context\s+module/);
        await page.keyboard.press('Escape');
        await settled(page);
        assert.equal(await words.count(), 0);
        assert.ok(await area(page).evaluate((it) => it === document.activeElement));
    }));

test('a row is a link into the picture', (t) =>
    inTab(t, async (page) => {
        await run(page, 'SELECT id, ts, dur, name FROM slice WHERE name = \'check\' ORDER BY ts LIMIT 3 OFFSET 20');
        await page.locator('.gridrow .link').first().click();
        await settled(page);
        assert.match(await page.locator('#status').innerText(), /^check, 320 µs, on front/);
        assert.ok((await seen(page)).get('event').includes(',20100000,320000,1'));
        assert.equal((await seen(page)).get('tab'), 'sql');
        // A row that is no event has a time.
        await run(page, 'SELECT ts + 7 AS ts, 1000 AS dur FROM slice WHERE id = 40');
        await page.locator('.gridbox').focus();
        await press(page, 'ArrowDown', 'Enter');
        assert.equal((await seen(page)).get('range'), '20000007,20001007');
    }));

test('a million rows are scrolled', (t) =>
    inTab(t, async (page) => {
        await run(page, 'WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999) SELECT i, i * 2 AS double, \'row \' || i AS name FROM n');
        assert.match(await said(page), /^1,000,000 rows/);
        const grid = page.locator('.gridbox');
        await grid.focus();
        await press(page, 'End');
        assert.deepEqual(await cells(page, (await page.locator('.gridrow:visible').count()) - 1), ['999999', '1999998', 'row 999999']);
        await press(page, 'ArrowUp');
        assert.equal((await page.locator('.gridrow[aria-selected="true"] [role="gridcell"]').allInnerTexts())[0], '999998');
        assert.ok((await page.locator('.gridrow').count()) < 60);
        await page.locator('.gridhead button', { hasText: /^i$/ }).click();
        await page.locator('.gridhead button', { hasText: /^i$/ }).click();
        await settled(page);
        await grid.evaluate((it) => (it.scrollTop = 0));
        await settled(page);
        assert.equal((await cells(page, 0))[0], '999999');
        await page.getByLabel('Filter rows').fill('row 77777');
        await settled(page);
        assert.match(await said(page), /^11 of 1,000,000/);
    }));

test('a query is stopped', (t) =>
    inTab(t, async (page) => {
        await area(page).fill('WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n');
        await page.keyboard.press('Control+Enter');
        await page.getByRole('button', { name: 'Stop' }).click();
        await page.getByText('The query was stopped.').waitFor();
        await run(page, 'SELECT count() AS n FROM slice');
        assert.deepEqual(await cells(page, 0), ['100']);
    }));

/** Returns the different colours of a row of the picture. */
async function colors(page, name) {
    const box = await row(page, name);
    const stage = await page.locator('#stage').boundingBox();
    const image = await page.screenshot({ clip: { x: stage.x, y: box.y + 4, width: stage.width, height: Math.min(12, box.height - 4) } });
    return page.evaluate(async (data) => {
        const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]));
        const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
        const context = canvas.getContext('2d');
        context.drawImage(bitmap, 0, 0);
        const { data: pixels } = context.getImageData(0, 0, bitmap.width, bitmap.height);
        const all = new Set();
        for (let i = 0; i < pixels.length; i += 4) all.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
        return all.size;
    }, image.toString('base64'));
}

test('the rows of a query are drawn as tracks, which the address keeps', (t) =>
    inTab(t, async (page, url) => {
        await run(page, "SELECT ts, dur, name, 'lane ' || (id % 3) AS lane FROM slice WHERE name <> 'check'");
        await page.getByRole('button', { name: 'Draw as tracks…' }).click();
        await page.getByLabel('Title').fill('Orders');
        await page.getByLabel('A track for each').selectOption('lane');
        await page.getByRole('button', { name: 'Draw', exact: true }).click();
        await settled(page);
        for (const name of ['lane lane 0', 'lane lane 1', 'lane lane 2']) {
            assert.ok(await page.locator('.label.pinned', { hasText: name }).isVisible(), name);
            assert.ok((await colors(page, name)) >= 3, `${name} has no slices`);
        }
        await run(page, "SELECT ts, id AS height FROM slice WHERE name = 'check'");
        await page.getByRole('button', { name: 'Draw as tracks…' }).click();
        await settled(page);
        assert.equal(await page.getByLabel('Kind').inputValue(), 'counter');
        await page.getByLabel('Title').fill('Checks');
        await page.getByRole('button', { name: 'Draw', exact: true }).click();
        await settled(page);
        assert.match(await page.locator('.label.pinned', { hasText: 'Checks' }).innerText(), /1 – 99/);
        // A slice of a track has the other columns as arguments.
        const box = await row(page, 'lane lane 2');
        const stage = await page.locator('#stage').boundingBox();
        const [from, to] = await span(page);
        await page.mouse.click(stage.x + ((4.4e6 - from) / (to - from)) * stage.width, box.y + 10);
        await settled(page);
        await press(page, '1');
        assert.match(await page.locator('#content').innerText(), /^offer\s*800 µs[^]*Arguments\s+lane\s+lane 2/);
        await page.keyboard.press('Escape');
        await settled(page);
        // The address draws them again.
        const hash = await page.evaluate(() => location.hash);
        await visit(browser, url + hash, async (other) => {
            await other.locator('.label.pinned', { hasText: 'Checks' }).waitFor();
            await settled(other);
            assert.equal(await other.locator('.label.pinned').count(), 4);
            assert.ok((await colors(other, 'lane lane 2')) >= 3);
            await press(other, '8');
            await other.getByRole('button', { name: 'Orders ✕' }).click();
            await settled(other);
            assert.equal(await other.locator('.label.pinned').count(), 1);
        });
    }));

/** Returns the widths of the bars of a chart by the texts that they show under the mouse. */
const bars = (chart) => chart.locator('rect').evaluateAll((all) => Object.fromEntries(all.map((it) => [it.textContent, Number(it.getAttribute('width'))])));

test('results are drawn as charts, which are kept together, run again, moved and removed', (t) =>
    inTab(t, async (page, url) => {
        await run(page, 'SELECT name, sum(dur) AS dur FROM slice GROUP BY name');
        await page.getByRole('button', { name: 'Chart…' }).click();
        const drawn = await bars(page.locator('.preview svg'));
        assert.deepEqual(Object.keys(drawn), ['offer: 20 ms', 'order: 20 ms', 'check: 16.23 ms']);
        assert.ok(Math.abs(drawn['check: 16.23 ms'] / drawn['offer: 20 ms'] - 16.225 / 20) < 0.01);
        await page.getByLabel('Chart: title').fill('Time by name');
        await page.getByRole('button', { name: 'Keep' }).click();
        await settled(page);
        await press(page, '8');
        await run(page, 'SELECT ts, value FROM counter');
        await page.getByRole('button', { name: 'Chart…' }).click();
        await page.getByRole('button', { name: 'Keep' }).click();
        await settled(page);
        await press(page, '8');
        await run(page, "SELECT dur, name FROM slice WHERE name <> 'check'");
        await page.getByRole('button', { name: 'Chart…' }).click();
        await page.getByLabel('Chart: draw').selectOption('histogram');
        await page.getByLabel('Chart: colours by').selectOption('name');
        await page.getByRole('button', { name: 'Keep' }).click();
        await settled(page);
        const titles = (of) => of.locator('.charts figcaption .what').allInnerTexts();
        assert.deepEqual(await titles(page), ['Time by name', 'value over ts', 'dur and name']);
        // The line falls from the first value to the last.
        const line = (await page.locator('.charts polyline').getAttribute('points')).split(' ').map((point) => point.split(',').map(Number));
        assert.equal(line.length, 50);
        assert.ok(line.every(([x, y], i) => i === 0 || (x > line[i - 1][0] && y > line[i - 1][1])));
        assert.deepEqual(await page.locator('.charts figure').nth(2).locator('svg text').allTextContents().then((all) => all.slice(0, 2).sort()), ['offer', 'order']);
        for (const theme of ['dark', 'light']) {
            await command(page, 'Set: theme', theme);
            assert.deepEqual(await faults(page), [], theme);
        }
        await page.getByLabel('Move to the front: value over ts').click();
        await settled(page);
        // The address draws them again, with the results of this trace.
        await visit(browser, url + (await page.evaluate(() => location.hash)), async (other) => {
            await other.locator('.charts polyline').waitFor();
            await settled(other);
            assert.deepEqual(await titles(other), ['value over ts', 'Time by name', 'dur and name']);
            assert.equal(Object.keys(await bars(other.locator('.charts figure').nth(1))).length, 3);
            await other.getByLabel('Remove: Time by name').click();
            await settled(other);
            assert.deepEqual(await titles(other), ['value over ts', 'dur and name']);
            assert.doesNotMatch(await other.evaluate(() => location.hash), /Time%20by/);
            await other.getByLabel('Edit the query: dur and name').click();
            await settled(other);
            assert.match(await area(other).inputValue(), /WHERE name <> 'check'/);
        });
    }));

test('without the program, the tab says how to get it', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    await served(dir, ['shop.json'], (url) =>
        visit(browser, url, async (page) => {
            await press(page, '8');
            assert.match(await page.locator('#content').innerText(), /cargo install --path query/);
        }), { sql: false });
});

test('an exported file says where SQL is', async () => {
    await visit(browser, dir.write('server.html', server().html()), async (page) => {
        await press(page, '8');
        assert.match(await page.locator('#content').innerText(), /exported file has no SQL[^]*ferretto query test\.pftrace/);
    });
});
