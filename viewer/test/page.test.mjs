// The page in use, with the network blocked.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { clickEvent, folder, launch, open, pixel, press, row, seen, settled, span, visit, xOf } from './browser.mjs';
import { embed, frame, Kind, Trace } from './fixture.mjs';
import { deep, hostile, NAMES, nothing, server } from './traces.mjs';

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

const on = (address, work, options) => visit(browser, address, work, options);
const content = (page) => page.locator('#content').innerText();

test('a file opens without a network, and shows the whole trace', () =>
    on(url, async (page) => {
        assert.equal(await page.title(), 'test.pftrace – Ferretto');
        const [from, to] = await span(page);
        assert.ok(from < 0 && to > 205 * MS);
        for (const name of ['Machine', 'CPU 0', 'server 100', 'worker-1', 'client 200', 'caller']) assert.ok(await row(page, name), name);
    }));

test('zoom keeps the time under the mouse in place', () =>
    on(url, async (page) => {
        const x = await xOf(page, 100 * MS);
        const { y, height } = await page.locator('#stage').boundingBox();
        await page.mouse.move(x, y + height / 2);
        const before = await span(page);
        await page.keyboard.down('Control');
        await page.mouse.wheel(0, -240);
        await page.keyboard.up('Control');
        await settled(page);
        const after = await span(page);
        assert.ok(after[1] - after[0] < 0.7 * (before[1] - before[0]));
        assert.ok(Math.abs((await xOf(page, 100 * MS)) - x) < 1.5);
    }));

test('swipes, Shift with the wheel, and Shift with dragging pan', () =>
    on(url, async (page) => {
        await press(page, 'w', 'w', 'w');
        const { x, y, width } = await page.locator('#stage').boundingBox();
        await page.mouse.move(x + width / 2, y + 200);
        const moved = async (act) => {
            const [before] = await span(page);
            await act();
            await settled(page);
            return (await span(page))[0] - before;
        };
        assert.ok((await moved(() => page.mouse.wheel(100, 0))) > 0);
        assert.ok((await moved(() => page.mouse.wheel(-50, 0))) < 0);
        await page.keyboard.down('Shift');
        assert.ok((await moved(() => page.mouse.wheel(0, 80))) > 0);
        const dragged = await moved(async () => {
            await page.mouse.down();
            await page.mouse.move(x + width / 2 + 120, y + 200, { steps: 3 });
            await page.mouse.up();
        });
        await page.keyboard.up('Shift');
        assert.ok(dragged < 0);
    }));

test('a click selects an event and shows its arguments, parents and thread', () =>
    on(url, async (page) => {
        await clickEvent(page, 'caller', 34 * MS);
        const text = await content(page);
        assert.match(text, /call 3/);
        assert.match(text, /9 ms/);
        assert.match(text, /\/item\/3/);
        assert.match(text, /client 200/);
        assert.equal((await seen(page)).get('tab'), 'details');
        assert.match(await page.locator('#status').innerText(), /call 3, 9 ms, on caller/);
        await page.keyboard.press('Escape');
        await settled(page);
        assert.equal((await seen(page)).has('event'), false);
    }));

test('keys and links select parents and children', () =>
    on(url, async (page) => {
        const { y } = await row(page, 'worker-1');
        await page.mouse.click(await xOf(page, 4 * MS), y + 35);
        await settled(page);
        assert.match(await content(page), /request/);
        await press(page, '>');
        assert.match(await content(page), /^parse/);
        await press(page, '.');
        assert.match(await content(page), /^query/);
        assert.match(await content(page), /SELECT 1/);
        await press(page, '>');
        assert.match(await content(page), /^wait/);
        await page.locator('#content').getByRole('button', { name: 'query' }).click();
        await settled(page);
        assert.match(await content(page), /^query/);
        await press(page, '<');
        assert.match(await content(page), /^request/);
    }));

test('keys and links follow a flow forward and back', () =>
    on(url, async (page) => {
        await clickEvent(page, 'caller', 4 * MS);
        assert.match(await content(page), /Flows from here\s+accept/);
        await press(page, ']');
        assert.match(await content(page), /^accept/);
        await press(page, ']');
        assert.match(await content(page), /^request/);
        await press(page, '[', '[');
        assert.match(await content(page), /^call 0/);
        await page.locator('#content').getByRole('button', { name: 'accept' }).click();
        await settled(page);
        assert.match(await content(page), /^accept/);
    }));

test('details of a CPU slice include the waker of its thread', () =>
    on(url, async (page) => {
        await clickEvent(page, 'CPU 1', 3 * MS);
        const text = await content(page);
        assert.match(text, /worker-1/);
        assert.match(text, /Waited for a CPU\s+500 µs/);
        assert.match(text, /accept 101 woke worker-1 102/);
        await page.locator('#content section', { hasText: 'Woken by' }).last().getByRole('button').first().click();
        await settled(page);
        assert.match(await content(page), /accept 101/);
    }));

test('search counts matches and selects one after the other', () =>
    on(url, async (page) => {
        await press(page, '/');
        await page.keyboard.type('request');
        await press(page, 'Enter');
        assert.match(await page.locator('#hits').innerText(), /^1 of 40$/);
        await press(page, 'Escape', 'n');
        assert.match(await page.locator('#hits').innerText(), /^2 of 40$/);
        await press(page, 'Shift+N');
        assert.match(await page.locator('#hits').innerText(), /^1 of 40$/);
        await press(page, '/');
        await page.locator('#query').fill('status=500');
        await press(page, 'Enter');
        assert.match(await page.locator('#hits').innerText(), /^1 of 1$/);
        assert.equal((await seen(page)).get('find'), 'status%3D500');
        await page.locator('#query').fill('nowhere to be found');
        await press(page, 'Enter');
        assert.match(await page.locator('#hits').innerText(), /No match/);
    }));

test('a long list of matches is shown in parts, and keys reach all of them', async () => {
    const trace = new Trace();
    const thread = trace.node(trace.node(-1, Kind.Process, 'loop', { number: 1 }), Kind.Thread, 'main', { number: 1 });
    const slices = trace.node(thread, Kind.Slices, 'main');
    for (let i = 0; i < 1000; i++) trace.slice(slices, i * 1000, 500, `turn ${i}`, { args: { even: i % 2 === 0 ? 'yes' : 'no' } });
    await on(dir.write('turns.html', trace.html()), async (page) => {
        const hits = () => page.locator('#hits').innerText();
        const listed = () => page.locator('#content tbody tr').count();
        await press(page, '/');
        await page.keyboard.type('turn');
        await press(page, 'Enter');
        assert.equal(await hits(), '1 of 1,000');
        assert.equal(await listed(), 300);
        await page.getByRole('button', { name: 'Show more' }).click();
        await settled(page);
        assert.equal(await listed(), 600);
        await page.getByRole('button', { name: 'turn 599', exact: true }).click();
        await settled(page);
        assert.equal(await hits(), '600 of 1,000');
        await page.getByRole('button', { name: 'Show earlier ones' }).click();
        await settled(page);
        assert.equal(await listed(), 600);
        await page.getByRole('button', { name: 'turn 150', exact: true }).scrollIntoViewIfNeeded();
        // From the search field, by buttons and by keys, and past the end.
        await press(page, 'n');
        assert.equal(await hits(), '601 of 1,000');
        assert.equal(await page.locator('#content [aria-current]').innerText().then((text) => /turn 600/.test(text)), true);
        const current = await page.locator('#content [aria-current]').boundingBox();
        const content = await page.locator('#content').boundingBox();
        assert.ok(current.y >= content.y - 1 && current.y + current.height <= content.y + content.height + 1);
        await page.getByLabel('Previous match').click();
        await page.getByLabel('Next match').click();
        await settled(page);
        assert.equal(await hits(), '601 of 1,000');
        await press(page, '/', 'Enter');
        assert.equal(await hits(), '602 of 1,000');
        await page.locator('#query').fill('even=no');
        await press(page, 'Enter');
        assert.match(await hits(), / of 500$/);
        await press(page, 'Escape', 'Home');
        await page.locator('#query').fill('turn 99');
        await press(page, 'Enter', 'Escape');
        assert.equal(await hits(), '1 of 11');
        await press(page, 'Shift+N');
        assert.equal(await hits(), '11 of 11');
        await press(page, 'n');
        assert.equal(await hits(), '1 of 11');
    });
});

test('one finger pans, and two fingers zoom at their position', () =>
    on(url, async (page) => {
        const { x, y, width } = await page.locator('#stage').boundingBox();
        const session = await page.context().newCDPSession(page);
        const touch = (type, ...points) =>
            session.send('Input.dispatchTouchEvent', { type, touchPoints: points.map(([dx, dy], id) => ({ x: x + dx, y: y + dy, id })) });
        const middle = width / 2;
        const under = await xOf(page, 100 * MS);
        const at = under - x;
        const before = await span(page);
        await touch('touchStart', [at - 50, 300]);
        await touch('touchStart', [at - 50, 300], [at + 50, 300]);
        for (const by of [60, 80, 100]) await touch('touchMove', [at - by, 300], [at + by, 300]);
        await touch('touchEnd');
        await settled(page);
        const after = await span(page);
        assert.ok(Math.abs((after[1] - after[0]) / (before[1] - before[0]) - 0.5) < 0.02, `${before} became ${after}`);
        assert.ok(Math.abs((await xOf(page, 100 * MS)) - under) < 3, `${under} became ${await xOf(page, 100 * MS)}`);
        assert.equal((await seen(page)).has('event'), false);
        await touch('touchStart', [middle, 300]);
        for (const by of [20, 60, 120]) await touch('touchMove', [middle - by, 300]);
        await touch('touchEnd');
        await settled(page);
        const panned = await span(page);
        assert.ok(panned[0] > after[0] && Math.abs(panned[1] - panned[0] - after[1] + after[0]) < 10);
        // A tap selects.
        const caller = await row(page, 'caller');
        const call = (await xOf(page, 104 * MS)) - x;
        await touch('touchStart', [call, caller.y - y + 12]);
        await touch('touchEnd');
        await settled(page);
        assert.match(await content(page), /^call 10/);
    }, { hasTouch: true }));

const drag = async (page, from, to, y0, y1 = y0) => {
    await page.mouse.move(await xOf(page, from), y0);
    await page.mouse.down();
    await page.mouse.move(await xOf(page, to), y1, { steps: 4 });
    await page.mouse.up();
    await settled(page);
};

test('a box has statistics of names, CPU time and counters', () =>
    on(url, async (page) => {
        const { y } = await row(page, 'caller');
        await drag(page, 19 * MS, 50.5 * MS, y + 10);
        let text = await content(page);
        assert.match(text, /Slices by name/);
        assert.match(text, /call 2\s+1\s+9 ms/);
        assert.doesNotMatch(text, /request/);
        const ruler = (await page.locator('#stage').boundingBox()).y + 50;
        await drag(page, 20 * MS, 60 * MS, ruler);
        text = await content(page);
        assert.match(text, /request\s+4\s+24 ms\s+4 ms/);
        assert.match(text, /CPU time by thread/);
        assert.match(text, /worker-1 102\s+12 ms\s+30 %/);
        assert.match(text, /rss/);
        assert.match(text, /Sleeping/);
    }));

const share = (page) => page.locator('.flamefoot').innerText();

test('a flamegraph of a range can be zoomed, searched, inverted and compared', () =>
    on(url, async (page) => {
        const ruler = (await page.locator('#stage').boundingBox()).y + 50;
        await page.getByRole('tab', { name: 'Flamegraph' }).click();
        await settled(page);
        assert.match(await share(page), /240 samples of the whole trace/);
        await drag(page, 0, 50 * MS, ruler);
        assert.match(await share(page), /60 samples of 50 ms/);
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown');
        assert.match(await share(page), /main: 60 samples, 100 %/);
        await press(page, 'ArrowDown', 'ArrowDown');
        const first = await share(page);
        assert.match(first, /(parse|query): \d+ samples/);
        await press(page, 'Enter');
        assert.equal(await page.getByRole('button', { name: 'Whole graph' }).isEnabled(), true);
        await press(page, 'Backspace');
        await page.getByLabel('Search functions').fill('compare');
        await settled(page);
        assert.match(await share(page), /“compare”: [\d.]+ %/);
        await page.getByLabel('Search functions').fill('');
        await page.getByRole('button', { name: 'Invert' }).click();
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown');
        assert.match(await share(page), /(utf8|compare): \d+ samples/);
        await page.getByRole('button', { name: 'Invert' }).click();
        await page.keyboard.press('b');
        await drag(page, 100 * MS, 150 * MS, ruler);
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown', 'ArrowDown', 'ArrowDown');
        assert.match(await share(page), /points \(before: [\d.]+ %\)/);
        await page.getByLabel('Grouped').selectOption('thread');
        await settled(page);
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown');
        assert.match(await share(page), /worker-\d 10\d: \d+ samples/);
    }));

test('a flamegraph is compared with that of another file', () =>
    on(url, async (page) => {
        const other = server();
        other.rows.samples.splice(0, 120);
        dir.write('other.html', other.html());
        await page.getByRole('tab', { name: 'Flamegraph' }).click();
        await settled(page);
        const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByLabel('Compare with').selectOption('file')]);
        await chooser.setFiles(`${dir.path}/other.html`);
        await page.waitForFunction(() => document.querySelector('select[aria-label="Compare with"]').selectedOptions[0].textContent === 'other.html');
        await settled(page);
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown', 'ArrowDown', 'ArrowDown');
        assert.match(await share(page), /points \(before: [\d.]+ %\)/);
    }));

test('waiting times and heaps have flamegraphs', async () => {
    const trace = new Trace();
    trace.header.profiles = [
        { id: 0, kind: 'cpu', name: 'CPU samples', unit: 'samples' },
        { id: 1, kind: 'offcpu', name: 'Waiting', unit: 'ns' },
        { id: 2, kind: 'heap', name: 'malloc: not freed', unit: 'bytes' },
    ];
    const process = trace.node(-1, Kind.Process, 'server', { number: 1 });
    const thread = trace.node(process, Kind.Thread, 'main', { number: 1 });
    const samples = trace.node(thread, Kind.Samples, 'samples');
    const slices = trace.node(thread, Kind.Slices, 'main');
    const dumps = trace.node(process, Kind.Heap, 'dumps');
    trace.slice(slices, 0, 10 * MS, 'all of it');
    for (let i = 0; i < 10; i++) {
        trace.add('samples', samples, { start: i * MS, profile: 0, callsite: trace.callsite('main', 'compute'), weight: 1 });
        trace.add('samples', samples, { start: i * MS + 10, profile: 1, callsite: trace.callsite('main', 'recv', 'poll'), weight: 300_000 });
    }
    for (const [start, weight] of [[2 * MS, 1 << 20], [8 * MS, 3 << 20]]) {
        trace.add('heap', dumps, { start, process, profile: 2, callsite: trace.callsite('main', 'load', 'Vec::with_capacity'), weight });
    }
    await on(dir.write('profiles.html', trace.html()), async (page) => {
        await press(page, 'Home', '3');
        assert.match(await share(page), /^10 samples of the whole trace/);
        await page.getByLabel('Samples').selectOption({ label: 'Waiting' });
        await settled(page);
        assert.match(await share(page), /^3 ms of the whole trace/);
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown', 'ArrowDown', 'ArrowDown');
        assert.match(await share(page), /poll: 3 ms, 100 %/);
        await page.getByLabel('Samples').selectOption({ label: 'malloc: not freed' });
        await settled(page);
        assert.match(await share(page), /^4 MiB of the whole trace/);
        const ruler = (await page.locator('#stage').boundingBox()).y + 50;
        await drag(page, 7 * MS, 9 * MS, ruler);
        await page.getByLabel('Grouped').selectOption('process');
        await settled(page);
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown');
        assert.match(await share(page), /server 1: 3 MiB, 100 %/);
    });
});

test('the heap that was recorded comes first, in the picture and in the contents', async () => {
    const trace = new Trace();
    trace.header.profiles = [{ id: 0, kind: 'heap', name: 'malloc: not freed', unit: 'bytes' }];
    const process = trace.node(-1, Kind.Process, 'server', { number: 1 });
    for (let number = 1; number < 4; number++) {
        const thread = trace.node(process, Kind.Thread, `worker ${number}`, { number });
        trace.slice(trace.node(thread, Kind.Slices, `worker ${number}`), 0, 10 * MS, 'work');
    }
    trace.counter(trace.node(process, Kind.Counter, 'rss', { unit: 'bytes' }), 1 * MS, 1 << 20);
    const heap = trace.node(process, Kind.Heap, 'Heap', { subject: 1 });
    trace.add('heap', heap, { start: 5 * MS, process, profile: 0, callsite: trace.callsite('main', 'load'), weight: 1 << 20 });
    await on(dir.write('heap.html', trace.html()), async (page) => {
        const names = await page.locator('#labels .label:visible .what').allInnerTexts();
        assert.deepEqual(names.slice(0, 2).map((name) => name.split('\n')[0]), ['server 1', 'Heap']);
        await press(page, 'Home', '6');
        const contents = page.locator('#content dt');
        assert.match(await contents.first().innerText(), /^Heap of server 1$/);
        await contents.first().locator('button').click();
        await press(page, '.');
        assert.match(await page.locator('#content').innerText(), /Heap\nStart\n0\.005/);
    });
});

test('processes without events come last, unless there is nothing else', async () => {
    for (const [subject, order] of [
        [1, ['vda', 'Counters', 'shell 7']],
        [0, ['shell 7', 'Counters']],
    ]) {
        const trace = new Trace();
        const machine = trace.node(-1, Kind.Machine, 'Machine');
        if (subject) trace.slice(trace.node(machine, Kind.Slices, 'vda', { subject }), 0, 5 * MS, 'write');
        const shell = trace.node(machine, Kind.Process, 'shell', { number: 7 });
        const counters = trace.node(machine, Kind.Group, 'Counters');
        for (const counter of [trace.node(shell, Kind.Counter, 'rss'), trace.node(counters, Kind.Counter, 'faults')]) trace.counter(counter, 5 * MS, 1);
        await on(dir.write(`quiet-${subject}.html`, trace.html()), async (page) => {
            const names = await page.locator('#labels .label:visible .what').allInnerTexts();
            assert.deepEqual(names.slice(1), order);
        });
    }
});

test('the closed row of a process with counters draws its memory, and opens to all of them', async () => {
    const trace = new Trace();
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    trace.slice(trace.node(machine, Kind.Slices, 'vda', { subject: 1 }), 0, 5 * MS, 'write');
    const shell = trace.node(machine, Kind.Process, 'shell', { number: 7 });
    const counters = trace.node(shell, Kind.Group, 'Counters');
    for (const [name, value] of [['faults', 3], ['mem.rss', 8_000_000], ['threads', 1]]) {
        const node = trace.node(counters, Kind.Counter, name, { unit: name === 'mem.rss' ? 'bytes' : '' });
        trace.counter(node, 1 * MS, value);
    }
    await on(dir.write('memory.html', trace.html()), async (page) => {
        const names = () => page.locator('#labels .label:visible .what').allInnerTexts();
        assert.deepEqual((await names()).slice(1), ['vda', 'shell 7']);
        await clickEvent(page, 'shell', 3 * MS, 12);
        assert.match(await content(page), /mem\.rss[^]*7\.6 MiB/);
        await page.locator('#labels .label', { hasText: 'shell 7' }).click();
        await settled(page);
        assert.deepEqual((await names()).slice(1), ['vda', 'shell 7', 'Counters', 'faults', 'mem.rss', 'threads']);
    });
});

test('the picture has a frame for the keyboard, not for the mouse', () =>
    on(url, async (page) => {
        const frame = () => page.locator('#stage').evaluate((stage) => [document.activeElement === stage, getComputedStyle(stage).outlineStyle]);
        await clickEvent(page, 'worker-1', 3 * MS, 12);
        assert.deepEqual(await frame(), [true, 'none']);
        await press(page, 'w');
        assert.deepEqual(await frame(), [true, 'solid']);
    }));

test('a click on a listed message shows its time', () =>
    on(url, async (page) => {
        await page.getByRole('tab', { name: 'Log' }).click();
        await settled(page);
        assert.match(await content(page), /20 lines/);
        assert.match(await content(page), /error\s+worker-2\s+server\s+request 13 is read/);
        await page.locator('.lines tbody tr').nth(13).getByRole('button').click();
        await settled(page);
        assert.match(await content(page), /Text\s+request 13 is read/);
    }));

test('rows can be pinned, closed, filtered and moved', () =>
    on(url, async (page) => {
        const names = () => page.locator('#labels .label:visible .what').allInnerTexts();
        await page.locator('#labels .label', { hasText: 'rss' }).hover();
        await page.locator('#labels .label:visible', { hasText: 'rss' }).locator('.pin').click();
        await settled(page);
        assert.equal((await names())[0], 'rss');
        assert.ok((await seen(page)).get('pin'));
        await page.locator('#labels .label:not(.pinned)', { hasText: 'server 100' }).click();
        await settled(page);
        assert.equal((await names()).includes('worker-1'), false);
        await page.getByLabel('Filter tracks').fill('caller');
        await settled(page);
        assert.deepEqual((await names()).slice(1), ['Machine', 'client 200']);
        await page.getByLabel('Filter tracks').fill('');
        await settled(page);
        await page.locator('#labels .label:not(.pinned)', { hasText: 'CPU 0' }).click();
        await press(page, 'Shift+ArrowDown');
        const order = await names();
        assert.ok(order.indexOf('CPU 1') < order.indexOf('CPU 0'));
    }));

test('a process with a single thread has one row', async () => {
    await on(url, async (page) => {
        const label = page.locator('#labels .label', { hasText: 'client 200' });
        assert.equal(await label.locator('.meta').innerText(), 'caller');
        assert.match(await label.getAttribute('title'), /^client 200, thread caller 201/);
        assert.equal(await label.getAttribute('aria-expanded'), null);
        await clickEvent(page, 'client 200', 34 * MS);
        assert.match(await content(page), /^call 3[^]*Thread\s+caller/);
        await page.locator('#content').getByRole('button', { name: /caller/ }).first().click();
        await settled(page);
        assert.match(await page.locator('#labels .focus').innerText(), /client 200/);
    });
    await on(dir.write('deep.html', deep().html()), async (page) => {
        const label = page.locator('#labels .label', { hasText: 'server 1' });
        for (const open of [false, true, false]) {
            assert.equal(await label.getAttribute('aria-expanded'), String(open));
            assert.equal((await row(page, 'main')).height > 12 * 16, open);
            await label.click();
            await settled(page);
        }
    });
});

test('states of ended threads and states without duration are not drawn', () => {
    const trace = new Trace();
    const thread = trace.node(trace.node(-1, Kind.Process, 'shell', { number: 1 }), Kind.Thread, 'shell', { number: 1 });
    const states = trace.node(thread, Kind.States, 'states');
    trace.add('states', states, { start: 0, dur: 0, state: 'R' });
    ['S', 'X', 'S', 'Z'].forEach((state, i) => trace.add('states', states, { start: 10 * i * MS, dur: 10 * MS, state }));
    return on(dir.write('ended.html', trace.html()), async (page) => {
        const { y } = await row(page, 'shell');
        const stage = await page.locator('#stage').boundingBox();
        const drawn = [];
        const has = (id, at) => page.evaluate(({ id, x, y }) => document.getElementById(id).getContext('2d').getImageData(x, y, 1, 1).data[3] > 0, { id, ...at });
        for (const time of [6, 16, 26, 36]) {
            const at = { x: (await xOf(page, time * MS)) - stage.x, y: y - stage.y + 8 };
            drawn.push(await has('boxes', at));
        }
        assert.deepEqual(drawn, [true, false, true, false]);
        // An instant would extend to the left of its time.
        assert.equal(await has('boxes', { x: (await xOf(page, 0)) - stage.x - 3, y: y - stage.y + 8 }), false);
    });
});

test('many instants are drawn as diamonds without paths', async () => {
    const trace = new Trace();
    const process = trace.node(-1, Kind.Process, 'bus', { number: 1 });
    const track = trace.node(process, Kind.Slices, 'signals');
    trace.slice(track, 0, 0, 'first');
    for (let i = 0; i < 3000; i++) trace.slice(track, (100 + i / 1000) * MS, 0, 'signal');
    trace.slice(track, 200 * MS, 0, 'last');
    const count = () => {
        window.paths = 0;
        const { lineTo } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.lineTo = function (...at) {
            window.paths += 1;
            return lineTo.apply(this, at);
        };
    };
    await on(dir.write('instants.html', trace.html()), async (page) => {
        const { y } = await row(page, 'signals');
        const stage = await page.locator('#stage').boundingBox();
        const at = { x: Math.round((await xOf(page, 200 * MS)) - stage.x), y: Math.round(y - stage.y) };
        const drawn = (x, y) => pixel(page, 'boxes', { x: at.x + x, y: at.y + y });
        const height = (await row(page, 'signals')).height;
        const colour = await drawn(0, Math.round(height / 2));
        assert.deepEqual(await drawn(-2, Math.round(height / 2)), colour);
        assert.notDeepEqual(await drawn(-3, 5), colour, 'it is narrow at the top');
        await page.evaluate(count);
        await press(page, 's', 'w');
        assert.equal(await page.evaluate(() => window.paths), 0);
    });
});

test('pictures that follow each other change the address once, at their end', () =>
    on(url, async (page) => {
        const written = await page.evaluate(async () => {
            let written = 0;
            const { replaceState } = history;
            history.replaceState = function (...to) {
                written += 1;
                return replaceState.apply(this, to);
            };
            const stage = document.getElementById('stage');
            const { left, top } = stage.getBoundingClientRect();
            for (let i = 0; i < 20; i++) {
                stage.dispatchEvent(new WheelEvent('wheel', { clientX: left + 300, clientY: top + 200, bubbles: true, cancelable: true, ctrlKey: true, deltaY: -10 }));
                await new Promise(requestAnimationFrame);
            }
            const before = written;
            while (document.documentElement.dataset.busy === '1') await new Promise(requestAnimationFrame);
            return [before, written];
        });
        assert.deepEqual(written, [0, 1]);
        const [from, to] = await span(page);
        assert.ok(to - from < 150 * MS, 'the address has the last view');
    }));

test('the first picture is drawn without locale functions of the browser', async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, offline: true });
    const page = await context.newPage();
    await page.addInitScript(() => {
        window.asked = 0;
        for (const type of [Number, Date]) {
            for (const name of ['toLocaleString', 'toLocaleTimeString', 'toLocaleDateString']) {
                if (type.prototype[name]) type.prototype[name] = () => String((window.asked += 1));
            }
        }
    });
    await page.goto(url);
    await settled(page);
    assert.equal(await page.evaluate(() => window.asked), 0);
    await context.close();
});

test('deep tracks have a reduced height until they are opened', async () => {
    const address = dir.write('deep.html', deep().html());
    await on(address, async (page) => {
        const height = async (name) => (await row(page, name)).height;
        const bounded = await height('requests');
        assert.ok(bounded < 200, `${bounded} pixels`);
        assert.ok((await height('main')) < 200);
        const stage = await page.locator('#stage').boundingBox();
        const process = await row(page, 'server');
        assert.ok(process.y + 30 < stage.y + stage.height / 2);
        // Inner slices are stripes, which can be clicked.
        const { y } = await row(page, 'requests');
        await page.mouse.click(await xOf(page, 50 * MS), y + 2 + 6 * 18 + 3 * 4 + 1);
        await settled(page);
        assert.match(await content(page), /^request 10/);
        assert.equal(await height('requests'), bounded);
        // By a click and by a key.
        await page.locator('#labels .label', { hasText: 'requests' }).locator('.twist').click();
        await settled(page);
        assert.ok((await height('requests')) > 30 * 16);
        await press(page, 'g', 'ArrowLeft');
        assert.equal(await height('requests'), bounded);
        await press(page, 'ArrowRight');
        assert.ok((await height('requests')) > 30 * 16);
        await press(page, 'ArrowLeft');
        // A match is drawn high enough for its name.
        await press(page, '/');
        await page.locator('#query').fill('call 11');
        await press(page, 'Enter', 'Escape');
        assert.ok((await height('main')) > 12 * 16);
    });
    // With enough room, the track has its full height.
    await on(address, async (page) => {
        assert.ok((await row(page, 'requests')).height > 30 * 16);
    }, { viewport: { width: 1280, height: 1400 } });
});

test('the panel is closed until it has content', () =>
    on(url, async (page) => {
        const shown = () => page.locator('#content').isVisible();
        const hint = () => page.locator('#hint').isVisible();
        assert.deepEqual([await shown(), await hint()], [false, true]);
        const { height } = await page.locator('#stage').boundingBox();
        await clickEvent(page, 'caller', 34 * MS);
        assert.deepEqual([await shown(), await hint()], [true, false]);
        assert.ok((await page.locator('#stage').boundingBox()).height < height);
        await press(page, '0');
        assert.equal(await shown(), false);
        assert.equal((await seen(page)).has('tab'), false);
        await press(page, '6');
        assert.match(await content(page), /CPU 2 was not recorded/);
        await page.getByRole('tab', { name: 'Trace' }).click();
        await settled(page);
        assert.equal(await shown(), false);
        await page.getByRole('tab', { name: 'Trace' }).click();
        await page.getByLabel('Close the panel').click();
        await settled(page);
        assert.equal(await shown(), false);
        // Dragging its edge opens the panel as well, and the selected row stays in sight.
        const edge = await page.locator('#panel-edge').boundingBox();
        await page.mouse.move(edge.x + 300, edge.y + 2);
        await page.mouse.down();
        await page.mouse.move(edge.x + 300, edge.y - 300, { steps: 3 });
        await page.mouse.up();
        await settled(page);
        assert.equal(await shown(), true);
        const stage = await page.locator('#stage').boundingBox();
        const selected = await row(page, 'caller');
        assert.ok(selected && selected.y < stage.y + stage.height);
    }));

test('the page can be used by keyboard alone', () =>
    on(url, async (page) => {
        await press(page, 'g');
        assert.equal(await page.evaluate(() => document.activeElement.id), 'labels');
        const active = () => page.evaluate(() => document.getElementById(document.getElementById('labels').getAttribute('aria-activedescendant'))?.querySelector('.what').textContent);
        assert.equal(await active(), 'Machine');
        await press(page, 'ArrowDown', 'ArrowDown', 'ArrowDown');
        assert.equal(await active(), 'server 100');
        await press(page, 'ArrowLeft');
        assert.equal(await page.locator('#labels .label.focus').getAttribute('aria-expanded'), 'false');
        await press(page, 'ArrowRight');
        await press(page, 'ArrowDown');
        assert.equal(await active(), 'accept');
        await press(page, 'Enter');
        assert.match(await content(page), /^accept/);
        await press(page, '.', '.');
        assert.match(await content(page), /20\.|0\.020 500 000 s/);
        await press(page, 'f');
        const [from, to] = await span(page);
        assert.ok(to - from < 1 * MS);
        await press(page, 'm');
        assert.match(await content(page), /^500 µs/);
        await press(page, '3');
        assert.equal((await seen(page)).get('tab'), 'flame');
        await press(page, '2', 'Home');
        assert.ok((await span(page))[1] > 205 * MS);
        const before = await span(page);
        await press(page, 'w', 'd');
        const after = await span(page);
        assert.ok(after[1] - after[0] < before[1] - before[0]);
        await press(page, 'v', 'p', '?');
        assert.equal(await page.locator('#help').isVisible(), true);
        await press(page, 'Escape');
        assert.equal(await page.locator('#help').isVisible(), false);
        await press(page, 't');
        assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
        // Every control is reachable, and the order ends.
        const reached = new Set();
        const ids = ['query', 'zoom-in', 'help-open', 'filter', 'labels', 'stage', 'panel-edge', 'content'];
        for (let i = 0; i < 400 && !ids.every((id) => reached.has(id)); i++) {
            await page.keyboard.press('Tab');
            reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent));
        }
        for (const id of ids) assert.ok(reached.has(id), id);
    }));

test('an address restores the view', () =>
    on(url, async (page) => {
        await press(page, 'w', 'w', 'd');
        await clickEvent(page, 'caller', 104 * MS);
        const hash = await page.evaluate(() => location.hash);
        await on(url + hash, async (again) => {
            assert.equal(await again.evaluate(() => location.hash), hash);
            assert.match(await content(again), /^call 10/);
        });
        // An invalid address is ignored.
        await on(`${url}#at=x,NaN&event=9999,0,-1,e&range=5&pin=77.-1&find=%E0%A4%A&tab=constructor&y=1e99`, async (again) => {
            assert.equal((await seen(again)).has('tab'), false);
            assert.equal((await seen(again)).has('event'), false);
        });
    }));

test('lost data is marked and listed', () =>
    on(url, async (page) => {
        const { y } = await page.locator('#stage').boundingBox();
        await page.mouse.move(await xOf(page, 150 * MS), y + 65);
        await settled(page);
        assert.match(await page.locator('#tip').innerText(), /37 packets of the buffer were overwritten/);
        await press(page, '6');
        assert.match(await content(page), /CPU 2 was not recorded/);
        assert.match(await content(page), /37 packets/);
    }));

test('many losses are marked in the ruler without hiding the rows', async () => {
    // Also many in one place.
    for (const [number, apart] of [
        [2, 1],
        [40, 1],
        [40, 0.001],
    ]) {
        const trace = server();
        trace.header.losses = Array.from({ length: number }, (_, i) => ({ start: (50 + i * apart) * MS, dur: 0, node: null, text: `loss ${i}` }));
        await on(dir.write(`lost-${number}-${apart}.html`, trace.html()), async (page) => {
            const stage = await page.locator('#stage').boundingBox();
            const x = Math.round((await xOf(page, 50 * MS)) - stage.x);
            const opacity = (y) => page.evaluate(({ x, y }) => Math.max(...[-1, 0, 1].map((by) => document.getElementById('letters').getContext('2d').getImageData(x + by, y, 1, 1).data[3])), { x, y });
            assert.ok((await opacity(67)) > 200);
            const isMark = (y) => page.evaluate(({ x, y }) => {
                const [red, green, , alpha] = document.getElementById('letters').getContext('2d').getImageData(x, y, 1, 1).data;
                return alpha > 120 && red > 2 * green;
            }, { x, y });
            assert.deepEqual([await isMark(62), await isMark(67)], [false, true], 'the mark is below the times of day');
            const inRows = await opacity(Math.round(stage.height) - 20);
            assert.ok(number === 2 ? inRows > 120 : inRows < 80, `${number} losses: ${inRows}`);
        });
    }
});

test('an empty trace has a message', async () => {
    const empty = dir.write('empty.html', nothing().html());
    await on(empty, async (page) => {
        assert.match(await page.locator('#empty').innerText(), /no events to draw/);
        await press(page, '6');
        assert.match(await content(page), /No data source wrote anything/);
        for (const tab of ['2', '3', '4', '5']) await press(page, tab);
        await press(page, 'w', 's', 'a', 'd', 'f', 'e', '.', ']', 'v', 'm', 'p', 'Escape', 'ArrowDown', 'Enter');
    });
});

test('texts of traces are not markup, and may be written from right to left', async () => {
    const address = dir.write('hostile.html', hostile().html());
    await on(address, async (page) => {
        const visible = async () => page.evaluate(() => document.body.innerText);
        for (const tab of ['6', '4', '5', '3', '2', '1']) await press(page, tab);
        await press(page, 'v');
        const { x, y } = await page.locator('#stage').boundingBox();
        for (const [i, name] of NAMES.entries()) {
            const label = page.locator('#labels .label:visible:not(.group)', { has: page.locator('.meta', { hasText: new RegExp(`^${i}$`) }) }).first();
            if ((await label.count()) === 0) continue;
            const box = await label.boundingBox();
            await page.mouse.move(await xOf(page, 1000 * i + 450), box.y + box.height - 8);
            await page.mouse.click(await xOf(page, 1000 * i + 450), box.y + box.height - 8);
            await settled(page);
            assert.equal(await page.locator('#content h2 bdi').first().textContent(), name);
        }
        await page.mouse.move(x + 5, y + 5);
        await press(page, '/');
        await page.locator('#query').fill('<');
        await press(page, 'Enter');
        await press(page, '4');
        assert.ok((await visible()).includes(NAMES[1]));
        assert.equal(await page.evaluate(() => window.hacked), undefined);
        assert.equal(await page.locator('#content img, #labels img, #content script, #labels b, #content b').count(), 0);
    });
});

test('a million tracks can be listed', async () => {
    const trace = new Trace();
    const process = trace.node(-1, Kind.Process, 'many', { number: 1 });
    for (let i = 0; i < 1_000_000; i++) {
        const node = trace.node(process, Kind.Slices, `track ${i}`);
        if (i % 1000 === 0) trace.slice(node, i, 500, `event ${i}`);
    }
    await on(dir.write('million.html', trace.html()), async (page) => {
        assert.ok(await row(page, 'track 0'));
        await page.getByLabel('Filter tracks').fill('track 999000');
        await settled(page);
        assert.ok(await row(page, 'track 999000'));
        await page.getByLabel('Filter tracks').fill('');
        await settled(page);
        await press(page, '/');
        await page.locator('#query').fill('event 777000');
        await press(page, 'Enter');
        assert.ok(await row(page, 'track 777000'));
        assert.match(await content(page), /1 match/);
        const rail = await page.locator('#scroll').boundingBox();
        await page.mouse.click(rail.x + 6, rail.y + rail.height - 2);
        await settled(page);
        assert.ok(await row(page, 'track 999999'));
    });
});

test('elements do not overlap at any width and with large letters', async () => {
    for (const [width, height, zoom] of [[800, 600, 100], [2560, 1440, 100], [1280, 800, 125], [800, 600, 125]]) {
        await on(url, async (page) => {
            if (zoom !== 100) {
                await page.evaluate((zoom) => document.documentElement.style.setProperty('font-size', `${zoom}%`), zoom);
                await page.setViewportSize({ width: width - 1, height });
                await settled(page);
            }
            await clickEvent(page, 'CPU 1', 103 * MS);
            const overlaps = await page.evaluate(() => {
                const bad = [];
                const boxes = (selector) => [...document.querySelectorAll(selector)].filter((it) => it.checkVisibility()).map((it) => [it, it.getBoundingClientRect()]);
                for (const selector of ['#bar > *', '#tools > *', '#find > *', '#main > *', '#tabs > *', 'body > :not(dialog, #tip, #status, script)', '#labels .label', '#content section']) {
                    const all = boxes(selector);
                    all.forEach(([a, x], i) => all.slice(i + 1).forEach(([b, y]) => {
                        if (x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1) bad.push(`${selector}: ${a.id || a.className} and ${b.id || b.className}`);
                    }));
                }
                if (document.documentElement.scrollWidth > innerWidth) bad.push('the page is wider than the window');
                for (const [it, box] of boxes('button, input, select')) if (box.right > innerWidth + 1) bad.push(`${it.id} is outside`);
                return bad;
            });
            assert.deepEqual(overlaps, [], `${width}×${height} at ${zoom} %`);
        }, { viewport: { width, height } });
    }
});

test('with a default font of 125 %, rows are higher and no text is truncated', async () => {
    const large = await launch(false, '--blink-settings=defaultFontSize=20');
    const { page, wrong, close } = await open(large, url, { viewport: { width: 1280, height: 800 } });
    try {
        assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).fontSize), '20px');
        await clickEvent(page, 'caller', 34 * MS);
        const cut = () =>
            page.evaluate(() => {
                const texts = '#labels .label .what, #tabs button, #bar button, #content dt, #content dd, #filter, #query';
                return [...document.querySelectorAll(texts)]
                    .filter((it) => it.checkVisibility() && !(it.closest('[role="treeitem"]')?.offsetTop <= 0))
                    .filter((it) => {
                        const row = it.closest('[role="treeitem"]');
                        return it.scrollHeight > it.clientHeight + 2 && it.clientHeight > 0 || (row && it.offsetTop + it.offsetHeight > row.offsetHeight + 2);
                    })
                    .map((it) => it.textContent || it.id);
            });
        assert.deepEqual(await cut(), []);
        const { height } = await row(page, 'caller');
        await close();
        const usual = await open(browser, url, { viewport: { width: 1280, height: 800 } });
        assert.ok(height > (await row(usual.page, 'caller')).height);
        await usual.close();
        assert.deepEqual(wrong, []);
    } finally {
        await large.close();
    }
});

test('dense events have their whole height, and nothing is drawn between them', async () => {
    const trace = new Trace();
    const thread = trace.node(trace.node(-1, Kind.Process, 'p', { number: 1 }), Kind.Thread, 't', { number: 1 });
    const slices = trace.node(thread, Kind.Slices, 't');
    const names = ['read', 'write', 'lock', 'parse', 'flush'];
    // Events of a few pixels side by side, then as many with gaps of half their time.
    for (let i = 0; i < 300; i++) trace.slice(slices, i * MS, MS, names[i % 5]);
    for (let i = 0; i < 300; i += 4) trace.slice(slices, (300 + i) * MS, 2 * MS, names[i % 5]);
    await on(dir.write('dense.html', trace.html()), async (page) => {
        const stage = await page.locator('#stage').boundingBox();
        const { y } = await row(page, 't');
        const top = Math.round(y - stage.y) + 4;
        const [start, end] = await span(page);
        const line = (dy, from, to) =>
            page.evaluate(({ y, places }) => {
                const context = document.getElementById('boxes').getContext('2d');
                return places.map((x) => String(context.getImageData(x, y, 1, 1).data));
            }, { y: top + dy, places: Array.from({ length: Math.floor((to - from) / (4 * MS)) }, (_, i) => Math.round(((from + 4 * i * MS - start) / (end - start)) * stage.width)) });
        const [first, last] = [await line(0, 0.5 * MS, 300 * MS), await line(10, 0.5 * MS, 300 * MS)];
        assert.deepEqual(last, first);
        assert.equal(new Set(first).size, 5);
        const gaps = await line(10, 303 * MS, 590 * MS);
        assert.equal(new Set(gaps).size, 1, gaps.join(' '));
        assert.ok(!first.includes(gaps[0]));
    });
});

test('a graphics card draws the same picture', async () => {
    const computed = await launch(true);
    const shots = [];
    const names = [];
    try {
        for (const card of [false, true]) {
            const context = await computed.newContext({ viewport: { width: 1000, height: 700 }, offline: true });
            const page = await context.newPage();
            // The page uses WebGL only with graphics cards. Here, an emulated one reports to be a card.
            if (card) {
                await page.addInitScript(() => {
                    const ask = WebGL2RenderingContext.prototype.getParameter;
                    WebGL2RenderingContext.prototype.getParameter = function (name) {
                        return name === 0x9246 || name === this.RENDERER ? 'a card' : ask.call(this, name);
                    };
                });
            }
            await page.goto(url);
            await settled(page);
            await page.keyboard.press('6');
            await settled(page);
            names.push(/(WebGL2|2D canvas)/.exec(await content(page))[1]);
            await page.keyboard.press('1');
            await settled(page);
            shots.push((await page.locator('#stage').screenshot()).toString('base64'));
            await context.close();
        }
        if (names[1] !== 'WebGL2') return console.log('skipped: this browser has no WebGL2');
        const page = await computed.newPage();
        const different = await page.evaluate(async (shots) => {
            const [a, b] = await Promise.all(shots.map(async (shot) => {
                const image = new Image();
                image.src = `data:image/png;base64,${shot}`;
                await image.decode();
                const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
                canvas.drawImage(image, 0, 0);
                return canvas.getImageData(0, 0, image.width, image.height).data;
            }));
            let different = 0;
            for (let i = 0; i < a.length; i += 4) if (Math.abs(a[i] - b[i]) + Math.abs(a[i + 1] - b[i + 1]) + Math.abs(a[i + 2] - b[i + 2]) > 60) different += 1;
            return different / (a.length / 4);
        }, shots);
        assert.equal(names[0], '2D canvas');
        assert.ok(different < 0.01, `${(100 * different).toFixed(2)} % of the pixels differ`);
    } finally {
        await computed.close();
    }
});

/** A server of a growing recording. It holds back all replies after the first until the test releases them. */
async function growing() {
    const send = (response, generation, end) => {
        const trace = new Trace();
        const machine = trace.node(-1, Kind.Machine, 'Machine');
        for (let i = 1; i <= generation; i++) trace.node(machine, Kind.Slices, `part ${i}`);
        Object.assign(trace, { end, header: { ...trace.header, live: true, generation } });
        response.end(trace.frames()[0][1]);
    };
    let listens;
    const events = new Promise((done) => (listens = done));
    let wanted;
    const server = createServer((request, response) => {
        const name = request.url.slice(1);
        if (name === '') return response.setHeader('Content-Type', 'text/html').end(embed([]));
        if (name === 'trace') return wanted ? wanted((generation, end) => send(response, generation, end)) : send(response, 1, 100 * MS);
        if (name.startsWith('alive')) {
            response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('retry: 20\n\n');
            return listens(response);
        }
        let asked = '';
        request.on('data', (part) => (asked += part));
        request.on('end', () => {
            const { nodes, from, to, level } = JSON.parse(asked);
            // One event on each node, with the duration of the trace.
            const each = (type, value) => [type, nodes.map(() => value)];
            const columns = { node: ['u32', nodes], rows: each('u32', 1), points: each('u32', 0), start: each('f64', 0), dur: each('f64', 90 * MS), count: each('u32', 2) };
            response.end(frame('tiles', { from, to, level }, [''], columns));
        });
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return {
        url: `http://127.0.0.1:${server.address().port}/`,
        /** Resolved when the page has opened its event stream. */
        listening: events,
        /** Announces that the trace has grown, and returns the function that answers the resulting request. */
        grow: async () => {
            const stream = await events;
            const asked = new Promise((done) => (wanted = done));
            stream.write('event: more\ndata: 0\n\n');
            return asked;
        },
        close: () => {
            server.close();
            server.closeAllConnections();
        },
    };
}

test('a late reply about a growing trace is ignored after a newer one', async () => {
    const server = await growing();
    try {
        await on(server.url, async (page) => {
            assert.equal((await span(page))[1], 101 * MS);
            const slow = await server.grow();
            const quick = await server.grow();
            quick(3, 300 * MS);
            await page.locator('#labels', { hasText: 'part 3' }).waitFor();
            slow(2, 200 * MS);
            await settled(page);
            assert.equal((await span(page))[1], 303 * MS);
            assert.match(await page.locator('#labels').innerText(), /part 3/);
        });
    } finally {
        server.close();
    }
});

test('the picture stays after the server has ended, with a message', async () => {
    const server = await growing();
    try {
        const { page, close } = await open(browser, server.url);
        const drawn = async () => {
            const { y } = await row(page, 'part 1');
            const stage = await page.locator('#stage').boundingBox();
            const at = { x: (await xOf(page, 50 * MS)) - stage.x, y: y - stage.y + 8 };
            return page.evaluate(({ x, y }) => document.getElementById('boxes').getContext('2d').getImageData(x, y, 1, 1).data[3] > 0, at);
        };
        assert.ok(await drawn());
        await server.listening;
        server.close();
        await page.locator('#where', { hasText: 'The server has ended' }).waitFor();
        await press(page, 'w', 'w', 'w');
        assert.match(await page.locator('#where').innerText(), /could not be loaded: the server does not answer/);
        assert.ok(await drawn());
        await close();
    } finally {
        server.close();
    }
});
