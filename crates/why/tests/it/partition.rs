//! Partitions of random schedules, compared with a definition for single times.

use ferretto_testing::Random;
use ferretto_why::{PartKind, Partition, Schedule, State, StateKind, Waker};

/// The number of waits after which a chain is cut.
const MAX_DEPTH: u32 = 64;

/// The state of the thread to which a time belongs, by definition: a wait that a thread ended
/// belongs to that thread at the same time.
fn at(schedule: &Schedule, mut thread: u32, time: i64) -> (u32, PartKind) {
    for depth in 0.. {
        let Some(state) = schedule.state_at(thread, time) else {
            let states = schedule.states(thread);
            let last = states.last().filter(|last| last.end <= time);
            return match last.map(|last| last.kind) {
                Some(StateKind::Ended) => (thread, PartKind::Ended),
                _ => (thread, PartKind::Lost),
            };
        };
        let kind = match (state.kind, state.waker) {
            (StateKind::Blocked(_) | StateKind::Unborn, Waker::Thread(waker)) => {
                // Cycles of wakers are cut.
                if depth == MAX_DEPTH {
                    break;
                }
                thread = waker;
                continue;
            }
            (StateKind::Running, _) => PartKind::Running,
            (StateKind::Runnable, _) => PartKind::Runnable,
            (StateKind::Blocked(_), _) => PartKind::Blocked,
            (StateKind::Unborn, _) => PartKind::Unborn,
            (StateKind::Ended, _) => PartKind::Ended,
            (StateKind::Lost, _) => PartKind::Lost,
        };
        return (thread, kind);
    }
    (thread, PartKind::TooDeep)
}

/// A schedule of up to six threads. Wakers are random, so their chains may be cycles, as in hostile
/// traces.
fn schedule(random: &mut Random, states: usize) -> Schedule {
    let mut all = Vec::new();
    let threads = 1 + random.below(6) as u32;
    for thread in 0..threads {
        let mut time = random.below(20) as i64;
        for _ in 0..random.below(states + 1) {
            let kind = match random.below(10) {
                0..=2 => StateKind::Running,
                3..=4 => StateKind::Runnable,
                5..=7 => StateKind::Blocked(b'S'),
                8 if random.below(8) == 0 => StateKind::Unborn,
                8 if random.below(4) == 0 => StateKind::Ended,
                _ => StateKind::Lost,
            };
            let waker = match random.below(4) {
                0 => Waker::Interrupt(None),
                1 => Waker::Unknown,
                _ => Waker::Thread(random.below(threads as usize) as u32),
            };
            // States may overlap the next one, or leave a gap, or have no length.
            let end = time + random.below(12) as i64;
            let cpu = (kind == StateKind::Running).then(|| random.below(2) as u32);
            let state = State {
                start: time,
                end,
                kind,
                cpu,
                waker,
            };
            all.push((thread, state));
            time = end + random.below(5) as i64 - random.below(3) as i64;
        }
    }
    Schedule::new(all)
}

/// Checks that parts cover an interval without gaps and overlaps, and returns their sum.
fn covered(partition: &Partition, start: i64, end: i64) -> i64 {
    let mut at = start;
    for part in &partition.parts {
        assert_eq!(part.start, at);
        assert!(part.end > part.start);
        at = part.end;
    }
    assert_eq!(at, end.max(start));
    partition
        .parts
        .iter()
        .map(|part| part.end - part.start)
        .sum()
}

#[test]
fn each_time_belongs_to_the_thread_that_the_definition_names() {
    let mut random = Random(1);
    for _ in 0..3000 {
        let schedule = schedule(&mut random, 12);
        let thread = random.below(7) as u32;
        let start = random.below(100) as i64 - 5;
        let end = start + random.below(100) as i64;
        let partition = Partition::new(&schedule, thread, start, end);
        covered(&partition, start, end);
        for part in &partition.parts {
            for time in part.start..part.end {
                let expected = at(&schedule, thread, time);
                assert_eq!(
                    (part.thread, part.kind),
                    expected,
                    "at {time} of {schedule:?}"
                );
            }
        }
    }
}

#[test]
fn the_parts_of_random_intervals_add_up_exactly() {
    let wanted = std::env::var("FERRETTO_WHY_INTERVALS").ok();
    let wanted = wanted.and_then(|number| number.parse().ok());
    let wanted: u64 = wanted.unwrap_or(100_000);
    let mut random = Random(2);
    let mut intervals = 0;
    while intervals < wanted {
        let schedule = schedule(&mut random, 200);
        for _ in 0..1000 {
            let thread = random.below(7) as u32;
            let start = random.below(1500) as i64 - 5;
            let end = start + random.below(40) as i64;
            let partition = Partition::new(&schedule, thread, start, end);
            assert_eq!(covered(&partition, start, end), end - start);
            intervals += 1;
        }
    }
}

#[test]
fn waits_are_links_of_their_chains() {
    let mut random = Random(3);
    for _ in 0..2000 {
        let schedule = schedule(&mut random, 20);
        let thread = random.below(6) as u32;
        let partition = Partition::new(&schedule, thread, 0, 200);
        for (at, wait) in partition.waits.iter().enumerate() {
            assert!(wait.state.start <= wait.start && wait.end <= wait.state.end);
            let Some(parent) = wait.parent else {
                assert_eq!((wait.thread, wait.depth), (thread, 0));
                continue;
            };
            assert!((parent as usize) < at);
            let parent = &partition.waits[parent as usize];
            assert_eq!(parent.state.waker, Waker::Thread(wait.thread));
            assert!(parent.start <= wait.start && wait.end <= parent.end);
            assert_eq!(wait.depth, parent.depth + 1);
        }
        for part in &partition.parts {
            if let Some(wait) = part.wait {
                let wait = &partition.waits[wait as usize];
                assert!(wait.start <= part.start && part.end <= wait.end);
            }
        }
    }
}
