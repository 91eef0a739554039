//! The conformance suite in the simulator: the production `Control` and `Core` on simulated devices
//! and disks, in this process and in simulated time.

mod place;

use libtest_mimic::Arguments;
use place::SimPlace;

fn main() {
    conformance::run(&Arguments::from_args(), || SimPlace).exit();
}
