//! The check of the process that a producer takes for the tracing service.
//!
//! The process that listens at the service's address receives the data that a producer records. In
//! a directory that is writable for all users, such as `/tmp`, that can be a process of any user.
//! The kernel identifies the user of the listener.

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ferretto_ipc::Address;
use ferretto_ipc::names::is_run_directory;
use ferretto_ipc::socket::Socket;
use rustix::process::{getegid, geteuid, getgid, getuid};

/// The environment variable with further trusted users: their numeric ids, separated by commas.
/// Root and the user of the program are always trusted.
pub const SERVICE_USER_VARIABLE: &str = "FERRETTO_SERVICE_UID";

/// The account under which packages run the service.
const SERVICE_ACCOUNT: &str = "traced";

/// The mode bit of a directory in which every user can create files.
const WRITABLE_BY_ALL: u32 = 0o002;
/// The mode bit of a directory in which users can replace only their own files.
const STICKY: u32 = 0o1000;

/// Users whose services may receive the data of this process, besides those that every process
/// trusts: root, the user of the process itself, the account `traced`, and for `/run/perfetto` the
/// owner of that directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    users: Vec<u32>,
}

impl Trust {
    /// Returns the users in the environment variable. Ignores the variable in a process with
    /// elevated privileges, since a less privileged user set it.
    pub(super) fn from_environment() -> Self {
        let is_borrowed = getuid() != geteuid() || getgid() != getegid();
        let named = env::var(SERVICE_USER_VARIABLE).ok();
        let named = named.filter(|_| !is_borrowed).unwrap_or_default();
        Self {
            users: named
                .split(',')
                .filter_map(|user| user.trim().parse().ok())
                .collect(),
        }
    }

    pub(super) fn add(&mut self, users: &[u32]) {
        self.users.extend(users);
    }

    /// Checks that the process that listens at `address` may receive the data of this process.
    /// Services on other machines cannot be checked; a configured address on another machine is
    /// trusted.
    pub(super) fn check(&self, address: &Address, socket: &Socket) -> Result<(), Untrusted> {
        if !socket.is_unix() {
            return Ok(());
        }
        let untrusted = |why| Untrusted {
            address: address.clone(),
            why,
        };
        let folder = match address {
            Address::Path(path) => Some(folder_of(path)),
            _ => None,
        };
        let found = folder.and_then(|folder| Some((folder, fs::metadata(folder).ok()?)));
        // Only root can create this directory, and its owner is the user that root appointed.
        let appointed = found
            .as_ref()
            .filter(|(folder, _)| is_run_directory(folder))
            .map(|(_, status)| status.uid());
        let peer = socket.credentials().map(|peer| peer.uid);
        if !peer.is_some_and(|user| self.includes(user) || appointed == Some(user)) {
            return Err(untrusted(Reason::User(peer)));
        }
        let Some((folder, status)) = found.filter(|_| appointed.is_none()) else {
            return Ok(());
        };
        if !self.includes(status.uid()) {
            return Err(untrusted(Reason::Folder(folder.into(), status.uid())));
        }
        if status.mode() & (WRITABLE_BY_ALL | STICKY) == WRITABLE_BY_ALL {
            return Err(untrusted(Reason::Writable(folder.into())));
        }
        Ok(())
    }

    fn includes(&self, user: u32) -> bool {
        user == 0
            || user == ferretto_shm::user_id()
            || self.users.contains(&user)
            || name_of(user).as_deref() == Some(SERVICE_ACCOUNT)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns the name of a local account. Accounts of a directory service are not found.
fn name_of(user: u32) -> Option<String> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(user)).then(|| name.to_owned())
    })
}

/// The error of a listener at the service's address that an untrusted user may own.
#[derive(Debug)]
pub struct Untrusted {
    address: Address,
    why: Reason,
}

#[derive(Debug)]
enum Reason {
    /// An untrusted user runs the service.
    User(Option<u32>),
    /// An untrusted user owns the directory of the socket.
    Folder(PathBuf, u32),
    /// Every user can replace the socket.
    Writable(PathBuf),
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        match &self.why {
            Reason::User(Some(user)) => write!(
                f,
                "the service at {address} is run by {}, and not by root or the user of this program, so no data is \
                 sent to it; if that user may see all data, set {SERVICE_USER_VARIABLE}={user}",
                Named(*user)
            ),
            Reason::User(None) => write!(
                f,
                "the kernel does not report the user of the service at {address}, so no data is sent to it"
            ),
            Reason::Folder(folder, user) => write!(
                f,
                "the socket {address} is in a folder of {}, who can replace it, so no data is sent \
                 to its service; use a folder of root or of the user of this program, or if that user may see \
                 all data, set {SERVICE_USER_VARIABLE}={user} ({})",
                Named(*user),
                folder.display()
            ),
            Reason::Writable(folder) => write!(
                f,
                "the socket {address} is in {}, where every user can replace it, so no data is sent to its \
                 service; forbid that with: chmod o-w {}",
                folder.display(),
                folder.display()
            ),
        }
    }
}

impl std::error::Error for Untrusted {}

/// Displays a user as number and name, if it has one.
struct Named(u32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name_of(self.0) {
            Some(name) => write!(f, "user {} ({name})", self.0),
            None => write!(f, "user {}", self.0),
        }
    }
}
