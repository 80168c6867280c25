//! Tracks: the rows of a timeline.

mod counter;
mod describe;
mod identity;
pub(super) mod registered;
mod set;

pub use counter::{AsCounter, AsState, CounterTrack, StateTrack, Unit};
pub(super) use describe::{Marker, describe};
pub(super) use identity::Identity;
pub(super) use registered::description;
pub(super) use set::TrackSet;

use ferretto_format::Fnv1a;

use super::name::Name;

/// Separates the uuids of named tracks from others.
const NAMED: u64 = 0xcd57_1ec5_ead3_7024;

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The process.
    Process,
    /// The thread that the event is on.
    CurrentThread,
    /// A thread of the process, by its thread id.
    Thread(u32),
    /// Any other track.
    Custom,
}

/// The parent of a track.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parent<'a> {
    Process,
    CurrentThread,
    Nothing,
    Track(&'a Track<'a>),
}

/// The order in which the viewer shows the children of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildOrdering {
    /// By name.
    Lexicographic = 1,
    /// By the time of their first events.
    Chronological = 2,
    /// By [`Track::sibling_order_rank`].
    Explicit = 3,
}

/// The rule by which the viewer merges sibling tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge<'a> {
    Unspecified,
    ByName,
    Never,
    ByKey(&'a str),
    ByNumber(u64),
}

/// A row of the timeline other than the current thread's: for work that several threads share, for
/// lanes within a thread, and so on.
///
/// Tracks are small values and need no registration: a track and its ancestors are described in
/// each recording before their first event. Two values are the same track if they have the same
/// name, id and parent.
///
/// ```
/// use ferretto::{Track, instant, slice};
///
/// static QUEUE: Track = Track::named("queue", 0);
///
/// fn handle(request: u64) {
///     let track = Track::named("request", request).child_of(&QUEUE);
///     let _slice = slice!("server", "handle", track: &track);
///     instant!("server", "parsed", track: track);
/// }
/// # handle(7);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    pub(super) shape: Shape,
    pub(super) name: Option<Name<'a>>,
    /// The id; the parent's uuid is added to it.
    number: u64,
    pub(super) parent: Parent<'a>,
    pub(super) description: Option<&'a str>,
    pub(super) ordering: Option<ChildOrdering>,
    pub(super) rank: Option<i32>,
    pub(super) merge: Merge<'a>,
    pub(super) keeps_apart: bool,
}

impl Track<'static> {
    /// Returns the track of the process.
    pub const fn process() -> Self {
        Self::of(Shape::Process, None, 0, Parent::Nothing)
    }

    /// Returns the track of the thread that the event happens on, which is the default.
    pub const fn thread() -> Self {
        Self::of(Shape::CurrentThread, None, 0, Parent::Process)
    }

    /// Returns the track of a thread of this process, by its thread id.
    pub const fn of_thread(tid: u32) -> Self {
        Self::of(Shape::Thread(tid), None, 0, Parent::Process)
    }

    /// Creates a track identified by a number, below the process: for short-lived objects such as
    /// requests.
    ///
    /// The ids of unnamed tracks share one namespace per process, which includes its thread ids.
    pub const fn new(id: u64) -> Self {
        Self::of(Shape::Custom, None, id, Parent::Process)
    }

    /// Creates a track with a name and an id, below the process.
    pub const fn named(name: &'static str, id: u64) -> Self {
        let number = id ^ Fnv1a::hash(name.as_bytes()) ^ NAMED;
        Self::of(
            Shape::Custom,
            Some(Name::Static(name)),
            number,
            Parent::Process,
        )
    }

    /// Creates a track identified by the address of a value, below the process. It stays the same
    /// track as long as the value does not move.
    pub fn of_value<T: ?Sized>(value: &T) -> Self {
        Self::new(std::ptr::from_ref(value).cast::<()>().addr() as u64)
    }
}

impl<'a> Track<'a> {
    /// Like [`Track::named`], with a name known at run time.
    pub const fn with_name(name: &'a str, id: u64) -> Self {
        let number = id ^ Fnv1a::hash(name.as_bytes()) ^ NAMED;
        Self::of(
            Shape::Custom,
            Some(Name::Dynamic(name)),
            number,
            Parent::Process,
        )
    }

    const fn of(shape: Shape, name: Option<Name<'a>>, number: u64, parent: Parent<'a>) -> Self {
        Self {
            shape,
            name,
            number,
            parent,
            description: None,
            ordering: None,
            rank: None,
            merge: Merge::Unspecified,
            keeps_apart: false,
        }
    }

    /// Puts the track below another one.
    #[must_use]
    pub const fn child_of(mut self, parent: &'a Self) -> Self {
        self.parent = Parent::Track(parent);
        self
    }

    /// Puts the track below that of the thread the event happens on.
    #[must_use]
    pub const fn of_current_thread(mut self) -> Self {
        self.parent = Parent::CurrentThread;
        self
    }

    /// Makes the track global: it belongs to no process, and all processes share the track of this
    /// name and id.
    #[must_use]
    pub const fn global(mut self) -> Self {
        self.parent = Parent::Nothing;
        self
    }

    /// Sets the description, which tools show to the user.
    #[must_use]
    pub const fn description(mut self, text: &'a str) -> Self {
        self.description = Some(text);
        self
    }

    /// Sets the order in which the children of this track are shown.
    #[must_use]
    pub const fn child_ordering(mut self, ordering: ChildOrdering) -> Self {
        self.ordering = Some(ordering);
        self
    }

    /// Sets the rank of this track among its siblings, if their parent orders them
    /// [explicitly](ChildOrdering::Explicit): lower ranks first, 0 by default.
    #[must_use]
    pub const fn sibling_order_rank(mut self, rank: i32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Merges siblings of the same name, which is the default.
    #[must_use]
    pub const fn merge_by_name(mut self) -> Self {
        self.merge = Merge::ByName;
        self
    }

    /// Never merges the track with its siblings.
    #[must_use]
    pub const fn merge_never(mut self) -> Self {
        self.merge = Merge::Never;
        self
    }

    /// Merges siblings with the same key.
    #[must_use]
    pub const fn merge_by_key(mut self, key: &'a str) -> Self {
        self.merge = Merge::ByKey(key);
        self
    }

    /// Merges siblings with the same key.
    #[must_use]
    pub const fn merge_by_number(mut self, key: u64) -> Self {
        self.merge = Merge::ByNumber(key);
        self
    }

    /// Shows the track of a thread separately from the kernel's events of the thread.
    #[must_use]
    pub const fn disallow_merging_with_system_tracks(mut self) -> Self {
        self.keeps_apart = true;
        self
    }

    /// Returns the uuid of the track in recordings, as seen from this thread.
    pub fn uuid(&self) -> u64 {
        self.number_for(&Identity::current())
    }

    #[inline]
    pub(super) fn number_for(&self, identity: &Identity) -> u64 {
        match self.shape {
            Shape::Custom => self.number ^ self.parent_number(identity),
            Shape::Process => identity.process,
            Shape::CurrentThread => identity.thread,
            Shape::Thread(tid) => identity.process ^ u64::from(tid),
        }
    }

    /// Returns the parent's uuid, or 0 without a parent.
    #[inline]
    pub(super) fn parent_number(&self, identity: &Identity) -> u64 {
        match self.parent {
            Parent::Process => identity.process,
            Parent::CurrentThread => identity.thread,
            Parent::Nothing => 0,
            Parent::Track(parent) => parent.number_for(identity),
        }
    }
}

impl From<&Self> for Track<'_> {
    fn from(track: &Self) -> Self {
        *track
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trackevent_028_track_numbers_are_those_of_other_libraries() {
        const PROCESS: u64 = 0x1122_3344_5566_7788;
        let identity = Identity {
            process: PROCESS,
            thread: PROCESS ^ 4243,
        };
        let number = |track: Track<'_>| track.number_for(&identity);
        assert_eq!(number(Track::process()), PROCESS);
        assert_eq!(number(Track::thread()), 0x1122_3344_5566_671b);
        assert_eq!(number(Track::of_thread(4243)), 0x1122_3344_5566_671b);
        assert_eq!(number(Track::new(7)), 7 ^ PROCESS);
        assert_eq!(number(Track::new(7).global()), 7);
        let global = Track::named("Global", 0).global();
        assert_eq!(number(global), 0xa54b_16ae_65a9_8c8a);
        assert_eq!(
            number(Track::with_name("Global", 0).global()),
            number(global)
        );
        assert_eq!(
            number(Track::named("MyTrack", 3).global()),
            3 ^ 0x1056_8bfe_b6ff_d272 ^ NAMED
        );
        assert_eq!(number(Track::new(9).child_of(&global)), 9 ^ number(global));
        assert_eq!(
            number(Track::new(9).of_current_thread()),
            9 ^ number(Track::thread())
        );
        let counter = CounterTrack::new("fps");
        assert_eq!(number(counter.track), 0x7c00_1c21_d2a2_489e);
        let goats = CounterTrack::new("Goats teleported").global();
        assert_eq!(number(goats.track), 0x6072_fc23_4f82_df11);
        let power = StateTrack::new("power").global();
        assert_eq!(number(power.track), 0xc0da_49d9_180f_25de);
        let value = 5u8;
        let address = std::ptr::from_ref(&value).addr() as u64;
        assert_eq!(number(Track::of_value(&value)), address ^ PROCESS);
    }
}
