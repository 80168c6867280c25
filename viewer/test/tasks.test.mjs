// Thirty questions about a trace, answered with the keyboard alone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { command, folder, launch, open, press, seen, settled, span } from './browser.mjs';
import { Kind, Trace } from './fixture.mjs';

const MS = 1e6;

/** A machine with a disk, a shop whose requests wait for a lock and a disk, and a backup that writes most. */
function shop() {
    const trace = new Trace();
    trace.header.profiles = [{ id: 0, kind: 'cpu', name: 'CPU samples', unit: 'samples' }];
    trace.header.facts = [['trace_attribute.ferretto.command', 'make -j2 check']];
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    const disk = trace.node(machine, Kind.Slices, 'vda', { subject: 1 });
    const cpus = [0, 1].map((number) => trace.node(machine, Kind.Cpu, `CPU ${number}`, { number }));
    const add = (name, number, more) => {
        const process = trace.node(machine, Kind.Process, name, { number, ...more });
        const thread = trace.node(process, Kind.Thread, name, { number });
        return { process, thread, states: trace.node(thread, Kind.States, 'State'), samples: trace.node(thread, Kind.Samples, 'Samples'), slices: trace.node(thread, Kind.Slices, '') };
    };
    const make = add('make', 100, { began: -5 * MS, cpu: 10 * MS, command: 'make -j2 check' });
    const front = add('shop', 110, { above: make.process, began: 1 * MS, cpu: 300 * MS, command: '/usr/bin/shop --listen 80' });
    const backup = add('backup', 120, { above: front.process, began: 2 * MS, cpu: 50 * MS, command: 'backup /srv' });
    const memory = trace.node(front.process, Kind.Counter, 'memory', { unit: 'bytes' });
    const sent = trace.node(front.process, Kind.Counter, 'sent', { unit: 'bytes' });
    const events = trace.node(machine, Kind.Log, 'Kernel events of CPU 0');
    for (let i = 0; i < 50; i++) {
        const at = i * 20 * MS;
        const endpoint = i % 5 === 0 ? '/report' : '/item';
        const dur = endpoint === '/report' ? 15 * MS : 4 * MS + i * 1000;
        const request = trace.slice(front.slices, at, dur, 'request', { args: { endpoint, status: i === 33 ? 503 : 200 } });
        trace.slice(front.slices, at + 1 * MS, 2 * MS, i % 5 === 0 ? 'lock of cart' : 'lock of stock', { depth: 1 });
        const copy = trace.slice(backup.slices, at + 5 * MS, 3 * MS, 'copy');
        trace.flow(request, copy);
        trace.slice(disk, at + 5 * MS, (1 + (i % 3)) * MS, i % 4 === 0 ? 'vda read' : 'vda write', { args: { bytes: 4096 } });
        const writer = i % 4 === 1 ? front : backup;
        trace.add('logs', events, { start: at + 5 * MS, name: 'block_rq_issue', thread: writer.thread, args: { dev: 'vda', bytes: 4096 } });
        const copying = trace.add('states', backup.states, { start: at + 5 * MS, dur: 3 * MS, state: 'Running', cpu: cpus[1] });
        trace.add('sched', cpus[1], { start: at + 5 * MS, dur: 3 * MS, thread: backup.thread, priority: 139, state: 'D' });
        trace.add('states', backup.states, { start: at + 8 * MS, dur: 17 * MS, state: 'D', blocked: 'io_schedule' });
        trace.add('states', front.states, { start: at + 8 * MS, dur: 0.25 * MS, state: 'R', waker: backup.thread, wakerState: copying });
        trace.add('states', front.states, { start: at + 8.25 * MS, dur: 6 * MS, state: 'Running', cpu: cpus[0] });
        trace.add('sched', cpus[0], { start: at + 8.25 * MS, dur: 6 * MS, thread: front.thread, priority: 120, state: 'S' });
        trace.add('states', front.states, { start: at + 14.25 * MS, dur: 13.75 * MS, state: 'S' });
        trace.add('samples', front.samples, { start: at + 9 * MS, profile: 0, callsite: trace.callsite('main', 'serve', i % 10 < 7 ? 'render' : 'parse'), weight: 1 });
        trace.counter(memory, at, i === 20 ? 9 << 20 : 1 << 20);
        trace.counter(sent, at, i * 1000);
    }
    trace.header.losses = [{ start: 700 * MS, dur: 0, node: null, text: 'kernel events were lost' }];
    trace.header.remarks = ['CPU 2 was not recorded.'];
    return trace;
}

const content = (page) => page.locator('#content').innerText();
const where = (page) => page.locator('#where').innerText();
const hits = (page) => page.locator('#hits').innerText();
const rows = (page) => page.locator('#labels .label:visible .what').allInnerTexts();
/** Returns the first row of the table with a caption. */
const first = (page, caption) => page.locator('#content section', { has: page.getByRole('heading', { name: caption }) }).locator('tbody tr').first().innerText();
const find = async (page, text) => {
    await press(page, '/');
    await page.keyboard.press('Control+a');
    await page.keyboard.type(text);
    await press(page, 'Enter', 'Escape');
};
const group = async (page, text) => {
    await press(page, 'v');
    await command(page, 'Group the events', text);
};

const TASKS = {
    'which command was recorded': async (page) => assert.match(await where(page), /^make -j2 check: 1\.00\d s/),
    'what data does the recording have': async (page) => {
        await press(page, '6');
        assert.match(await content(page), /Disk vda\s+50 requests/);
    },
    'what is missing': async (page) => {
        await press(page, '6');
        assert.match(await content(page), /CPU 2 was not recorded[^]*kernel events were lost/);
    },
    'which process wrote most to vda': async (page) => {
        await group(page, 'events dev process');
        assert.match(await first(page, /by dev and process/), /vda\s+backup 120\s+37/);
    },
    'how long do writes to vda take': async (page) => {
        await group(page, 'slices track name');
        assert.match(await content(page), /vda\s+vda write\s+37\s+7\d ms/);
    },
    'how much time does the disk need for reads': async (page) => {
        await command(page, 'Go to a track', 'vda');
        await press(page, 'r');
        await command(page, 'Group the events', 'slices name');
        assert.match(await content(page), /vda read\s+13\s+2\d ms/);
    },
    'who woke this thread': async (page) => {
        await find(page, 'status=503');
        await command(page, 'Go to a time', '668 ms 669 ms');
        await command(page, 'Go to a track', 'CPU 0');
        await press(page, 'e', '1');
        assert.match(await content(page), /Woken by\s+backup 120/);
        await press(page, 'k');
        assert.match(await content(page), /^Running[^]*backup 120/);
    },
    'p99 of requests by endpoint': async (page) => {
        await group(page, 'slices name endpoint');
        assert.match(await content(page), /request\s+\/report\s+10\s+150 ms\s+[^\n]*15 ms\s+15 ms\s+15 ms\s+15 ms/);
    },
    'which lock costs most': async (page) => {
        await find(page, '/^lock of/');
        assert.equal(await hits(page), '1 of 50');
        await press(page, 'Home');
        await group(page, 'slices name');
        assert.match(await content(page), /lock of stock\s+40\s+80 ms/);
    },
    'which request failed': async (page) => {
        await find(page, 'status=/^5/');
        assert.match(await hits(page), /of 1$/);
        await press(page, '1');
        assert.match(await content(page), /endpoint\s+\/item/);
    },
    'how long did the failed request take': async (page) => {
        await find(page, 'status=503');
        await press(page, '1', 'f');
        assert.match(await content(page), /4\.033 ms/);
        const [from, to] = await span(page);
        assert.ok(to - from < 6 * MS);
    },
    'what ran within the request': async (page) => {
        await find(page, 'status=503');
        await press(page, '1', '>');
        assert.match(await content(page), /^lock of stock/);
    },
    'where does the request lead to': async (page) => {
        await find(page, 'status=503');
        await press(page, '1', ']');
        assert.match(await content(page), /^copy/);
    },
    'which thread used most CPU time': async (page) => {
        await group(page, 'cpu thread');
        assert.match(await first(page, /^CPU time by/), /^shop 110\s+300 ms\s+29\.8 %/);
    },
    'which process used most CPU time on CPU 1': async (page) => {
        await group(page, 'cpu cpu process');
        assert.match(await content(page), /CPU 1\s+backup 120\s+150 ms/);
    },
    'how long did threads wait for a CPU': async (page) => {
        await group(page, 'states state thread');
        assert.match(await content(page), /Runnable\s+shop 110\s+50\s+12\.5 ms/);
    },
    'where does the backup block': async (page) => {
        await group(page, 'states thread state blocked');
        assert.match(await content(page), /backup 120\s+Uninterruptible sleep\s+io_schedule/);
    },
    'what does the shop compute': async (page) => {
        await press(page, 'v', '3');
        await page.locator('#content canvas').focus();
        await press(page, 'ArrowDown', 'ArrowDown', 'ArrowDown');
        assert.match(await page.locator('.flamefoot').innerText(), /render: 35 samples, 70 %/);
    },
    'how much memory at most': async (page) => {
        await press(page, 'v');
        assert.match(await content(page), /memory\s+shop 110\s+1 MiB\s+[^\n]*9 MiB/);
    },
    'how many bytes are sent each second': async (page) => {
        await press(page, 'v');
        assert.match(await content(page), /sent\s+shop 110\s+4\d\.\d KiB/);
    },
    'how long from request to copy': async (page) => {
        await press(page, 'v');
        assert.match(await content(page), /request\s+copy\s+within it\s+50\s+5 ms/);
    },
    'which process started which': async (page) => {
        await command(page, 'Set: order of processes', 'tree');
        const names = (await rows(page)).filter((row) => /^(make|shop|backup)/.test(row));
        assert.deepEqual(names, ['make 100', 'shop 110', 'backup 120']);
    },
    'which process started last': async (page) => {
        await command(page, 'Set: order of processes', 'start');
        const names = (await rows(page)).filter((row) => /^(make|shop|backup)/.test(row));
        assert.equal(names.at(-1), 'backup 120');
    },
    'show only the program that listens on port 80': async (page) => {
        await command(page, 'Filter tracks', 'listen 80');
        assert.deepEqual((await rows(page)).filter((name) => /^(Machine|make|shop|backup)/.test(name)), ['Machine', 'shop 110']);
    },
    'keep the rows that matter in sight': async (page) => {
        await command(page, 'Pin tracks by name', '/^(vda|shop)/');
        await command(page, 'Save the pinned rows', 'disk');
        assert.deepEqual((await rows(page)).slice(0, 2), ['vda', 'shop 110']);
    },
    'tell a colleague what is wrong': async (page) => {
        await find(page, 'status=503');
        await command(page, 'Add a note', 'fails here');
        assert.match(decodeURIComponent((await seen(page)).get('notes')), /fails here/);
    },
    'count times from the failed request': async (page) => {
        await find(page, 'status=503');
        await command(page, 'Count times from the selected');
        await press(page, '1');
        assert.match(await content(page), /Start\s+0\.000 000 000 s/);
    },
    'repeat the same steps': async (page) => {
        await command(page, 'Record a macro', 'again');
        await command(page, 'Search names', 'status=503');
        await press(page, 'f');
        await command(page, 'End the recording');
        await press(page, 'Escape', 'Home');
        await command(page, 'Run a macro', 'again');
        await settled(page);
        const [from, to] = await span(page);
        assert.ok(to - from < 6 * MS);
    },
    'list what the kernel did in one request': async (page) => {
        await find(page, 'status=503');
        await press(page, '1', 'm', '4');
        assert.match(await content(page), /No lines in this time range|0 lines/);
        await command(page, 'Select a range of time', '660 ms 670 ms');
        await press(page, '4');
        assert.match(await content(page), /block_rq_issue\s+dev=vda bytes=4096/);
    },
    'tell the colours apart': async (page) => {
        await command(page, 'Set: colours', 'safe');
        await press(page, '6');
        assert.match(await content(page), /Runnable, waiting for a CPU/);
    },
};

let browser;
let dir;
before(async () => {
    browser = await launch();
    dir = folder();
});
after(async () => {
    await browser?.close();
    dir?.remove();
});

test('thirty tasks from the keyboard', async (t) => {
    assert.equal(Object.keys(TASKS).length, 30);
    const { page, wrong, close } = await open(browser, dir.write('shop.html', shop().html()));
    // The mouse is not in the page.
    for (const [task, work] of Object.entries(TASKS)) {
        await t.test(task, async () => {
            await page.evaluate(() => {
                localStorage.clear();
                history.replaceState(null, '', location.pathname);
            });
            await page.reload();
            await settled(page);
            await work(page);
        });
    }
    assert.deepEqual(wrong, []);
    await close();
});
