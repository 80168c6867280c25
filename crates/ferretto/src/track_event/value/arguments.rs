//! The arguments of an event.

use std::fmt;

use ferretto_engine::{EventBuffer, EventEncoder};

use super::annotation::{Annotation, Argument};

use crate::track_event::fast;
use crate::track_event::interner::Interner;

/// Appends arguments to an event. See [`Field::Arguments`](crate::track_event::Field::Arguments).
pub struct Arguments<'a> {
    buffer: &'a mut EventBuffer,
    interner: &'a mut Interner,
}

impl<'a> Arguments<'a> {
    #[inline]
    pub(in crate::track_event) fn new(
        buffer: &'a mut EventBuffer,
        interner: &'a mut Interner,
    ) -> Self {
        Self { buffer, interner }
    }

    /// Adds an argument with a name known at compile time.
    #[inline]
    pub fn argument(&mut self, name: &'static str, value: &(impl Argument + ?Sized)) {
        self.argument_with(name, |annotation| value.write(annotation));
    }

    /// Adds an argument whose value `write` writes.
    #[inline]
    pub fn argument_with(&mut self, name: &'static str, write: impl FnOnce(&mut Annotation<'_>)) {
        let number = self.interner.argument(name);
        let mark = fast::begin_annotation(self.buffer, number);
        write(&mut Annotation::new(
            &mut EventEncoder::new(self.buffer),
            self.interner,
        ));
        EventEncoder::new(self.buffer).end_nested(mark);
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments").finish_non_exhaustive()
    }
}
