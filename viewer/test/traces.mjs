// The traces of tests and screenshots.
import { Kind, Trace } from './fixture.mjs';

const MS = 1e6;

/** Returns pseudo-random numbers from a fixed seed. */
export function dice(seed = 1) {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

/** Returns a small server: two processes, requests with nested slices, flows between threads, a counter, a log, samples, loss. */
export function server() {
    const trace = new Trace();
    trace.header.profiles = [{ id: 0, kind: 'cpu', name: 'CPU samples', unit: 'samples' }];
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    const cpu = [0, 1].map((number) => trace.node(machine, Kind.Cpu, `CPU ${number}`, { number }));
    const process = trace.node(machine, Kind.Process, 'server', { number: 100 });
    const rss = trace.node(process, Kind.Counter, 'rss', { unit: 'bytes' });
    const queue = trace.node(process, Kind.Slices, 'connections');
    const threads = ['accept', 'worker-1', 'worker-2'].map((name, i) => {
        const thread = trace.node(process, Kind.Thread, name, { number: 101 + i });
        return { thread, states: trace.node(thread, Kind.States, 'states'), samples: trace.node(thread, Kind.Samples, 'samples'), slices: trace.node(thread, Kind.Slices, name) };
    });
    const client = trace.node(machine, Kind.Process, 'client', { number: 200 });
    const caller = trace.node(client, Kind.Thread, 'caller', { number: 201 });
    const calls = trace.node(caller, Kind.Slices, 'caller');
    const log = trace.node(machine, Kind.Log, 'log');
    const roll = dice(7);
    let waker = null;
    for (let i = 0; i < 20; i++) {
        const at = i * 10 * MS;
        const call = trace.slice(calls, at, 9 * MS, `call ${i}`, { category: 'client', args: { number: i, url: `/item/${i}` } });
        const accept = trace.slice(threads[0].slices, at + 0.5 * MS, 0.5 * MS, 'accept');
        trace.flow(call, accept);
        const worker = threads[1 + (i % 2)];
        const request = trace.slice(worker.slices, at + 1.5 * MS, 6 * MS, 'request', { category: 'server', args: { 'debug.id': i, status: i === 13 ? 500 : 200 } });
        trace.flow(accept, request);
        trace.slice(worker.slices, at + 2 * MS, 2 * MS, 'parse', { depth: 1 });
        trace.slice(worker.slices, at + 4 * MS, 3 * MS, 'query', { depth: 1, args: { sql: 'SELECT 1' } });
        trace.slice(worker.slices, at + 4.5 * MS, 1 * MS, 'wait', { depth: 2 });
        trace.slice(queue, at, 9 * MS, `connection ${i}`, {});
        const running = trace.add('states', threads[0].states, { start: at + 0.5 * MS, dur: 0.5 * MS, state: 'Running', cpu: cpu[0] });
        trace.add('states', threads[0].states, { start: at + 1 * MS, dur: 9.5 * MS, state: 'S' });
        trace.add('sched', cpu[0], { start: at + 0.5 * MS, dur: 0.5 * MS, thread: threads[0].thread, priority: 120, state: 'S' });
        trace.add('states', worker.states, { start: at + 1 * MS, dur: 0.5 * MS, state: 'R', waker: threads[0].thread, wakerState: running });
        trace.add('states', worker.states, { start: at + 1.5 * MS, dur: 6 * MS, state: 'Running', cpu: cpu[1] });
        trace.add('states', worker.states, { start: at + 7.5 * MS, dur: 3 * MS, state: 'S' });
        trace.add('sched', cpu[1], { start: at + 1.5 * MS, dur: 6 * MS, thread: worker.thread, priority: 120, state: 'S' });
        waker = running;
        trace.counter(rss, at, 1e6 + 4e5 * Math.round(8 * Math.sin(i / 3) + 8));
        trace.add('logs', log, { start: at + 3 * MS, name: 'server', text: `request ${i} is read`, level: i === 13 ? 'error' : 'info', thread: worker.thread });
        for (let k = 0; k < 12; k++) {
            const leaf = roll() < 0.6 ? ['parse', 'utf8'] : ['query', 'scan', 'compare'];
            trace.add('samples', worker.samples, { start: Math.round(at + 1.6 * MS + k * 0.48 * MS), profile: 0, callsite: trace.callsite('main', 'serve', ...leaf), weight: 1 });
        }
    }
    trace.slice(threads[1].slices, 205 * MS, 0, 'shutdown', {});
    trace.header.losses = [{ start: 150 * MS, dur: 4 * MS, node: null, text: '37 packets of the buffer were overwritten' }];
    trace.header.remarks = ['CPU 2 was not recorded.'];
    return trace;
}

export function nothing() {
    const trace = new Trace();
    trace.header.remarks = ['No data source wrote anything.'];
    trace.header.wall = null;
    return trace;
}

/** Returns a track nested thirty deep above a process, and a thread nested twelve deep. */
export function deep() {
    const trace = new Trace();
    const machine = trace.node(-1, Kind.Machine, 'Machine');
    const requests = trace.node(machine, Kind.Slices, 'requests');
    const process = trace.node(machine, Kind.Process, 'server', { number: 1 });
    const thread = trace.node(process, Kind.Thread, 'main', { number: 1 });
    const calls = trace.node(thread, Kind.Slices, 'main');
    for (let depth = 0; depth < 30; depth++) trace.slice(requests, depth * 1e6, 100e6 - 2 * depth * 1e6, `request ${depth}`, { depth });
    for (let depth = 0; depth < 12; depth++) trace.slice(calls, depth * 1e6, 100e6 - 2 * depth * 1e6, `call ${depth}`, { depth });
    return trace;
}

/** Names with markup, in right-to-left scripts, and with control characters of the writing direction. */
export const NAMES = ['<img src=x onerror="window.hacked=1">', '<script>window.hacked=1</script>', 'שלום עולם', 'مرحبا', '\u202Egnirts\u202C', '&amp;', '</script><b>bold</b>'];

export function hostile() {
    const trace = new Trace();
    trace.header.name = NAMES[0];
    trace.header.profiles = [{ id: 0, kind: 'cpu', name: NAMES[0], unit: 'samples' }];
    trace.header.losses = [{ start: 10, dur: 5, node: null, text: NAMES[1] }];
    trace.header.remarks = [NAMES[1]];
    trace.header.facts = [[NAMES[0], NAMES[1]]];
    const process = trace.node(-1, Kind.Process, NAMES[0], { number: 1 });
    const log = trace.node(process, Kind.Log, NAMES[1]);
    NAMES.forEach((name, i) => {
        const thread = trace.node(process, Kind.Thread, name, { number: i });
        const samples = trace.node(thread, Kind.Samples, name);
        const slices = trace.node(thread, Kind.Slices, name);
        trace.slice(slices, 1000 * i, 900, name, { category: name, args: { [name]: name } });
        trace.add('logs', log, { start: 1000 * i, name, text: name, level: name, thread });
        trace.add('samples', samples, { start: 1000 * i + 5, profile: 0, callsite: trace.callsite(name, name), weight: 1 });
        const counter = trace.node(process, Kind.Counter, name, { unit: name });
        trace.counter(counter, 1000 * i, i);
        trace.counter(counter, 1000 * i + 50, 2 * i);
    });
    return trace;
}
