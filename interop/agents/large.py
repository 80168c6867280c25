"""A large trace: what `ferretto record --why` records of a busy machine, made of one repeated block.

Usage: large.py MB FILE
"""

import random
import sys

from traces import data, number, varint

BLOCK_NS = 100_000_000
FIRST_NS = 1_000_000_000_000
CPUS = 8
PROCESSES, THREADS = 20, 10
# The events of a block.
SWITCHES, SLICES, SAMPLES, CALLS = 2_500, 10_000, 8_000, 4_000
# The clock of a sequence, whose times are differences.
DELTAS = 64


def packed(field, numbers):
    return data(field, b"".join(map(varint, numbers)))


def tids():
    return [1000 * (1 + process) + thread for process in range(PROCESSES) for thread in range(THREADS)]


def comm(tid):
    return f"worker-{tid % 1000}" if tid % 1000 else f"server-{tid // 1000}"


def packet(content, sequence):
    return data(1, number(10, sequence) + content)


def start(chance):
    """The clocks, the threads with their tracks, and the names of callstacks."""
    clocks = b"".join(data(1, number(1, clock) + number(2, FIRST_NS)) for clock in (6, 1, 3))
    out = [packet(number(8, FIRST_NS) + data(6, clocks), 1)]
    uts = data(1, "Linux") + data(2, "6.1") + data(3, "large") + data(4, "x86_64")
    out.append(packet(data(45, data(1, uts)), 1))
    tree = b""
    for tid in tids():
        pid = tid // 1000 * 1000
        if tid == pid:
            tree += data(1, number(1, tid) + number(2, 1) + data(3, comm(tid)))
        else:
            tree += data(2, number(1, tid) + data(2, comm(tid)) + number(3, pid))
    out.append(packet(number(8, FIRST_NS) + data(2, tree), 1))
    for tid in tids():
        thread = number(1, tid // 1000 * 1000) + number(2, tid) + data(5, comm(tid))
        out.append(packet(data(60, number(1, tid) + data(4, thread)), 2))
    names = b"".join(data(2, number(1, iid) + data(2, f"step-{iid}")) for iid in range(1, 41))
    names += b"".join(data(1, number(1, iid) + data(2, f"part-{iid}")) for iid in range(1, 4))
    frames = data(5, number(1, 900) + data(2, "main"))
    for iid in range(1, 400):
        frames += data(5, number(1, iid) + data(2, f"function_{iid}"))
        frames += data(6, number(1, iid) + number(2, iid))
    frames += data(6, number(1, 900) + number(2, 900))
    for iid in range(1, 2_000):
        depth = [900] + [chance.randrange(1, 400) for _ in range(chance.randrange(3, 20))]
        frames += data(7, number(1, iid) + b"".join(number(2, frame) for frame in depth))
    for sequence, interned in [(2, names), (3, frames)]:
        clock = data(6, data(1, number(1, 6) + number(2, FIRST_NS)) + data(1, number(1, DELTAS) + number(2, 0) + number(3, 1)))
        out.append(packet(number(13, 1) + number(8, FIRST_NS) + number(58, 6) + data(12, interned)
                          + data(59, number(58, DELTAS)), sequence))
        out.append(packet(number(8, FIRST_NS) + number(58, 6) + number(13, 2) + clock, sequence))
    return b"".join(out)


class Block:
    """The events of a time, whose packets have their times where they can be replaced."""

    def __init__(self, chance):
        self.chance = chance
        self.parts = []

    def later(self, count):
        """Differences of times that end at the end of the block."""
        step = BLOCK_NS // count
        return [step] * (count - 1) + [BLOCK_NS - step * (count - 1)]

    def schedule(self, cpu):
        """Switches of a CPU between its threads and idle, each after its wake-up."""
        own = tids()[cpu::CPUS]
        comms = [comm(tid) for tid in own] + ["swapper"]
        running = []
        for at in range(SWITCHES):
            running.append(len(own) if at % 3 == 2 else self.chance.randrange(len(own)))
        states = [self.chance.choice([0, 1, 1, 2]) if at != len(own) else 0 for at in running[-1:] + running[:-1]]
        pids = [own[at] if at < len(own) else 0 for at in running]
        times = self.later(SWITCHES)
        woken = [at for at in running if at < len(own)]
        waking = self.later(len(woken))
        sched = b"".join(data(5, name) for name in comms)
        tail = (packed(2, states) + packed(3, pids) + packed(4, [120] * SWITCHES) + packed(6, running)
                + packed(8, [own[at] for at in woken]) + packed(9, [cpu] * len(woken))
                + packed(10, [120] * len(woken)) + packed(11, woken))
        self.parts.append(lambda now: packet(data(1, number(1, cpu) + data(4, (
            sched + packed(1, [now + times[0], *times[1:]]) + packed(7, [now + waking[0] - 1000, *waking[1:]]) + tail))), 4 + cpu))

    def calls(self, cpu):
        """System calls of a thread of a CPU."""
        tid = tids()[cpu]
        count = CALLS // CPUS
        step = BLOCK_NS // count
        numbers = [self.chance.choice([0, 1, 202, 230, 232]) for _ in range(count)]

        def write(now):
            out = []
            for at, call in enumerate(numbers):
                time = now + at * step
                out.append(data(2, number(1, time) + number(2, tid) + data(329, number(1, call))))
                out.append(data(2, number(1, time + step // 4) + number(2, tid) + data(330, number(1, call) + number(2, 0))))
            return packet(data(1, number(1, cpu) + b"".join(out)), 4 + cpu)
        self.parts.append(write)

    def deltas(self, sequence, contents):
        """Packets whose times are differences: their bytes are always the same."""
        times = self.later(len(contents))
        fixed = b"".join(packet(number(8, time) + number(13, 2) + content, sequence) for time, content in zip(times, contents))
        self.parts.append(lambda _: fixed)

    def slices(self):
        contents, opened = [], []
        for _ in range(SLICES):
            tid = self.chance.choice(tids()[:40])
            contents.append(data(11, number(9, 1) + number(11, tid) + number(10, self.chance.randrange(1, 41)) + number(3, 1)))
            opened.append(tid)
            if len(opened) > 20:
                contents.append(data(11, number(9, 2) + number(11, opened.pop(0))))
        contents += [data(11, number(9, 2) + number(11, tid)) for tid in opened]
        self.deltas(2, contents)

    def samples(self):
        contents = []
        for _ in range(SAMPLES):
            tid = self.chance.choice(tids())
            contents.append(data(66, number(1, tid % CPUS) + number(2, tid // 1000 * 1000) + number(3, tid)
                                 + number(4, 1 + (tid * 7 + self.chance.randrange(50)) % 1_999) + number(5, 1)))
        self.deltas(3, contents)


def write(path, size, seed=1):
    """Writes a trace slightly larger than a number of bytes."""
    chance = random.Random(seed)
    block = Block(chance)
    for cpu in range(CPUS):
        block.schedule(cpu)
        block.calls(cpu)
    block.slices()
    block.samples()
    with open(path, "wb") as file:
        file.write(start(chance))
        now = FIRST_NS
        while file.tell() < size:
            for part in block.parts:
                file.write(part(now))
            now += BLOCK_NS


if __name__ == "__main__":
    write(sys.argv[2], int(sys.argv[1]) << 20)
