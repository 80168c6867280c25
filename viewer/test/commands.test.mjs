// Commands, their palette, notes, workspaces, macros and settings.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { clickEvent, command, folder, launch, pixel, press, row, seen, settled, span, visit, xOf } from './browser.mjs';
import { Kind, Trace } from './fixture.mjs';
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

const on = (address, work, options) => visit(browser, address, work, options);
const content = (page) => page.locator('#content').innerText();
const names = (page) => page.locator('#labels .label:visible:not(.pinned) .what').allInnerTexts();

test('the palette finds commands by words, and asks for arguments', () =>
    on(url, async (page) => {
        await press(page, 'Control+k');
        assert.equal(await page.locator('#palette').isVisible(), true);
        await page.keyboard.type('whole tra');
        await settled(page);
        assert.match(await page.locator('#palette-list [aria-selected="true"]').innerText(), /Show the whole trace/);
        await page.keyboard.press('Escape');
        await press(page, ':');
        await page.keyboard.type('go to a time');
        await press(page, 'Enter');
        assert.match(await page.locator('#palette input').getAttribute('aria-label'), /Go to a time or range: a time/);
        await page.keyboard.type('100 ms 120 ms');
        await press(page, 'Enter');
        assert.deepEqual(await span(page), [100 * MS, 120 * MS]);
        // Commands with choices list them, and keys select one.
        await press(page, ':');
        await page.keyboard.type('durations');
        await press(page, 'Enter', 'ArrowDown', 'Enter');
        await clickEvent(page, 'caller', 104 * MS);
        assert.match(await content(page), /Duration\s+0\.009 s/);
        // Any other text is searched.
        await press(page, ':');
        await page.keyboard.type('SELECT 1');
        await press(page, 'Enter');
        assert.match(await page.locator('#hits').innerText(), /of 20$/);
        // An invalid argument has a message.
        await command(page, 'Select a range of time', 'soon');
        assert.match(await page.locator('#where').innerText(), /“soon” is not a time/);
    }));

test('every command has a unique name and key, and runs without an error on an empty page', async () => {
    const trace = new Trace();
    await on(dir.write('empty.html', trace.html()), async (page) => {
        await press(page, '?');
        const keys = await page.locator('#help dt').allInnerTexts();
        assert.ok(keys.length > 40);
        await press(page, 'Escape');
        await press(page, ':');
        const all = await page.locator('#palette-list [role="option"] bdi').allInnerTexts();
        assert.equal(new Set(all).size, all.length);
        await press(page, 'Escape');
        for (const name of all.filter((name) => !/file|palette|All commands|keys|Settings/.test(name))) {
            await page.keyboard.press('Control+k');
            await page.locator('#palette input').fill(name.replace('…', ''));
            for (const key of ['Enter', 'Enter', 'Escape', 'Escape']) await page.keyboard.press(key);
        }
    });
});

test('notes are drawn, listed, edited and part of the address', () =>
    on(url, async (page) => {
        await command(page, 'Select a range of time', '50 ms 60 ms');
        await press(page, 'i');
        await page.keyboard.type('slow part');
        await settled(page);
        await press(page, 'Escape', 'Escape');
        await command(page, 'Add a note', 'restart');
        assert.equal(await page.locator('#content input.note').count(), 2);
        const stage = await page.locator('#stage').boundingBox();
        const at = { x: Math.round((await xOf(page, 50 * MS)) - stage.x) + 3, y: 30 + 22 };
        const [r, g, b, a] = await pixel(page, 'letters', at);
        assert.ok(a > 200 && b > g && r > g, `${[r, g, b, a]}`);
        const hash = await page.evaluate(() => location.hash);
        await on(url + hash, async (again) => {
            assert.deepEqual(await again.locator('#content input.note').evaluateAll((all) => all.map((it) => it.value)), ['slow part', 'restart']);
            await again.locator('#content li').first().getByRole('button').last().click();
            await settled(again);
            assert.equal(await again.locator('#content input.note').count(), 1);
            assert.doesNotMatch(await again.evaluate(() => location.hash), /slow/);
        });
        await command(page, 'Go to a time', '10 ms 12 ms');
        await press(page, '}');
        assert.match(await page.locator('#where').innerText(), /slow part/);
        const [from, to] = await span(page);
        assert.ok(from <= 50 * MS && to >= 60 * MS);
    }));

test('workspaces are named sets of pinned rows', () =>
    on(url, async (page) => {
        const pinned = () => page.locator('#labels .label.pinned:visible .what').allInnerTexts();
        await command(page, 'Pin tracks by name', '/^worker/');
        assert.deepEqual(await pinned(), ['worker-1', 'worker-2']);
        await command(page, 'Save the pinned rows', 'workers');
        await command(page, 'Unpin all rows');
        await command(page, 'Pin tracks by name', 'rss');
        await command(page, 'Save the pinned rows', 'memory');
        assert.deepEqual(await pinned(), ['rss']);
        await command(page, 'Switch to a workspace', 'workers');
        assert.deepEqual(await pinned(), ['worker-1', 'worker-2']);
        await on(url + (await page.evaluate(() => location.hash)), async (again) => {
            await command(again, 'Switch to a workspace', 'memory');
            assert.deepEqual(await again.locator('#labels .label.pinned:visible .what').allInnerTexts(), ['rss']);
        });
    }));

test('a macro is recorded, edited and run, and an address runs commands', () =>
    on(url, async (page) => {
        await command(page, 'Record a macro', 'errors');
        await command(page, 'Search names and arguments', 'status=500');
        await press(page, 'f');
        await command(page, 'Select the time of the event');
        await command(page, 'End the recording');
        await press(page, 'Escape', 'Home', '7');
        const text = await page.getByLabel('Commands of the macro errors').inputValue();
        assert.equal(text, 'search status=500\nfit\nrange-event');
        await command(page, 'Run a macro', 'errors');
        await settled(page);
        assert.match(await content(page), /^6 ms/);
        await on(`${url}#run=${encodeURIComponent('filter worker;search status=500;fit')}`, async (again) => {
            await again.waitForFunction(() => /event=/.test(location.hash));
            await settled(again);
            assert.deepEqual((await names(again)).filter((name) => name.startsWith('client')), []);
            const [from, to] = await span(again);
            assert.ok(to - from < 10 * MS);
        });
    }));

test('a saved state has notes, workspaces and macros, and suits other traces by names', () =>
    on(url, async (page) => {
        await command(page, 'Pin tracks by name', 'worker-2');
        await command(page, 'Save the pinned rows', 'one');
        await command(page, 'Add a note', 'here');
        const [download] = await Promise.all([page.waitForEvent('download'), command(page, 'Save the state')]);
        const path = `${dir.path}/state.json`;
        await download.saveAs(path);
        assert.equal(JSON.parse(readFileSync(path, 'utf8')).notes[0][2], 'here');
        const other = server();
        // The same tracks, with other numbers.
        other.node(-1, Kind.Machine, 'Other machine');
        await on(dir.write('other.html', other.html()), async (again) => {
            const [chooser] = await Promise.all([again.waitForEvent('filechooser'), command(again, 'Load a state')]);
            await chooser.setFiles(path);
            await again.waitForFunction(() => /spaces=/.test(location.hash));
            await settled(again);
            await command(again, 'Switch to a workspace', 'one');
            assert.deepEqual(await again.locator('#labels .label.pinned:visible .what').allInnerTexts(), ['worker-2']);
        });
    }));

test('times count from the zero of the user', () =>
    on(url, async (page) => {
        await clickEvent(page, 'caller', 104 * MS);
        await command(page, 'Count times from the selected');
        await press(page, '.');
        assert.match(await content(page), /Start\s+0\.010 000 000 s/);
        assert.equal((await seen(page)).get('zero'), String(100 * MS));
        await command(page, 'Go to a time', '-10 ms 10 ms');
        assert.deepEqual(await span(page), [90 * MS, 110 * MS]);
    }));

test('settings change colours, sizes and order, and the browser keeps them', async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, offline: true, colorScheme: 'light' });
    const page = await context.newPage();
    await page.goto(url);
    await settled(page);
    const color = async () => {
        const { y } = await row(page, 'caller');
        const stage = await page.locator('#stage').boundingBox();
        return pixel(page, 'boxes', { x: (await xOf(page, 104 * MS)) - stage.x, y: y - stage.y + 8 });
    };
    const before = await color();
    await press(page, ';');
    await page.getByLabel('Colours').selectOption('safe');
    await page.getByLabel('Theme').selectOption('dark');
    await page.getByLabel('Sizes').selectOption('decimal');
    await page.getByLabel('Order of processes').selectOption('name');
    await press(page, 'Escape');
    assert.notDeepEqual(await color(), before);
    await page.reload();
    await settled(page);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    const order = (await names(page)).filter((name) => /^(server|client)/.test(name));
    assert.deepEqual(order, ['client 200', 'server 100']);
    assert.match(await page.locator('#labels .label', { hasText: 'rss' }).innerText(), / MB/);
    await context.close();
});

test('processes are in the order of their tree, start, CPU time or name', async () => {
    const trace = new Trace();
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    const add = (name, more) => {
        const process = trace.node(machine, Kind.Process, name, { number: trace.nodes.length, ...more });
        const thread = trace.node(process, Kind.Thread, name, { number: 1 });
        trace.slice(trace.node(thread, Kind.Slices, name), 0, 10, name);
        return process;
    };
    const shell = machine + 4 * 3 - 2;
    add('cc1', { above: shell + 3, began: 30, cpu: 500, command: '/usr/libexec/cc1 -quiet hello.c' });
    add('idle', { began: 5, cpu: 1 });
    add('other', { began: 1, cpu: 7 });
    assert.equal(add('bash', { began: 10, cpu: 2 }), shell);
    add('make', { above: shell, began: 20, cpu: 20 });
    await on(dir.write('tree.html', trace.html()), async (page) => {
        const processes = async () => (await names(page)).slice(1).map((name) => name.split(' ')[0]);
        assert.deepEqual(await processes(), ['cc1', 'idle', 'other', 'bash', 'make']);
        const order = async (by) => {
            await command(page, 'Set: order of processes', by);
            return processes();
        };
        assert.deepEqual(await order('tree'), ['idle', 'other', 'bash', 'make', 'cc1']);
        const levels = await page.locator('#labels .label:visible').evaluateAll((all) => all.map((it) => Number(it.ariaLevel)));
        assert.deepEqual(levels, [1, 2, 2, 2, 3, 4]);
        assert.deepEqual(await order('start'), ['other', 'idle', 'bash', 'make', 'cc1']);
        assert.deepEqual(await order('cpu'), ['cc1', 'make', 'other', 'bash', 'idle']);
        assert.deepEqual(await order('name'), ['bash', 'cc1', 'idle', 'make', 'other']);
        // Command lines are shown, and the filter finds them.
        assert.match(await page.locator('#labels .label', { hasText: 'cc1' }).innerText(), /-quiet hello\.c/);
        await page.getByLabel('Filter tracks').fill('hello');
        await settled(page);
        assert.deepEqual(await processes(), ['cc1']);
        await page.getByLabel('Filter tracks').fill('/^(idle|make)$/');
        await settled(page);
        assert.deepEqual(await processes(), ['idle', 'make']);
        await page.getByLabel('Filter tracks').fill('/(/');
        await settled(page);
        assert.match(await page.locator('#where').innerText(), /not a valid regular expression/);
    });
});

test('processes of containers are in a group, which is sorted, filtered and summarized', async () => {
    const trace = new Trace();
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    const cpu = trace.node(trace.node(machine, Kind.Group, 'CPUs'), Kind.Cpu, 'CPU 0', { number: 0 });
    const pod = trace.node(machine, Kind.Group, 'pod 4d5e', { cpu: 30e6 });
    const web = trace.node(pod, Kind.Group, 'containerd 0123456789ab', { cpu: 30e6 });
    const counters = trace.node(web, Kind.Group, 'Counters');
    trace.counter(trace.node(counters, Kind.Counter, 'cgroup.[0123456789ab].memory.current', { unit: 'bytes' }), 0, 1e6);
    const place = { nginx: web, worker: web, init: machine, cron: machine };
    for (const [name, [at, time]] of Object.entries({ nginx: [10e6, 20e6], worker: [30e6, 10e6], init: [0, 10e6], cron: [40e6, 5e6] })) {
        const process = trace.node(place[name], Kind.Process, name, { number: 1 + at / 1e6, cpu: time });
        const thread = trace.node(process, Kind.Thread, name, { number: 1 + at / 1e6, cpu: time });
        trace.add('sched', cpu, { start: at, dur: time, thread, priority: 120, state: 'S' });
        trace.add('states', trace.node(thread, Kind.States, 'State'), { start: at, dur: time, state: 'Running', cpu });
    }
    await on(dir.write('pod.html', trace.html()), async (page) => {
        const rows = () => page.locator('#labels .label:visible').evaluateAll((all) => all.map((it) => `${it.getAttribute('aria-level')} ${it.querySelector('.what').textContent}`));
        const inPod = ['2 pod 4d5e', '3 containerd 0123456789ab', '4 nginx 11', '4 worker 31', '4 Counters'];
        assert.deepEqual(await rows(), ['1 Machine', '2 CPUs', '3 CPU 0', ...inPod, '2 init 1', '2 cron 41']);
        // The row of the container has the load of its processes.
        const { y, height } = await row(page, 'containerd');
        const stage = await page.locator('#stage').boundingBox();
        const at = async (time) => String(await pixel(page, 'boxes', { x: Math.round(await xOf(page, time) - stage.x), y: Math.round(y + height / 2 - stage.y) }));
        assert.notEqual(await at(22e6), await at(7e6));
        assert.equal(await at(7e6), await at(42e6));
        await page.getByLabel('Filter tracks').fill('0123456789');
        await settled(page);
        assert.deepEqual((await rows()).slice(0, 5), ['1 Machine', ...inPod.slice(0, 4)]);
        await page.getByLabel('Filter tracks').fill('');
        await command(page, 'Settings');
        await page.getByLabel('Order of processes').selectOption('name');
        await page.getByRole('button', { name: 'Close', exact: true }).click();
        await settled(page);
        assert.deepEqual((await rows()).slice(3), ['2 cron 41', '2 init 1', ...inPod]);
        await command(page, 'Select the visible time');
        await command(page, 'Group the events of the range', 'cpu container');
        const table = page.locator('.pivot', { hasText: 'CPU time by container' }).last();
        assert.match((await table.innerText()).replace(/\s+/g, ' '), /containerd 0123456789ab (\S+ )*30 ms/);
    });
});

test('the picture is saved with the names of its rows', () =>
    on(url, async (page) => {
        const [file] = await Promise.all([page.waitForEvent('download'), command(page, 'Save the picture as an image')]);
        assert.equal(file.suggestedFilename(), 'test.pftrace.png');
        const data = readFileSync(await file.path()).toString('base64');
        const stage = await page.locator('#stage').boundingBox();
        const picture = await page.evaluate(async ({ data, split }) => {
            const image = new Image();
            image.src = `data:image/png;base64,${data}`;
            await image.decode();
            const canvas = document.createElement('canvas');
            [canvas.width, canvas.height] = [image.width, image.height];
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0);
            const colors = (x, width) => new Set(new Uint32Array(context.getImageData(x, 0, width, image.height).data.buffer)).size;
            return { width: image.width, height: image.height, names: colors(0, split), events: colors(split, image.width - split) };
        }, { data, split: Math.round(stage.x) });
        assert.deepEqual([picture.width, picture.height], [Math.round(stage.x + stage.width), Math.round(stage.height)]);
        assert.ok(picture.names > 10 && picture.events > 10, JSON.stringify(picture));
    }));

test('a key takes another command, which the browser keeps', () =>
    on(url, async (page) => {
        await command(page, 'Give a key a command', 'x search status=500');
        await page.reload();
        await settled(page);
        await press(page, 'x');
        assert.match(await page.locator('#hits').innerText(), /of 1$/);
        await command(page, 'Give a key a command', 'x nonsense');
        assert.match(await page.locator('#where').innerText(), /no command “nonsense”/);
        await page.evaluate(() => localStorage.clear());
    }));

test('a page around this one runs commands and learns the view', async () => {
    const around = dir.write('around.html', `<!doctype html><link rel="icon" href="data:,"><iframe src="server.html" width="1200" height="700"></iframe><script>
        window.said = [];
        addEventListener('message', (event) => {
            said.push(event.data);
            if (event.data.ferretto === 'ready') frames[0].postMessage({ ferretto: 'run', commands: ['search status=500', 'fit'] }, '*');
        });</script>`);
    const page = await browser.newPage();
    await page.goto(around);
    await page.waitForFunction(() => window.said.some((it) => it.ferretto === 'done'));
    const last = await page.evaluate(() => window.said.at(-1).address);
    assert.match(last, /event=/);
    await page.close();
});

test('closing all groups keeps the top rows', () =>
    on(url, async (page) => {
        await page.getByLabel('Close all groups').click();
        await settled(page);
        assert.deepEqual(await names(page), ['Machine', 'CPU 0', 'CPU 1', 'server 100', 'client 200', 'log']);
    }));

test('the events of a range are saved as JSON of Chrome, with arguments and flows', () =>
    on(url, async (page) => {
        await command(page, 'Select a range of time', '20 ms 40 ms');
        const [download] = await Promise.all([page.waitForEvent('download'), command(page, 'JSON of Chrome')]);
        assert.equal(download.suggestedFilename(), 'test.json');
        const { traceEvents } = JSON.parse(readFileSync(await download.path(), 'utf8'));
        const worker = traceEvents.find(({ ph, args }) => ph === 'M' && args.name === 'worker-1');
        const requests = traceEvents.filter(({ name, pid, tid }) => name === 'request' && pid === worker.pid && tid === worker.tid);
        assert.deepEqual(requests, [{ ph: 'X', name: 'request', pid: 100, tid: 102, ts: 21_500, dur: 6000, cat: 'server', args: { id: 2, status: 200 } }]);
        const rss = traceEvents.filter(({ ph, name }) => ph === 'C' && name === 'rss');
        assert.deepEqual(rss.map(({ ts }) => ts), [20_000, 30_000]);
        assert.ok(rss[0].args.value > 1e6);
        const outside = traceEvents.filter(({ ph, ts, dur = 0 }) => !/[Msf]/.test(ph) && (ts + dur < 20_000 || ts >= 40_000));
        assert.deepEqual(outside, []);
        // The arrows from calls to `accept`, and from there to requests, begin and end in these slices.
        const ends = traceEvents.filter(({ ph }) => /[sf]/.test(ph));
        const flows = ends.filter(({ ph }) => ph === 's').map((from) => [from, ends.find(({ ph, id }) => ph === 'f' && id === from.id)]);
        assert.deepEqual(flows.map(([from, to]) => [from.tid, from.ts, to.tid, to.ts]), [
            [201, 20_000, 101, 20_500],
            [101, 20_500, 102, 21_500],
            [201, 30_000, 101, 30_500],
            [101, 30_500, 103, 31_500],
        ]);
    }));
