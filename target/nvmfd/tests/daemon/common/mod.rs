//! A daemon for one test, spoken to as an operator does.

use conformance::{Process, Session, soft_target};
use nvme_spec_types::Nqn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long the daemon may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);

pub(crate) struct Daemon {
    child: Child,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: String,
}

impl Daemon {
    /// Starts one with `rest` behind a listener and the control socket.
    pub(crate) fn start(rest: &str) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        let address = own_address();
        let text = configuration(folder.path(), &address, rest);
        std::fs::write(folder.path().join("nvmfd.toml"), text).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = program()
            .args(["serve", "--config"])
            .arg(folder.path().join("nvmfd.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Daemon { child, folder, address };
        daemon.wait_for("ready addresses=");
        daemon
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn wait_for(&self, text: &str) {
        let began = Instant::now();
        while !self.log().contains(text) {
            assert!(began.elapsed() < READY_WITHIN, "no \"{text}\" in\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Writes the configuration anew.
    pub(crate) fn configure(&self, rest: &str) {
        let text = configuration(self.folder.path(), &self.address, rest);
        std::fs::write(self.path("nvmfd.toml"), text).unwrap();
    }

    pub(crate) fn configuration(&self) -> String {
        std::fs::read_to_string(self.path("nvmfd.toml")).unwrap()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// What a command says that must succeed.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}{errors}\n{}", self.log());
        said
    }

    /// What a command says that must fail.
    pub(crate) fn refuse(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(!output.status.success(), "{args:?} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(&[args, &["--json"]].concat())).unwrap()
    }

    fn output(&self, args: &[&str]) -> Output {
        program().args(args).env("NVMFD_SOCKET", self.path("a.sock")).output().unwrap()
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path("a.sock")).unwrap();
        stream.set_read_timeout(Some(READY_WITHIN)).unwrap();
        stream
    }

    /// All that comes back for bytes on the control socket.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The daemon may have hung up in the middle, which is an answer too.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that no other daemon listens on.
pub(crate) fn own_address() -> String {
    conformance::own_address().to_string()
}

/// A host with a controller of that subsystem and one I/O queue.
pub(crate) fn host(address: &str, subnqn: &str) -> Session {
    Session::new(&soft_target(address.parse().unwrap(), Nqn::new(subnqn).unwrap()))
}

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nvmfd"))
}

fn configuration(folder: &Path, address: &str, rest: &str) -> String {
    let socket = folder.join("a.sock");
    format!(
        "[[listener]]\naddress = \"{address}\"\nprovider = \"soft\"\n\
         [tuning]\ndata_cores = 1\nmemory = \"16MiB\"\ncontrol_memory = \"8MiB\"\n\
         max_transfer = \"256KiB\"\n[control]\nsocket = \"{}\"\n{rest}",
        socket.display()
    )
}
