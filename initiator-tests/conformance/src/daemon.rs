//! A daemon for one test.

use nvme_spec_types::Nqn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The subsystem that tests connect to.
const SUBNQN: &str = "nqn.2026-11.io.nvmfd:conformance";
/// What [`Daemon::start`] puts into it.
const NAMESPACES: &str = "[[subsystem.namespace]]\nram = \"16MiB\"\nblock_size = 512\n\
     [[subsystem.namespace]]\nram = \"16MiB\"\nblock_size = 4096\n\
     [[subsystem.namespace]]\nram = \"1MiB\"\nblock_size = 512\nread_only = true\n";
/// How long the daemon may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A running target. Ended when dropped, where it was started here.
#[derive(Debug)]
pub struct Daemon {
    address: SocketAddr,
    subnqn: Nqn,
    running: Option<(Child, tempfile::TempDir)>,
}

impl Daemon {
    /// Starts one with two namespaces of 16 MiB in memory, of 512 and of 4096 bytes a block, and a
    /// third that is read-only; or finds the one that the environment names.
    pub fn start() -> Daemon {
        if let Ok(address) = std::env::var("CONFORMANCE_ADDRESS") {
            let address = address.parse().expect("CONFORMANCE_ADDRESS is IP:PORT");
            let nqn = std::env::var("CONFORMANCE_NQN").expect("CONFORMANCE_NQN is the subsystem");
            return Daemon { address, subnqn: Nqn::new(&nqn).expect("a name"), running: None };
        }
        Daemon::run(own_address(), NAMESPACES)
    }

    /// Starts one with one namespace of that many MiB in memory, whatever the environment names.
    pub fn with_ram(mib: u32) -> Daemon {
        let namespace = format!("[[subsystem.namespace]]\nram = \"{mib}MiB\"\n");
        Daemon::run(own_address(), &namespace)
    }

    fn run(address: SocketAddr, namespaces: &str) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("nvmfd.toml");
        let text = format!(
            "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n\
             [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n\
             {namespaces}[[subsystem]]\nnqn = \"{SUBNQN}-closed\"\n\
             allowed_hosts = [\"nqn.2014-08.org.example:somebody-else\"]\n\
             [[subsystem.namespace]]\nram = \"1MiB\"\n\
             [tuning]\ndata_cores = 1\nmemory = \"16MiB\"\ncontrol_memory = \"8MiB\"\n\
             max_transfer = \"256KiB\"\nin_capsule = \"8KiB\"\nqueue_depth = 64\n\
             max_io_queues = 4\n"
        );
        std::fs::write(&config, text).expect("the configuration");
        let log = folder.path().join("log");
        let child = Command::new(program())
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("the daemon starts");
        let subnqn = Nqn::new(SUBNQN).expect("a name");
        let mut daemon = Daemon { address, subnqn, running: Some((child, folder)) };
        let began = Instant::now();
        while !daemon.log().contains("ready addresses=") {
            let (child, _) = daemon.running.as_mut().expect("started above");
            let ended = child.try_wait().expect("its state");
            assert!(ended.is_none(), "the daemon ended: {ended:?}\n{}", daemon.log());
            assert!(began.elapsed() < READY_WITHIN, "not ready\n{}", daemon.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The subsystem with the namespaces.
    pub fn subnqn(&self) -> Nqn {
        self.subnqn
    }

    /// A subsystem that only another host may use, where the daemon was started here.
    pub fn closed_subnqn(&self) -> Option<Nqn> {
        let name = format!("{SUBNQN}-closed");
        self.running.as_ref().map(|_| Nqn::new(&name).expect("a name"))
    }

    /// Whether the daemon was started here and is configured as [`start`](Self::start) says.
    pub fn is_own(&self) -> bool {
        self.running.is_some()
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        let Some((_, folder)) = &self.running else { return String::new() };
        std::fs::read_to_string(folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
        if let Some((child, _)) = &mut self.running {
            // It may have ended by itself; then there is nothing left to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A loopback address for each daemon, likely not that of another process's.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id() as u8 & 0x7f | 0x40;
    SocketAddr::from(([127, process, (count / 250) as u8, (count % 250) as u8 + 1], 4420))
}

/// The daemon's program: `NVMFD_PROGRAM`, else built beside the tests.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(given) = std::env::var_os("NVMFD_PROGRAM") {
            return given.into();
        }
        let tests = std::env::current_exe().expect("the test program");
        // The test program lies in `deps` of the profile's folder.
        let profile = tests.ancestors().nth(2).expect("the profile's folder");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let build = |more: &[&str]| {
            let mut command = Command::new(&cargo);
            command.args(["build", "--quiet", "-p", "nvmfd"]).args(more);
            if profile.ends_with("release") {
                command.arg("--release");
            }
            command.env("CARGO_TARGET_DIR", profile.parent().expect("the output folder"));
            command.status().is_ok_and(|status| status.success())
        };
        // Without the RDMA libraries the daemon is built without the feature for them.
        assert!(build(&[]) || build(&["--no-default-features"]), "nvmfd does not build");
        profile.join("nvmfd")
    })
}
