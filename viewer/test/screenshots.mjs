// Screenshots of recordings: `npm run screenshots`. The program in $FERRETTO records and exports each of them. Reports
// and skips recordings that the kernel does not permit.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { folder, launch, open, settled } from './browser.mjs';
import { server } from './traces.mjs';

const out = fileURLToPath(new URL('../screenshots', import.meta.url));
const ferretto = resolve(process.env.FERRETTO ?? 'ferretto');
const examples = join(fileURLToPath(new URL('../../target/debug/examples', import.meta.url)));
const dir = folder();
mkdirSync(out, { recursive: true });

const run = (program, ...args) => execFileSync(program, args, { cwd: dir.path, stdio: ['ignore', 'ignore', 'pipe'] });

/** Creates a small crate. The recording shows its compilation. */
function crate() {
    const root = join(dir.path, 'hello');
    mkdirSync(join(root, 'src'), { recursive: true });
    writeFileSync(join(root, 'Cargo.toml'), '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n');
    const functions = Array.from({ length: 80 }, (_, i) => `fn f${i}(n: u64) -> String { let mut m = std::collections::BTreeMap::new(); for k in 0..n { m.entry(k % ${i + 2}).or_insert_with(Vec::new).push(k.to_string()); } format!("{m:?}") }`);
    writeFileSync(join(root, 'src/main.rs'), `${functions.join('\n')}\nfn main() { ${functions.map((_, i) => `println!("{}", f${i}(9));`).join(' ')} }\n`);
    return join(root, 'Cargo.toml');
}

const STORM = 'for i in 1 2 3 4 5 6; do (for k in $(seq 150); do echo x | cat >/dev/null; done) & done; wait';

const recordings = {
    build: () => run(ferretto, 'record', '-q', '--perf', '-o', 'build.pftrace', '--', 'cargo', 'build', '--quiet', '--manifest-path', crate()),
    storm: () => run(ferretto, 'record', '-q', '-o', 'storm.pftrace', '--', 'sh', '-c', STORM),
    events: () => {
        run(join(examples, 'async_service'));
        run('mv', 'async_service.pftrace', 'events.pftrace');
    },
    processes: () => writeFileSync(join(dir.path, 'processes.html'), server().html()),
};

/** Steps before each screenshot. */
const scenes = {
    build: async (page) => {
        // The process of the compiler, opened, and its flamegraph.
        await page.locator('#filter').fill('rustc');
        await settled(page);
        await page.locator('#labels .label.group', { hasText: 'rustc' }).first().click();
        await page.keyboard.press('v');
        await settled(page);
        await page.keyboard.press('3');
    },
    storm: async (page) => {
        for (let i = 0; i < 14; i++) await page.keyboard.press('w');
        await page.keyboard.press('g');
        for (let i = 0; i < 2; i++) await page.keyboard.press('ArrowDown');
        await page.keyboard.press('e');
    },
    events: async (page) => {
        await page.keyboard.press('/');
        await page.keyboard.type('store');
        await page.keyboard.press('Enter');
        await settled(page);
        await page.keyboard.press('Escape');
        for (let i = 0; i < 3; i++) await page.keyboard.press('n');
        await settled(page);
        await page.keyboard.press('1');
    },
    processes: async (page) => {
        await page.keyboard.press('/');
        await page.keyboard.type('status=500');
        await page.keyboard.press('Enter');
        await settled(page);
        await page.keyboard.press('Escape');
        await page.keyboard.press('1');
    },
};

const browser = await launch();
try {
    for (const [name, record] of Object.entries(recordings)) {
        try {
            record();
            if (!existsSync(join(dir.path, `${name}.html`))) run(ferretto, 'view', `${name}.pftrace`, '-o', `${name}.html`);
        } catch (error) {
            console.log(`skipped: ${name}: ${String(error.stderr ?? error).trim().split('\n').pop()}`);
            continue;
        }
        // The page after opening.
        const url = pathToFileURL(join(dir.path, `${name}.html`)).href;
        const opened = await open(browser, url, { viewport: { width: 1400, height: 900 } });
        await opened.page.screenshot({ path: join(out, `${name}-opened.png`) });
        await opened.close();
        for (const [width, height, colorScheme] of [[800, 600, 'light'], [1280, 800, 'dark'], [1280, 800, 'light'], [2560, 1440, 'dark']]) {
            const { page, wrong, close } = await open(browser, url, { viewport: { width, height }, colorScheme });
            await scenes[name](page);
            await settled(page);
            await page.screenshot({ path: join(out, `${name}-${width}-${colorScheme}.png`) });
            await close();
            if (wrong.length > 0) throw new Error(`${name}: ${wrong.join(', ')}`);
        }
        console.log(`${name}: 5 pictures in ${out}`);
    }
} finally {
    await browser.close();
    dir.remove();
}
