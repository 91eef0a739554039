//! The command line.

use crate::config::Provider;
use crate::doctor::peer::Place;
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What is built in.
#[cfg(feature = "verbs")]
macro_rules! features {
    () => {
        "verbs, soft"
    };
}

/// What is built in.
#[cfg(not(feature = "verbs"))]
macro_rules! features {
    () => {
        "soft"
    };
}

/// What `--version` says: version, commit and features.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("NVMFD_COMMIT"),
    ", features: ",
    features!(),
    ")"
);

/// NVMe over Fabrics RDMA target daemon.
#[derive(Debug, Parser)]
#[command(name = "nvmfd", version = VERSION, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve what the configuration describes until SIGTERM or SIGINT; a second one ends at once
    ///
    /// SIGHUP reads the configuration again, as `nvmfd reload` does.
    Serve {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Check the configuration and its disks, print what would be served, and start nothing
    ///
    /// It finds what `serve` would, in the same words: at the file, its disks, the control socket, the
    /// address of the metrics and RoCE's port. What the daemon has that runs this very file is not
    /// counted as taken. Exit status 0: it can be served. 1: it could, but something else on this
    /// machine has what it needs. 2: it cannot be served as it is. With --diff: 0, or 1 where a reload
    /// would be refused, in its words.
    Check {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Say instead what a reload with this file would change in the running daemon
        #[arg(long)]
        diff: bool,
        /// With --diff: compare with this file instead of the running daemon
        #[arg(long, value_name = "FILE", requires = "diff")]
        against: Option<PathBuf>,
        #[command(flatten)]
        at: At,
    },
    /// Check this machine: say what would not work, what that means and the command that mends it
    ///
    /// Changes nothing. Limits are those of this shell: run it as the user that the daemon runs as.
    /// Exit status 0: nothing is at fault, though there may be warnings. 1: something will not work.
    /// 2: the configuration is wrong.
    ///
    /// With --peer: say instead whether RDMA to another machine is alive, and how fast it is where
    /// that machine runs `nvmfd doctor --serve`. 0: it is alive. 1: it is not.
    Doctor {
        /// The configuration file; without, a listener on every address and no disks
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Test RDMA to this address: with a port there, else with a doctor or a target
        #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = Place::parse, conflicts_with = "config")]
        peer: Option<Place>,
        /// Answer such tests at this address of this machine (RDMA port 4429 if left out), until
        /// interrupted
        #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = Place::parse, conflicts_with_all = ["config", "peer", "json"])]
        serve: Option<Place>,
        /// With --peer and --serve: what carries RDMA
        #[arg(long, value_enum, default_value_t, conflicts_with = "config")]
        provider: Provider,
        /// With --peer: how many seconds each bandwidth is measured
        #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20), requires = "peer")]
        seconds: u8,
        #[command(flatten)]
        output: Output,
    },
    /// Have the running daemon read its configuration file again and make what is different
    ///
    /// The file is checked whole, and its disks are opened, before anything is changed; connections
    /// that a change does not concern do not notice. What needs a restart is named and stays.
    Reload {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        at: At,
    },
    /// Say what the running daemon is and how it is
    Status {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        at: At,
    },
    /// List what there is in the running daemon
    List {
        /// Of which kind
        what: Listed,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        at: At,
    },
    /// Show one thing of the running daemon
    Show {
        #[command(subcommand)]
        what: Shown,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        at: At,
    },
    /// Add something to the running daemon
    Add {
        #[command(subcommand)]
        what: Added,
        #[command(flatten)]
        change: Change,
    },
    /// Change something of the running daemon
    Set {
        #[command(subcommand)]
        what: Set,
        #[command(flatten)]
        change: Change,
    },
    /// Remove something from the running daemon; files stay
    Remove {
        #[command(subcommand)]
        what: Removed,
        #[command(flatten)]
        change: Change,
    },
    /// Print what happens in the running daemon, as it happens
    Trace {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        at: At,
    },
    /// Show what the running daemon does, once a second
    Top {
        #[command(flatten)]
        at: At,
    },
    /// Write a configuration that serves what another target serves
    ///
    /// What could not be taken over is told on standard error and in comments at the end of the
    /// result. Exit status 0: it can be served. 1: nothing was written. 2: it was written, and
    /// something has to be added first, which standard error says.
    Import {
        /// What wrote the file: nvmetcli for the kernel's target, spdk for save_config of SPDK's
        origin: Origin,
        /// The other target's configuration, in JSON
        file: PathBuf,
        /// Where to write the result, else on standard output
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file of --output if it is there
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Print a script that completes commands in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// Where to
        folder: PathBuf,
    },
}

/// Whose configuration is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Origin {
    Nvmetcli,
    Spdk,
}

/// Where the running daemon is.
#[derive(Debug, clap::Args)]
pub(crate) struct At {
    /// The daemon's control socket, if neither at its usual place nor where NVMFD_SOCKET says
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl At {
    /// Where it is, if that is said: a variable that is set to nothing says nothing. Not by clap, which
    /// would take the variable for an argument that was given and show it in messages about others.
    pub(crate) fn socket(self) -> Option<PathBuf> {
        let said = || std::env::var_os("NVMFD_SOCKET").map(PathBuf::from);
        self.socket.or_else(said).filter(|path| !path.as_os_str().is_empty())
    }
}

/// How to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// How a change is made.
#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    /// Write the change into the configuration file too; without, it ends with the daemon or the
    /// next reload
    #[arg(long, global = true)]
    pub(crate) save: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) at: At,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Listed {
    Subsystems,
    Namespaces,
    Hosts,
    Listeners,
    Connections,
    Cores,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Shown {
    /// A subsystem with its namespaces
    Subsystem {
        /// The subsystem's NQN
        nqn: String,
    },
    /// A namespace
    Namespace {
        /// The subsystem's NQN
        nqn: String,
        /// The namespace's number in it
        nsid: u32,
    },
    /// A host's connection, by subsystem and controller id
    Connection {
        /// The subsystem's NQN
        nqn: String,
        /// The controller's id: nvmfd list connections
        cntlid: u16,
    },
    /// The settings of [tuning] in force
    Limits,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Added {
    /// A subsystem
    Subsystem {
        /// The subsystem's NQN
        nqn: String,
        #[command(flatten)]
        hosts: Hosts,
        /// Serial number, else one derived from the NQN
        #[arg(long)]
        serial: Option<String>,
        /// Model
        #[arg(long)]
        model: Option<String>,
    },
    /// A namespace of a subsystem
    Namespace {
        /// The subsystem's NQN
        nqn: String,
        #[command(flatten)]
        fields: NamespaceFields,
    },
    /// A host that may use a subsystem
    ///
    /// Where any host may, name those that may from now on instead:
    /// nvmfd set subsystem NQN 'allowed_hosts=["HOST"]'.
    Host {
        /// The subsystem's NQN
        nqn: String,
        /// The host's NQN, as in /etc/nvme/hostnqn there
        host: String,
    },
    /// An address to listen on
    Listener {
        /// As 10.8.0.1:4420, 10.8.0.1 or [fe80::1%eth0]:4420
        address: String,
        /// What carries RDMA: auto, verbs or soft
        #[arg(long)]
        provider: Option<String>,
    },
}

/// Who may connect.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Hosts {
    /// Any host may connect
    #[arg(long)]
    pub(crate) allow_any_host: bool,
    /// The NQN of a host that may connect; any number of times
    #[arg(long, value_name = "NQN")]
    pub(crate) host: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NamespaceFields {
    #[command(flatten)]
    medium: Medium,
    /// With --path: create the file, or extend it, to this size
    #[arg(long, requires = "path")]
    pub(crate) size: Option<String>,
    /// Its number, else the next free one
    #[arg(long)]
    pub(crate) nsid: Option<u32>,
    /// Bytes of a logical block: 512 or 4096
    #[arg(long)]
    pub(crate) block_size: Option<u32>,
    /// What hosts know it by, else derived
    #[arg(long)]
    pub(crate) uuid: Option<String>,
    /// With --path: go through the page cache
    #[arg(long, requires = "path")]
    pub(crate) buffered: bool,
    /// With --path: look for the ends of reads and writes (NVMe devices with queues for that)
    #[arg(long, requires = "path")]
    pub(crate) iopoll: bool,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// Where the data is.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Medium {
    /// A file or block device
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Memory of this size
    #[arg(long, value_name = "SIZE")]
    pub(crate) ram: Option<String>,
    /// Nothing, of this size
    #[arg(long, value_name = "SIZE")]
    pub(crate) null: Option<String>,
}

impl std::ops::Deref for NamespaceFields {
    type Target = Medium;

    fn deref(&self) -> &Medium {
        &self.medium
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Set {
    /// Settings of a subsystem, as KEY=VALUE with the keys of the configuration file
    Subsystem {
        /// The subsystem's NQN
        nqn: String,
        /// For example allow_any_host=true; nothing behind the = takes the setting out
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Settings of a namespace, as KEY=VALUE with the keys of the configuration file
    Namespace {
        /// The subsystem's NQN
        nqn: String,
        /// The namespace's number in it
        nsid: u32,
        /// For example size=20GiB or read_only=true
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Settings of [tuning]; most wait for a restart, so --save them
    Limits {
        /// For example queue_depth=256
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Removed {
    /// A subsystem with its namespaces: its connections end
    Subsystem {
        /// The subsystem's NQN
        nqn: String,
    },
    /// A namespace
    Namespace {
        /// The subsystem's NQN
        nqn: String,
        /// The namespace's number in it
        nsid: u32,
    },
    /// A host from those that may use a subsystem: its connections end
    Host {
        /// The subsystem's NQN
        nqn: String,
        /// The host's NQN, as in /etc/nvme/hostnqn there
        host: String,
    },
    /// A listener: connections that came through it end
    Listener {
        /// As 10.8.0.1:4420, 10.8.0.1 or [fe80::1%eth0]:4420
        address: String,
    },
    /// A host's connection, by subsystem and controller id; the host may come again
    Connection {
        /// The subsystem's NQN
        nqn: String,
        /// The controller's id: nvmfd list connections
        cntlid: u16,
    },
}
