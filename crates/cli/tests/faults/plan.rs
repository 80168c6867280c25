//! The faults to try with a command.

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferretto_testing::Random;
use ferretto_testing::faults::{Effect, Fault, Kind, are_possible};

use crate::judge::Judged;

/// The number of runs with faults of a command in an ordinary test.
const RUNS: usize = 24;
/// The number of runs after which their number is printed.
const PROGRESS: usize = 100;

/// Runs a command without faults, and then with some. The calls of recordings and daemons depend on
/// the timing of several threads and programs, so each run may try others.
///
/// # Panics
///
/// Panics if a run went wrong. The message has the command that repeats it.
pub(crate) fn cover(name: &str, run: impl Fn(Option<Fault>) -> Judged + Sync) {
    if !are_possible() {
        println!("skipped: programs cannot be traced with ptrace and seccomp here");
        return;
    }
    let whole = run(None);
    let counts = &whole.outcome.counts;
    if let Err(wrong) = &whole.wrong {
        panic!("{name} without faults: {wrong}");
    }
    let all = all(counts);
    let seed = number("FAULT_SEED").unwrap_or(1);
    let (faults, chosen) = match env::var("FAULT") {
        Ok(text) => (vec![text.parse().expect("a fault")], String::new()),
        Err(_) => match env::var("FAULT_RUNS").as_deref() {
            Ok("all") => (all.clone(), String::new()),
            runs => {
                let runs = runs
                    .ok()
                    .map_or(RUNS, |runs| runs.parse().expect("a number"));
                let chosen = format!(" (FAULT_SEED={seed})");
                (sample(counts, seed, runs), chosen)
            }
        },
    };
    let verdicts = Verdicts::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs() {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = faults.get(number) else {
                        break;
                    };
                    verdicts.add(name, *fault, run(Some(*fault)));
                    if number % PROGRESS == PROGRESS - 1 {
                        println!("{name}: {} of {} faults", number + 1, faults.len());
                    }
                }
            });
        }
    });
    let (struck, wrong) = verdicts.into_parts();
    let kinds: Vec<String> = counts
        .iter()
        .map(|(kind, count)| format!("{} {count}", kind.name()))
        .collect();
    println!(
        "{name}: {} calls that can fail ({}), {} faults; {} tried{chosen}, of which {struck} struck and {} went wrong",
        counts.values().sum::<u64>(),
        kinds.join(", "),
        all.len(),
        faults.len(),
        wrong.len(),
    );
    assert!(
        wrong.is_empty(),
        "{name}:\n{}\nto repeat one: FAULT='{}' cargo test -p ferretto-cli --test faults -- --exact \
         --nocapture {}",
        wrong.join("\n"),
        wrong[0].split(':').next().unwrap_or_default(),
        std::thread::current().name().unwrap_or_default(),
    );
}

/// The verdicts on the runs with faults.
#[derive(Debug, Default)]
struct Verdicts {
    struck: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

impl Verdicts {
    fn add(&self, name: &str, fault: Fault, judged: Judged) {
        let Judged { outcome, wrong } = judged;
        let has_struck = usize::from(outcome.failed.is_some());
        self.struck.fetch_add(has_struck, Ordering::Relaxed);
        if let Err(reason) = wrong {
            let call = outcome.failed.unwrap_or_default();
            println!("{name}: {fault}: {reason} ({call})");
            let line = format!("{fault}: {}", first_line(&reason));
            self.wrong.lock().expect("no panic").push(line);
        } else if env::var_os("FAULT").is_some() {
            println!("{name}: {fault}: {:?} ({:?})", outcome.end, outcome.failed);
        }
    }

    /// Returns the number of faults that struck, and a line for each run that went wrong.
    fn into_parts(self) -> (usize, Vec<String>) {
        let wrong = self.wrong.into_inner().expect("no panic");
        (self.struck.into_inner(), wrong)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns all faults of all calls.
fn all(counts: &BTreeMap<Kind, u64>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (kind, count) in counts {
        for number in 1..=*count {
            faults.extend(kind.effects().iter().map(|effect| Fault {
                kind: *kind,
                number,
                effect: *effect,
            }));
        }
    }
    faults
}

/// Chooses faults: each kind and effect equally often, since some calls are much more frequent.
fn sample(counts: &BTreeMap<Kind, u64>, seed: u64, runs: usize) -> Vec<Fault> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let kinds: Vec<(Kind, Effect, u64)> = counts
        .iter()
        .flat_map(|(kind, count)| kind.effects().iter().map(|effect| (*kind, *effect, *count)))
        .collect();
    (0..runs)
        .map(|_| {
            let (kind, effect, count) = kinds[random.below(kinds.len())];
            Fault {
                kind,
                number: 1 + random.below(count as usize) as u64,
                effect,
            }
        })
        .collect()
}

/// Returns the number of runs at a time.
pub(crate) fn jobs() -> u64 {
    number("FAULT_JOBS").unwrap_or(1)
}

fn number(variable: &str) -> Option<u64> {
    Some(env::var(variable).ok()?.parse().expect("a number"))
}
