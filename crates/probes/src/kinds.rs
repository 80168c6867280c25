//! The list of data sources that read files.

use crate::ftrace::FrozenFtrace;
use crate::inode_map::InodeMap;
use crate::journal::Journal;
use crate::power::Batteries;
use crate::process_stats::ProcessStats;
use crate::source::Kind;
use crate::sys_stats::SysStats;
use crate::system_info::SystemInfo;

/// Every kind, in the order they are registered.
pub(crate) const KINDS: [Kind; 7] = [
    InodeMap::KIND,
    Journal::KIND,
    Batteries::KIND,
    ProcessStats::KIND,
    SysStats::KIND,
    SystemInfo::KIND,
    FrozenFtrace::KIND,
];

impl Kind {
    /// Returns the kind with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }
}
