//! Binder, the kernel's calls between processes, as its events describe them.

/// An event of binder. It is one of the thread that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinderEvent {
    /// The thread sends a transaction: a call, or the reply to one.
    Transaction(Transaction),
    /// The thread receives the transaction with this number.
    Received(i32),
    /// The space of the transaction that the thread sends.
    Space {
        /// The size of its data in bytes.
        data: u64,
        /// The size of the list of its objects in bytes.
        offsets: u64,
    },
    /// The number of a command of the thread to the kernel; see [`Command`].
    Command(u32),
    /// The number of a command that the kernel returns to the thread; see [`Return`].
    Return(u32),
    /// The thread wants the lock of binder, which kernels before 4.14 have.
    Lock,
    /// The thread got the lock.
    Locked,
    /// The thread releases the lock.
    Unlock,
}

/// A transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// Its number.
    pub id: i32,
    /// The object that is called.
    pub node: i32,
    /// The process that receives it.
    pub process: u32,
    /// The thread that receives it; 0 for any of the process.
    pub thread: u32,
    /// True for replies.
    pub is_reply: bool,
    /// Its flags.
    pub flags: u32,
    /// The number of the called function.
    pub code: u32,
}

impl Transaction {
    /// The flag of transactions without a reply.
    const ONE_WAY: u32 = 1;

    /// Returns true if the caller does not wait for a reply.
    pub fn is_one_way(&self) -> bool {
        self.flags & Self::ONE_WAY != 0
    }

    /// Returns the flags with their meaning, as `0x1 this is a one-way call: async, no return; `.
    pub fn flags_text(&self) -> String {
        const MEANINGS: [(u32, &str); 4] = [
            (
                Transaction::ONE_WAY,
                "this is a one-way call: async, no return; ",
            ),
            (4, "contents are the components root object; "),
            (8, "contents are a 32-bit status code; "),
            (0x10, "allow replies with file descriptors; "),
        ];
        let mut text = format!("{:#x} ", self.flags);
        for (flag, meaning) in MEANINGS {
            if self.flags & flag != 0 {
                text += meaning;
            }
        }
        if self.flags == 0 {
            text += "No Flags Set";
        }
        text
    }
}

/// A command of a thread to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Call an object.
    Call,
    /// Reply to a call.
    Reply,
    /// Any other.
    Other,
}

impl Command {
    /// Returns the command with this number.
    pub fn of(number: u32) -> Self {
        // The upper half contains the size of its argument.
        match number & 0xffff {
            0x6300 | 0x6311 => Self::Call,
            0x6301 | 0x6312 => Self::Reply,
            _ => Self::Other,
        }
    }
}

/// A command that the kernel returns to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// A call for the thread.
    Call,
    /// The reply to its call.
    Reply,
    /// The kernel accepted what the thread sent.
    Complete,
    /// The transaction did not reach its destination.
    Failed,
    /// Any other.
    Other,
}

impl Return {
    /// Returns the command with this number.
    pub fn of(number: u32) -> Self {
        match number & 0xffff {
            0x7202 => Self::Call,
            0x7203 => Self::Reply,
            // The second one also tells that the thread sends too many calls without a reply.
            0x7206 | 0x7213 => Self::Complete,
            // The receiver is dead, the transaction failed, and the receiver is frozen.
            0x7205 | 0x7211 | 0x7212 | 0x7214 => Self::Failed,
            _ => Self::Other,
        }
    }
}
