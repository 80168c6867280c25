//! Kinds of waits: recognized by the kernel's functions on a callstack, by system calls, and by the
//! interrupts that end them.

use crate::stacks::Function;

/// The kind of a wait: the thing that a thread waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitKind {
    /// A lock or a condition of its program: a futex.
    Lock,
    /// A lock on a file.
    FileLock,
    /// A lock of the kernel, such as that of the memory map of its process.
    KernelLock,
    /// A time.
    Timer,
    /// A disk.
    Disk,
    /// A packet of the network.
    Network,
    /// The other end of a pipe.
    Pipe,
    /// The other end of a socket.
    Socket,
    /// A terminal.
    Terminal,
    /// A file descriptor that it reads or writes, of unknown kind.
    File,
    /// One of several file descriptors.
    Poll,
    /// Memory that has to be read from a disk, or is being mapped by another thread.
    PageFault,
    /// A child process.
    Child,
    /// A semaphore or a message queue.
    Message,
    /// A signal.
    Signal,
    /// It was stopped by a signal or a debugger.
    Stopped,
    /// A thread of the kernel waited for work.
    Work,
    /// The creation of a thread.
    Creation,
    /// Another system call.
    Call,
    /// Unknown.
    Unknown,
}

impl WaitKind {
    /// Returns the name of the kind in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::FileLock => "file-lock",
            Self::KernelLock => "kernel-lock",
            Self::Timer => "timer",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Terminal => "terminal",
            Self::File => "file",
            Self::Poll => "poll",
            Self::PageFault => "page-fault",
            Self::Child => "child",
            Self::Message => "message",
            Self::Signal => "signal",
            Self::Stopped => "stopped",
            Self::Work => "work",
            Self::Creation => "creation",
            Self::Call => "system-call",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the words after "waited for".
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Lock => "a lock",
            Self::FileLock => "a lock on a file",
            Self::KernelLock => "a lock in the kernel",
            Self::Timer => "a timer",
            Self::Disk => "a disk",
            Self::Network => "a network packet",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Terminal => "a terminal",
            Self::File => "a file descriptor",
            Self::Poll => "events",
            Self::PageFault => "a page of memory",
            Self::Child => "a child",
            Self::Message => "a semaphore or message",
            Self::Signal => "a signal",
            Self::Stopped => "a signal to continue",
            Self::Work => "work",
            Self::Creation => "its creation",
            Self::Call => "a system call",
            Self::Unknown => "something unknown",
        }
    }
}

/// Functions of the kernel that wait. Those that end with `_` are the beginnings of names.
const FUNCTIONS: &[(&str, WaitKind)] = &[
    ("futex_", WaitKind::Lock),
    ("__futex_", WaitKind::Lock),
    ("rt_mutex_", WaitKind::Lock),
    ("do_nanosleep", WaitKind::Timer),
    ("hrtimer_nanosleep", WaitKind::Timer),
    ("timerfd_", WaitKind::Timer),
    ("do_wait", WaitKind::Child),
    ("kernel_wait4", WaitKind::Child),
    ("kernel_waitid", WaitKind::Child),
    ("wait_for_vfork_done", WaitKind::Child),
    ("kernel_clone", WaitKind::Child),
    ("anon_pipe_", WaitKind::Pipe),
    ("pipe_", WaitKind::Pipe),
    ("fifo_", WaitKind::Pipe),
    ("unix_", WaitKind::Socket),
    ("sk_wait_data", WaitKind::Socket),
    ("sk_stream_wait_", WaitKind::Socket),
    ("tcp_", WaitKind::Socket),
    ("udp_", WaitKind::Socket),
    ("udpv6_", WaitKind::Socket),
    ("inet_", WaitKind::Socket),
    ("__skb_wait_for_more_packets", WaitKind::Socket),
    ("__skb_recv", WaitKind::Socket),
    ("sock_", WaitKind::Socket),
    ("netlink_", WaitKind::Socket),
    ("vsock_", WaitKind::Socket),
    ("ep_poll", WaitKind::Poll),
    ("do_epoll_wait", WaitKind::Poll),
    ("do_poll", WaitKind::Poll),
    ("do_sys_poll", WaitKind::Poll),
    ("do_select", WaitKind::Poll),
    ("core_sys_select", WaitKind::Poll),
    ("poll_schedule_timeout", WaitKind::Poll),
    ("io_cqring_wait", WaitKind::Poll),
    ("eventfd_", WaitKind::Poll),
    ("signalfd_", WaitKind::Signal),
    ("do_sigtimedwait", WaitKind::Signal),
    ("sigsuspend", WaitKind::Signal),
    ("__do_sys_pause", WaitKind::Signal),
    ("__x64_sys_pause", WaitKind::Signal),
    ("do_signal_stop", WaitKind::Stopped),
    ("ptrace_stop", WaitKind::Stopped),
    ("n_tty_", WaitKind::Terminal),
    ("tty_", WaitKind::Terminal),
    ("do_semtimedop", WaitKind::Message),
    ("__do_semtimedop", WaitKind::Message),
    ("do_msgrcv", WaitKind::Message),
    ("do_msgsnd", WaitKind::Message),
    ("wq_sleep", WaitKind::Message),
    ("do_mq_", WaitKind::Message),
    ("locks_lock_", WaitKind::FileLock),
    ("flock_lock_", WaitKind::FileLock),
    ("posix_lock_", WaitKind::FileLock),
    ("fcntl_setlk", WaitKind::FileLock),
    ("rwsem_down_", WaitKind::KernelLock),
    ("down_read", WaitKind::KernelLock),
    ("down_write", WaitKind::KernelLock),
    ("__mutex_lock", WaitKind::KernelLock),
    ("__mutex_lock_", WaitKind::KernelLock),
    ("mutex_lock_", WaitKind::KernelLock),
    ("down_read_", WaitKind::KernelLock),
    ("down_write_", WaitKind::KernelLock),
    ("mutex_lock", WaitKind::KernelLock),
    ("percpu_", WaitKind::KernelLock),
    ("__percpu_", WaitKind::KernelLock),
    ("bit_wait_io", WaitKind::Disk),
    ("bit_wait", WaitKind::Disk),
    ("folio_wait_", WaitKind::Disk),
    ("__folio_lock", WaitKind::Disk),
    ("wait_on_page_", WaitKind::Disk),
    ("filemap_", WaitKind::Disk),
    ("__filemap_", WaitKind::Disk),
    ("blk_", WaitKind::Disk),
    ("blkdev_", WaitKind::Disk),
    ("rq_qos_wait", WaitKind::Disk),
    ("wbt_wait", WaitKind::Disk),
    ("submit_bio_wait", WaitKind::Disk),
    ("jbd2_", WaitKind::Disk),
    ("wait_transaction_locked", WaitKind::Disk),
    ("wb_wait_for_completion", WaitKind::Disk),
    ("balance_dirty_pages", WaitKind::Disk),
    ("ext4_", WaitKind::Disk),
    ("xfs_", WaitKind::Disk),
    ("btrfs_", WaitKind::Disk),
    ("f2fs_", WaitKind::Disk),
    ("xlog_", WaitKind::Disk),
    ("iomap_", WaitKind::Disk),
    ("__iomap_", WaitKind::Disk),
    ("dio_", WaitKind::Disk),
    ("do_fsync", WaitKind::Disk),
    ("vfs_fsync", WaitKind::Disk),
    ("vfs_fsync_range", WaitKind::Disk),
    ("sync_", WaitKind::Disk),
    ("read_events", WaitKind::Disk),
    ("worker_thread", WaitKind::Work),
    ("kthread", WaitKind::Work),
    ("smpboot_thread_fn", WaitKind::Work),
    ("rcu_gp_", WaitKind::Work),
    ("kjournald2", WaitKind::Work),
    ("kswapd", WaitKind::Work),
];

/// Functions of the kernel that handle page faults.
const FAULTS: &[&str] = &[
    "exc_page_fault",
    "asm_exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
    "do_mem_abort",
];

/// Functions of the kernel that begin and end system calls.
const ENTRIES: &[&str] = &[
    "do_syscall_64",
    "do_fast_syscall_32",
    "el0_svc",
    "invoke_syscall",
];

/// Returns true if a callstack is in the kernel's part of a system call.
pub(crate) fn is_call(functions: &[Function]) -> bool {
    functions
        .iter()
        .take_while(|function| function.is_kernel)
        .any(|function| ENTRIES.contains(&function.name.as_str()))
}

/// Returns true if a callstack is in the handler of a page fault.
pub(crate) fn is_page_fault(functions: &[Function]) -> bool {
    functions
        .iter()
        .take_while(|function| function.is_kernel)
        .any(|function| FAULTS.contains(&function.name.as_str()))
}

/// Returns the kind of a wait by its callstack.
pub(crate) fn of_stack(functions: &[Function]) -> Option<WaitKind> {
    if is_page_fault(functions) {
        return Some(WaitKind::PageFault);
    }
    let kernel = functions.iter().take_while(|function| function.is_kernel);
    kernel
        .map(|function| of_function(&function.name))
        .find_map(|kind| kind)
}

/// Returns the kind of a wait in a function of the kernel.
pub(crate) fn of_function(name: &str) -> Option<WaitKind> {
    // Compilers add suffixes to the names of parts that they split off, such as `.isra.0`.
    let name = name.split('.').next().unwrap_or_default();
    let is_it = |known: &str| {
        if known.ends_with('_') {
            name.starts_with(known)
        } else {
            name == known
        }
    };
    let found = FUNCTIONS.iter().find(|(known, _)| is_it(known));
    found.map(|(_, kind)| *kind)
}

/// Returns the kind of a wait in a system call, by its name without `sys_`.
pub(crate) fn of_call(name: &str) -> WaitKind {
    match name {
        "futex" | "futex_wait" | "futex_waitv" | "futex_time64" => WaitKind::Lock,
        "nanosleep" | "clock_nanosleep" | "clock_nanosleep_time64" => WaitKind::Timer,
        "wait4" | "waitid" | "waitpid" | "vfork" | "clone" | "clone3" => WaitKind::Child,
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync"
        | "io_getevents" | "readahead" | "fadvise64" => WaitKind::Disk,
        "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" | "accept"
        | "accept4" | "connect" => WaitKind::Socket,
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" | "io_uring_enter" => WaitKind::Poll,
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "write" | "writev" | "pwrite64"
        | "pwritev" | "pwritev2" | "sendfile" | "splice" | "tee" | "copy_file_range" | "open"
        | "openat" | "openat2" | "close" => WaitKind::File,
        "flock" | "fcntl" => WaitKind::FileLock,
        "semop" | "semtimedop" | "msgrcv" | "msgsnd" | "mq_timedreceive" | "mq_timedsend" => {
            WaitKind::Message
        }
        "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => WaitKind::Signal,
        "mmap" | "munmap" | "mprotect" | "madvise" | "brk" | "mremap" => WaitKind::KernelLock,
        _ => WaitKind::Call,
    }
}

/// Returns true if a system call wakes the reader of a socket in its own context.
pub(crate) fn sends(name: &str) -> bool {
    matches!(
        name,
        "write"
            | "writev"
            | "sendto"
            | "sendmsg"
            | "sendmmsg"
            | "sendfile"
            | "splice"
            | "connect"
            | "shutdown"
            | "close"
            | "accept"
            | "accept4"
            | "io_uring_enter"
            | "recvfrom"
            | "recvmsg"
            | "read"
    )
}

/// Returns true if a system call ends its thread.
pub(crate) fn exits(name: &str) -> bool {
    matches!(name, "exit" | "exit_group")
}

/// Returns true if an interrupt delivers packets, also those that the interrupted thread has sent.
pub(crate) fn delivers(name: &str) -> bool {
    name.starts_with("NET_RX")
}

/// Returns the kind of the device of an interrupt by the name of its slice, such as
/// `IRQ (virtio1-req.0)` or `TIMER`.
pub(crate) fn of_interrupt(name: &str) -> Option<WaitKind> {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["timer"]) {
        return Some(WaitKind::Timer);
    }
    if has(&[
        "net_rx", "net_tx", "eth", "-input", "-output", "wlan", "mlx", "iwl", "ens", "enp",
    ]) {
        return Some(WaitKind::Network);
    }
    let disks = [
        "block",
        "nvme",
        "ahci",
        "ata",
        "scsi",
        "-req",
        "virtio-blk",
        "mmc",
        "xvd",
    ];
    has(&disks).then_some(WaitKind::Disk)
}
