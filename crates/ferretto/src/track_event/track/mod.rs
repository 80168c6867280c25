//! Tracks: the lines of the picture that events lie on.

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

/// Sets the numbers of named tracks apart from others.
const NAMED: u64 = 0xcd57_1ec5_ead3_7024;

/// The kind of thing that a track is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The process.
    Process,
    /// The thread that the event is on.
    CurrentThread,
    /// A thread of the process, by the kernel's number.
    Thread(u32),
    /// Anything else.
    Custom,
}

/// The thing that a track lies below.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parent<'a> {
    Process,
    CurrentThread,
    Nothing,
    Track(&'a Track<'a>),
}

/// In which order the viewer shows the tracks below a track.
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

/// The rule by which the viewer makes one of tracks below the same parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge<'a> {
    Unspecified,
    ByName,
    Never,
    ByKey(&'a str),
    ByNumber(u64),
}

/// A line that events lie on, other than that of the thread they happen on: for work that several
/// threads take part in, for lanes within a thread, and so on.
///
/// Tracks are small values. They need not be registered: each recording is told what a track is
/// before its first event, and so is every track it lies below. Two values are the same track if
/// they have the same name, number and parent.
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
    /// The parent's number is added to this.
    number: u64,
    pub(super) parent: Parent<'a>,
    pub(super) description: Option<&'a str>,
    pub(super) ordering: Option<ChildOrdering>,
    pub(super) rank: Option<i32>,
    pub(super) merge: Merge<'a>,
    pub(super) keeps_apart: bool,
}

impl Track<'static> {
    /// The track of the process.
    pub const fn process() -> Self {
        Self::of(Shape::Process, None, 0, Parent::Nothing)
    }

    /// The track of the thread that the event happens on: where events without a track are.
    pub const fn thread() -> Self {
        Self::of(Shape::CurrentThread, None, 0, Parent::Process)
    }

    /// The track of a thread of this process, by the number that the kernel gives it.
    pub const fn of_thread(tid: u32) -> Self {
        Self::of(Shape::Thread(tid), None, 0, Parent::Process)
    }

    /// A track that is known by a number, below the process: for things that come and go, such as
    /// requests.
    ///
    /// Numbers of tracks without names are one space for the whole process, in which those of its
    /// threads lie as well.
    pub const fn new(id: u64) -> Self {
        Self::of(Shape::Custom, None, id, Parent::Process)
    }

    /// A track with a name and a number, below the process.
    pub const fn named(name: &'static str, id: u64) -> Self {
        let number = id ^ Fnv1a::hash(name.as_bytes()) ^ NAMED;
        Self::of(
            Shape::Custom,
            Some(Name::Static(name)),
            number,
            Parent::Process,
        )
    }

    /// A track that is known by the address of a value, below the process. It is the same track for
    /// as long as the value stays where it is.
    pub fn of_value<T: ?Sized>(value: &T) -> Self {
        Self::new(std::ptr::from_ref(value).cast::<()>().addr() as u64)
    }
}

impl<'a> Track<'a> {
    /// As [`Track::named`], with a name made at run time.
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

    /// Puts the track below nothing: it belongs to no process, and every process that uses one of
    /// this name and number uses the same.
    #[must_use]
    pub const fn global(mut self) -> Self {
        self.parent = Parent::Nothing;
        self
    }

    /// Explains the track to people.
    #[must_use]
    pub const fn description(mut self, text: &'a str) -> Self {
        self.description = Some(text);
        self
    }

    /// In which order the tracks below this one are shown.
    #[must_use]
    pub const fn child_ordering(mut self, ordering: ChildOrdering) -> Self {
        self.ordering = Some(ordering);
        self
    }

    /// Sets the rank by which this track is shown among its siblings, if their parent orders them
    /// [explicitly](ChildOrdering::Explicit): lower ones first, 0 by default.
    #[must_use]
    pub const fn sibling_order_rank(mut self, rank: i32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Shows siblings of the same name as one, which is the default.
    #[must_use]
    pub const fn merge_by_name(mut self) -> Self {
        self.merge = Merge::ByName;
        self
    }

    /// Shows the track by itself even if siblings have the same name.
    #[must_use]
    pub const fn merge_never(mut self) -> Self {
        self.merge = Merge::Never;
        self
    }

    /// Shows siblings with the same key as one.
    #[must_use]
    pub const fn merge_by_key(mut self, key: &'a str) -> Self {
        self.merge = Merge::ByKey(key);
        self
    }

    /// Shows siblings with the same key as one.
    #[must_use]
    pub const fn merge_by_number(mut self, key: u64) -> Self {
        self.merge = Merge::ByNumber(key);
        self
    }

    /// For the track of a thread: shows it apart from what the kernel says about the thread.
    #[must_use]
    pub const fn disallow_merging_with_system_tracks(mut self) -> Self {
        self.keeps_apart = true;
        self
    }

    /// The number that names the track in recordings, as seen from this thread.
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

    /// The parent's number, 0 if there is none.
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
