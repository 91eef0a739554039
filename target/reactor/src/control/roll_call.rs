//! Whether the data cores live. Each is asked now and then, and a core that turns answers.

use rdma::CoreIndex;

/// What the data cores were asked last and what each answered last.
#[derive(Debug)]
pub(super) struct RollCall {
    /// Counts the calls.
    call: u64,
    /// By core index less one: the last call that was answered.
    answered: Vec<u64>,
}

impl RollCall {
    pub(super) fn new(data_cores: u16) -> RollCall {
        RollCall { call: 0, answered: vec![0; usize::from(data_cores)] }
    }

    /// Begins a call, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.call += 1;
        self.call
    }

    /// A core answered this call.
    pub(super) fn on_answer(&mut self, core: CoreIndex, call: u64) {
        self.answered[usize::from(core.0) - 1] = call;
    }

    /// Cores that have not answered the last call.
    pub(super) fn silent(&self) -> impl Iterator<Item = CoreIndex> {
        let cores = (1..).map(CoreIndex).zip(&self.answered);
        cores.filter(|(_, answered)| **answered != self.call).map(|(core, _)| core)
    }
}
