//! The cases on soft-roce.

use conformance::SoftPlace;
use libtest_mimic::Arguments;

fn main() {
    conformance::run(&Arguments::from_args(), || SoftPlace).exit();
}
