//! Counts of the events of lives.

macro_rules! tally {
    ($($field:ident),* $(,)?) => {
        /// Counts over lives.
        #[derive(Debug, Default, Clone, PartialEq, Eq)]
        pub struct Tally {
            $(pub $field: u64,)*
        }

        impl Tally {
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

tally! {
    lives,
    steps,
    sessions,
    files,
    failed_files,
    crashes,
    crashed_files,
    clones,
    attached,
    reads,
    written,
    packets,
    gaps,
    checked,
    checked_with_loss,
    hostile,
    disconnected,
}
