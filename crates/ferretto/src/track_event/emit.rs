//! The functions and types that the macros use.

use super::category::Category;
use super::event::{Categories, CounterValue, Event, EventTrack, Kind, ShortEvent};
use super::field::Field;
use super::name::Name;
use super::recordings::SLOTS;
use super::thread;
use super::track::{CounterTrack, StateTrack, Track};

/// A category named at run time. See [`dynamic`].
#[derive(Clone, Copy, Debug)]
pub struct DynamicCategory<'a>(&'a str);

/// Creates a category with a name known at run time, or a group of categories separated by commas.
/// An event of a group is recorded if any of them is enabled.
///
/// A dynamic category costs more than a [`Category`]: each recording matches the name when it first
/// sees it, and occasionally again; every event carries the name; and the process does not list the
/// category.
///
/// ```
/// for plugin in ["equaliser", "reverb"] {
///     let _slice = ferretto::slice!(ferretto::dynamic(plugin), "load");
/// }
/// ```
pub fn dynamic(name: &str) -> DynamicCategory<'_> {
    DynamicCategory(name)
}

impl DynamicCategory<'_> {
    /// Returns true if a recording has enabled the category.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        !cfg!(feature = "off") && SLOTS.active() != 0 && self.is_wanted()
    }

    #[cold]
    fn is_wanted(&self) -> bool {
        thread::wanting(SLOTS.recording(), self.0) != 0
    }
}

/// The category of an event: a [`Category`] or a [`DynamicCategory`].
pub trait Selector<'a>: Copy + sealed::Sealed<'a> {}

mod sealed {
    use super::super::event::Categories;

    pub trait Sealed<'a> {
        /// Returns the slots that may want the event, and the categories to be written.
        fn select(self) -> (u32, Categories<'a>);
    }
}

impl Selector<'static> for &'static Category {}

impl sealed::Sealed<'static> for &'static Category {
    #[inline]
    fn select(self) -> (u32, Categories<'static>) {
        (self.slots(), Categories::Static(self))
    }
}

impl<'a> Selector<'a> for DynamicCategory<'a> {}

impl<'a> sealed::Sealed<'a> for DynamicCategory<'a> {
    fn select(self) -> (u32, Categories<'a>) {
        (SLOTS.recording(), Categories::Dynamic(self.0))
    }
}

/// The conversion that the macros apply to a category.
pub trait AsSelector {
    /// The resulting category.
    type Selector;

    /// Converts the category.
    fn selector(self) -> Self::Selector;
}

impl AsSelector for &'static Category {
    type Selector = Self;

    #[inline(always)]
    fn selector(self) -> Self {
        self
    }
}

impl AsSelector for &&'static Category {
    type Selector = &'static Category;

    #[inline(always)]
    fn selector(self) -> &'static Category {
        self
    }
}

impl<'a> AsSelector for &DynamicCategory<'a> {
    type Selector = DynamicCategory<'a>;

    #[inline(always)]
    fn selector(self) -> DynamicCategory<'a> {
        *self
    }
}

/// Writes the begin of a slice or an instant that has no fields and a name known at compile time.
#[cold]
#[inline(never)]
pub fn emit_short<'a>(category: impl Selector<'a>, kind: Kind, name: &'static str) {
    let (slots, categories) = category.select();
    short(slots, categories, kind, name);
}

#[inline(always)]
fn short(slots: u32, categories: Categories<'_>, kind: Kind, name: &'static str) {
    if slots == 0 {
        return;
    }
    match categories {
        Categories::Static(category) => {
            let event = ShortEvent::Named {
                kind,
                category,
                name,
            };
            thread::write_short(slots, &event);
        }
        _ => thread::write(
            slots,
            &Event {
                kind,
                categories,
                name: Some(Name::Static(name)),
                track: EventTrack::Thread,
                value: None,
                fields: &[],
            },
        ),
    }
}

/// Like [`emit_short`], for a slice that ends on drop.
#[cold]
#[inline(never)]
pub fn emit_short_slice<'a>(category: impl Selector<'a>, name: &'static str) -> Slice<'static> {
    let (slots, categories) = category.select();
    short(slots, categories, Kind::Begin, name);
    Slice { slots, track: None }
}

/// Writes a slice event or an instant to every recording that has enabled its category. Called by
/// the macros.
#[inline(always)]
pub fn emit<'a>(
    category: impl Selector<'a>,
    kind: Kind,
    name: Option<Name<'_>>,
    fields: &[Field<'_>],
) {
    // Passing the name through memory would stall: it is stored in two halves and loaded as a
    // whole.
    match name {
        Some(Name::Static(name)) => emit_static(category, kind, name, fields),
        _ => emit_any(category, kind, name, fields),
    }
}

#[cold]
#[inline(never)]
fn emit_static<'a>(
    category: impl Selector<'a>,
    kind: Kind,
    name: &'static str,
    fields: &[Field<'_>],
) {
    emit_here(category, kind, Some(Name::Static(name)), fields);
}

#[cold]
#[inline(never)]
fn emit_any<'a>(
    category: impl Selector<'a>,
    kind: Kind,
    name: Option<Name<'_>>,
    fields: &[Field<'_>],
) {
    emit_here(category, kind, name, fields);
}

#[inline(always)]
fn emit_here<'a>(
    category: impl Selector<'a>,
    kind: Kind,
    name: Option<Name<'_>>,
    fields: &[Field<'_>],
) {
    let (slots, categories) = category.select();
    if slots == 0 {
        return;
    }
    // The end of a slice has neither name nor categories.
    let is_end = kind == Kind::End;
    if fields.is_empty() && matches!(categories, Categories::Static(_)) {
        match name {
            _ if is_end => return thread::write_short(slots, &ShortEvent::End),
            Some(Name::Static(name)) => return short(slots, categories, kind, name),
            _ => {}
        }
    }
    let event = Event {
        kind,
        categories: if is_end {
            categories.unwritten()
        } else {
            categories
        },
        name: name.filter(|_| !is_end),
        track: EventTrack::Thread,
        value: None,
        fields,
    };
    thread::write(slots, &event);
}

/// Sets a counter in every recording that has enabled its category. Called by
/// [`counter!`](crate::counter).
#[inline(always)]
pub fn emit_counter<'a>(
    category: impl Selector<'a>,
    counter: &CounterTrack<'_>,
    value: CounterValue,
    fields: &[Field<'_>],
) {
    // As in `emit`.
    match value {
        CounterValue::Integer(value) => emit_integer(category, counter, value, fields),
        CounterValue::Double(value) => emit_double(category, counter, value, fields),
    }
}

#[cold]
#[inline(never)]
fn emit_integer<'a>(
    category: impl Selector<'a>,
    counter: &CounterTrack<'_>,
    value: i64,
    fields: &[Field<'_>],
) {
    emit_value(category, counter, CounterValue::Integer(value), fields);
}

#[cold]
#[inline(never)]
fn emit_double<'a>(
    category: impl Selector<'a>,
    counter: &CounterTrack<'_>,
    value: f64,
    fields: &[Field<'_>],
) {
    emit_value(category, counter, CounterValue::Double(value), fields);
}

#[inline(always)]
fn emit_value<'a>(
    category: impl Selector<'a>,
    counter: &CounterTrack<'_>,
    value: CounterValue,
    fields: &[Field<'_>],
) {
    let (slots, categories) = category.select();
    if slots == 0 {
        return;
    }
    let event = Event {
        kind: Kind::Counter,
        categories: categories.unwritten(),
        name: None,
        track: EventTrack::Counter(counter),
        value: Some(value),
        fields,
    };
    thread::write(slots, &event);
}

/// Sets a state, or no state for `None`, in every recording that has enabled its category. Called
/// by [`state!`](crate::state).
#[cold]
#[inline(never)]
pub fn emit_state<'a>(
    category: impl Selector<'a>,
    track: &StateTrack<'_>,
    state: Option<Name<'_>>,
    fields: &[Field<'_>],
) {
    let (slots, categories) = category.select();
    if slots == 0 {
        return;
    }
    let event = Event {
        kind: Kind::State,
        categories,
        name: state,
        track: EventTrack::State(track),
        value: None,
        fields,
    };
    thread::write(slots, &event);
}

/// Writes the begin of a slice. Called by [`slice!`](crate::slice).
#[inline(always)]
pub fn emit_slice<'a, 't>(
    category: impl Selector<'a>,
    name: Name<'_>,
    track: Option<Track<'t>>,
    fields: &[Field<'_>],
) -> Slice<'t> {
    // As in `emit`.
    match name {
        Name::Static(name) => emit_static_slice(category, name, track, fields),
        name => emit_any_slice(category, name, track, fields),
    }
}

#[cold]
#[inline(never)]
fn emit_static_slice<'a, 't>(
    category: impl Selector<'a>,
    name: &'static str,
    track: Option<Track<'t>>,
    fields: &[Field<'_>],
) -> Slice<'t> {
    emit_slice_here(category, Name::Static(name), track, fields)
}

#[cold]
#[inline(never)]
fn emit_any_slice<'a, 't>(
    category: impl Selector<'a>,
    name: Name<'_>,
    track: Option<Track<'t>>,
    fields: &[Field<'_>],
) -> Slice<'t> {
    emit_slice_here(category, name, track, fields)
}

#[inline(always)]
fn emit_slice_here<'a, 't>(
    category: impl Selector<'a>,
    name: Name<'_>,
    track: Option<Track<'t>>,
    fields: &[Field<'_>],
) -> Slice<'t> {
    let (slots, categories) = category.select();
    if slots != 0 {
        let event = Event {
            kind: Kind::Begin,
            categories,
            name: Some(name),
            track: track.as_ref().map_or(EventTrack::Thread, EventTrack::Track),
            value: None,
            fields,
        };
        thread::write(slots, &event);
    }
    Slice { slots, track }
}

/// A slice that ends when this value is dropped, including during a panic, on the track where it
/// began. Created by [`slice!`](crate::slice).
///
/// Recordings that do not contain the begin of the slice do not receive its end.
#[derive(Debug)]
#[must_use = "the slice ends when this is dropped"]
pub struct Slice<'a> {
    /// The slots of the recordings that contain the begin of the slice.
    slots: u32,
    track: Option<Track<'a>>,
}

impl Slice<'_> {
    /// Creates a slice that no recording contains.
    #[inline]
    pub const fn disabled() -> Self {
        Self {
            slots: 0,
            track: None,
        }
    }

    /// Returns true if a recording contains the slice.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.slots & SLOTS.active() != 0
    }

    /// Ends the slice with fields on its end. Called by [`end_slice!`](crate::end_slice).
    #[cold]
    #[inline(never)]
    pub fn end_with(mut self, fields: &[Field<'_>]) {
        self.end(fields);
        self.slots = 0;
    }

    #[cold]
    #[inline(never)]
    fn end(&self, fields: &[Field<'_>]) {
        let slots = self.slots & SLOTS.active();
        if slots == 0 {
            return;
        }
        if fields.is_empty() && self.track.is_none() {
            return thread::write_short(slots, &ShortEvent::End);
        }
        thread::write(
            slots,
            &Event {
                kind: Kind::End,
                categories: Categories::None,
                name: None,
                track: self
                    .track
                    .as_ref()
                    .map_or(EventTrack::Thread, EventTrack::Track),
                value: None,
                fields,
            },
        );
    }
}

impl Drop for Slice<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.slots != 0 {
            self.end(&[]);
        }
    }
}
