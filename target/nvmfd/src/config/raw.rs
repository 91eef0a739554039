//! The configuration file as it is written: every table and key, with its place in the file.

use super::Provider;
use serde::Deserialize;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(default)]
    pub(super) listener: Vec<RawListener>,
    #[serde(default)]
    pub(super) subsystem: Vec<RawSubsystem>,
    #[serde(default)]
    pub(super) host: Vec<RawHost>,
    #[serde(default)]
    pub(super) discovery: RawDiscovery,
    #[serde(default)]
    pub(super) log: RawLog,
    #[serde(default)]
    pub(super) tuning: RawTuning,
    #[serde(default)]
    pub(super) control: RawControl,
    pub(super) metrics: Option<RawMetrics>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawControl {
    pub(super) socket: Option<Spanned<String>>,
    pub(super) mode: Option<Spanned<String>>,
    pub(super) users: Option<Spanned<Vec<Spanned<String>>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMetrics {
    pub(super) address: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawListener {
    pub(super) address: Spanned<String>,
    #[serde(default)]
    pub(super) provider: Provider,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSubsystem {
    pub(super) nqn: Spanned<String>,
    pub(super) allow_any_host: Option<Spanned<bool>>,
    pub(super) allowed_hosts: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) serial: Option<Spanned<String>>,
    pub(super) model: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) duplicate_hosts: RawDuplicates,
    pub(super) cntlids: Option<Spanned<[u16; 2]>>,
    #[serde(default)]
    pub(super) namespace: Vec<Spanned<RawNamespace>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNamespace {
    pub(super) path: Option<Spanned<String>>,
    pub(super) ram: Option<Spanned<RawSize>>,
    pub(super) null: Option<Spanned<RawSize>>,
    pub(super) size: Option<Spanned<RawSize>>,
    pub(super) nsid: Option<Spanned<u32>>,
    pub(super) block_size: Option<u32>,
    pub(super) buffered: Option<Spanned<bool>>,
    pub(super) iopoll: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) read_only: bool,
    pub(super) uuid: Option<Spanned<String>>,
    pub(super) nguid: Option<Spanned<String>>,
    pub(super) eui64: Option<Spanned<String>>,
    pub(super) limit: Option<Spanned<RawLimit>>,
    pub(super) inject: Option<Spanned<RawInject>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHost {
    pub(super) nqn: Spanned<String>,
    pub(super) limit: Spanned<RawLimit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimit {
    pub(super) iops: Option<Spanned<u64>>,
    pub(super) bandwidth: Option<Spanned<RawSize>>,
    pub(super) burst_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawDuplicates {
    #[default]
    Allow,
    OnePerListener,
    Refuse,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDiscovery {
    pub(super) nqn: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) listeners: RawTell,
    #[serde(default)]
    pub(super) referral: Vec<RawReferral>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawTell {
    #[default]
    Reachable,
    Asked,
    All,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReferral {
    pub(super) address: Spanned<String>,
    pub(super) nqn: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInject {
    #[serde(default)]
    pub(super) delay_ms: u32,
    #[serde(default)]
    pub(super) error_every: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    pub(super) level: Option<Spanned<String>>,
    pub(super) format: Option<RawFormat>,
    #[serde(default)]
    pub(super) slow_ms: u32,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawFormat {
    Text,
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTuning {
    pub(super) data_cores: Option<Spanned<u16>>,
    pub(super) cpus: Option<Spanned<Vec<usize>>>,
    pub(super) poll: Option<RawPoll>,
    pub(super) spin_us: Option<Spanned<u64>>,
    pub(super) memory: Option<Spanned<RawSize>>,
    pub(super) control_memory: Option<Spanned<RawSize>>,
    pub(super) hugepages: Option<RawHugePages>,
    pub(super) max_transfer: Option<Spanned<RawSize>>,
    pub(super) in_capsule: Option<Spanned<RawSize>>,
    pub(super) queue_depth: Option<u16>,
    pub(super) max_io_queues: Option<u16>,
    pub(super) max_queues: Option<u32>,
    pub(super) max_reads: Option<u8>,
    pub(super) shared_receive_queue: Option<bool>,
    pub(super) traffic_class: Option<u8>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawPoll {
    Adaptive,
    Always,
    Interrupt,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawHugePages {
    Auto,
    Always,
    Never,
}

/// A number of bytes, or a text like "256MiB".
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a number of bytes or a text like \"256MiB\"")]
pub(super) enum RawSize {
    Bytes(u64),
    Text(String),
}
