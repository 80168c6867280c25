//! The spans that a thread is in and that have slices on its track.

use std::cell::RefCell;

use crate::sites::Site;

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// A span that the thread is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// Tells layers apart.
    pub(crate) layer: usize,
    pub(crate) span: u64,
    pub(crate) site: &'static Site,
    /// How many bytes of the span's values the beginning of the slice had.
    pub(crate) written: usize,
    /// There is more for its end.
    pub(crate) has_more: bool,
}

/// What to do when a span is left.
#[derive(Debug)]
pub(crate) enum Exit {
    /// It has no slice here.
    None,
    /// Its slice is the innermost one: end it.
    Last(Entered),
    /// It is not: end the others, which were begun later, end it, and begin the others again.
    Within(Entered, Vec<Entered>),
}

/// Notes that a slice was begun. Fails while the thread ends.
#[inline]
pub(crate) fn push(entered: Entered) -> bool {
    ENTERED
        .try_with(|stack| stack.borrow_mut().push(entered))
        .is_ok()
}

/// Notes that a span was left.
#[inline]
pub(crate) fn pop(layer: usize, span: u64) -> Exit {
    let exit = ENTERED.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        match stack.last() {
            Some(last) if last.span == span && last.layer == layer => {
                stack.pop().map_or(Exit::None, Exit::Last)
            }
            Some(_) => remove(&mut stack, layer, span),
            None => Exit::None,
        }
    });
    exit.unwrap_or(Exit::None)
}

#[cold]
fn remove(stack: &mut Vec<Entered>, layer: usize, span: u64) -> Exit {
    let is_it = |entered: &Entered| entered.span == span && entered.layer == layer;
    let Some(index) = stack.iter().rposition(is_it) else {
        return Exit::None;
    };
    let others = stack[index + 1..].to_vec();
    Exit::Within(stack.remove(index), others)
}

/// Notes that a span has something for the end of its slice, if it has one on this thread.
pub(crate) fn mark(layer: usize, span: u64) -> bool {
    let marked = ENTERED.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        let is_it = |entered: &&mut Entered| entered.span == span && entered.layer == layer;
        let entered = stack.iter_mut().rev().find(is_it)?;
        entered.has_more = true;
        Some(())
    });
    matches!(marked, Ok(Some(())))
}
