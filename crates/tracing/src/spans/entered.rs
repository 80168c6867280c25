//! The spans that a thread is in and that have slices on its track.

use std::cell::{Cell, RefCell};

use ferretto::track_event::Listeners;

use crate::callsites::Callsite;

/// So many are noted where it takes least; those that lie in that many others, elsewhere.
const NEAR: usize = 16;

thread_local! {
    static NEAR_STACK: Stack = const {
        Stack {
            depth: Cell::new(0),
            places: [const { Cell::new(None) }; NEAR],
        }
    };
    static DEEP_STACK: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// The outermost spans. It has no destructor, so that threads can use it for as long as they run.
struct Stack {
    /// The number of places in use. There are others elsewhere only if all are.
    depth: Cell<usize>,
    places: [Cell<Option<Entered>>; NEAR],
}

/// A span that the thread is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The number of the layer.
    pub(crate) layer: usize,
    pub(crate) span: u64,
    pub(crate) callsite: &'static Callsite,
    /// The recordings that have the beginning of the slice.
    pub(crate) listeners: Listeners,
    /// There is more for its end.
    pub(crate) has_more: bool,
    /// The number of bytes of the span's values that the beginning of the slice had.
    pub(crate) written: usize,
}

impl Entered {
    #[inline]
    fn is(&self, layer: usize, span: u64) -> bool {
        self.span == span && self.layer == layer
    }
}

/// A span that was left.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) entered: Entered,
    /// Those that were entered later, which are no longer noted: their slices lie in that of this
    /// one.
    pub(crate) inner: Vec<Entered>,
}

impl Stack {
    fn used(&self) -> &[Cell<Option<Entered>>] {
        &self.places[..self.depth.get()]
    }

    /// The index of the innermost one of which `is_it` is true.
    fn find(&self, is_it: impl Fn(&Entered) -> bool) -> Option<usize> {
        let mut places = self.used().iter();
        places.rposition(|place| place.get().is_some_and(|entered| is_it(&entered)))
    }

    /// Removes the innermost one of which `is_it` is true, and those in it.
    fn pop(&self, deep: &mut Vec<Entered>, is_it: impl Fn(&Entered) -> bool) -> Option<Left> {
        if let Some(index) = deep.iter().rposition(&is_it) {
            let inner = deep.split_off(index + 1);
            let entered = deep.pop()?;
            return Some(Left { entered, inner });
        }
        let index = self.find(is_it)?;
        let (place, inner) = self.used()[index..].split_first()?;
        let mut inner: Vec<_> = inner.iter().filter_map(Cell::get).collect();
        inner.append(deep);
        self.depth.set(index);
        let entered = place.get()?;
        Some(Left { entered, inner })
    }
}

/// Notes that a slice begins, if it does not lie in too many others.
#[inline]
pub(crate) fn push_near(entered: Entered) -> bool {
    NEAR_STACK.with(|stack| {
        let depth = stack.depth.get();
        let place = stack.places.get(depth);
        if let Some(place) = place {
            place.set(Some(entered));
            stack.depth.set(depth + 1);
        }
        place.is_some()
    })
}

/// Notes that a slice begins; not while the thread ends, if it lies in too many others.
#[inline]
pub(crate) fn push(entered: Entered) {
    if !push_near(entered) {
        let _ = DEEP_STACK.try_with(|deep| deep.borrow_mut().push(entered));
    }
}

/// Notes that a span was left, if it is the one that the thread has entered last, and there is
/// nothing more for its end. Returns who is to have that.
#[inline]
pub(crate) fn pop_plain(layer: usize, span: u64) -> Option<Listeners> {
    NEAR_STACK.with(|stack| {
        let last = stack.depth.get().wrapping_sub(1);
        let entered = stack.places.get(last)?.get()?;
        // If all places are in use the last one is elsewhere, perhaps.
        let is_it = entered.is(layer, span) && !entered.has_more && last + 1 < NEAR;
        is_it.then(|| {
            stack.depth.set(last);
            entered.listeners
        })
    })
}

/// Notes that a span was left; `None` if it has no slice here.
pub(crate) fn pop(layer: usize, span: u64) -> Option<Left> {
    with_deep(|stack, deep| stack.pop(deep, |entered| entered.is(layer, span)))
}

/// Notes that a span has something for the end of its slice, if it has one on this thread.
pub(crate) fn mark(layer: usize, span: u64) {
    with_deep(|stack, deep| {
        let is_it = |entered: &Entered| entered.is(layer, span);
        if let Some(entered) = deep.iter_mut().rfind(|entered| is_it(entered)) {
            entered.has_more = true;
        } else if let Some(index) = stack.find(is_it) {
            let place = &stack.places[index];
            let has_more = true;
            place.set(place.get().map(|entered| Entered {
                has_more,
                ..entered
            }));
        }
    });
}

/// Calls `act` with both stacks; while the thread ends the second one is empty.
fn with_deep<R>(act: impl Fn(&Stack, &mut Vec<Entered>) -> R) -> R {
    NEAR_STACK.with(|stack| {
        let result = DEEP_STACK.try_with(|deep| act(stack, &mut deep.borrow_mut()));
        result.unwrap_or_else(|_| act(stack, &mut Vec::new()))
    })
}
