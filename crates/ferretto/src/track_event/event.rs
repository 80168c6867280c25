//! What an event consists of.

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Known at compile time: written once for each thread and recording.
    Static(&'static str),
    /// Made at run time: written each time.
    Dynamic(&'a str),
}

/// What kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The beginning of a slice.
    Begin = 1,
    /// The end of the innermost slice of the thread.
    End = 2,
    /// A moment.
    Instant = 3,
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// A whole number.
    Integer(i64),
    /// Any number.
    Double(f64),
}

macro_rules! counter_values {
    ($variant:ident, $as:ty: $($type:ty),+) => {
        $(impl From<$type> for CounterValue {
            fn from(value: $type) -> Self {
                Self::$variant(value as $as)
            }
        })+
    };
}

counter_values!(Integer, i64: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
counter_values!(Double, f64: f32, f64);
