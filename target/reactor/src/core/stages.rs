//! Where the time of commands goes, stage by stage.
//!
//! # Contract
//! A [`Probe`] follows one command at a time: of those that begin, every [`EVERY`]th, if the one
//! before has ended. The slot of that command is marked, so that all the others pay a look at a flag
//! they have at hand, and a count when they begin. At each step of the marked one, the time since the
//! step before is counted for the stage it was in. A command that ends with its connection, or goes
//! to the control thread, is left out from there on.

use super::Latency;

/// Of so many commands one is followed. A prime, so that no rhythm of a host falls in with it.
const EVERY: u32 = 61;

/// What a command is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its turn, by a limit.
    Received,
    /// A buffer.
    Buffer,
    /// Its data from the host, by RDMA READ.
    DataIn,
    /// The disk, or the end of a fused pair on its blocks.
    Disk,
    /// The credits to post its data and its response.
    DataOut,
    /// The completion of its response: the host has acknowledged it, and the data before it.
    Sent,
}

impl Stage {
    /// All, in the order in which a command passes them.
    pub const ALL: [Stage; 6] =
        [Stage::Received, Stage::Buffer, Stage::DataIn, Stage::Disk, Stage::DataOut, Stage::Sent];

    /// Its name, as in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Received => "received",
            Stage::Buffer => "buffer",
            Stage::DataIn => "data_in",
            Stage::Disk => "disk",
            Stage::DataOut => "data_out",
            Stage::Sent => "sent",
        }
    }
}

/// How long the commands that were followed were in each stage. Those that skip a stage do not count
/// in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageLatency([Latency; Stage::ALL.len()]);

impl StageLatency {
    /// Of one stage.
    pub fn of(&self, stage: Stage) -> &Latency {
        &self.0[stage as usize]
    }
}

/// Follows one command at a time.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// Commands that begin before one is followed.
    left: u32,
    /// Of the command that is followed: where it is, and since when in nanoseconds.
    at: Option<(Stage, u64)>,
    latency: StageLatency,
}

impl Probe {
    /// A command begins: whether it is the one to follow. Its slot is to be marked then.
    #[inline]
    pub(super) fn begins(&mut self, now_ns: u64) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.follow(now_ns)
    }

    #[cold]
    fn follow(&mut self, now_ns: u64) -> bool {
        self.left = EVERY - 1;
        let free = self.at.is_none();
        if free {
            self.at = Some((Stage::Received, now_ns));
        }
        free
    }

    /// The marked command comes to a stage, or is in it already.
    #[cold]
    pub(super) fn enter(&mut self, stage: Stage, now_ns: u64) {
        if let Some((before, since_ns)) = self.at
            && before != stage
        {
            self.latency.0[before as usize].count(now_ns.saturating_sub(since_ns));
            self.at = Some((stage, now_ns));
        }
    }

    /// The marked command's last stage has ended.
    #[cold]
    pub(super) fn end(&mut self, now_ns: u64) {
        if let Some((last, since_ns)) = self.at.take() {
            self.latency.0[last as usize].count(now_ns.saturating_sub(since_ns));
        }
    }

    /// The marked command goes where it is not followed.
    #[cold]
    pub(super) fn lose(&mut self) {
        self.at = None;
    }

    pub(super) fn latency(&self) -> StageLatency {
        self.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(probe: &Probe) -> Vec<(Stage, u64, u64)> {
        let latency = probe.latency();
        let all = Stage::ALL.into_iter().map(|stage| (stage, *latency.of(stage)));
        let there = all.filter(|(_, latency)| latency.total() > 0);
        there.map(|(stage, latency)| (stage, latency.total(), latency.sum_ns())).collect()
    }

    #[test]
    fn one_command_of_so_many_is_followed_and_none_beside_it() {
        let mut probe = Probe::default();
        let followed = |probe: &mut Probe| (0..3 * EVERY).filter(|_| probe.begins(0)).count();
        assert_eq!(followed(&mut probe), 1, "the first has not ended");
        probe.end(0);
        let each: usize = (0..2)
            .map(|_| {
                let found = followed(&mut probe);
                probe.lose();
                found
            })
            .sum();
        assert_eq!(each, 2);
    }

    #[test]
    fn time_counts_for_the_stage_in_which_it_passed() {
        let mut probe = Probe::default();
        assert!(probe.begins(1000));
        probe.enter(Stage::Buffer, 1000);
        probe.enter(Stage::Disk, 4000);
        probe.enter(Stage::Disk, 5000);
        probe.enter(Stage::Sent, 9000);
        probe.end(9500);
        let expected = [
            (Stage::Received, 1, 0),
            (Stage::Buffer, 1, 3000),
            (Stage::Disk, 1, 5000),
            (Stage::Sent, 1, 500),
        ];
        assert_eq!(counted(&probe), expected);
    }

    #[test]
    fn a_lost_command_counts_no_further() {
        let mut probe = Probe::default();
        assert!(probe.begins(0));
        probe.enter(Stage::Disk, 10);
        probe.lose();
        probe.enter(Stage::Sent, 20);
        probe.end(30);
        assert_eq!(counted(&probe), [(Stage::Received, 1, 10)]);
    }
}
