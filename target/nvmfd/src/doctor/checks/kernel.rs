//! The kernel and its io_uring.

use crate::config::Config;
use crate::doctor::facts::{Facts, Kernel};
use crate::doctor::finding::Finding;

/// The oldest kernel that is supported, and the first with everything that is used.
const OLDEST: (u32, u32) = (5, 19);
const WHOLE: (u32, u32) = (6, 1);

pub(super) fn check(facts: &Facts, _: &Config) -> Vec<Finding> {
    vec![version(&facts.kernel), ring(&facts.kernel)]
}

fn version(kernel: &Kernel) -> Finding {
    let release = &kernel.release;
    match numbers(release) {
        Some(version) if version < OLDEST => Finding::fault(
            "kernel",
            format!("Linux {release} is older than 5.19, the oldest that is supported"),
        )
        .mend("apt-get install linux-image-amd64 # or as your system upgrades its kernel"),
        Some(version) if version < WHOLE => Finding::note(
            "kernel",
            format!(
                "Linux {release}: from 6.1 on, io_uring does without interruptions and files tell \
                 how they can be read directly"
            ),
        ),
        Some(_) => Finding::ok("kernel", format!("Linux {release}")),
        None => Finding::note("kernel", format!("Linux {release}, which is no version known here")),
    }
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn ring(kernel: &Kernel) -> Finding {
    const ABOUT: &str = "io_uring";
    match &kernel.ring {
        Ok(mode) => {
            let lacks: Vec<&str> = [
                (mode.defer_taskrun, "deferred completions"),
                (mode.fixed_buffers, "registered buffers"),
                (mode.fixed_files, "registered files"),
            ]
            .into_iter()
            .filter_map(|(has, name)| (!has).then_some(name))
            .collect();
            if lacks.is_empty() {
                return Finding::ok(ABOUT, "a ring can be made, with everything that is used");
            }
            let says =
                format!("a ring can be made without {}: commands cost more", lacks.join(" and "));
            let finding = Finding::note(ABOUT, says);
            if mode.fixed_buffers && mode.fixed_files {
                return finding;
            }
            finding.mend("ulimit -l unlimited; ulimit -n 65536")
        }
        Err(why) => {
            let finding =
                Finding::fault(ABOUT, format!("no ring can be made, so no disk is served: {why}"));
            match kernel.io_uring_disabled {
                Some(1 | 2) => finding.mend("sysctl -w kernel.io_uring_disabled=0"),
                _ => finding,
            }
        }
    }
}
