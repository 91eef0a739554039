//! Numbers of namespaces that another disk does not take at once.
//!
//! A host that uses a disk learns by an event that it went, and until it has looked it sends what is
//! meant for that disk: under the number, which is all that a command tells. So a number that hosts
//! know stays empty for [`NOTICED_WITHIN`] before another disk has it. Their commands fail meanwhile,
//! and none reaches the other disk. The same disk comes back at once.

use crate::config::Namespace;
use backing::{BlockSize, Medium};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long hosts take at most to notice that a namespace went. Linux looks within milliseconds of the
/// event; the rest is for one whose processors are busy.
pub(super) const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// What went a moment ago, by subsystem and nsid.
#[derive(Debug, Default)]
pub(super) struct Absences {
    gone: BTreeMap<(String, u32), (Instant, Disk)>,
}

/// What makes a disk the same for hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Disk {
    medium: Medium,
    block_size: Option<BlockSize>,
    ids: ([u8; 16], [u8; 16], [u8; 8]),
}

impl Disk {
    fn of(namespace: &Namespace) -> Disk {
        let &Namespace { uuid, nguid, eui64, ref spec, .. } = namespace;
        let medium = spec.medium.clone();
        Disk { medium, block_size: spec.block_size, ids: (uuid, nguid, eui64) }
    }
}

impl Absences {
    /// A namespace goes.
    pub(super) fn begin(&mut self, now: Instant, nqn: &str, namespace: &Namespace) {
        self.gone.retain(|_, (since, _)| now.duration_since(*since) < NOTICED_WITHIN);
        let place = (nqn.to_owned(), namespace.nsid);
        self.gone.insert(place, (now, Disk::of(namespace)));
    }

    /// How long the number has to stay empty before this namespace takes it.
    pub(super) fn left(&self, now: Instant, nqn: &str, namespace: &Namespace) -> Duration {
        match self.gone.get(&(nqn.to_owned(), namespace.nsid)) {
            Some((since, disk)) if *disk != Disk::of(namespace) => {
                NOTICED_WITHIN.saturating_sub(now.duration_since(*since))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use std::path::Path;

    const NQN: &str = "nqn.2026-11.io.nvmfd:a";

    fn namespaces(lines: &str) -> Vec<Namespace> {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1\"\n[[subsystem]]\nnqn = \"{NQN}\"\n\
             allow_any_host = true\n{lines}"
        );
        config::parse(Path::new("nvmfd.toml"), &text).unwrap().subsystems.remove(0).namespaces
    }

    #[test]
    fn another_disk_waits_and_the_same_one_does_not() {
        let table = "[[subsystem.namespace]]\n";
        let all = namespaces(&format!(
            "{table}null = \"1MiB\"\n{table}null = \"2MiB\"\n{table}null = \"1MiB\"\nread_only = true\n"
        ));
        let as_first = |at: usize| {
            let Namespace { uuid, nsid, .. } = all[0];
            Namespace { uuid, nsid, ..all[at].clone() }
        };
        let (start, mut absences) = (Instant::now(), Absences::default());
        absences.begin(start, NQN, &all[0]);
        let left =
            |after: Duration, namespace: &Namespace| absences.left(start + after, NQN, namespace);
        let other = as_first(1);
        assert_eq!(left(Duration::ZERO, &other), NOTICED_WITHIN);
        assert_eq!(left(NOTICED_WITHIN / 2, &other), NOTICED_WITHIN / 2);
        assert_eq!(left(NOTICED_WITHIN * 2, &other), Duration::ZERO);
        for same in [&all[0], &as_first(2)] {
            assert_eq!(left(Duration::ZERO, same), Duration::ZERO);
        }
        assert_eq!(left(Duration::ZERO, &all[1]), Duration::ZERO, "another number");
        assert_eq!(absences.left(start, "nqn.2026-11.io.nvmfd:b", &other), Duration::ZERO);
    }
}
