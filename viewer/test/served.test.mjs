// The page with traces that the program serves and exports. Needs the program in $FERRETTO.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { clickEvent, command, folder, launch, open, press, row, seen, settled, visit, xOf } from './browser.mjs';
import { Packets } from './packets.mjs';
import { ferretto, served as serve } from './serve.mjs';
import { dice } from './traces.mjs';

let browser;
let dir;

/** Two threads, nested slices, a flow, a counter and an instant, in the format of Chrome. */
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

const served = (args, work) => serve(dir, args, work);
const on = (address, work) => visit(browser, address, work);
const foot = (page) => page.locator('.flamefoot').innerText();

/** Returns the names of the boxes of a row of the flamegraph, by keyboard. */
async function boxes(page, depth) {
    await page.locator('#content canvas').focus();
    await press(page, ...Array(depth).fill('ArrowDown'));
    const names = [];
    for (let text = ''; text !== (await foot(page)); await press(page, 'ArrowRight')) {
        text = await foot(page);
        names.push(/^(.*?): \d/.exec(text)[1]);
    }
    return names;
}

test('a served trace and an exported one show the same', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    await served(['shop.json'], async (url) => {
        const first = await look(url);
        execFileSync(ferretto, ['view', 'shop.json', '-o', 'shop.html'], { cwd: dir.path, stdio: 'pipe' });
        const exported = await look(pathToFileURL(`${dir.path}/shop.html`).href);
        assert.equal(first, exported);
    });
});

/** Many processes with threads, tracks and counters, of which the page opens only some. */
function crowd() {
    const all = [];
    for (let pid = 1; pid <= 200; pid++) {
        const threads = pid % 3 === 0 ? 1 : 3;
        for (let tid = 10 * pid; tid < 10 * pid + threads; tid++) {
            for (let ts = tid; ts < 5000; ts += 20 * pid) all.push({ ph: 'X', pid, tid, ts, dur: 40, name: `turn ${ts % 7}` }, { ph: 'X', pid, tid, ts, dur: 9, name: 'inner' });
        }
        if (pid % 4 === 0) for (let ts = 0; ts < 5000; ts += 500) all.push({ ph: 'C', pid, ts, name: 'stock', args: { pieces: ts % 700 } });
        if (pid % 5 === 0) for (let id = 0; id < 3; id++) all.push({ ph: 'b', pid, ts: id, id, cat: 'job', name: 'job' }, { ph: 'e', pid, ts: 900 + id, id, cat: 'job', name: 'job' });
    }
    return JSON.stringify(all);
}

test('the JSON of a served trace is that of an exported one', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const saved = (url) => visit(browser, url, async (page) => {
        const [download] = await Promise.all([page.waitForEvent('download'), command(page, 'JSON of Chrome')]);
        const { traceEvents } = JSON.parse(readFileSync(await download.path(), 'utf8'));
        const flows = traceEvents.filter(({ ph }) => ph === 's');
        assert.equal(flows.length, 50);
        const order = traceEvents.find(({ name, ts }) => name === 'order' && ts === 7000);
        assert.deepEqual([order.cat, order.args], ['web', { number: 7, who: '<b>you</b>' }]);
        assert.ok(traceEvents.some(({ ph, ts, args }) => ph === 'C' && ts === 49_000 && args.value === 51));
        all.push(traceEvents.map((event) => JSON.stringify(event)).sort());
    });
    const all = [];
    await served(['shop.json'], saved);
    execFileSync(ferretto, ['view', 'shop.json', '-o', 'saved.html'], { cwd: dir.path, stdio: 'pipe' });
    await saved(pathToFileURL(`${dir.path}/saved.html`).href);
    assert.deepEqual(all[0], all[1]);
});

/** A request of `reader`, which waits for 8 of its 14 ms for `writer`. */
const WAIT = `# tracer: nop
<idle>-0 [000] d..2 1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=reader next_pid=10 next_prio=120
reader-10 [000] d..2 1.001000: tracing_mark_write: B|10|request
reader-10 [000] d..2 1.002000: sched_switch: prev_comm=reader prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=writer next_pid=20 next_prio=120
writer-20 [000] d..2 1.010000: sched_waking: comm=reader pid=10 prio=120 target_cpu=000
writer-20 [000] d..2 1.011000: sched_switch: prev_comm=writer prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=reader next_pid=10 next_prio=120
reader-10 [000] d..2 1.015000: tracing_mark_write: E|10
reader-10 [000] d..2 1.020000: sched_switch: prev_comm=reader prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
`;

/** Two processes with two threads each on two CPUs, in the text format of the kernel. */
function switches() {
    const lines = ['# tracer: nop'];
    const tasks = [[70, 70, 'loop'], [71, 70, 'loop-2'], [80, 80, 'pulse'], [81, 80, 'pulse-2']];
    const running = [null, null];
    const roll = dice(3);
    const task = (it, cpu) => (it ? [it[2], it[0], it[1]] : [`swapper/${cpu}`, 0, 0]);
    for (let i = 0; i < 3000; i++) {
        const cpu = i % 2;
        const at = (1 + i * 0.0007 + roll() * 0.0003).toFixed(6);
        const next = roll() < 0.4 ? null : tasks[cpu + 2 * Math.floor(roll() * 2)];
        if (next === running[cpu]) continue;
        const [prev, pid, tgid] = task(running[cpu], cpu);
        const [name, tid] = task(next, cpu);
        lines.push(`${prev}-${pid} (${tgid ? String(tgid).padStart(5) : '-----'}) [00${cpu}] d..2 ${at}: sched_switch: prev_comm=${prev} prev_pid=${pid} prev_prio=120 prev_state=S ==> next_comm=${name} next_pid=${tid} next_prio=120`);
        running[cpu] = next;
    }
    return `${lines.join('\n')}\n`;
}

test('a served page and an exported one draw the same processes and have the same statistics', async (t) => {
    if (!ferretto) return t.skip('no program in $FERRETTO');
    dir.write('switches.txt', switches());
    execFileSync(ferretto, ['view', 'switches.txt', '-o', 'switches.html'], { cwd: dir.path, stdio: 'ignore' });
    const results = [];
    const look = async (page) => {
        const result = [];
        for (const keys of [[], ['w', 'w', 'w', 'd']]) {
            await press(page, ...keys);
            const stage = await page.locator('#stage').boundingBox();
            for (const label of await page.locator('#labels .label.group:visible').all()) {
                const { y, height } = await label.boundingBox();
                result.push((await page.screenshot({ clip: { x: stage.x, y, width: stage.width, height } })).toString('base64'));
            }
        }
        for (const line of ['range 0.1 s 1 s', 'group cpu process', 'group states state thread', 'group events name']) {
            await command(page, line.startsWith('range') ? 'Select a range of time' : 'Group the events', line.replace(/^\w+ /, ''));
            result.push(await page.locator('#content').innerText());
        }
        results.push(result);
    };
    await served(['switches.txt'], (url) => visit(browser, url, look));
    await visit(browser, pathToFileURL(`${dir.path}/switches.html`).href, look);
    const [one, other] = results;
    assert.ok(one.length > 6);
    one.forEach((part, i) => assert.ok(part === other[i], part.length < 5000 ? `${part}\n----\n${other[i]}` : `picture ${i}`));
});

test('a slice and a wait are explained', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    dir.write('wait.txt', WAIT);
    const said = JSON.parse(execFileSync(ferretto, ['why', '--json', '--slice', 'request', 'wait.txt'], { cwd: dir.path, encoding: 'utf8' }));
    assert.equal(said.dur_ns, 14e6);
    await served(['wait.txt'], (url) =>
        on(url, async (page) => {
            await press(page, '/');
            await page.locator('#query').fill('request');
            await press(page, 'Enter', 'Escape', '1');
            const why = page.locator('#content .why');
            const text = await why.innerText();
            assert.match(text, /waited for something unknown, until woken by writer \(20\)/);
            assert.match(text, /interrupts \(--irq\)/);
            // The numbers are those of the command.
            for (const cause of said.causes) {
                const [share, ms] = [((cause.dur_ns * 100) / said.dur_ns).toFixed(1), cause.dur_ns / 1e6];
                assert.match(text, new RegExp(`${share} %\\s+${ms} ms`));
            }
            // The chain: the wait, and below it the thread that ended it, for the same time.
            const bar = async (title) => {
                const found = why.locator(`.chain button[title^="${title}"]`);
                return { box: await found.boundingBox(), color: await found.evaluate((it) => getComputedStyle(it).backgroundColor), click: () => found.click() };
            };
            const [wait, writer, cpu] = [await bar('reader (10) waited'), await bar('writer (20) ran'), await bar('reader (10) writer (20) had it')];
            const whole = await why.locator('.chain').boundingBox();
            for (const { box } of [wait, writer]) assert.ok(Math.abs(box.width / whole.width - 8 / 14) < 0.01 && Math.abs((box.x - whole.x) / whole.width - 1 / 14) < 0.01);
            assert.ok(writer.box.y >= wait.box.y + wait.box.height);
            assert.equal(new Set([wait, writer, cpu].map(({ color }) => color)).size, 3);
            // The wait of the thread names its waker, too.
            await wait.click();
            await settled(page);
            assert.match(await page.locator('#content').innerText(), /100.0 %\s+8 ms\s+waited for .* until woken by writer/);
            await page.getByRole('button', { name: 'Go to the thread that woke it' }).click();
            await settled(page);
            assert.match(await page.locator('#content').innerText(), /writer 20/);
        }),
    );
});

test('the chain of waits is drawn as a track', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    dir.write('wait.txt', WAIT);
    await served(['wait.txt'], (url) =>
        on(url, async (page) => {
            await press(page, '/');
            await page.locator('#query').fill('request');
            await press(page, 'Enter', 'Escape', '1');
            await page.getByRole('button', { name: 'Draw the chain in the picture' }).click();
            await settled(page);
            const pinned = page.locator('.label.pinned', { hasText: 'Chain of request' });
            assert.match(await pinned.innerText(), /2 deep|Chain of request/);
            // The second level is the thread that was waited for, half of the time.
            const box = await pinned.boundingBox();
            const line = await page.evaluate(() => Math.round(parseFloat(getComputedStyle(document.body).fontSize) * 1.38));
            await page.mouse.click(await xOf(page, 5e6), box.y + 2 + line * 1.5);
            await settled(page);
            assert.match(await page.locator('#content').innerText(), /^writer \(20\) ran[^]*cause\s+ran/);
            const hash = await page.evaluate(() => location.hash);
            await on(url + hash, async (other) => {
                await other.locator('.label.pinned', { hasText: 'Chain of request' }).waitFor();
                await settled(other);
                assert.match(await other.locator('#content').innerText(), /^writer \(20\) ran/);
            });
        }),
    );
});

test('the first picture comes with the page', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    dir.write('wait.txt', WAIT);
    dir.write('crowd.json', crowd());
    for (const file of ['shop.json', 'wait.txt', 'crowd.json']) {
        await served([file], async (url) => {
            const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
            const page = await context.newPage();
            const asked = [];
            page.on('request', (request) => request.url().endsWith('/tiles') && asked.push(request.postDataJSON()));
            await page.goto(url);
            await settled(page);
            const { width } = await page.locator('#stage').boundingBox();
            // Rows of which the page has none are requested first with steps that are wider than two pixels.
            assert.deepEqual(asked.filter(({ from, to, level }) => 2 ** level * width > 2 * (to - from)), [], file);
            await context.close();
        });
    }
});

/** Returns output of `perf script`: samples of two functions. */
function samples(parse, query) {
    let time = 1;
    const sample = (name) => `app 10/10 [000] ${(time += 0.001).toFixed(6)}: 1 cycles:\n\t10 ${name}+0x4 (/bin/app)\n\t20 main+0x4 (/bin/app)\n\n`;
    return sample('parse').repeat(parse) + sample('query').repeat(query);
}

test('a trace is compared with the previous one', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    dir.write('old.txt', samples(10, 10));
    dir.write('new.txt', samples(30, 10));
    await served(['--before', 'old.txt', 'new.txt'], (url) =>
        on(url, async (page) => {
            await press(page, '3');
            assert.match(await foot(page), /^40 cycles/);
            await page.getByLabel('Compare with').selectOption({ label: 'the previous trace' });
            await settled(page);
            await page.locator('#content canvas').focus();
            await press(page, 'ArrowDown', 'ArrowDown');
            const both = [await foot(page)];
            await press(page, 'ArrowRight');
            both.push(await foot(page));
            both.sort();
            assert.match(both[0], /^parse: 30 cycles, 75 %.*\+25\.0 points \(before: 50 %\)/);
            assert.match(both[1], /^query: 10 cycles, 25 %.*−25\.0 points \(before: 50 %\)/);
        }),
    );
});

test('the slices of two traces are compared, as a whole and at the same times', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const slices = (...all) => JSON.stringify(all.map(([name, ts, dur]) => ({ ph: 'X', pid: 1, tid: 1, ts, dur, name })));
    dir.write('old.json', slices(['load', 0, 1000], ['parse', 1000, 1000], ['only', 3000, 1000]));
    dir.write('new.json', slices(['load', 0, 1000], ['parse', 1000, 6000], ['extra', 7000, 1000]));
    await served(['--before', 'old.json', 'new.json'], (url) =>
        on(url, async (page) => {
            await command(page, 'Show the tab Compare');
            const table = () => page.locator('#content .columns > *', { hasText: 'own time' }).innerText();
            const row = async (name) => (await table()).split('\n').find((line) => line.startsWith(name))?.split('\t').slice(1);
            assert.match(await page.locator('#content').innerText(), /^8 ms compared with 4 ms/);
            assert.deepEqual((await row('parse')).slice(0, 2), ['1 ms', '6 ms']);
            assert.equal((await row('only'))[2], 'gone');
            assert.equal((await row('extra'))[2], 'new');
            await command(page, 'Select a range of time', '0 3 ms');
            await command(page, 'Show the tab Compare');
            assert.deepEqual((await row('parse')).slice(0, 2), ['1 ms', '2 ms']);
            assert.equal(await row('only'), undefined);
        }),
    );
});

test('the rows of two traces that changed most are drawn together, from the start of each', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const trace = (...all) => JSON.stringify(all.flatMap(([thread, tid, ts, dur, name]) => [{ ph: 'M', pid: 1, tid, name: 'thread_name', args: { name: thread } }, { ph: 'X', pid: 1, tid, ts, dur, name }]));
    // Threads have other numbers in each trace, and the first trace is longer.
    dir.write('first.json', trace(['extra', 9, 0, 100, 'setup'], ['worker', 8, 0, 2000, 'parse'], ['worker', 8, 6000, 2000, 'flush'], ['idle', 7, 0, 100, 'wait']));
    dir.write('second.json', trace(['idle', 2, 0, 100, 'wait'], ['worker', 3, 0, 4000, 'parse']));
    await served(['--before', 'first.json', 'second.json'], (url) =>
        on(url, async (page) => {
            await command(page, 'Draw the changed rows');
            const names = (await page.locator('.label.pinned').allInnerTexts()).map((text) => /(before: )?(worker|idle|extra)/.exec(text)[0]);
            assert.deepEqual(names.slice(0, 2), ['worker', 'before: worker']);
            assert.ok(names.includes('before: extra') && !names.includes('extra'), names.join());
            // The axis reaches the end of the longer one.
            await press(page, 'Home');
            const box = await page.locator('.label.pinned', { hasText: 'before: worker' }).boundingBox();
            await page.mouse.click(await xOf(page, 7e6), box.y + 12);
            await settled(page);
            assert.match(await page.locator('#content').innerText(), /^flush[^]*2 ms/);
            await press(page, ',');
            assert.match(await page.locator('#content').innerText(), /^parse[^]*2 ms/);
        }),
    );
});

test('a recording is shown while it grows', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    execFileSync('mkfifo', [`${dir.path}/gate`]);
    let why = '';
    // The command ends after the first write into the pipe.
    const work = (url, server) =>
        on(url, async (page) => {
            const live = page.locator('#live');
            await live.waitFor({ state: 'visible' });
            assert.equal(await live.getAttribute('aria-pressed'), 'true');
            const length = () => page.evaluate(() => Number(location.hash.split('at=')[1].split(/[,&]/)[1]));
            const before = await length();
            await page.waitForFunction((before) => Number(location.hash.split('at=')[1].split(/[,&]/)[1]) > before, before, { timeout: 0 });
            writeFileSync(`${dir.path}/gate`, 'x');
            await live.waitFor({ state: 'hidden', timeout: 0 });
            await settled(page);
            // All events are shown, and stay after the recording has ended.
            await page.getByLabel('Filter tracks').fill('head');
            await settled(page);
            assert.ok(await row(page, 'head'));
            assert.equal(server.exitCode, null);
        });
    try {
        await served(['--live', 'live.pftrace', '--', 'sh', '-c', 'head -c 1 gate'], work);
    } catch (error) {
        if (!/no address/.test(error.message)) throw error;
        why = error.message;
    }
    if (why) t.skip(`nothing can be recorded here: ${why}`);
});

test('a stripped program has one box for each function', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const words = Array.from({ length: 200_000 }, (_, i) => `${Math.imul(i, 2654435761) >>> 0} word`);
    dir.write('words', words.join('\n'));
    try {
        execFileSync(ferretto, ['record', '-q', '--perf', '-o', 'sort.pftrace', '--', 'sort', '--parallel=1', '-o', 'sorted', 'words'], { cwd: dir.path, stdio: 'pipe' });
    } catch (error) {
        return t.skip(`no samples here: ${String(error.stderr).trim().split('\n').pop()}`);
    }
    await served(['sort.pftrace'], (url) =>
        on(url, async (page) => {
            await press(page, '3');
            if (/^0 samples/.test(await foot(page))) return t.skip('no samples here');
            await page.getByRole('button', { name: 'Invert' }).click();
            await settled(page);
            const names = (await boxes(page, 1)).filter((name) => name.startsWith('sort+0x'));
            if (names.length === 0) return t.skip('this sort has symbols');
            assert.deepEqual(names, [...new Set(names)], 'functions have several boxes');
            await page.getByLabel('Search functions').fill('sort+0x');
            await settled(page);
            assert.match(await foot(page), /“sort\+0x”: [\d.]+ %/);
        }),
    );
});

const [BEGIN, END, INSTANT] = [1, 2, 3];

/** Returns the requests that were answered before the picture was sharp. */
const requests = (page) =>
    page.evaluate(() => {
        const until = performance.getEntriesByName('sharp')[0].startTime;
        const all = performance.getEntriesByType('resource').filter((it) => it.responseEnd <= until);
        return all.map((it) => ({ name: it.name.split('/').pop(), bytes: it.transferSize }));
    });

test('the first picture of many events needs few bytes', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    const trace = new Packets();
    const tracks = 40;
    for (let track = 1; track <= tracks; track++) trace.track(track, `track ${track}`);
    for (let i = 0; i < 200_000; i++) {
        const track = 1 + (i % tracks);
        trace.event(i * 100, BEGIN, track, `step ${i % 50}`);
        trace.event(i * 100 + 60 + ((i * 7919) % 3000), END, track);
    }
    dir.write('events.pftrace', trace.all);
    await served(['events.pftrace'], (url) =>
        on(url, async (page) => {
            // The page contains its first picture. One request completes it.
            const itself = await page.evaluate(() => performance.getEntriesByType('navigation')[0].transferSize);
            assert.ok(itself < 500_000, `${itself}`);
            const all = await requests(page);
            assert.deepEqual(all.map(({ name }) => name), ['tiles']);
            assert.ok(all[0].bytes < 4_000_000, JSON.stringify(all));
            // Events that are already loaded are not requested again.
            await press(page, 'w', 's', 'Home');
            const again = await page.evaluate(() => performance.getEntriesByType('resource').length);
            await press(page, 'Home', 'ArrowDown', 't');
            assert.equal(await page.evaluate(() => performance.getEntriesByType('resource').length), again);
        }),
    );
});

/** Returns a million tracks, each with an instant; one in a thousand has a slice instead. */
function million() {
    const trace = new Packets();
    for (let i = 1; i <= 1_000_000; i++) {
        trace.track(i, `track ${i}`);
        const long = i % 1000 === 0;
        trace.event(i, long ? BEGIN : INSTANT, i, long ? `event ${i}` : 'i');
        if (long) trace.event(i + 500, END, i);
    }
    return trace.all;
}

test('a million tracks are served', async (t) => {
    if (!ferretto) return t.skip('$FERRETTO names no program');
    dir.write('million.pftrace', million());
    await served(['million.pftrace'], (url) =>
        on(url, async (page) => {
            // Only visible tracks are requested.
            const sizes = await requests(page);
            assert.ok(sizes.length <= 3 && sizes.slice(1).every(({ bytes }) => bytes < 100_000), JSON.stringify(sizes));
            await page.getByLabel('Filter tracks').fill('track 999000');
            await settled(page);
            assert.ok(await row(page, 'track 999000'));
            await page.getByLabel('Filter tracks').fill('');
            await settled(page);
            await press(page, '/');
            await page.locator('#query').fill('event 777000');
            await press(page, 'Enter', 'Escape');
            assert.match(await page.locator('#hits').innerText(), /^1 of 1$/);
            assert.ok(await row(page, 'track 777000'));
            await press(page, '1');
            assert.match(await page.locator('#content').innerText(), /^event 777000/);
        }),
    );
});
