// The programs of served pages.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ferretto = process.env.FERRETTO && resolve(process.env.FERRETTO);

const here = dirname(fileURLToPath(import.meta.url));
/** The program that runs SQL, or undefined. */
export const query = [process.env.FERRETTO_QUERY, resolve(here, '../../query/target/debug/ferretto-query')].map((path) => path && resolve(path)).find((path) => path && existsSync(path));

/** Serves a trace of a folder while `work` uses its address. With `sql`, the program for SQL is found; with false, it is not. */
export async function served(dir, args, work, { sql } = {}) {
    const path = sql ? [dirname(query), process.env.PATH].join(delimiter) : sql === false ? '/nonexistent' : process.env.PATH;
    const server = spawn(ferretto, ['view', '--no-browser', ...args], { cwd: dir.path, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, PATH: path, XDG_STATE_HOME: join(dir.path, 'state') } });
    try {
        const url = await new Promise((done, failed) => {
            let text = '';
            for (const stream of [server.stdout, server.stderr]) {
                stream.on('data', (part) => {
                    text += part;
                    const found = /http:\/\/127\.0\.0\.1:\d+\/\w+\/\S*/.exec(text);
                    if (found) done(found[0]);
                });
            }
            server.on('exit', () => failed(new Error(`no address: ${text}`)));
        });
        await work(url, server);
    } finally {
        server.kill('SIGINT');
        if (server.exitCode === null && server.signalCode === null) await new Promise((done) => server.on('exit', done));
    }
}
