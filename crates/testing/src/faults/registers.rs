//! The registers of a thread that is about to make a system call.

use nix::unistd::Pid;

#[cfg(target_arch = "x86_64")]
pub(super) struct Registers(libc::user_regs_struct);

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// Returns those of a stopped thread; `None` if it was killed.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        nix::sys::ptrace::getregs(pid).ok().map(Self)
    }

    /// Returns the number of the call.
    pub(super) fn call(&self) -> i64 {
        self.0.orig_rax.cast_signed()
    }

    pub(super) fn arguments(&self) -> [u64; 5] {
        let registers = &self.0;
        [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
        ]
    }

    /// Makes the call return an error without being made.
    pub(super) fn fail(&mut self, error: i32) {
        self.0.orig_rax = u64::MAX;
        self.0.rax = i64::from(-error).cast_unsigned();
    }

    /// Makes another call, with another second and third argument.
    pub(super) fn replace(&mut self, call: i64, second: u64, third: u64) {
        self.0.orig_rax = call.cast_unsigned();
        (self.0.rsi, self.0.rdx) = (second, third);
    }

    /// Gives the thread these registers. Fails only if it was killed.
    pub(super) fn write(self, pid: Pid) {
        let _ = nix::sys::ptrace::setregs(pid, self.0);
    }
}

/// Other machines have other ways to replace a call, which are not implemented.
#[cfg(not(target_arch = "x86_64"))]
pub(super) enum Registers {}

#[cfg(not(target_arch = "x86_64"))]
impl Registers {
    pub(super) fn of(_: Pid) -> Option<Self> {
        None
    }

    pub(super) fn call(&self) -> i64 {
        match *self {}
    }

    pub(super) fn arguments(&self) -> [u64; 5] {
        match *self {}
    }

    pub(super) fn fail(&mut self, _: i32) {
        match *self {}
    }

    pub(super) fn replace(&mut self, _: i64, _: u64, _: u64) {
        match *self {}
    }

    pub(super) fn write(self, _: Pid) {
        match self {}
    }
}
