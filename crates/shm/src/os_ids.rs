//! The thread and the user that run this code, by way of the C library, which the standard library
//! is linked with anyway.

use std::ffi::{c_int, c_long};

/// The kernel's number of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: the call has no arguments, and cannot fail.
    unsafe { syscall(GETTID) as i32 }
}

/// The name that the kernel has of the calling thread, at most 15 bytes.
pub fn thread_name() -> Vec<u8> {
    let mut name = [0u8; NAME_SIZE];
    // SAFETY: the kernel writes sixteen bytes at most, which `name` has room for.
    let failed = unsafe { prctl(GET_NAME, name.as_mut_ptr()) } != 0;
    let length = name.iter().position(|&byte| byte == 0).filter(|_| !failed);
    name[..length.unwrap_or(0)].to_vec()
}

/// The user on whose behalf the process acts (its effective user id).
pub fn user_id() -> u32 {
    geteuid()
}

/// Returns how many bytes a page of this machine's memory has.
pub fn page_size() -> usize {
    getpagesize() as usize
}

/// Room for the name of a thread, with a zero at its end.
const NAME_SIZE: usize = 16;
/// `PR_GET_NAME`
const GET_NAME: c_int = 16;

/// The number of the system call, since C libraries have a function for it only since 2019.
const GETTID: c_long = if cfg!(target_arch = "x86_64") {
    186
} else if cfg!(any(target_arch = "x86", target_arch = "arm")) {
    224
} else if cfg!(target_arch = "powerpc64") {
    207
} else if cfg!(target_arch = "s390x") {
    236
} else {
    // The numbers that all later architectures share: arm64, RISC-V, LoongArch.
    178
};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    safe fn geteuid() -> u32;
    safe fn getpagesize() -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_what_the_kernel_calls_it() {
        let thread = std::thread::Builder::new().name("a name that is long".to_owned());
        let (id, name, known) = thread
            .spawn(|| (thread_id(), thread_name(), rustix::thread::gettid()))
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(id, known.as_raw_pid());
        assert_eq!(name, b"a name that is ");
        assert_ne!(id, thread_id());
    }

    #[test]
    fn the_user_and_the_page_size_are_those_of_the_kernel() {
        assert_eq!(user_id(), rustix::process::geteuid().as_raw());
        assert_eq!(page_size(), rustix::param::page_size());
    }
}
