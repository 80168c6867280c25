//! Hostile SQL, which fails with an error.

use crate::common::{TRACE, over};
use ferretto_query::STACK;

/// Runs a test on a stack of the program's size.
fn on_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK);
    let done = thread.spawn(test).expect("a thread").join();
    assert!(done.is_ok());
}

#[test]
fn deep_nesting_is_an_error() {
    on_large_stack(|| {
        let mut session = over(TRACE);
        let deep = 100_000;
        for sql in [
            format!("SELECT {}1{}", "(".repeat(deep), ")".repeat(deep)),
            format!("SELECT {}1", "- ".repeat(deep)),
            format!("SELECT {}1", "NOT ".repeat(deep)),
            format!("SELECT {}", "[".repeat(deep)),
            format!("SELECT 1{}", "[0]".repeat(deep)),
            format!("SELECT {}1{}", "abs(".repeat(deep), ")".repeat(deep)),
            format!(
                "SELECT {}1{}",
                "CASE WHEN 1 THEN ".repeat(deep),
                " END".repeat(deep)
            ),
            format!(
                "{}slice{}",
                "SELECT * FROM (".repeat(deep),
                ")".repeat(deep)
            ),
        ] {
            let error = session.error(&sql);
            assert!(!error.is_empty());
        }
    });
}

#[test]
fn texts_of_a_megabyte_are_supported() {
    let mut session = over(TRACE);
    let text = "x".repeat(1 << 20);
    assert_eq!(session.value(&format!("length('{text}')")), "1048576");
}

#[test]
fn lists_of_many_values_are_supported() {
    let mut session = over(TRACE);
    let values = (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>();
    let sql = format!("count(*) FROM slice WHERE id IN ({})", values.join(","));
    assert_eq!(session.value(&sql), "4");
}

#[test]
fn the_expansion_of_macros_is_limited() {
    let mut session = over(TRACE);
    let endless = "CREATE PERFETTO MACRO a(x Expr) RETURNS Expr AS b!($x);
        CREATE PERFETTO MACRO b(x Expr) RETURNS Expr AS a!($x); SELECT a!(1)";
    let error = session.error(endless);
    assert!(error.contains("expands without end"), "{error}");
    let mut doubled = "CREATE PERFETTO MACRO m0(x Expr) RETURNS Expr AS $x;".to_owned();
    for level in 1..40 {
        let below = level - 1;
        doubled += &format!(
            "CREATE PERFETTO MACRO m{level}(x Expr) RETURNS Expr AS (m{below}!($x) + m{below}!($x));"
        );
    }
    let error = session.error(&(doubled + "SELECT m39!(1)"));
    assert!(error.contains("Macros expand to more than"), "{error}");
}
