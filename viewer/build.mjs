// Builds the page: one HTML file that includes its script and style. With `--check`, compares the result with the file
// that is checked in and writes nothing.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, '../crates/view/page/index.html');
const LIMIT = 350_000;

const bundle = async (entry, loader) => {
    const result = await build({
        entryPoints: [join(here, entry)],
        bundle: true,
        write: false,
        minify: true,
        format: loader === 'css' ? undefined : 'iife',
        target: 'es2022',
        charset: 'utf8',
        legalComments: 'none',
    });
    return result.outputFiles[0].text.trim();
};

const digest = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

// Prevents the script and the style from ending their elements early.
const inert = (text) => text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');

const script = inert(await bundle('src/main.ts'));
const style = await bundle('src/style.css', 'css');
const policy = [
    "default-src 'none'",
    `script-src ${digest(script)}`,
    `style-src ${digest(style)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
].join('; ');
const page = readFileSync(join(here, 'src/index.html'), 'utf8')
    .replace('/*POLICY*/', () => policy)
    .replace('/*STYLE*/', () => style)
    .replace('/*SCRIPT*/', () => script);

if (Buffer.byteLength(page) > LIMIT) {
    console.error(`the page has ${Buffer.byteLength(page)} bytes, more than ${LIMIT}`);
    process.exit(1);
}
if (process.argv.includes('--check')) {
    let there = '';
    try {
        there = readFileSync(target, 'utf8');
    } catch {
        // A missing file counts as different.
    }
    if (there !== page) {
        console.error(`${target} is not current; run \`npm run build\` in viewer/ and commit it`);
        process.exit(1);
    }
    console.log(`the page is current: ${Buffer.byteLength(page)} bytes`);
} else {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, page);
    console.log(`${target}: ${Buffer.byteLength(page)} bytes`);
}
