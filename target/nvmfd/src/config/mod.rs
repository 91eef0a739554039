//! The configuration file: read, checked as a whole, and turned into what the daemon needs.
//!
//! Nothing here looks at disks or devices but for the index of a network interface that an address
//! names. What [`load`] returns has no contradictions left in it; whether the paths exist is found
//! out when they are opened.

mod fabrics;
mod limits;
mod outlets;
mod problem;
mod raw;
#[cfg(test)]
mod reference;
mod resolve;
mod shape;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use limits::Limits;
pub(crate) use problem::ConfigErrors;
pub(crate) use resolve::number_namespaces;
pub(crate) use units::{about, in_words, limit_in_words, some};

use backing::BackingSpec;
use nvmf::target::{AllowedHosts, DiscoveryConfig, DuplicateHosts};
use problem::Problem;
use reactor::run::PollMode;
use region::Pages;
use rustix::fs::OFlags;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;

/// Most bytes of a configuration file: many times what the limits on its tables allow to be of use.
const MAX_FILE: u64 = 16 << 20;

/// Everything that the file says, with the defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) subsystems: Vec<Subsystem>,
    pub(crate) limits: Limits,
    pub(crate) discovery: DiscoveryConfig,
    pub(crate) log: Log,
    pub(crate) tuning: Tuning,
    pub(crate) control: ControlSocket,
    /// Where metrics are served; nowhere by default.
    pub(crate) metrics: Option<SocketAddr>,
}

/// The socket that operators use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ControlSocket {
    /// Where it is, if the file says so; else a place is found ([`crate::socket::usual_place`]).
    pub(crate) path: Option<PathBuf>,
    /// Whether there is one at all.
    pub(crate) enabled: bool,
    /// Permission bits of the socket.
    pub(crate) mode: u32,
    /// Users that may use it besides root and the daemon's own.
    pub(crate) users: Vec<u32>,
}

/// An address that hosts connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) provider: Provider,
}

/// What carries RDMA for a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    /// An RDMA device where one owns the address, else soft-roce.
    #[default]
    Auto,
    /// An RDMA device, through libibverbs.
    Verbs,
    /// The RoCEv2 endpoint of this program, on UDP port 4791.
    Soft,
}

/// One subsystem.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subsystem {
    pub(crate) nqn: String,
    pub(crate) serial: String,
    pub(crate) model: String,
    pub(crate) hosts: AllowedHosts,
    pub(crate) duplicates: DuplicateHosts,
    pub(crate) cntlids: RangeInclusive<u16>,
    /// By rising nsid.
    pub(crate) namespaces: Vec<Namespace>,
}

/// One namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Namespace {
    /// Line of the file that it begins on, for messages about its disk.
    pub(crate) line: usize,
    pub(crate) nsid: u32,
    pub(crate) spec: BackingSpec,
    pub(crate) uuid: [u8; 16],
    /// All zero for none.
    pub(crate) nguid: [u8; 16],
    /// All zero for none.
    pub(crate) eui64: [u8; 8],
    pub(crate) inject: Option<Inject>,
}

/// Faults for drills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inject {
    /// Added to every operation.
    pub(crate) delay: Duration,
    /// Every how many operations one fails; 0 for never.
    pub(crate) error_every: u32,
}

/// How to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// A filter: a level, or levels by module.
    pub(crate) filter: String,
    pub(crate) json: bool,
    /// Commands that take longer are told; none are by default.
    pub(crate) slow: Option<Duration>,
}

/// What an operator may turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// At least 1.
    pub(crate) data_cores: u16,
    /// One per data core, or empty.
    pub(crate) cpus: Vec<usize>,
    pub(crate) poll: PollMode,
    /// Bytes per data core.
    pub(crate) memory: usize,
    /// Bytes of the control thread.
    pub(crate) control_memory: usize,
    /// What the memory of the cores is made of.
    pub(crate) hugepages: Pages,
    pub(crate) max_transfer: u32,
    pub(crate) in_capsule: u32,
    pub(crate) queue_depth: u16,
    pub(crate) max_io_queues: u16,
    pub(crate) max_queues: usize,
    pub(crate) max_reads: u8,
    pub(crate) shared_receive_queue: bool,
    /// IP traffic class of what soft-roce sends.
    pub(crate) traffic_class: u8,
}

/// Reads and checks the file.
///
/// # Errors
/// Everything that is wrong with it, with places and hints.
pub(crate) fn load(path: &Path) -> Result<Config, ConfigErrors> {
    parse(path, &read(path)?)
}

/// Reads the file's text.
///
/// # Errors
/// When it cannot be read, is too long or is no text.
pub(crate) fn read(path: &Path) -> Result<String, ConfigErrors> {
    let wrong = |text: &str, problem| ConfigErrors::new(path, text, vec![problem]);
    let mut bytes = Vec::new();
    // Opening a pipe would wait for whoever writes to it, and a running daemon waits for nobody.
    let opened = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    if opened.as_ref().is_ok_and(is_pipe) {
        let problem = Problem::nowhere("is a pipe, which cannot be read again at a reload");
        return Err(wrong("", problem.hint("name a file")));
    }
    // One byte more than allowed tells a file that is too long; a device may have no end.
    opened.and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes)).map_err(|error| {
        wrong("", Problem::nowhere(format!("cannot read the configuration: {error}")))
    })?;
    if bytes.len() as u64 > MAX_FILE {
        let most = in_words(MAX_FILE);
        return Err(wrong(
            "",
            Problem::nowhere(format!("is longer than {most}"))
                .hint("is this the configuration, and not a disk?"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]);
        wrong(&text, Problem::at(good..good, "is not UTF-8").hint("save the file as UTF-8 text"))
    })
}

fn is_pipe(file: &File) -> bool {
    file.metadata().is_ok_and(|it| it.file_type().is_fifo() || it.file_type().is_socket())
}

/// Checks the text of a configuration that is, or is to be, at `path`.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, ConfigErrors> {
    let misshapen = shape::problems(text);
    if !misshapen.is_empty() {
        return Err(ConfigErrors::new(path, text, misshapen));
    }
    toml::from_str::<raw::RawConfig>(text)
        .map_err(|error| vec![problem::from_parser(&error)])
        .and_then(|raw| resolve::resolve(&raw, path, text))
        .map_err(|problems| ConfigErrors::new(path, text, problems))
}

/// Line and column of a value in a file that was read, by its table and key.
pub(crate) fn place_of(text: &str, table: &str, key: &str) -> Option<(usize, usize)> {
    let file = DeTable::parse(text).ok()?;
    let value = file.get_ref().get(table)?.get_ref().as_table()?.get(key)?;
    Some(problem::line_column(text, value.span().start))
}

/// The address that a text of the file names, for a listener that is already there.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    units::address(text, units::interface_index)
}
