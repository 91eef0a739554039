//! A daemon for one test.

use crate::address::own_address;
use crate::offer::{self, ALLOWED_HOSTNQN, CLOSED_SUBNQN, Namespace, SUBNQN};
use crate::process::Process;
use nvme_spec_types::Nqn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Its control socket, in its folder.
const SOCKET: &str = "control.sock";
/// How long the daemon may take to be ready: long, on an emulated machine with much to do.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running daemon. Ended when dropped.
#[derive(Debug)]
pub struct Daemon {
    address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
}

impl Daemon {
    /// Starts one on soft-roce with one namespace of that many MiB in memory.
    pub fn with_ram(mib: u32) -> Daemon {
        Daemon::start(own_address(), "soft", &[Namespace::ram(mib, 512)])
    }

    /// Starts one that offers what [`offer`](crate::offer) says.
    pub(crate) fn start(address: SocketAddr, provider: &str, namespaces: &[Namespace]) -> Daemon {
        let mut disks = given_disks();
        let namespaces: String = namespaces.iter().map(|ns| entry(ns, &mut disks)).collect();
        let [memory, control_memory] = offer::MEMORY;
        let text = format!(
            "[[listener]]\naddress = \"{address}\"\nprovider = \"{provider}\"\n\
             [[subsystem]]\nnqn = \"{SUBNQN}\"\nallow_any_host = true\n{namespaces}\
             [[subsystem]]\nnqn = \"{CLOSED_SUBNQN}\"\nallowed_hosts = [\"{ALLOWED_HOSTNQN}\"]\n\
             {}[tuning]\ndata_cores = 1\nmemory = {memory}\ncontrol_memory = {control_memory}\n\
             max_transfer = {}\nin_capsule = {}\nqueue_depth = {}\nmax_io_queues = {}\n",
            entry(&Namespace::ram(1, 512), &mut Vec::new()),
            offer::MAX_TRANSFER,
            offer::IN_CAPSULE,
            offer::QUEUE_DEPTH,
            offer::MAX_IO_QUEUES,
        );
        Daemon::serve(address, &text)
    }

    /// Starts one with this configuration, by which it listens on `address`; with a control socket
    /// of its own.
    pub fn serve(address: SocketAddr, config: &str) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("nvmfd.toml");
        let socket = folder.path().join(SOCKET);
        let control = format!("[control]\nsocket = \"{}\"\n", socket.display());
        std::fs::write(&file, format!("{config}{control}")).expect("the configuration");
        let log = folder.path().join("log");
        let child = Command::new(program())
            .args(["serve", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("the daemon starts");
        let mut daemon = Daemon { address, child, folder };
        let began = Instant::now();
        while !daemon.log().contains("ready addresses=") {
            let ended = daemon.child.try_wait().expect("its state");
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
        Nqn::new(SUBNQN).expect("a name")
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// What `nvmfd` with these words says about it, through its control socket.
    ///
    /// # Panics
    /// When it refuses.
    pub fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new(program());
        command.args(words).arg("--socket").arg(self.folder.path().join(SOCKET));
        let out = command.output().expect("nvmfd starts");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
        // It may have ended by itself; then there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A namespace of the subsystem above it: in memory, or on the first of these disks that is as it
/// should be, which is taken from them.
fn entry(namespace: &Namespace, disks: &mut Vec<(u32, u32, String)>) -> String {
    let Namespace { mib, block_size, read_only } = namespace;
    let fits = |(size, block, _): &(u32, u32, String)| (size, block) == (mib, block_size);
    let place = match disks.iter().position(fits) {
        Some(at) => format!("path = \"{}\"", disks.remove(at).2),
        None => format!("ram = \"{mib}MiB\""),
    };
    format!(
        "[[subsystem.namespace]]\n{place}\nblock_size = {block_size}\nread_only = {read_only}\n"
    )
}

/// Disks to use in place of memory: `NVMFD_DISKS` lists MiB, bytes of a block and path of each, as
/// in `16:512:/dev/ng0n2`.
fn given_disks() -> Vec<(u32, u32, String)> {
    let given = std::env::var("NVMFD_DISKS").unwrap_or_default();
    let disk = |word: &str| {
        let mut parts = word.splitn(3, ':');
        let mut number = || parts.next()?.parse().ok();
        Some((number()?, number()?, parts.next()?.to_owned()))
    };
    let disks = given.split_whitespace().map(|word| {
        disk(word).unwrap_or_else(|| panic!("NVMFD_DISKS: \"{word}\" is not MIB:BLOCK:PATH"))
    });
    disks.collect()
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
        // Where each test is a process, the first of a run builds for all.
        let run = std::env::var("NEXTEST_RUN_ID").ok();
        let built_for = profile.join("nvmfd.built-for-run");
        if run.is_none() || std::fs::read_to_string(&built_for).ok() != run {
            build(profile);
            if let Some(run) = run {
                // At worst the next one builds again.
                let _ = std::fs::write(&built_for, run);
            }
        }
        profile.join("nvmfd")
    })
}

/// Builds the daemon into the profile's folder.
fn build(profile: &Path) {
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
}
