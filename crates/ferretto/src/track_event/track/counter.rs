//! Counter tracks and state tracks.

use ferretto_format::Fnv1a;

use super::{Parent, Shape, Track};
use crate::track_event::name::Name;

/// Separates the uuids of counters and states from those of other tracks.
const COUNTER: u64 = 0xb1a4_a67d_7970_839e;
const STATE: u64 = 0x2e23_98ec_92e8_9138;

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds = 1,
    /// A number of items.
    Count = 2,
    /// Bytes.
    Bytes = 3,
}

/// The track of a counter.
///
/// ```
/// use ferretto::{CounterTrack, Unit, counter};
///
/// static HEAP: CounterTrack = CounterTrack::new("heap").unit(Unit::Bytes).unit_multiplier(1024);
///
/// counter!("memory", HEAP, 512);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CounterTrack<'a> {
    pub(crate) track: Track<'a>,
    pub(super) unit: Option<Unit>,
    pub(super) unit_name: Option<&'a str>,
    pub(super) unit_multiplier: i64,
    pub(super) share_key: Option<&'a str>,
    pub(crate) is_incremental: bool,
    /// Set if the counter shows the processor time of its parent, a thread.
    pub(super) is_thread_time: bool,
}

impl CounterTrack<'static> {
    /// Creates a counter of the process, identified by its name.
    pub const fn new(name: &'static str) -> Self {
        Self::of(Name::Static(name), name)
    }
}

impl<'a> CounterTrack<'a> {
    /// Like [`CounterTrack::new`], with a name known at run time.
    pub const fn with_name(name: &'a str) -> Self {
        Self::of(Name::Dynamic(name), name)
    }

    const fn of(name: Name<'a>, text: &'a str) -> Self {
        let number = Fnv1a::hash(text.as_bytes()) ^ COUNTER;
        Self {
            track: Track::of(Shape::Custom, Some(name), number, Parent::Process),
            unit: None,
            unit_name: None,
            unit_multiplier: 1,
            share_key: None,
            is_incremental: false,
            is_thread_time: false,
        }
    }

    /// Creates a counter of the current thread's processor time, in units of `unit` nanoseconds.
    pub(crate) const fn thread_time(unit: u64) -> CounterTrack<'static> {
        let mut track = CounterTrack::new("thread_time");
        track.track.parent = Parent::CurrentThread;
        track.unit_multiplier = unit as i64;
        track.is_incremental = true;
        track.is_thread_time = true;
        track
    }

    /// Distinguishes the counter from others of the same name.
    #[must_use]
    pub const fn id(mut self, id: u64) -> Self {
        self.track.number ^= id;
        self
    }

    /// Sets the unit.
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Sets the name of a custom unit.
    #[must_use]
    pub const fn unit_name(mut self, name: &'a str) -> Self {
        self.unit_name = Some(name);
        self
    }

    /// Sets the number of units per recorded 1.
    #[must_use]
    pub const fn unit_multiplier(mut self, multiplier: i64) -> Self {
        self.unit_multiplier = multiplier;
        self
    }

    /// Gives the counters with the same key, below the same parent, the same scale.
    #[must_use]
    pub const fn share_axis(mut self, key: &'a str) -> Self {
        self.share_key = Some(key);
        self
    }

    /// Records only the differences between values, which are shorter. Events still set values, not
    /// differences. Only one thread may set such a counter.
    #[must_use]
    pub const fn incremental(mut self) -> Self {
        self.is_incremental = true;
        self
    }
}

/// A track that is in one of several states at any time.
///
/// ```
/// use ferretto::{StateTrack, state};
///
/// static LINK: StateTrack = StateTrack::new("link");
///
/// state!("network", LINK, "connected");
/// state!("network", LINK, None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StateTrack<'a> {
    pub(crate) track: Track<'a>,
}

impl StateTrack<'static> {
    /// Creates a state track of the process, identified by its name.
    pub const fn new(name: &'static str) -> Self {
        Self::of(Name::Static(name), name)
    }
}

impl<'a> StateTrack<'a> {
    /// Like [`StateTrack::new`], with a name known at run time.
    pub const fn with_name(name: &'a str) -> Self {
        Self::of(Name::Dynamic(name), name)
    }

    const fn of(name: Name<'a>, text: &'a str) -> Self {
        let number = Fnv1a::hash(text.as_bytes()) ^ STATE;
        Self {
            track: Track::of(Shape::Custom, Some(name), number, Parent::Process),
        }
    }

    /// Distinguishes the track from others of the same name.
    #[must_use]
    pub const fn id(mut self, id: u64) -> Self {
        self.track.number ^= id;
        self
    }
}

/// Defines the methods that both kinds of track share.
macro_rules! placing {
    ($type:ident, $method:ident) => {
        impl<'a> $type<'a> {
            /// Puts the track below another one.
            #[must_use]
            pub const fn child_of(mut self, parent: &'a Track<'a>) -> Self {
                self.track.parent = Parent::Track(parent);
                self
            }

            /// Puts the track below that of the thread that sets it.
            #[must_use]
            pub const fn of_current_thread(mut self) -> Self {
                self.track.parent = Parent::CurrentThread;
                self
            }

            /// Makes the track global: it belongs to no process.
            #[must_use]
            pub const fn global(mut self) -> Self {
                self.track.parent = Parent::Nothing;
                self
            }

            /// Sets the description, which tools show to the user.
            #[must_use]
            pub const fn description(mut self, text: &'a str) -> Self {
                self.track.description = Some(text);
                self
            }

            /// Like [`Track::sibling_order_rank`].
            #[must_use]
            pub const fn sibling_order_rank(mut self, rank: i32) -> Self {
                self.track.rank = Some(rank);
                self
            }

            /// Returns the uuid of the track in recordings, as seen from this thread.
            pub fn uuid(&self) -> u64 {
                self.track.uuid()
            }
        }

        impl<'a> From<&$type<'a>> for $type<'a> {
            fn from(track: &Self) -> Self {
                *track
            }
        }

        impl<'a> $method for &'a str {
            type Track = $type<'a>;

            fn track(self) -> $type<'a> {
                $type::with_name(self)
            }
        }

        impl<'a> $method for &'a String {
            type Track = $type<'a>;

            fn track(self) -> $type<'a> {
                $type::with_name(self)
            }
        }

        impl<'a> $method for $type<'a> {
            type Track = Self;

            fn track(self) -> Self {
                self
            }
        }

        impl<'t, 'a> $method for &'t $type<'a> {
            type Track = Self;

            fn track(self) -> Self {
                self
            }
        }

        /// The conversion that the macros apply to a track.
        pub trait $method {
            /// The resulting track.
            type Track;

            /// Converts the track.
            fn track(self) -> Self::Track;
        }
    };
}

placing!(CounterTrack, AsCounter);
placing!(StateTrack, AsState);
