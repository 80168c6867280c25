//! Callstacks of real programs in all their shapes.

mod target;

use ferretto_unwind::Mode;
use target::{Target, between, names, unwind};

/// Four functions that call each other, the last of which turns round in a circle.
const CHAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
volatile int stop;
__attribute__((noinline)) void leaf(int x) { puts("ready"); fflush(stdout); while (!stop) x++; }
__attribute__((noinline)) void third(int x) { leaf(x + 1); stop++; }
__attribute__((noinline)) void second(int x) { third(x + 1); stop++; }
__attribute__((noinline)) int compare(const void *a, const void *b) { second(*(int *)a); return *(int *)b; }
__attribute__((noinline)) void first(int x) { int array[2] = {x, 2}; qsort(array, 2, sizeof *array, compare); stop++; }
int main(int argc, char **argv) { first(argc); return 0; }
"#;

const WHOLE: [&str; 5] = ["leaf", "third", "second", "compare", "?"];

#[test]
fn perf_034_dwarf_leads_through_libc_to_the_start() {
    for flags in [
        &["-O2", "-fomit-frame-pointer"][..],
        &["-O0", "-fno-omit-frame-pointer"],
        &["-O2", "-no-pie", "-fomit-frame-pointer"],
        &["-O2", "-static", "-fomit-frame-pointer"],
        &["-O2", "-static-pie", "-fomit-frame-pointer"],
        &["-O1", "-mavx2", "-mstackrealign"],
    ] {
        let target = Target::c(CHAIN, flags);
        let stopped = target.stop_in("leaf");
        let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
        let names = names(&frames);
        assert_eq!(result, Ok(()), "{flags:?} {names:?}");
        assert_eq!(names[..4], WHOLE[..4], "{flags:?}");
        assert!(
            names.iter().any(|name| name == "first"),
            "{flags:?} {names:?}"
        );
        assert!(
            names.iter().any(|name| name == "main"),
            "{flags:?} {names:?}"
        );
        assert_eq!(names.last().unwrap(), "_start", "{flags:?} {names:?}");
        let _ = between(&names, "leaf", "main");
    }
}
