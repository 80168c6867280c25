//! Snapshots of the clocks of one machine and of two.

use std::collections::BTreeMap;

use ferretto_format::clock::BOOTTIME;
use ferretto_format::clock_graph::ClockSnapshot;
use ferretto_format::machine_clock::{self, Exchange, MachineClock};
use ferretto_proto::fields::remote_clock_sync::{self, synced_clocks};
use ferretto_wire::Fields;

use super::context::Context;
use crate::trackers::clock::{ClockId, Reading, add_snapshot};
use crate::trackers::metadata::{Fact, FactScope};

/// Reads a `ClockSnapshot` of a sequence.
pub(super) fn snapshot(cx: &mut Context, bytes: &[u8], sequence: u32) {
    let ClockSnapshot { readings, primary } = read(cx, bytes, sequence);
    if let Some(clock) = primary {
        cx.clocks.set_default(clock);
        choose_trace_clock(cx, clock);
    }
    add_snapshot(&mut cx.clocks, &mut cx.store, &readings);
}

fn read(cx: &Context, bytes: &[u8], sequence: u32) -> ClockSnapshot {
    ClockSnapshot::read(bytes, cx.store.machine, sequence, cx.store.trace_file)
}

/// Uses a clock of the current file as trace clock, if it is not determined yet.
pub(crate) fn choose_trace_clock(cx: &mut Context, clock: ClockId) {
    if cx.clocks.set_trace_clock(clock, cx.store.trace_file) {
        let fact = Fact::Int(clock.id.into());
        let scope = FactScope::Global;
        cx.metadata
            .set(&mut cx.store, "trace_time_clock_id", fact, scope);
    }
}

/// Readings of the recording machine and of another one at nearly the same time, by clock.
type Pair = BTreeMap<u32, (i64, i64)>;

/// The time between exchanges from which they belong to different rounds.
const ROUND_NS: i64 = 30_000_000_000;

/// Reads a `RemoteClockSync`: the clocks of the current machine and those of the recording machine.
pub(super) fn remote_sync(cx: &mut Context, bytes: &[u8]) {
    let mut pairs: Vec<Pair> = Vec::new();
    // If the writer states the error, the best exchange applies.
    let mut is_stated = false;
    for field in Fields::new(bytes).map_while(Result::ok) {
        is_stated |= field.number == machine_clock::STATED;
        if field.number != remote_clock_sync::SYNCED_CLOCKS {
            continue;
        }
        let mut pair = Pair::new();
        let parts = field.as_message().into_iter().flatten();
        for part in parts.map_while(Result::ok) {
            let bytes = part.as_bytes().unwrap_or_default();
            let ClockSnapshot { mut readings, .. } = read(cx, bytes, 0);
            match part.number {
                synced_clocks::HOST_CLOCKS => {
                    for reading in readings {
                        pair.entry(reading.clock.id).or_default().0 = reading.value;
                    }
                }
                synced_clocks::CLIENT_CLOCKS => {
                    for reading in &mut readings {
                        pair.entry(reading.clock.id).or_default().1 = reading.value;
                        (reading.unit, reading.is_incremental) = (1, false);
                    }
                    add_snapshot(&mut cx.clocks, &mut cx.store, &readings);
                }
                _ => {}
            }
        }
        pairs.push(pair);
    }
    let host = cx.clocks.trace_clock().machine;
    let mut offsets = averages(&pairs);
    if is_stated {
        offsets.extend(best(&pairs));
    }
    for (id, ahead) in offsets {
        let here = pairs.iter().rev().filter_map(|pair| pair.get(&id));
        let here = here.map(|(here, _)| *here).find(|here| *here != 0);
        let here = here.unwrap_or(0);
        let reading = |machine, value| Reading::new(ClockId::of_machine(machine, id), value);
        let machine = cx.store.machine;
        let readings = [
            reading(host, here),
            reading(machine, here.wrapping_add(ahead)),
        ];
        add_snapshot(&mut cx.clocks, &mut cx.store, &readings);
    }
}

/// Returns the offset of each clock of the other machine from the two exchanges with the least time
/// between them, since that time bounds the error.
fn best(pairs: &[Pair]) -> BTreeMap<u32, i64> {
    let mut clocks: BTreeMap<u32, MachineClock> = BTreeMap::new();
    for two in pairs.windows(2) {
        let [one, other] = two else { continue };
        for (id, (host, client)) in one {
            let Some((later_host, later_client)) = other.get(id) else {
                continue;
            };
            let exchange = |client: i64, host: i64| Exchange {
                client: client as u64,
                host: host as u64,
            };
            let both = [
                exchange(*client, *host),
                exchange(*later_client, *later_host),
            ];
            let is_complete = both.iter().all(|it| it.client != 0 && it.host != 0);
            if is_complete {
                clocks.entry(*id).or_default().add(&both);
            }
        }
    }
    let offsets = clocks.iter();
    offsets
        .filter_map(|(id, clock)| Some((*id, clock.best()?.offset)))
        .collect()
}

/// Returns the offset of each clock of the other machine: the mean of two estimates for each
/// exchange and its predecessor.
fn averages(pairs: &[Pair]) -> BTreeMap<u32, i64> {
    let mut estimates: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for two in pairs.windows(2) {
        let [ping, update] = two else { continue };
        let boot = |pair: &Pair| pair.get(&BOOTTIME).map_or(0, |pair| pair.1);
        if (boot(update).wrapping_sub(boot(ping)) as u64) >= ROUND_NS as u64 {
            continue;
        }
        for (id, (here1, there1)) in ping {
            let (here2, there2) = update.get(id).copied().unwrap_or_default();
            if [*here1, *there1, here2, there2].contains(&0) {
                continue;
            }
            let middle = |one: i64, two: i64| one.wrapping_add(two) / 2;
            let estimates = estimates.entry(*id).or_default();
            estimates.push(middle(*there1, there2).wrapping_sub(*here1));
            estimates.push(there2.wrapping_sub(middle(*here1, here2)));
        }
    }
    let average = |all: &Vec<i64>| {
        let sum: i128 = all.iter().map(|one| i128::from(*one)).sum();
        (sum / all.len() as i128) as i64
    };
    estimates
        .iter()
        .map(|(id, all)| (*id, average(all)))
        .collect()
}
