//! Slices for libraries that bridge the spans of another library. These libraries store the state
//! between the begin and the end of a span themselves.

use super::category::Category;
use super::event::{Categories, Event, EventTrack, Kind, ShortEvent};
use super::field::Field;
use super::name::Name;
use super::recordings::SLOTS;
use super::thread;

/// The recordings that receive a slice on the thread's track: the end goes to the recordings that
/// contain the begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listeners(u32);

impl Listeners {
    /// Returns the recordings that have enabled a category.
    #[inline]
    pub fn of(category: &'static Category) -> Self {
        Self(if cfg!(feature = "off") {
            0
        } else {
            category.slots()
        })
    }

    /// Returns the recordings that have enabled a category, if the category has been evaluated
    /// already.
    #[inline]
    pub fn known(category: &'static Category) -> Option<Self> {
        if cfg!(feature = "off") {
            return None;
        }
        category.known_slots().map(Self)
    }

    /// Returns true if there are no such recordings.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Writes the begin of a slice without fields.
    #[inline(never)]
    pub fn begin(self, category: &'static Category, name: &'static str) {
        let kind = Kind::Begin;
        let event = ShortEvent::Named {
            kind,
            category,
            name,
        };
        thread::write_short(self.0, &event);
    }

    /// Writes the begin of a slice.
    #[inline(never)]
    pub fn begin_with(self, category: &'static Category, name: &'static str, fields: &[Field<'_>]) {
        let event = Event {
            kind: Kind::Begin,
            categories: Categories::Static(category),
            name: Some(Name::Static(name)),
            track: EventTrack::Thread,
            value: None,
            fields,
        };
        thread::write(self.0, &event);
    }

    /// Writes the end of a slice without fields.
    #[inline(never)]
    pub fn end(self) {
        let slots = self.0 & SLOTS.active();
        if slots != 0 {
            thread::write_short(slots, &ShortEvent::End);
        }
    }
}
