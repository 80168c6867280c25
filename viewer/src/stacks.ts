// The frame `tree`: callstacks.

import type { Frame } from './frame';
import { NONE, type Stacks } from './model';

export function readStacks(frame: Frame): Stacks {
    const length = frame.length('name');
    return {
        length,
        parent: frame.i32('parent', length, NONE),
        name: frame.u32('name', length),
        file: frame.u32('file', length),
        total: frame.f64('total', length),
        self: frame.f64('self', length),
        strings: frame.strings,
    };
}
