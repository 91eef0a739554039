//! Runs the cases as a test program does, each as one test.

use crate::{Place, cases};
use libtest_mimic::{Arguments, Conclusion, Trial};

/// Runs the chosen cases, each at a place of its own, and prints what came of them.
pub fn run<P: Place>(
    arguments: &Arguments,
    place: impl Fn() -> P + Clone + Send + 'static,
) -> Conclusion {
    let mut trials = Vec::new();
    for (about, cases) in cases::ALL {
        for case in *cases {
            let (place, run) = (place.clone(), case.run);
            trials.push(Trial::test(format!("{about}::{}", case.name), move || {
                run(&place());
                Ok(())
            }));
        }
    }
    libtest_mimic::run(arguments, trials)
}
