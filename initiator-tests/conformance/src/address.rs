//! Addresses for daemons of tests, which run many at a time in many processes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Addresses that a process may take.
const EACH: u32 = 8 * 250;

/// A loopback address for each daemon, at the port of NVMe over RDMA, likely not that of another
/// process's: 127.128.0.1 to 127.255.255.250.
///
/// # Panics
/// When this process took 2,000 of them.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(count < EACH, "{count} daemons in one process");
    let process = std::process::id() % (1 << 12);
    // Seven bits of the process, then five of it and three of the count.
    let second = 128 + (process >> 5) as u8;
    let third = ((process & 31) * 8 + count / 250) as u8;
    SocketAddr::from(([127, second, third, (count % 250) as u8 + 1], 4420))
}
