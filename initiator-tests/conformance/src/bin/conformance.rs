//! The cases on an RDMA device of this machine.
//!
//! `conformance ADDRESS[:PORT] [OPTION…] [FILTER…]`: the address belongs to the device; options are
//! those of a test program. `NVMFD_PROGRAM` names the daemon,
//! `NVMFD_DISKS` disks to use in place of memory (`16:512:/dev/ng0n2`: MiB, bytes of a block, path).

use conformance::VerbsPlace;
use libtest_mimic::Arguments;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

/// The port of NVMe over RDMA.
const NVME_PORT: u16 = 4420;

fn parse(text: &str) -> Option<SocketAddr> {
    let with_port = || Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, NVME_PORT));
    text.parse().ok().or_else(with_port)
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().collect();
    let Some(address) = words.get(1).and_then(|text| parse(text)) else {
        eprintln!("usage: conformance ADDRESS[:PORT] [OPTION…] [FILTER…]");
        return ExitCode::from(2);
    };
    words.remove(1);
    let mut arguments = Arguments::from_iter(words);
    // Every case has the address to itself.
    arguments.test_threads = Some(1);
    conformance::run(&arguments, move || VerbsPlace(address)).exit_code()
}
