//! The cases on an RDMA device of this machine.
//!
//! `conformance ADDRESS [OPTION…] [FILTER…]`: the address belongs to the device; options are
//! those of a test program. `NVMFD_PROGRAM` names the daemon,
//! `NVMFD_DISKS` disks to use in place of memory (`16:512:/dev/ng0n2`: MiB, bytes of a block, path).

use conformance::VerbsPlace;
use libtest_mimic::Arguments;
use nvme_spec_types::rdma_cm::NVME_RDMA_PORT;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().collect();
    let Some(ip) = words.get(1).and_then(|text| text.parse::<IpAddr>().ok()) else {
        eprintln!("usage: conformance ADDRESS [OPTION…] [FILTER…]");
        return ExitCode::from(2);
    };
    let address = SocketAddr::new(ip, NVME_RDMA_PORT);
    words.remove(1);
    let mut arguments = Arguments::from_iter(words);
    // Every case has the address to itself.
    arguments.test_threads = Some(1);
    conformance::run(&arguments, move || VerbsPlace(address)).exit_code()
}
