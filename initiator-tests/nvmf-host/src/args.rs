//! The command line.

use crate::provider::Choice;
use crate::session::Peer;
use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use initiator::{ControllerInfo, NamespaceInfo};
use nvme_spec_types::Nqn;
use nvme_spec_types::rdma_cm::NVME_RDMA_PORT;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The discovery subsystem's name.
const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Commands of read, write and verify carry this much where the target takes it.
const PREFERRED_IO: u32 = 128 << 10;

/// An NVMe over Fabrics RDMA host in user space: talks to a target without any kernel driver
#[derive(Debug, Parser)]
#[command(name = "nvmf-host", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) whom: Whom,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Whom {
    /// The target: ADDRESS or ADDRESS:PORT ([ADDRESS]:PORT for IPv6); port 4420 if left out
    #[arg(short, long, global = true, default_value = "127.0.0.1", value_parser = parse_address)]
    address: SocketAddr,
    /// The subsystem's name; without it the target is asked, and has to offer just one
    #[arg(short, long, global = true)]
    nqn: Option<String>,
    /// Our name; by default that of /etc/nvme/hostnqn, or one derived from this machine's id
    #[arg(long, global = true)]
    hostnqn: Option<String>,
    /// Who carries RDMA
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub(crate) provider: Choice,
    /// Keep alive timeout in milliseconds; 0 for none
    #[arg(long, global = true, default_value_t = 30_000)]
    kato: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List what the target's discovery controller tells
    Discover {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect and leave, again and again, and say how long it took
    ConnectTest(ConnectArgs),
    /// Show what the controller, or a namespace, tells of itself
    Identify {
        /// A namespace instead of the controller
        #[arg(long)]
        nsid: Option<u32>,
        /// All 4096 bytes in hexadecimal
        #[arg(long)]
        hex: bool,
        /// As JSON
        #[arg(long, conflicts_with = "hex")]
        json: bool,
    },
    /// List the namespaces
    ListNs {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Read blocks: to a file, to standard output (--file -), or in hexadecimal
    Read(IoArgs),
    /// Write blocks from a file, from standard input (--file -), or of one byte (--byte)
    ///
    /// Without a length the input decides, and has to be whole blocks.
    Write(IoArgs),
    /// Have the controller compare blocks with a file, standard input, or one byte
    Compare(IoArgs),
    /// Make written data durable
    Flush {
        /// The namespace; 4294967295 for all
        #[arg(long, default_value_t = 1)]
        nsid: u32,
    },
    /// Write a pattern over a range, read it back and compare; overwrites the range
    Verify(VerifyArgs),
    /// Connect as many hosts that do nothing, until standard input ends
    Hold(HoldArgs),
    /// Measure; the writing modes overwrite the namespace
    Bench(BenchArgs),
    /// Send a capsule of any content and print the completion
    Raw(RawArgs),
    /// Write the manual pages
    Man {
        /// Where to
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// How often
    #[arg(long, default_value_t = 1)]
    pub(crate) count: u32,
    /// I/O queues
    #[arg(long, default_value_t = 4)]
    pub(crate) queues: u16,
    /// Commands outstanding on each queue
    #[arg(long, default_value_t = 32)]
    pub(crate) depth: u16,
    /// How often a second, however long connecting takes; without it one after the other
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) spin: SpinArg,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// When to sleep.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SpinArg {
    /// Microseconds to go on looking for answers before sleeping; 0 leaves the processor at once to
    /// others that have something to do on it
    #[arg(long, value_name = "US", default_value_t = 50)]
    spin: u64,
}

impl SpinArg {
    pub(crate) fn time(self) -> Duration {
        Duration::from_micros(self.spin)
    }
}

#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// Hosts
    #[arg(long, default_value_t = 100)]
    pub(crate) hosts: u32,
    /// I/O queues of each
    #[arg(long, default_value_t = 1)]
    pub(crate) queues: u16,
    /// Commands that each queue has room for
    #[arg(long, default_value_t = 127)]
    pub(crate) depth: u16,
}

/// A range of blocks.
#[derive(Debug, Clone, Args)]
pub(crate) struct RangeArgs {
    /// The namespace
    #[arg(long, default_value_t = 1)]
    pub(crate) nsid: u32,
    /// The first block
    #[arg(long, default_value_t = 0)]
    slba: u64,
    /// How many blocks; by default all up to the end
    #[arg(long)]
    blocks: Option<u64>,
    /// How much, in bytes instead of blocks: 4096, 4KiB, 256MiB, 1GiB
    #[arg(long, conflicts_with = "blocks", value_parser = parse_size)]
    size: Option<u64>,
}

/// A range that lies in its namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) slba: u64,
    pub(crate) blocks: u64,
}

impl RangeArgs {
    /// Whether the user said how long.
    pub(crate) fn has_length(&self) -> bool {
        self.blocks.is_some() || self.size.is_some()
    }

    /// The range within `ns`.
    ///
    /// # Errors
    /// When it is empty, ends within a block, or reaches past the end.
    pub(crate) fn resolve(&self, ns: &NamespaceInfo) -> Result<Range> {
        let lba_len = 1u64 << ns.lba_shift;
        let room = ns.blocks.saturating_sub(self.slba);
        let blocks = match (self.blocks, self.size) {
            (Some(blocks), _) => blocks,
            (None, Some(size)) if !size.is_multiple_of(lba_len) => {
                bail!("{size} bytes are not whole blocks of {lba_len}")
            }
            (None, Some(size)) => size / lba_len,
            (None, None) => room,
        };
        if blocks == 0 || blocks > room {
            bail!(
                "blocks {}+{blocks} are not in namespace {}, which has {} of {lba_len} bytes",
                self.slba,
                ns.nsid,
                ns.blocks
            );
        }
        Ok(Range { slba: self.slba, blocks })
    }
}

/// How many commands, and how large.
#[derive(Debug, Clone, Args)]
pub(crate) struct PaceArgs {
    /// Bytes of a command; by default 128KiB where the target takes it
    #[arg(long, value_parser = parse_size)]
    block_size: Option<u64>,
    /// Commands outstanding on each queue
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4095))]
    pub(crate) depth: u16,
    /// I/O queues
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) queues: u16,
}

impl PaceArgs {
    /// Most bytes of a command, before the target is known.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.block_size.unwrap_or(u64::from(PREFERRED_IO))
    }

    /// Blocks of a command.
    ///
    /// # Errors
    /// When that is no whole number of blocks, or more than a command may carry.
    pub(crate) fn blocks(&self, ns: &NamespaceInfo, info: &ControllerInfo) -> Result<u32> {
        let limit = u64::from(info.max_transfer.unwrap_or(1 << 24)).min(65536 << ns.lba_shift);
        let bytes = match self.block_size {
            Some(bytes) => bytes,
            None => u64::from(PREFERRED_IO).min(limit),
        };
        command_blocks(bytes, limit, ns)
    }
}

/// Blocks of a command of `bytes` bytes.
///
/// # Errors
/// When that is no whole number of blocks, or more than `limit` bytes.
pub(crate) fn command_blocks(bytes: u64, limit: u64, ns: &NamespaceInfo) -> Result<u32> {
    let lba_len = 1u64 << ns.lba_shift;
    if bytes == 0 || !bytes.is_multiple_of(lba_len) {
        bail!("{bytes} bytes are not whole blocks of {lba_len}");
    }
    if bytes > limit {
        bail!("the target takes at most {limit} bytes in a command, not {bytes}");
    }
    Ok((bytes >> ns.lba_shift) as u32)
}

#[derive(Debug, Args)]
pub(crate) struct IoArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    /// The file to read from or write to; - for standard input or output
    #[arg(short, long)]
    pub(crate) file: Option<PathBuf>,
    /// Instead of a file, this byte over and over
    #[arg(long, conflicts_with = "file")]
    pub(crate) byte: Option<u8>,
}

/// Where data to write comes from.
pub(crate) enum Source {
    File(File, u64),
    Bytes(Vec<u8>),
    Repeat(u8),
}

impl IoArgs {
    /// Opens what to write.
    ///
    /// # Errors
    /// When nothing was named, or it cannot be read.
    pub(crate) fn source(&self) -> Result<Source> {
        if let Some(byte) = self.byte {
            return Ok(Source::Repeat(byte));
        }
        let path = self.file.as_deref().context("say what to write: --file FILE or --byte N")?;
        let about = || path.display().to_string();
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).with_context(about)?;
            return Ok(Source::Bytes(bytes));
        }
        let file = File::open(path).with_context(about)?;
        let len = file.metadata().with_context(about)?.len();
        Ok(Source::File(file, len))
    }
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    /// Passes of writing and checking, each with the next generation
    #[arg(long, default_value_t = 1)]
    pub(crate) passes: u64,
    /// Number of the first generation
    #[arg(long, default_value_t = 1)]
    pub(crate) generation: u64,
    /// The pattern is also a function of this
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Only check what an earlier run wrote
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Cut all connections, with commands in flight, this often while writing and while checking
    #[arg(long, value_name = "TIMES", default_value_t = 0, default_missing_value = "1", num_args = 0..=1)]
    pub(crate) kill_and_reconnect: u32,
}

/// What a measurement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Mode {
    /// Sequential reads
    Read,
    /// Sequential writes
    Write,
    /// Sequential reads and writes, mixed
    Rw,
    /// Reads at random places
    RandRead,
    /// Writes at random places
    RandWrite,
    /// Reads and writes at random places, mixed
    RandRw,
}

impl Mode {
    /// Whether places are random.
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Mode::RandRead | Mode::RandWrite | Mode::RandRw)
    }

    /// Percentage of reads, where `mix` is that of the mixed modes.
    pub(crate) fn reads(self, mix: u8) -> u8 {
        match self {
            Mode::Read | Mode::RandRead => 100,
            Mode::Write | Mode::RandWrite => 0,
            Mode::Rw | Mode::RandRw => mix,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// What to do
    #[arg(long, value_enum, default_value = "randread")]
    pub(crate) mode: Mode,
    /// Percentage of reads in the mixed modes
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) mix: u8,
    /// Bytes of a command
    #[arg(long, default_value = "4KiB", value_parser = parse_size)]
    pub(crate) block_size: u64,
    /// Commands outstanding on each queue
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4095))]
    pub(crate) depth: u16,
    /// I/O queues of each core
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) queues: u16,
    /// Threads, each with a controller and queues of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) cores: u16,
    /// CPUs to keep the threads on, one for each: 1,3
    #[arg(long, value_delimiter = ',')]
    pub(crate) cpus: Vec<usize>,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    pub(crate) time: f64,
    /// Seconds to run before that
    #[arg(long, default_value_t = 0.5)]
    pub(crate) ramp: f64,
    #[command(flatten)]
    pub(crate) spin: SpinArg,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Send data in memory of its own, even where it fits the capsule
    #[arg(long)]
    pub(crate) no_in_capsule: bool,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// The queue to send it on: 0 the admin queue, 1 an I/O queue
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1))]
    pub(crate) queue: u16,
    /// The capsule in hexadecimal, of any length; blanks and colons are left out
    #[arg(long, group = "capsule")]
    pub(crate) hex: Option<String>,
    /// The capsule as JSON: {"opcode":6,"nsid":1,"cdw10":0,...}; see --help
    ///
    /// Members: opcode, flags, cid, nsid, cdw2, cdw3, cdw10 to cdw15 (numbers, 0 if left out), sgl
    /// (32 hexadecimal digits), data (hexadecimal, behind the command). Without sgl the descriptor
    /// names the data in the capsule, or the memory of --read or --write.
    #[arg(long, group = "capsule", value_name = "TEXT|@FILE")]
    pub(crate) json: Option<String>,
    /// Open so many bytes of memory for the controller to write to, and print what came
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) read: Option<u64>,
    /// Open memory with the bytes of this file for the controller to read
    #[arg(long, value_name = "FILE", conflicts_with = "read")]
    pub(crate) write: Option<PathBuf>,
    /// Send it as the first message of the connection: no Connect before it
    #[arg(long, conflicts_with = "queue")]
    pub(crate) no_connect: bool,
    /// Do not enable the controller before (CC.EN)
    #[arg(long, conflicts_with_all = ["queue", "no_connect"])]
    pub(crate) disabled: bool,
    /// Show what the controller's error log says of it
    #[arg(long, conflicts_with_all = ["no_connect", "disabled"])]
    pub(crate) error_log: bool,
    /// How often to send it
    #[arg(long, default_value_t = 1)]
    pub(crate) count: u16,
    /// Milliseconds to wait for answers
    #[arg(long, default_value_t = 2000)]
    pub(crate) wait: u64,
}

impl Whom {
    /// The target's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The subsystem's name, where the user gave one.
    pub(crate) fn nqn(&self) -> Option<&str> {
        self.nqn.as_deref()
    }

    /// The discovery controller at the address.
    ///
    /// # Errors
    /// When our own name is of no use.
    pub(crate) fn discovery(&self) -> Result<Peer> {
        let peer = self.peer(DISCOVERY_NQN)?;
        Ok(Peer { kato_ms: 0, ..peer })
    }

    /// The subsystem of that name at the address.
    ///
    /// # Errors
    /// When a name is of no use.
    pub(crate) fn peer(&self, subnqn: &str) -> Result<Peer> {
        let machine = machine_id();
        let hostid =
            match read_line("/etc/nvme/hostid").and_then(|id| id.parse::<uuid::Uuid>().ok()) {
                Some(id) => *id.as_bytes(),
                None => *machine.as_bytes(),
            };
        let derived = || format!("nqn.2014-08.org.nvmexpress:uuid:{machine}");
        let hostnqn = match &self.hostnqn {
            Some(name) => name.clone(),
            None => read_line("/etc/nvme/hostnqn").unwrap_or_else(derived),
        };
        Ok(Peer {
            target: self.address,
            subnqn: Nqn::new(subnqn).with_context(|| format!("the name {subnqn:?}"))?,
            hostnqn: Nqn::new(&hostnqn).with_context(|| format!("the name {hostnqn:?}"))?,
            hostid,
            kato_ms: self.kato,
        })
    }
}

fn read_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// An id of this machine that does not tell its machine id.
fn machine_id() -> uuid::Uuid {
    let id = read_line("/etc/machine-id").unwrap_or_else(|| "no machine id".to_owned());
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, format!("nvmf-host {id}").as_bytes())
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let ip = text.trim_start_matches('[').trim_end_matches(']');
    ip.parse()
        .map(|ip| SocketAddr::new(ip, NVME_RDMA_PORT))
        .map_err(|_| "an IP address, with or without :PORT, is wanted".to_owned())
}

/// Bytes: a number, or one with KiB, MiB or GiB.
fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err("a number of bytes is wanted: 4096, 4KiB, 256MiB, 1GiB".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "no number".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: NamespaceInfo = NamespaceInfo { nsid: 1, blocks: 100, lba_shift: 9 };

    #[test]
    fn addresses_may_leave_the_port_out() {
        assert_eq!(parse_address("10.0.0.1"), Ok("10.0.0.1:4420".parse().unwrap()));
        assert_eq!(parse_address("10.0.0.1:9"), Ok("10.0.0.1:9".parse().unwrap()));
        assert_eq!(parse_address("[fe80::1]"), Ok("[fe80::1]:4420".parse().unwrap()));
        assert_eq!(parse_address("::1"), Ok("[::1]:4420".parse().unwrap()));
        assert!(parse_address("host").is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
        assert_eq!(parse_size("512"), Ok(512));
        assert!(parse_size("4KB").is_err());
        assert!(parse_size("MiB").is_err());
        assert!(parse_size("99999999999GiB").is_err());
    }

    #[test]
    fn ranges_end_within_the_namespace() {
        let range = |slba, blocks, size| RangeArgs { nsid: 1, slba, blocks, size }.resolve(&NS);
        assert_eq!(range(90, None, None).unwrap().blocks, 10);
        assert_eq!(range(0, None, Some(1024)).unwrap().blocks, 2);
        assert!(range(90, Some(11), None).is_err());
        assert!(range(100, None, None).is_err());
        assert!(range(0, None, Some(100)).is_err());
        assert!(range(u64::MAX, Some(1), None).is_err());
    }

    #[test]
    fn commands_are_whole_blocks_within_the_limit() {
        assert_eq!(command_blocks(4096, 8192, &NS).unwrap(), 8);
        assert!(command_blocks(100, 8192, &NS).is_err());
        assert!(command_blocks(8704, 8192, &NS).is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
