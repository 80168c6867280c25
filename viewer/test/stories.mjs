// The pictures of docs/why.md: `npm run stories`. The program in $FERRETTO runs the commands of the document, then the page is
// shown with the longest call of a thread selected.
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { folder, launch, open, press, settled } from './browser.mjs';

const docs = fileURLToPath(new URL('../../docs', import.meta.url));
const ferretto = resolve(process.env.FERRETTO ?? 'ferretto');
const dir = folder();

/** The picture, the trace, and the call whose wait it shows. */
const pictures = [
    ['why-build.png', 'trace.pftrace', 'sys_wait4', 'build.sh'],
    ['why-lock.png', 'orders.pftrace', 'sys_futex', 'orders'],
    ['why-disk.png', 'copy.pftrace', 'sys_write', 'dd'],
];

function commands() {
    const text = readFileSync(join(docs, 'why.md'), 'utf8');
    const stories = text.slice(text.indexOf('\n## A slow build'), text.indexOf('\n## Selections'));
    return [...stories.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, code]) => code).join('\n');
}

/** Serves a trace while `work` uses its address. */
async function served(trace, work) {
    const server = spawn(ferretto, ['view', '--no-browser', trace], { cwd: dir.path, stdio: ['ignore', 'pipe', 'inherit'] });
    try {
        let said = '';
        for await (const part of server.stdout) {
            said += part;
            const url = /http:\/\/127\.0\.0\.1:\d+\/\w+\/\S*/.exec(said);
            if (url) return await work(url[0]);
        }
        throw new Error(`no address: ${said}`);
    } finally {
        server.kill('SIGINT');
    }
}

/** Selects the longest match of a search on a track of a thread. */
async function selectLongest(page, name, thread) {
    await press(page, '/');
    await page.locator('#query').fill(name);
    await press(page, 'Enter', 'Escape', '5');
    const more = page.getByRole('button', { name: 'Show more' });
    while (await more.isVisible()) await more.click();
    const units = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 };
    const rows = page.locator('#content tr', { hasText: thread });
    const lengths = await rows.evaluateAll((all) => all.map((row) => row.cells[3].innerText.split(/\s/)));
    const times = lengths.map(([number, unit]) => Number(number) * (units[unit] ?? 0));
    await rows.nth(times.indexOf(Math.max(...times))).locator('button').click();
    await settled(page);
}

execFileSync('bash', ['-ec', commands()], { cwd: dir.path, env: { ...process.env, PATH: `${dirname(ferretto)}${delimiter}${process.env.PATH}` }, stdio: ['ignore', 'ignore', 'pipe'], maxBuffer: 1 << 26 });
const browser = await launch();
try {
    for (const [picture, trace, name, thread] of pictures) {
        await served(trace, async (url) => {
            const { page, wrong, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
            await selectLongest(page, name, thread);
            await press(page, '1', 'f');
            await page.screenshot({ path: join(docs, picture) });
            await close();
            if (wrong.length > 0) throw new Error(`${picture}: ${wrong.join(', ')}`);
        });
        console.log(picture);
    }
} finally {
    await browser.close();
    dir.remove();
}
