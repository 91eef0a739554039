//! Addresses to listen on.

use std::sync::atomic::{AtomicU32, Ordering};

/// A loopback address for each daemon, likely not that of another process's.
pub(crate) fn own_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    format!("127.{}.{}.{count}:4420", 192 + process / 256 % 32, process % 256)
}
