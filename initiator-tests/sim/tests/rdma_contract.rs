//! The contract of the RDMA seam on the simulator's network, over several seeds: what providers may
//! do one way or the other, this one does by chance.

use libtest_mimic::Arguments;
use rdma::{CoreIndex, Now};
use rdma_contract::{Provider, Role};
use region::Region;
use sim::net::{Fabric, NetConfig, SimCm, SimDevice};
use sim::rng::Rng;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Seeds that every check runs with.
const SEEDS: u64 = 20;
/// Longest time between two turns.
const STEP_NS: u64 = 40_000;

struct SimProvider {
    fabric: Fabric,
    rng: RefCell<Rng>,
    now: Cell<Now>,
}

impl SimProvider {
    fn new(seed: u64) -> SimProvider {
        let mut rng = Rng::new(seed);
        let config = NetConfig {
            latency: (500, 40_000),
            slow: 0,
            refuse: 0,
            lose_connect: 0,
            short_poll: 2_000,
            max_inline: *rng.pick(&[0, 16, 64]),
            device_reads: *rng.pick(&[1, 16, 128]),
            max_qp_wr: 16_384,
            shared_recv: Some(rdma_contract::SHARED_RECV_DEPTH),
        };
        let fabric = Fabric::new(config, rng.fork());
        SimProvider { fabric, rng: RefCell::new(rng), now: Cell::new(Duration::from_secs(1)) }
    }
}

impl Provider for SimProvider {
    type Manager = SimCm;
    type Device = SimDevice;

    const SLEEPS: bool = false;
    const CHECKS_BOUNDS: bool = true;

    fn address(&self) -> SocketAddr {
        ([10, 0, 0, 1], 4420).into()
    }

    fn manager(&self, role: Role) -> SimCm {
        let node = if role == Role::Target { 1 } else { 2 };
        self.fabric.add_node(([10, 0, 0, node], 4420).into(), false)
    }

    fn device(&self, manager: &mut SimCm, core: CoreIndex, region: Arc<Region>) -> SimDevice {
        self.fabric.open_device(manager, core, region)
    }

    fn now(&self) -> Now {
        let now = self.now.get() + Duration::from_nanos(self.rng.borrow_mut().below(STEP_NS));
        self.now.set(now);
        self.fabric.advance(now);
        now
    }
}

impl Drop for SimProvider {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.fabric.violation(), None, "a check that breaks a rule itself");
        }
    }
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Checks count the descriptors of the process: one at a time in each.
    arguments.test_threads = Some(1);
    let trials = rdma_contract::checks::<SimProvider>().into_iter().map(|(name, check)| {
        libtest_mimic::Trial::test(name, move || {
            for seed in 0..SEEDS {
                let run = || check(&mut rdma_contract::Bench::new(SimProvider::new(seed)));
                if std::panic::catch_unwind(run).is_err() {
                    return Err(format!("with seed {seed}; the panic above says what").into());
                }
            }
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
