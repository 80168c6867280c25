//! Begin and end marks of one track, which may be slightly out of order.

/// The number of buffered marks at which the older half is applied.
const WAITING: usize = 256;

/// The open intervals of a track.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    open: Vec<(u64, T)>,
    /// The newest begin and end marks, sorted by time; end marks have no content.
    waiting: Vec<(u64, Option<T>)>,
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            waiting: Vec::new(),
        }
    }
}

impl<T> Stack<T> {
    pub(crate) fn begin(&mut self, time: u64, content: T) {
        self.add(time, Some(content));
    }

    pub(crate) fn end(&mut self, time: u64) {
        self.add(time, None);
    }

    fn add(&mut self, time: u64, mark: Option<T>) {
        let before = self.waiting.iter().rposition(|(at, _)| *at <= time);
        self.waiting
            .insert(before.map_or(0, |before| before + 1), (time, mark));
        if self.waiting.len() >= WAITING {
            self.apply(WAITING / 2);
        }
    }

    fn apply(&mut self, count: usize) {
        for (time, mark) in self.waiting.drain(..count) {
            match mark {
                Some(content) => self.open.push((time, content)),
                None => drop(self.open.pop()),
            }
        }
    }

    /// Returns the open intervals, the outermost first.
    pub(crate) fn open(&mut self) -> &[(u64, T)] {
        self.apply(self.waiting.len());
        &self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_sorted_by_time() {
        let mut stack = Stack::default();
        stack.begin(10, "outer");
        stack.end(40);
        stack.begin(20, "inner");
        assert_eq!(stack.open(), [(10, "outer")]);
        for time in 0..1000 {
            stack.begin(100 + 2 * time, "short");
            stack.end(101 + 2 * time);
        }
        stack.end(5000);
        assert_eq!(stack.open(), []);
    }
}
