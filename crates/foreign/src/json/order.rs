//! The order of events of the same time.
//!
//! Files are not in the order of time: Chrome writes a complete event (phase X) when it ends.
//! Among events of one time, slices of earlier times have to end before others begin, and a slice
//! has to begin before those inside of it. The duration of a slice with begin and end events
//! decides that, too, so a begin event is held back until its end event has been read. Begin and
//! end events of one time that belong together keep the order of the file.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::event::Event;

/// The number of bytes of begin events without an end that are held back. Beyond it they are taken
/// for slices that never end.
const MAX_HELD: usize = 16 << 20;

/// The rank of names of processes and threads.
const NAME: i64 = i64::MIN;
/// The rank of ends of earlier slices, and of all within them.
const END: i64 = i64::MIN + 1;
/// The rank of slices without a duration, and of all events that are not slices.
const LAST: i64 = i64::MAX;
/// The rank of slices without an end.
const ENDLESS: i64 = LAST - (i64::MAX >> 1);

/// An event with its rank. Those of equal time are in the order of rank, and of equal rank in the
/// order in which they are passed on.
#[derive(Debug, Clone, Copy)]
pub struct Ranked<'a> {
    /// The rank among events of the same time.
    pub rank: i64,
    /// The time of the event in nanoseconds.
    pub ts: i64,
    /// The offset of the event in the file.
    pub offset: u64,
    /// The event.
    pub bytes: &'a [u8],
}

/// An event that is held back.
#[derive(Debug)]
struct Held {
    ts: i64,
    offset: u64,
    bytes: Box<[u8]>,
    rank: Rank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Known(i64),
    /// A begin event whose end event has not been read.
    Open,
    /// Of a slice without a duration, directly inside an open slice that begins at the same time.
    LikeParent,
}

/// Gives events their ranks.
#[derive(Debug, Default)]
pub struct Order {
    /// The events that are held back, by thread, in the order of the file.
    threads: HashMap<u64, Vec<Held>>,
    bytes: usize,
}

impl Order {
    /// Adds an event in the order of the file, and passes on the events whose rank is known.
    ///
    /// # Errors
    ///
    /// Fails if `each` does.
    pub fn add<E>(
        &mut self,
        event: &Event<'_>,
        offset: u64,
        bytes: &[u8],
        mut each: impl FnMut(Ranked<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ts = event.ts;
        let pass = |rank| Ranked {
            rank,
            ts,
            offset,
            bytes,
        };
        match event.phase {
            b'M' => each(pass(NAME)),
            b'X' => each(pass(LAST.saturating_sub(event.dur.unwrap_or(0).max(0)))),
            b'B' => {
                let thread = self.threads.entry(thread(event)).or_default();
                thread.push(Held {
                    ts,
                    offset,
                    bytes: bytes.into(),
                    rank: Rank::Open,
                });
                self.bytes += bytes.len();
                if self.bytes > MAX_HELD {
                    return self.finish(each);
                }
                Ok(())
            }
            b'E' => {
                let key = thread(event);
                let Some(held) = self.threads.get_mut(&key) else {
                    return each(pass(END));
                };
                let Some(begin) = held.iter().rposition(|it| it.rank == Rank::Open) else {
                    return each(pass(END));
                };
                let dur = ts.saturating_sub(held[begin].ts).max(0);
                let rank = if dur > 0 {
                    Rank::Known(LAST.saturating_sub(dur))
                } else {
                    instant_rank(&held[..begin], ts)
                };
                held[begin].rank = rank;
                let inside = if dur > 0 { Rank::Known(LAST) } else { rank };
                for inner in &mut held[begin + 1..] {
                    if inner.rank == Rank::LikeParent {
                        inner.rank = inside;
                    }
                }
                let end = if dur > 0 { Rank::Known(END) } else { rank };
                held.push(Held {
                    ts,
                    offset,
                    bytes: bytes.into(),
                    rank: end,
                });
                self.bytes += bytes.len();
                self.bytes -= release(held, &mut each)?;
                if held.is_empty() {
                    self.threads.remove(&key);
                }
                Ok(())
            }
            _ => each(pass(LAST)),
        }
    }

    /// Passes on all events that are held back. The slices that are open never end.
    ///
    /// # Errors
    ///
    /// Fails if `each` does.
    pub fn finish<E>(
        &mut self,
        mut each: impl FnMut(Ranked<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bytes = 0;
        let mut threads: Vec<_> = self.threads.drain().collect();
        // In the order of the file, so that the result does not depend on the hash.
        threads.sort_by_key(|(_, held)| held.first().map(|first| first.offset));
        for held in threads.into_iter().flat_map(|(_, held)| held) {
            let rank = match held.rank {
                Rank::Known(rank) => rank,
                Rank::Open => ENDLESS,
                Rank::LikeParent => LAST,
            };
            each(held.ranked(rank))?;
        }
        Ok(())
    }
}

impl Held {
    fn ranked(&self, rank: i64) -> Ranked<'_> {
        Ranked {
            rank,
            ts: self.ts,
            offset: self.offset,
            bytes: &self.bytes,
        }
    }
}

/// Returns the rank of a slice that ends when it begins. `before` are the events of its thread that
/// are held back.
fn instant_rank(before: &[Held], ts: i64) -> Rank {
    match before.iter().rev().find(|it| it.rank == Rank::Open) {
        None => Rank::Known(LAST),
        // Its parent may end at this time, too.
        Some(parent) if parent.ts < ts => Rank::Known(END),
        Some(_) => Rank::LikeParent,
    }
}

/// Passes on the events whose order among those of the same time is known. Returns their size.
fn release<E>(
    held: &mut Vec<Held>,
    each: &mut impl FnMut(Ranked<'_>) -> Result<(), E>,
) -> Result<usize, E> {
    let mut open: Vec<i64> = Vec::new();
    let mut bytes = 0;
    let mut failed = Ok(());
    held.retain(|event| {
        let Rank::Known(rank) = event.rank else {
            open.push(event.ts);
            return true;
        };
        // The last one is the innermost, and the only one that may be of the same time.
        if failed.is_err() || open.last() == Some(&event.ts) {
            return true;
        }
        bytes += event.bytes.len();
        failed = each(event.ranked(rank));
        false
    });
    failed.map(|()| bytes)
}

/// Returns a number for the thread of an event.
fn thread(event: &Event<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.pid.hash(&mut hasher);
    event.tid.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Returns the names and phases of the events in their order.
    fn order(events: &[(&str, u8, i64, i64)]) -> Vec<String> {
        let mut order = Order::default();
        let mut all = Vec::new();
        let mut each = |event: Ranked<'_>| {
            let text = String::from_utf8_lossy(event.bytes).into_owned();
            all.push((event.ts, event.rank, text));
            Ok::<_, Infallible>(())
        };
        for (name, phase, ts, dur) in events {
            let json = format!(
                r#"{{"ph":"{}","ts":{ts},"dur":{dur},"pid":1,"tid":1}}"#,
                char::from(*phase)
            );
            let mut spare = Vec::new();
            let event = Event::parse(json.as_bytes(), &mut spare).unwrap();
            let shown = format!("{name}{}", char::from(*phase));
            order.add(&event, 0, shown.as_bytes(), &mut each).unwrap();
        }
        order.finish(&mut each).unwrap();
        all.sort_by_key(|(ts, rank, _)| (*ts, *rank));
        all.into_iter().map(|(.., text)| text).collect()
    }

    #[test]
    fn slices_without_a_duration_keep_the_order_of_the_file() {
        let events = [
            ("o", b'B', 0, 0),
            ("b", b'B', 5, 0),
            ("b", b'E', 5, 0),
            ("o", b'E', 5, 0),
        ];
        assert_eq!(order(&events), ["oB", "bB", "bE", "oE"]);
        let events = [
            ("a", b'B', 5, 0),
            ("b", b'B', 5, 0),
            ("b", b'E', 5, 0),
            ("a", b'E', 5, 0),
        ];
        assert_eq!(order(&events), ["aB", "bB", "bE", "aE"]);
        let events = [
            ("a", b'B', 5, 0),
            ("b", b'B', 5, 0),
            ("b", b'E', 5, 0),
            ("a", b'E', 7, 0),
        ];
        assert_eq!(order(&events), ["aB", "bB", "bE", "aE"]);
        let events = [
            ("a", b'B', 5, 0),
            ("a", b'E', 5, 0),
            ("b", b'B', 5, 0),
            ("b", b'E', 5, 0),
        ];
        assert_eq!(order(&events), ["aB", "aE", "bB", "bE"]);
    }

    #[test]
    fn the_longer_slice_begins_first() {
        let events = [("x", b'X', 0, 3), ("o", b'B', 0, 0), ("o", b'E', 15, 0)];
        assert_eq!(order(&events), ["oB", "xX", "oE"]);
        let events = [("o", b'B', 0, 0), ("o", b'E', 2, 0), ("x", b'X', 0, 3)];
        assert_eq!(order(&events), ["xX", "oB", "oE"]);
        let events = [("x", b'X', 0, 3), ("o", b'B', 0, 0)];
        assert_eq!(order(&events), ["oB", "xX"]);
    }

    #[test]
    fn slices_end_before_others_begin() {
        let events = [
            ("b", b'B', 5, 0),
            ("b", b'E', 9, 0),
            ("a", b'B', 0, 0),
            ("a", b'E', 5, 0),
        ];
        // The second pair is not nested in the first one, which began later.
        assert_eq!(order(&events), ["aB", "aE", "bB", "bE"]);
        let events = [
            ("a", b'B', 0, 0),
            ("a", b'E', 5, 0),
            ("b", b'B', 5, 0),
            ("b", b'E', 9, 0),
        ];
        assert_eq!(order(&events), ["aB", "aE", "bB", "bE"]);
    }
}
