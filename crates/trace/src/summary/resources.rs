//! The resources that the recorded command used, as the kernel counted them.

/// The start of the keys of their trace attributes.
const PREFIX: &str = "ferretto.command.";

macro_rules! resources {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// The resources that the recorded command and the descendants that it waited for used.
        ///
        /// The recorder reads them when the command has ended, so they are complete and need no
        /// privileges. Unknown numbers are `None`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct CommandResources {
            $($(#[doc = $doc])+ pub $name: Option<u64>,)+
        }

        impl CommandResources {
            fn named(&mut self) -> [(&'static str, &mut Option<u64>); [$(stringify!($name)),+].len()] {
                [$((stringify!($name), &mut self.$name)),+]
            }
        }
    };
}

resources! {
    /// The time from the start of the command to its end, in nanoseconds.
    wall_ns,
    /// The CPU time in programs, in nanoseconds.
    user_ns,
    /// The CPU time in the kernel, in nanoseconds.
    system_ns,
    /// The largest resident memory of one of its processes, in bytes.
    peak_memory,
    /// The limit below which that memory was, in bytes, if the kernel counted no exact number.
    peak_memory_below,
    /// The number of page faults that needed no disk.
    minor_faults,
    /// The number of page faults that waited for a disk.
    major_faults,
    /// The number of context switches to wait.
    voluntary_switches,
    /// The number of context switches because another thread had to run.
    involuntary_switches,
    /// The number of bytes read from disks.
    disk_bytes_read,
    /// The number of bytes written, or to be written, to disks.
    disk_bytes_written,
    /// The number of system calls that read.
    read_calls,
    /// The number of system calls that write.
    write_calls,
    /// The number of bytes that system calls read, including from caches and pipes.
    bytes_read,
    /// The number of bytes that system calls wrote, including to caches and pipes.
    bytes_written,
}

impl CommandResources {
    /// Returns the trace attributes with the known numbers: their keys and values.
    pub fn attributes(mut self) -> Vec<(String, u64)> {
        let named = self.named().into_iter();
        let known = named.filter_map(|(name, value)| Some((format!("{PREFIX}{name}"), (*value)?)));
        known.collect()
    }

    /// Reads a trace attribute.
    pub(super) fn attribute(&mut self, key: &[u8], value: u64) {
        let Some(name) = key.strip_prefix(PREFIX.as_bytes()) else {
            return;
        };
        let mut named = self.named().into_iter();
        if let Some((_, known)) = named.find(|(known, _)| known.as_bytes() == name) {
            *known = Some(value);
        }
    }

    /// Returns true if a number is known.
    pub(super) fn is_known(self) -> bool {
        self != Self::default()
    }
}
