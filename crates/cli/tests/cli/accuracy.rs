//! Tests of the accuracy of shares: a program measures the CPU time of its functions itself.

use ferretto_trace::profile::{Selection, Value, hottest, read_profile};

use crate::profile::is_forbidden;
use crate::world::World;

/// A program with functions that each run for a share of the thread's CPU time, called from
/// different depths. Prints their times in nanoseconds.
const SHARES: &str = r#"
#include <stdio.h>
#include <time.h>
#define KEPT __attribute__((noinline))
static volatile unsigned long sink;
static unsigned long spent[5];
static unsigned long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000ul + time.tv_nsec;
}
#define PART(name, number, microseconds) \
  KEPT void name(void) { \
    unsigned long begin = now(), end; \
    do { \
      for (volatile int i = 0; i < 2000; i++) sink += i; \
      end = now(); \
    } while (end - begin < microseconds * 1000ul); \
    spent[number] += end - begin; \
  }
PART(half, 0, 20000) PART(quarter, 1, 10000) PART(eighth, 2, 5000) PART(sixteenth, 3, 2500) PART(rest, 4, 2500)
KEPT void deep(int depth, void (*function)(void)) {
  volatile char bytes[40];
  bytes[0] = depth;
  if (depth) deep(depth - 1, function); else function();
  sink += bytes[0];
}
int main(void) {
  for (int round = 0; round < 20; round++) {
    deep(20, half); deep(3, quarter); eighth(); deep(45, sixteenth); deep(10, rest);
  }
  for (int i = 0; i < 5; i++) printf("%lu\n", spent[i]);
}
"#;

const NAMES: [&str; 5] = ["half", "quarter", "eighth", "sixteenth", "rest"];

/// The largest difference of a share in percentage points. A sample is 0.06 points here, and only
/// CPU time is counted, so the load of the machine does not matter.
const TOLERANCE: f64 = 2.0;

#[test]
fn shares_agree_with_the_measurements_of_the_program() {
    let world = World::new();
    for pointers in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
        let flags = ["-O1", "-fno-optimize-sibling-calls", pointers];
        let Some(program) = world.compile("shares", SHARES, &flags) else {
            return;
        };
        let program = program.to_str().unwrap();
        let args = ["record", "--perf=1999", "--", program];
        let output = world.run("ferretto", &args);
        if is_forbidden(&output) {
            return;
        }
        let output = output.returned(0);
        let spent: Vec<f64> = output
            .text()
            .lines()
            .map(|ns| ns.parse().unwrap())
            .collect();
        let file = std::fs::File::open(world.path("trace.pftrace")).unwrap();
        let (profile, counts) = read_profile(file, Selection::default()).unwrap();
        let functions = hottest(&profile, &counts, Value::Samples);
        let samples = |name: &str| {
            let found = functions.iter().find(|function| function.name == name);
            found.map_or(0.0, |function| function.total.samples as f64)
        };
        let time: f64 = spent.iter().sum();
        let main = samples("main");
        // One sample in half a millisecond, except samples that were lost under load.
        assert!(main > 200.0, "{main} samples");
        for (name, spent) in NAMES.into_iter().zip(spent) {
            let (measured, seen) = (100.0 * spent / time, 100.0 * samples(name) / main);
            assert!(
                (measured - seen).abs() < TOLERANCE,
                "{name}: {seen:.2} % of samples, {measured:.2} % of the time ({pointers})"
            );
        }
        // The callstack of each function reaches `main`.
        let all: f64 = NAMES.into_iter().map(samples).sum();
        assert!(all > 0.98 * main && all <= main, "{all} of {main}");
    }
}
