//! The filter that stops a program at the calls that can fail.
#![allow(unsafe_code, reason = "installing a filter has no safe interface")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE,
    c_ulong, sock_filter, sock_fprog,
};
use nix::sys::ptrace;

use super::calls;

/// The call with which Rust's runtime prepares its main thread. The calls before it are those of
/// the loader, which ends the program on errors.
pub(super) const BEGIN: i64 = libc::SYS_sigaltstack;

/// Lets the calling process trace the program of this command from its start.
pub(super) fn install(command: &mut Command) {
    let mut filter = filter();
    let set_up = move || {
        ptrace::traceme().map_err(io::Error::from)?;
        let program = sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the arguments of both calls are those that the kernel requires; `program` and the
        // filter that it points to live until the second one returns.
        let result = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(
                libc::PR_SET_SECCOMP,
                c_ulong::from(libc::SECCOMP_MODE_FILTER),
                &raw const program,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the function makes three system calls, and neither allocates nor locks anything.
    unsafe { command.pre_exec(set_up) };
}

fn filter() -> Vec<sock_filter> {
    let statement = |code: u32, k: u32| sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    // The number of the call is the first field of the data.
    let mut filter = vec![statement(BPF_LD | BPF_W | BPF_ABS, 0)];
    let numbers: Vec<i64> = calls::numbers().chain([BEGIN]).collect();
    for (index, number) in numbers.iter().enumerate() {
        filter.push(sock_filter {
            // Past the rest of the list and the statement that allows the call.
            jt: (numbers.len() - index) as u8,
            ..statement(BPF_JMP | BPF_JEQ | BPF_K, *number as u32)
        });
    }
    filter.push(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter.push(statement(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
    filter
}
