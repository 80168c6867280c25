//! The macros that trace events.

/// Begins a slice: an operation with a duration. It ends when the returned value is dropped.
///
/// ```
/// fn draw(frame: u64, title: &str) {
///     let _slice = ferretto::slice!("rendering", "draw", frame = frame, title = title);
///     // …
/// }
/// # draw(1, "a");
/// ```
///
/// The category is a literal, the path of a [`Category`](crate::Category), or a
/// [`dynamic`](crate::dynamic()) one. The name is a literal or any `&str` expression, which costs
/// more.
///
/// The following items are attached to the event, and are evaluated only while the category is
/// recorded:
///
/// - `key = value` and `"any key" = value`: an argument, of any type that is an
///   [`Argument`](crate::Argument).
/// - `track: Track`: the event is on this [`Track`](crate::Track) rather than on the thread's.
/// - `flow: Flow`, `terminating_flow: Flow`: the event is part of a [`Flow`](crate::Flow), or the
///   end of one.
/// - `time: Timestamp`: the event happens at this [`Timestamp`](crate::Timestamp) rather than now.
/// - `correlation: u64` or `&str`: events with the same
///   [`Correlation`](crate::track_event::Correlation) belong together.
/// - `callstack: &[Frame]`, `interned_callstack: &[Frame]`, `callstack_weight: f64`: a callstack of
///   the program.
/// - `log: LogMessage`: a [`LogMessage`](crate::track_event::LogMessage).
/// - `location: here!()`: the source location.
/// - `extension: |event| …`: appends fields to the event through an
///   [`EventEncoder`](crate::track_event::EventEncoder).
/// - `raw: &[u8]`: encoded fields of the event.
///
/// # Cost
///
/// Without a recording: 0.3 ns, one load and one branch. With a recording, begin and end together
/// take 73 ns, of which reading the clock twice takes 56 ns. The first integer argument adds 22 ns,
/// each further one 12 ns; a string of 16 bytes 33 ns; a track that is already described 21 ns; a
/// name known at run time up to 65 ns.
///
/// (The minimum of 20 to 120 runs of 50,000 events on a busy virtual machine with two cores; an
/// upper bound for names known at run time. `bench/sdk` measures this and more, beside the official
/// library.)
#[macro_export]
macro_rules! slice {
    ($category:literal, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $category);
        $crate::__slice!(CATEGORY, $($event)+)
    }};
    ($category:expr, $($event:tt)+) => {
        match $crate::__private::AsSelector::selector(&$category) {
            category => $crate::__slice!(category, $($event)+),
        }
    };
}

/// Begins a slice that [`end!`](crate::end) ends, on the same thread or track. Takes the arguments
/// of [`slice!`](crate::slice).
///
/// # Cost
///
/// Like [`instant!`](crate::instant).
#[macro_export]
macro_rules! begin {
    ($category:literal, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $category);
        $crate::__named!(CATEGORY, Begin, $($event)+);
    }};
    ($category:expr, $($event:tt)+) => {
        match $crate::__private::AsSelector::selector(&$category) {
            category => $crate::__named!(category, Begin, $($event)+),
        }
    };
}

/// Ends the slice begun last on this thread, or on the given track. Takes the arguments of
/// [`slice!`](crate::slice) except the name.
///
/// ```
/// ferretto::begin!("loading", "fetch");
/// ferretto::end!("loading", bytes = 512);
/// ```
///
/// # Cost
///
/// Like [`instant!`](crate::instant).
#[macro_export]
macro_rules! end {
    ($category:literal $(, $key:tt $sep:tt $value:expr)* $(,)?) => {{
        $crate::__category!(CATEGORY = $category);
        if CATEGORY.is_enabled() {
            $crate::track_event::emit(
                CATEGORY, $crate::track_event::Kind::End, None, &[$($crate::__field!($key $sep $value)),*],
            );
        }
    }};
    ($category:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        match $crate::__private::AsSelector::selector(&$category) {
            category => if category.is_enabled() {
                $crate::track_event::emit(
                    category, $crate::track_event::Kind::End, None, &[$($crate::__field!($key $sep $value)),*],
                );
            },
        }
    };
}

/// Ends a [`slice!`](crate::slice) with items attached to its end. Takes the items of
/// [`slice!`](crate::slice) except the track.
///
/// ```
/// let slice = ferretto::slice!("loading", "fetch");
/// ferretto::end_slice!(slice, bytes = 512);
/// ```
#[macro_export]
macro_rules! end_slice {
    ($slice:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        match $slice {
            slice => if slice.is_enabled() {
                slice.end_with(&[$($crate::__field!($key $sep $value)),*]);
            },
        }
    };
}

/// Traces an event at a single moment. Takes the arguments of [`slice!`](crate::slice).
///
/// ```
/// ferretto::instant!("input", "click", x = 10, y = 20);
/// ferretto::instant!("input", &format!("key {}", 'a'));
/// ```
///
/// # Cost
///
/// 37 ns, of which reading the clock takes 28 ns; items cost the same as for
/// [`slice!`](crate::slice).
#[macro_export]
macro_rules! instant {
    ($category:literal, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $category);
        $crate::__named!(CATEGORY, Instant, $($event)+);
    }};
    ($category:expr, $($event:tt)+) => {
        match $crate::__private::AsSelector::selector(&$category) {
            category => $crate::__named!(category, Instant, $($event)+),
        }
    };
}

/// Sets a counter: a counter of the process, identified by its name, or any
/// [`CounterTrack`](crate::CounterTrack).
///
/// ```
/// use ferretto::{CounterTrack, Unit, counter};
///
/// static HEAP: CounterTrack = CounterTrack::new("heap").unit(Unit::Bytes);
///
/// counter!("rendering", "frames per second", 59.7);
/// counter!("memory", HEAP, 512 << 10);
/// ```
///
/// The value is an integer or a float. The items of [`slice!`](crate::slice), such as `time:
/// Timestamp`, may follow.
///
/// # Cost
///
/// 60 ns, of which reading the clock takes 28 ns; one load and one branch without a recording.
#[macro_export]
macro_rules! counter {
    ($category:literal, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $category);
        $crate::__counter!(CATEGORY, $($event)+);
    }};
    ($category:expr, $($event:tt)+) => {
        match $crate::__private::AsSelector::selector(&$category) {
            category => $crate::__counter!(category, $($event)+),
        }
    };
}

/// Sets the state of a [`StateTrack`](crate::StateTrack), or of a state track of the process,
/// identified by its name. The state lasts until the next one. `None` is no state.
///
/// ```
/// use ferretto::state;
///
/// state!("network", "link", "connecting");
/// state!("network", "link", "connected", peer = "example.org");
/// state!("network", "link", None);
/// ```
///
/// The items of [`slice!`](crate::slice) except the track may follow.
///
/// # Cost
///
/// 72 ns, of which reading the clock takes 28 ns; one load and one branch without a recording.
#[macro_export]
macro_rules! state {
    ($category:literal, $($event:tt)+) => {{
        $crate::__category!(CATEGORY = $category);
        $crate::__state!(CATEGORY, $($event)+);
    }};
    ($category:expr, $($event:tt)+) => {
        match $crate::__private::AsSelector::selector(&$category) {
            category => $crate::__state!(category, $($event)+),
        }
    };
}

/// Returns the current source location, a `&'static`
/// [`SourceLocation`](crate::track_event::SourceLocation).
///
/// ```
/// ferretto::instant!("app", "here", location: ferretto::here!());
/// ```
#[macro_export]
macro_rules! here {
    () => {{
        static HERE: $crate::track_event::SourceLocation = $crate::track_event::SourceLocation {
            file: file!(),
            function: module_path!(),
            line: line!(),
        };
        &HERE
    }};
}

/// Declares a table of categories: each becomes a static, and
/// [`register_categories`](crate::register_categories) registers all of them at once, so that users
/// can select them before anything is recorded.
///
/// ```
/// ferretto::categories! {
///     /// What this library records.
///     pub static CATEGORIES = {
///         RENDERING: "rendering", "Drawing of frames";
///         NETWORK: "network", "Requests and answers", ["slow", "debug"];
///     }
/// }
///
/// ferretto::register_categories(CATEGORIES);
/// let _slice = ferretto::slice!(RENDERING, "draw");
/// ```
#[macro_export]
macro_rules! categories {
    (
        $(#[$attribute:meta])* $visibility:vis static $table:ident = {
            $($name:ident: $text:literal $(, $description:literal $(, [$($tag:literal),* $(,)?])?)?;)+
        }
    ) => {
        $(
            #[doc = concat!("The category `", $text, "`", $(": ", $description,)? ".")]
            $visibility static $name: $crate::Category = {
                const { assert!($crate::__private::is_valid_name($text), "not the name of a category") };
                $crate::Category::new($text)$(.description($description)$(.tags(&[$($tag),*]))?)?
            };
        )+
        $(#[$attribute])*
        $visibility static $table: &[&$crate::Category] = &[$(&$name),+];
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __slice {
    ($category:ident, $name:literal $(,)?) => {
        if $category.is_enabled() {
            $crate::__private::emit_short_slice($category, $name)
        } else {
            $crate::track_event::Slice::disabled()
        }
    };
    ($category:ident, $name:literal $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        $crate::__slice_named!(
            $category, $crate::track_event::Name::Static($name), $($key $sep $value),*
        )
    };
    ($category:ident, $name:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        $crate::__slice_named!(
            $category, $crate::track_event::Name::Dynamic($name), $($key $sep $value),*
        )
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __slice_named {
    ($category:ident, $name:expr, $($key:tt $sep:tt $value:expr),*) => {
        if $category.is_enabled() {
            $crate::track_event::emit_slice(
                $category,
                $name,
                $crate::__track!($($key $sep $value),*),
                &[$($crate::__slice_field!($key $sep $value)),*],
            )
        } else {
            $crate::track_event::Slice::disabled()
        }
    };
}

/// Extracts the track from the items of an event.
#[doc(hidden)]
#[macro_export]
macro_rules! __track {
    () => { None };
    (track: $value:expr $(, $($rest:tt)*)?) => { Some($crate::Track::from($value)) };
    ($key:tt $sep:tt $value:expr $(, $($rest:tt)*)?) => { $crate::__track!($($($rest)*)?) };
}

/// Converts one item of the begin of a slice, whose track is passed separately.
#[doc(hidden)]
#[macro_export]
macro_rules! __slice_field {
    (track: $value:expr) => { $crate::track_event::Field::Raw(&[]) };
    ($key:tt $sep:tt $value:expr) => { $crate::__field!($key $sep $value) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __named {
    ($category:ident, $kind:ident, $name:literal $(,)?) => {
        if $category.is_enabled() {
            $crate::__private::emit_short($category, $crate::track_event::Kind::$kind, $name);
        }
    };
    ($category:ident, $kind:ident, $name:literal $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        if $category.is_enabled() {
            $crate::track_event::emit(
                $category,
                $crate::track_event::Kind::$kind,
                Some($crate::track_event::Name::Static($name)),
                &[$($crate::__field!($key $sep $value)),*],
            );
        }
    };
    ($category:ident, $kind:ident, $name:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        if $category.is_enabled() {
            $crate::track_event::emit(
                $category,
                $crate::track_event::Kind::$kind,
                Some($crate::track_event::Name::Dynamic($name)),
                &[$($crate::__field!($key $sep $value)),*],
            );
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __counter {
    ($category:ident, $name:literal, $counter:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        if $category.is_enabled() {
            static COUNTER: $crate::CounterTrack<'static> = $crate::CounterTrack::new($name);
            $crate::track_event::emit_counter(
                $category,
                &COUNTER,
                $crate::track_event::CounterValue::from($counter),
                &[$($crate::__field!($key $sep $value)),*],
            );
        }
    };
    ($category:ident, $track:expr, $counter:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        if $category.is_enabled() {
            $crate::track_event::emit_counter(
                $category,
                ::core::borrow::Borrow::<$crate::CounterTrack<'_>>::borrow(
                    &$crate::__private::AsCounter::track($track),
                ),
                $crate::track_event::CounterValue::from($counter),
                &[$($crate::__field!($key $sep $value)),*],
            );
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __state {
    ($category:ident, $name:literal, $($state:tt)+) => {
        if $category.is_enabled() {
            static TRACK: $crate::StateTrack<'static> = $crate::StateTrack::new($name);
            $crate::__state_on!($category, &TRACK, $($state)+);
        }
    };
    ($category:ident, $track:expr, $($state:tt)+) => {
        if $category.is_enabled() {
            $crate::__state_on!(
                $category,
                ::core::borrow::Borrow::<$crate::StateTrack<'_>>::borrow(
                    &$crate::__private::AsState::track($track),
                ),
                $($state)+
            );
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __state_on {
    ($category:ident, $track:expr, $state:literal $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        $crate::track_event::emit_state(
            $category,
            $track,
            Some($crate::track_event::Name::Static($state)),
            &[$($crate::__field!($key $sep $value)),*],
        )
    };
    ($category:ident, $track:expr, $state:expr $(, $key:tt $sep:tt $value:expr)* $(,)?) => {
        $crate::track_event::emit_state(
            $category,
            $track,
            Option::<&str>::from($state).map($crate::track_event::Name::Dynamic),
            &[$($crate::__field!($key $sep $value)),*],
        )
    };
}

/// Converts a category to a static reference; a literal declares a new category.
#[doc(hidden)]
#[macro_export]
macro_rules! __category {
    ($name:ident = $category:literal) => {
        static $name: &$crate::Category = {
            const {
                assert!(
                    $crate::__private::is_valid_name($category),
                    "not the name of a category"
                )
            };
            static CATEGORY: $crate::Category = $crate::Category::new($category);
            &CATEGORY
        };
    };
}

/// Converts one item of an event.
#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    ($key:ident = $value:expr) => {
        $crate::track_event::Field::Argument(stringify!($key), &$value)
    };
    ($key:literal = $value:expr) => {
        $crate::track_event::Field::Argument($key, &$value)
    };
    (track: $value:expr) => {
        $crate::track_event::Field::Track(&$crate::Track::from($value))
    };
    (time: $value:expr) => {
        $crate::track_event::Field::Time($value)
    };
    (flow: $value:expr) => {
        $crate::track_event::Field::Flow($value)
    };
    (terminating_flow: $value:expr) => {
        $crate::track_event::Field::TerminatingFlow($value)
    };
    (correlation: $value:expr) => {
        $crate::track_event::Field::Correlation($crate::track_event::Correlation::from($value))
    };
    (callstack: $value:expr) => {
        $crate::track_event::Field::Callstack($value)
    };
    (interned_callstack: $value:expr) => {
        $crate::track_event::Field::InternedCallstack($value)
    };
    (callstack_weight: $value:expr) => {
        $crate::track_event::Field::CallstackWeight($value)
    };
    (log: $value:expr) => {
        $crate::track_event::Field::Log($value)
    };
    (location: $value:expr) => {
        $crate::track_event::Field::Location($value)
    };
    (extension: $value:expr) => {
        $crate::track_event::Field::Extension(&$value)
    };
    (raw: $value:expr) => {
        $crate::track_event::Field::Raw($value)
    };
}
