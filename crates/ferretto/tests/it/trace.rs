//! Functions with `#[ferretto::trace]`.
#![cfg(feature = "macros")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferretto::{Category, trace};
use ferretto_testing::sdk::events::record;

static WORK: Category = Category::new("work");

#[trace]
fn plain() {
    #![allow(unused_variables)]
    let unused = 5;
}

#[trace(category = "own", name = "with a name", args(a, double = a * 2, len = text.len()))]
fn values(a: u32, text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    a
}

#[trace("own", args)]
fn all<'a, T>(first: T, mut second: &'a str, (_x, _y): (u8, u8), _: u8) -> &'a str
where
    T: ferretto::Argument + Clone + 'a,
{
    second = &second[1..];
    let _ = first.clone();
    second
}

#[trace(category = crate::trace::WORK, skip(hidden))]
fn skipping(shown: &[u8], hidden: std::process::Command) {
    drop((shown.len(), hidden));
}

#[trace(name = &format!("n{}", 1))]
fn fails() -> Result<u8, std::num::ParseIntError> {
    let number: u8 = "x".parse()?;
    Ok(number)
}

struct Worker(u8);

impl Worker {
    #[trace(args(number = self.0))]
    fn work(&mut self, by: u8) -> &mut Self {
        self.0 += by;
        self
    }

    #[trace]
    fn consume(self: std::rc::Rc<Self>) -> impl Iterator<Item = u8> {
        0..self.0
    }

    #[trace]
    unsafe extern "C" fn raw(x: *const u8) -> *const u8 {
        x
    }
}

trait Job {
    fn run(&self) -> u8;
}

impl Job for Worker {
    #[trace(name = "Worker::run")]
    fn run(&self) -> u8 {
        panic!("on purpose")
    }
}

#[trace]
fn r#match() -> ! {
    panic!("never returns")
}

fn calls() {
    plain();
    assert_eq!(values(3, "abc") + values(4, ""), 3);
    assert_eq!(all(1.5, "abc", (1, 2), 3), "bc");
    skipping(b"ab", std::process::Command::new("true"));
    fails().unwrap_err();
    let mut worker = Worker(1);
    worker.work(2).work(3);
    // SAFETY: the function returns its argument.
    unsafe { Worker::raw(&raw const worker.0) };
    let outcome = catch_unwind(AssertUnwindSafe(|| worker.run()));
    outcome.unwrap_err();
    catch_unwind(|| r#match()).unwrap_err();
    assert_eq!(std::rc::Rc::new(worker).consume().count(), 6);
}

// One test, since a process has one connection.
#[test]
fn calls_of_functions_are_slices() {
    ferretto_testing::own_process!();
    calls();
    let decoded = record(None, calls);
    let begins = [
        "B ferretto plain",
        "B own with a name a=u3 double=u6 len=u3",
        "B own with a name a=u4 double=u8 len=u0",
        "B own all first=d1.5 second=\"abc\"",
        "B work skipping shown=\"ab\"",
        "B ferretto n1",
        "B ferretto work number=u1",
        "B ferretto work number=u3",
        "B ferretto raw",
        "B ferretto Worker::run",
        "B ferretto match",
        "B ferretto consume",
    ];
    let expected: Vec<_> = begins.iter().flat_map(|begin| [*begin, "E"]).collect();
    assert_eq!(decoded.lines(), expected);
}
