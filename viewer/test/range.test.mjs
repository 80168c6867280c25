// Statistics of ranges: pivots, histograms, counters, flows, and the events of a row in the picture.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { clickEvent, command, folder, launch, pixel, press, row, settled, visit, xOf } from './browser.mjs';
import { Kind, Trace } from './fixture.mjs';
import { server } from './traces.mjs';

const MS = 1e6;
let browser;
let dir;
let url;

before(async () => {
    browser = await launch();
    dir = folder();
    const trace = server();
    const process = trace.nodes.findIndex(({ name }) => name === 'server');
    const sent = trace.node(process, Kind.Counter, 'sent', { unit: 'bytes' });
    for (let i = 0; i <= 20; i++) trace.counter(sent, i * 10 * MS, i * 2048);
    url = dir.write('server.html', trace.html());
});
after(async () => {
    await browser?.close();
    dir?.remove();
});

const on = (address, work, options) => visit(browser, address, work, options);
const content = (page) => page.locator('#content').innerText();
const section = (page, caption) => page.locator('#content section', { has: page.getByRole('heading', { name: caption }) });

test('slices have percentiles and a histogram, and can be grouped by columns and arguments', () =>
    on(url, async (page) => {
        await press(page, 'v');
        const slices = section(page, /^Slices by/);
        assert.match(await slices.innerText(), /Count\s+Total\s+Self[^]*p50\s+p90\s+p99/);
        assert.match(await slices.locator('tr', { hasText: 'request' }).innerText(), /request\s+20\s+120 ms\s+20 ms\s+6 ms\s+6 ms\s+6 ms\s+6 ms\s+6 ms\s+6 ms/);
        await page.getByLabel('Slices: by', { exact: true }).selectOption({ label: 'status' });
        await settled(page);
        const rows = () => section(page, /^Slices by/).locator('tbody tr').allInnerTexts();
        assert.match((await rows()).find((text) => text.startsWith('200')), /^200\s+19\s+114 ms/);
        assert.match((await rows()).find((text) => text.startsWith('500')), /^500\s+1\s+6 ms/);
        await page.getByLabel('Slices: then by').selectOption('thread');
        await settled(page);
        assert.match(await section(page, 'Slices by status and thread').innerText(), /200\s+worker-1 102\s+10\s+60 ms/);
        // A click on the value of an argument finds its events.
        await section(page, /^Slices by/).getByRole('button', { name: '500', exact: true }).click();
        await settled(page);
        assert.match(await page.locator('#hits').innerText(), /of 1$/);
    }));

test('a histogram has bars for durations', async () => {
    const trace = new Trace();
    const thread = trace.node(trace.node(-1, Kind.Process, 'p', { number: 1 }), Kind.Thread, 't', { number: 1 });
    const slices = trace.node(thread, Kind.Slices, 't');
    // Ninety short ones and ten long ones.
    for (let i = 0; i < 100; i++) trace.slice(slices, i * MS, i % 10 === 0 ? 900_000 : 1000 + i, 'work');
    await on(dir.write('bars.html', trace.html()), async (page) => {
        await press(page, 'v');
        const bars = section(page, /^Slices by/).getByRole('img');
        assert.equal(await bars.getAttribute('aria-label'), '100 from 1.001 µs to 900 µs, on a logarithmic scale');
        const heights = await bars.locator('span').evaluateAll((all) => all.map((it) => it.getBoundingClientRect().height));
        assert.equal(heights.length, 20);
        assert.ok(heights[0] > 5 * heights[19] && heights[19] > 0, `${heights}`);
        assert.deepEqual(heights.slice(2, 19).filter((height) => height > 0), []);
    });
});

test('a click on a name highlights its events in the picture', () =>
    on(url, async (page) => {
        const color = async (name, time, dy) => {
            const { y } = await row(page, name);
            const stage = await page.locator('#stage').boundingBox();
            return pixel(page, 'boxes', { x: Math.round((await xOf(page, time)) - stage.x), y: Math.round(y - stage.y + dy) });
        };
        await press(page, 'v');
        const places = [['worker-1', 6 * MS, 58], ['worker-1', 2.9 * MS, 58], ['client 200', 4 * MS, 12]];
        const colors = async () => Promise.all(places.map((place) => color(...place)));
        const before = await colors();
        await section(page, /^Slices by/).getByRole('button', { name: 'query', exact: true }).click();
        await settled(page);
        const [query, parse] = await colors();
        assert.deepEqual(query, before[0]);
        assert.notDeepEqual(parse, before[1]);
        assert.match(await page.locator('#hits').innerText(), /of 20$/);
        await press(page, 'n');
        assert.match(await page.locator('#status').innerText(), /^query/);
        await press(page, 'Escape');
        assert.deepEqual((await colors())[1], before[1]);
    }));

test('CPU time is grouped by thread and process, and states are in words', () =>
    on(url, async (page) => {
        await command(page, 'Select a range of time', '20 ms 60 ms');
        assert.match(await section(page, 'CPU time by thread').innerText(), /worker-1 102\s+12 ms\s+30 %\s+2\s+6 ms/);
        await page.getByLabel('CPU time: by', { exact: true }).selectOption('process');
        await settled(page);
        assert.match(await section(page, 'CPU time by process').innerText(), /server 100\s+26 ms\s+65 %/);
        const states = section(page, 'States of threads by state');
        assert.match(await states.innerText(), /Running[^]*Runnable|Sleeping/);
        await page.getByLabel('States of threads: then by').selectOption('thread');
        await settled(page);
        assert.match(await section(page, 'States of threads by state and thread').innerText(), /Runnable\s+worker-1 102\s+2\s+1 ms/);
        assert.match(await section(page, /^Kernel events and messages/).innerText(), /server\s+4/);
    }));

test('cumulative counters have a rate, and flows are counted by direction', () =>
    on(url, async (page) => {
        await press(page, 'v');
        const counters = section(page, 'Counters');
        assert.match(await counters.innerText(), /sent\s+server 100\s+195 KiB/);
        assert.match(await counters.innerText(), /rss\s+server 100\s+\s*977 KiB/);
        assert.match(await section(page, 'Flows').innerText(), /accept\s+request\s+within it\s+20\s+1 ms/);
        await page.locator('#labels .label', { hasText: 'accept' }).click();
        await press(page, 'r');
        const flows = await section(page, 'Flows').innerText();
        assert.match(flows, /accept\s+request\s+out of it\s+20/);
        assert.match(flows, /call 0\s+accept\s+into the selection\s+1/);
    }));

test('expressions search, and the overview shows the density of matches', () =>
    on(url, async (page) => {
        const find = async (text) => {
            await press(page, '/');
            await page.locator('#query').fill(text);
            await press(page, 'Enter', 'Escape');
            return page.locator('#hits').innerText();
        };
        assert.match(await find('/^call 1\\d$/'), /of 10$/);
        const { width } = await page.locator('#stage').boundingBox();
        const marked = async (time) => {
            const [r, g, b] = await pixel(page, 'boxes', { x: Math.floor((Math.floor((time / (205 * MS)) * 800) * width) / 800), y: 2 });
            return r > b + 60 && r > g;
        };
        assert.deepEqual([await marked(50 * MS), await marked(100 * MS), await marked(190 * MS)], [false, true, true]);
        assert.match(await find('status=/^5..$/'), /of 1$/);
        await find('/(/');
        assert.match(await page.locator('#where').innerText(), /not a valid regular expression/);
    }));

test('disks have names in the arguments of kernel events', async () => {
    const trace = new Trace();
    trace.header.facts = [['trace_attribute.ferretto.disk.254:0', 'vda'], ['trace_attribute.ferretto.disk.8:16', 'sdb']];
    const log = trace.node(trace.node(-1, Kind.Machine, 'Machine'), Kind.Log, 'Kernel events of CPU 0');
    [65024, 2064, 5].forEach((dev, i) => trace.add('logs', log, { start: i * MS, name: 'block_rq_issue', args: { dev, bytes: 512 } }));
    await on(dir.write('disks.html', trace.html()), async (page) => {
        await press(page, '4');
        assert.match(await content(page), /dev=vda bytes=512[^]*dev=sdb bytes=512[^]*dev=5 bytes=512/);
        await page.locator('.lines tbody button').first().click();
        await settled(page);
        assert.match(await content(page), /dev\s+vda/);
        await press(page, 'v');
        await command(page, 'Group the events', 'events dev');
        assert.match(await content(page), /vda\s+1/);
    });
});

test('a sample has its kind and weight, and a state its name and colour', () =>
    on(url, async (page) => {
        const { y } = await row(page, 'worker-1');
        await page.mouse.click(await xOf(page, 1.6 * MS), y + 20);
        await settled(page);
        await press(page, 'w');
        await page.locator('#labels .label', { hasText: 'worker-1' }).first().click();
        await command(page, 'Go to a time', '1 ms 3 ms');
        const sample = await row(page, 'worker-1');
        await page.mouse.click(await xOf(page, 1.6 * MS), sample.y + 20);
        await settled(page);
        assert.match(await content(page), /^CPU samples: 1 samples?/);
        await page.mouse.click(await xOf(page, 2.5 * MS), sample.y + 8);
        await settled(page);
        assert.match(await content(page), /^Running/);
        const swatch = await page.locator('#content h2 .swatch').evaluate((it) => getComputedStyle(it).backgroundColor);
        const stage = await page.locator('#stage').boundingBox();
        const [r, g, b] = await pixel(page, 'boxes', { x: Math.round((await xOf(page, 2.5 * MS)) - stage.x), y: Math.round(sample.y - stage.y + 8) });
        assert.equal(swatch, `rgb(${r}, ${g}, ${b})`);
    }));

test('a comparison of ranges has states in words', () =>
    on(url, async (page) => {
        await command(page, 'Select a range of time', '0 50 ms');
        await press(page, 'b');
        await command(page, 'Select a range of time', '100 ms 120 ms');
        await command(page, 'Show the tab Compare');
        const states = await section(page, 'States of threads').locator('td.name').allInnerTexts();
        assert.ok(states.includes('Running') && states.includes('Runnable'), states.join());
        assert.deepEqual(states.filter((state) => state.length === 1), []);
    }));

test('the rows that changed most between two ranges are drawn together, with aligned times', async () => {
    const trace = new Trace();
    const process = trace.node(-1, Kind.Process, 'program', { number: 1 });
    const slices = ['calm', 'slow'].map((name, i) => trace.node(trace.node(process, Kind.Thread, name, { number: 1 + i }), Kind.Slices, name));
    for (const at of [0, 100 * MS]) trace.slice(slices[0], at + 5 * MS, 20 * MS, 'steady');
    trace.slice(slices[1], 10 * MS, 10 * MS, 'old load');
    trace.slice(slices[1], 110 * MS, 30 * MS, 'new load');
    const beside = dir.write('beside.html', trace.html());
    await on(beside, async (page) => {
        await command(page, 'Draw the changed rows');
        assert.match(await page.locator('#status').innerText(), /^Keep a range with B/);
        await command(page, 'Select a range of time', '0 50 ms');
        await press(page, 'b');
        await command(page, 'Select a range of time', '100 ms 150 ms');
        await command(page, 'Show the tab Compare');
        await page.getByRole('button', { name: 'Draw the changed rows together' }).click();
        await settled(page);
        const pinned = async () => (await page.locator('.label.pinned').allInnerTexts()).map((text) => text.split('\n')[0].trim());
        assert.deepEqual((await pinned()).map((name) => /(kept: )?(slow|calm)/.exec(name)[0]), ['slow', 'kept: slow', 'calm', 'kept: calm']);
        // The slice of the kept range began 10 ms after it, and is drawn 10 ms after the start of the other one.
        const click = async (name, time) => {
            const box = await page.locator('.label.pinned', { hasText: name }).boundingBox();
            await page.mouse.click(await xOf(page, time), box.y + 12);
            await settled(page);
            return page.locator('#content').innerText();
        };
        assert.match(await click('kept: slow', 115 * MS), /^old load[^]*10 ms[^]*kept, moved by \+100 ms/);
        // The new one lasts longer: here the kept range has nothing.
        const color = async (name, time) => {
            const { y } = await page.locator('.label.pinned', { hasText: name }).boundingBox();
            const stage = await page.locator('#stage').boundingBox();
            return pixel(page, 'boxes', { x: Math.round((await xOf(page, time)) - stage.x), y: Math.round(y - stage.y + 12) });
        };
        assert.notDeepEqual(await color('kept: slow', 118 * MS), await color('kept: slow', 135 * MS));
        // The address keeps them.
        const hash = await page.evaluate(() => location.hash);
        await on(beside + hash, async (other) => {
            await other.locator('.label.pinned', { hasText: 'kept: slow' }).waitFor();
        });
    });
});

test('values of state tracks are drawn, and grouped by name', async () => {
    const trace = new Trace();
    const power = trace.node(trace.node(-1, Kind.Machine, 'Machine'), Kind.Values, 'power');
    [['awake', 0, 30], ['asleep', 30, 50], ['awake', 80, 20]].forEach(([name, at, dur]) => trace.add('values', power, { start: at * MS, dur: dur * MS, name }));
    await on(dir.write('values.html', trace.html()), async (page) => {
        const { y } = await row(page, 'power');
        const stage = await page.locator('#stage').boundingBox();
        const color = async (time) => pixel(page, 'boxes', { x: Math.round((await xOf(page, time)) - stage.x), y: Math.round(y - stage.y + 12) });
        assert.deepEqual(await color(25 * MS), await color(95 * MS));
        assert.notDeepEqual(await color(25 * MS), await color(50 * MS));
        await clickEvent(page, 'power', 50 * MS);
        assert.match(await page.locator('#content').innerText(), /^asleep\s*50 ms/);
        await press(page, 'v');
        assert.match(await section(page, /^Slices by/).innerText(), /awake\s+2\s+50 ms/);
    });
});

test('the memory of processes is one table', async () => {
    const trace = new Trace();
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    for (const [at, name] of ['large', 'small'].entries()) {
        const process = trace.node(machine, Kind.Process, name, { number: 10 + at });
        const counters = trace.node(process, Kind.Group, 'Counters');
        for (const [key, size] of [['mem.rss', 8], ['mem.rss.anon', 6], ['mem.swap', 1], ['mem.smaps.pss', 5]]) {
            const counter = trace.node(counters, Kind.Counter, key, { unit: 'bytes' });
            trace.counter(counter, 0, (size * 2 ** 20) / (1 + at));
            trace.counter(counter, 40 * MS, (2 * size * 2 ** 20) / (1 + at));
        }
        trace.counter(trace.node(counters, Kind.Counter, 'oom_score_adj'), 0, 0);
    }
    trace.grow(50 * MS);
    await on(dir.write('memory.html', trace.html()), async (page) => {
        await press(page, 'v');
        const memory = await section(page, 'Memory of processes').innerText();
        assert.match(memory, /Process\s+Resident\s+Anonymous\s+Swapped\s+Own share\s+Variation/);
        assert.match(memory, /large 10\s+16 MiB\s+12 MiB\s+2 MiB\s+10 MiB\s+8 MiB\s+small 11\s+8 MiB\s+6 MiB\s+1 MiB\s+5 MiB\s+4 MiB/);
        await section(page, 'Memory of processes').getByRole('button', { name: 'small 11' }).click();
        await settled(page);
        assert.ok(await page.locator('#labels .label', { hasText: 'mem.rss' }).first().isVisible());
    });
});

test('a screenshot is shown as a picture', async () => {
    const trace = new Trace();
    const screen = trace.node(-1, Kind.Slices, 'Screen');
    // A red picture of 2 by 1 pixels.
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z8Dwn4EBAAj+Af9IxWaQAAAAAElFTkSuQmCC';
    trace.slice(screen, 0, 10 * MS, 'Screenshot', { args: { 'screenshot.png_image': png, title: 'iVBORw0KGgo' } });
    await on(dir.write('screen.html', trace.html()), async (page) => {
        await clickEvent(page, 'Screen', 5 * MS);
        const picture = page.locator('#content img');
        assert.equal(await picture.count(), 1);
        assert.deepEqual(await picture.evaluate(async (it) => (await it.decode(), [it.naturalWidth, it.naturalHeight])), [2, 1]);
        assert.match(await page.locator('#content').innerText(), /title\s+iVBORw0KGgo/);
    });
});

test('kernels of computations have a table, and their launches another', async () => {
    const trace = new Trace();
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    const thread = trace.node(trace.node(machine, Kind.Process, 'train', { number: 1 }), Kind.Thread, 'train', { number: 1 });
    const calls = trace.node(thread, Kind.Slices, 'train');
    const queue = trace.node(trace.node(machine, Kind.Group, 'GPU 0'), Kind.Slices, 'Compute queue');
    const launched = (at, dur, kernel, grid, group, registers) => {
        trace.slice(calls, (at - 1) * MS, 0.5 * MS, 'cuLaunchKernel', { args: { stream: 7 } });
        const size = Object.fromEntries(['x', 'y', 'z'].flatMap((axis, i) => [[`launch.grid_size.${axis}`, grid[i]], [`launch.workgroup_size.${axis}`, group[i]]]));
        const args = { kernel_name: `_Z${kernel}`, kernel_demangled_name: `${kernel}(float*)`, arch: 'sm_90', ...size, registers, hw_queue_id: 1 };
        trace.slice(queue, at * MS, dur * MS, `_Z${kernel}`, { args });
    };
    launched(10, 4, 'matmul', [64, 32, 1], [16, 16, 1], 96);
    launched(20, 8, 'matmul', [64, 32, 1], [16, 16, 1], 96);
    launched(30, 3, 'relu', [256, 1, 1], [128, 1, 1], 24);
    await on(dir.write('kernels.html', trace.html()), async (page) => {
        await press(page, 'v');
        const kernels = await section(page, 'Kernels of computations').innerText();
        assert.match(kernels, /Kernel\s+Launches\s+Total\s+Of all kernels\s+Mean\s+Min\s+Max\s+Work items\s+registers/);
        assert.match(kernels, /matmul\(float\*\)\s+2\s+12 ms\s+80 %\s+6 ms\s+4 ms\s+8 ms\s+524,288\s+96\s+relu\(float\*\)\s+1\s+3 ms\s+20 %\s+3 ms\s+3 ms\s+3 ms\s+32,768\s+24/);
        const launches = section(page, 'Launches of kernels');
        assert.match(await launches.locator('tbody tr').nth(0).innerText(), /^0\.020 000 000 s\s+matmul\(float\*\)\s+8 ms\s+64 × 32 × 1\s+16 × 16 × 1\s+sm_90\s+96$/);
        // A launch is a link into the picture.
        await launches.getByRole('button', { name: '0.030 000 000 s' }).click();
        await settled(page);
        assert.match(await content(page), /^_Zrelu\s*3 ms/);
    });
});
