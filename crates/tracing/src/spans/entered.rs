//! The entered spans of a thread that have slices on its track.

use std::cell::{Cell, RefCell};

use ferretto::track_event::Listeners;

use crate::callsites::Callsite;

/// The depth of the fast stack; deeper spans are on another one.
const NEAR: usize = 16;

thread_local! {
    static NEAR_STACK: Stack = const {
        Stack {
            depth: Cell::new(0),
            entries: [const { Cell::new(None) }; NEAR],
        }
    };
    static DEEP_STACK: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// The outermost spans. The type has no destructor, so threads can use it until they end.
struct Stack {
    /// The number of used entries. The deep stack is only used if all are.
    depth: Cell<usize>,
    entries: [Cell<Option<Entered>>; NEAR],
}

/// An entered span of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The id of the layer.
    pub(crate) layer: usize,
    pub(crate) span: u64,
    pub(crate) callsite: &'static Callsite,
    /// The recordings that contain the begin event of the slice.
    pub(crate) listeners: Listeners,
    /// True if its end event needs more data.
    pub(crate) has_more: bool,
    /// The number of bytes of the span's values in the begin event.
    pub(crate) written: usize,
}

impl Entered {
    #[inline]
    fn is(&self, layer: usize, span: u64) -> bool {
        self.span == span && self.layer == layer
    }
}

/// An exited span.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) entered: Entered,
    /// The spans that were entered later, which were also removed: their slices are nested in this
    /// one's.
    pub(crate) inner: Vec<Entered>,
}

impl Stack {
    fn used(&self) -> &[Cell<Option<Entered>>] {
        &self.entries[..self.depth.get()]
    }

    /// Returns the index of the innermost span for which `is_it` is true.
    fn find(&self, is_it: impl Fn(&Entered) -> bool) -> Option<usize> {
        let mut entries = self.used().iter();
        entries.rposition(|entry| entry.get().is_some_and(|entered| is_it(&entered)))
    }

    /// Removes the innermost span for which `is_it` is true, and those inside of it.
    fn pop(&self, deep: &mut Vec<Entered>, is_it: impl Fn(&Entered) -> bool) -> Option<Left> {
        if let Some(index) = deep.iter().rposition(&is_it) {
            let inner = deep.split_off(index + 1);
            let entered = deep.pop()?;
            return Some(Left { entered, inner });
        }
        let index = self.find(is_it)?;
        let (entry, inner) = self.used()[index..].split_first()?;
        let mut inner: Vec<_> = inner.iter().filter_map(Cell::get).collect();
        inner.append(deep);
        self.depth.set(index);
        let entered = entry.get()?;
        Some(Left { entered, inner })
    }
}

/// Adds a span, if the fast stack is not full.
#[inline]
pub(crate) fn push_near(entered: Entered) -> bool {
    NEAR_STACK.with(|stack| {
        let depth = stack.depth.get();
        let entry = stack.entries.get(depth);
        if let Some(entry) = entry {
            entry.set(Some(entered));
            stack.depth.set(depth + 1);
        }
        entry.is_some()
    })
}

/// Adds a span. While the thread ends, spans beyond the fast stack are dropped.
#[inline]
pub(crate) fn push(entered: Entered) {
    if !push_near(entered) {
        let _ = DEEP_STACK.try_with(|deep| deep.borrow_mut().push(entered));
    }
}

/// Removes a span if it is the last entered one and its end event needs no more data. Returns the
/// recordings for the end event.
#[inline]
pub(crate) fn pop_plain(layer: usize, span: u64) -> Option<Listeners> {
    NEAR_STACK.with(|stack| {
        let last = stack.depth.get().wrapping_sub(1);
        let entered = stack.entries.get(last)?.get()?;
        // If all entries are used, the last span may be on the deep stack.
        let is_it = entered.is(layer, span) && !entered.has_more && last + 1 < NEAR;
        is_it.then(|| {
            stack.depth.set(last);
            entered.listeners
        })
    })
}

/// Removes an exited span. Returns `None` if it has no slice on this thread.
pub(crate) fn pop(layer: usize, span: u64) -> Option<Left> {
    with_deep(|stack, deep| stack.pop(deep, |entered| entered.is(layer, span)))
}

/// Records that the end event of a span needs more data, if it has a slice on this thread.
pub(crate) fn mark(layer: usize, span: u64) {
    with_deep(|stack, deep| {
        let is_it = |entered: &Entered| entered.is(layer, span);
        if let Some(entered) = deep.iter_mut().rfind(|entered| is_it(entered)) {
            entered.has_more = true;
        } else if let Some(index) = stack.find(is_it) {
            let entry = &stack.entries[index];
            let has_more = true;
            entry.set(entry.get().map(|entered| Entered {
                has_more,
                ..entered
            }));
        }
    });
}

/// Calls `act` with both stacks. While the thread ends, the deep stack is empty.
fn with_deep<R>(act: impl Fn(&Stack, &mut Vec<Entered>) -> R) -> R {
    NEAR_STACK.with(|stack| {
        let result = DEEP_STACK.try_with(|deep| act(stack, &mut deep.borrow_mut()));
        result.unwrap_or_else(|_| act(stack, &mut Vec::new()))
    })
}
