//! Which counts there are, and what they are called.

use super::histogram::Times;
use crate::status::{Io, Namespace, Picture};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use reactor::core::{CoreStats, Latency, Stage};
use reactor::run::Shown;
use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::Arc;

/// One scrape.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) picture: Arc<Picture>,
    /// Of the data cores.
    pub(super) cores: Vec<Shown>,
}

/// Labels of one sample.
type Labels = Vec<(&'static str, String)>;

/// The name, help and unit of a family.
struct Family(&'static str, &'static str, Option<Unit>);

/// A count of a core.
type OfCore = (Family, fn(&CoreStats) -> u64);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.daemon(&mut encoder)?;
        self.namespaces(&mut encoder)?;
        self.disks(&mut encoder)?;
        self.connections(&mut encoder)?;
        self.ends(&mut encoder)?;
        self.cores(&mut encoder)?;
        self.times(&mut encoder)?;
        self.failures(&mut encoder)
    }
}

impl Scrape {
    fn daemon(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let build = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", env!("NVMFD_COMMIT").to_owned()),
        ];
        gauges(out, Family("build", "What is running; always 1", None), [(build, 1.0)])?;
        let uptime = Family("uptime", "Time since the start", Some(Unit::Seconds));
        gauges(out, uptime, [(Vec::new(), self.picture.uptime.as_secs_f64())])?;
        let help =
            "How old these counts are: more than a moment, when the control thread is held up";
        let age = self.picture.age().as_secs_f64();
        gauges(out, Family("picture_age", help, Some(Unit::Seconds)), [(Vec::new(), age)])?;
        let queues = Family("queues", "Queues from connect request to last trace", None);
        gauges(out, queues, [(Vec::new(), self.picture.queues as f64)])?;
        let up = self.picture.listeners.iter().map(|listener| {
            let up = if listener.state == "up" { 1.0 } else { 0.0 };
            (vec![("address", listener.address.clone())], up)
        });
        gauges(out, Family("listener_up", "Whether hosts can connect there", None), up)
    }

    fn namespaces(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let all = || self.picture.namespaces();
        let by_way = |reads: fn(&Io) -> u64, writes: fn(&Io) -> u64| {
            all().flat_map(move |ns| {
                let with = |way: &str| {
                    let mut labels = of_namespace(ns);
                    labels.push(("direction", way.to_owned()));
                    labels
                };
                [(with("read"), reads(&ns.io)), (with("write"), writes(&ns.io))]
            })
        };
        let commands = Family("namespace_commands", "Commands that succeeded", None);
        counters(out, commands, by_way(|io| io.reads, |io| io.writes))?;
        let bytes = Family("namespace_data", "Bytes that they moved", Some(Unit::Bytes));
        counters(out, bytes, by_way(|io| io.read_bytes, |io| io.write_bytes))?;
        let errors = Family("namespace_medium_errors", "Commands that failed on the medium", None);
        counters(out, errors, all().map(|ns| (of_namespace(ns), ns.io.errors)))?;
        let size = Family("namespace_size", "Size as hosts see it", Some(Unit::Bytes));
        gauges(out, size, all().map(|ns| (of_namespace(ns), ns.size as f64)))?;
        let protected = Family("namespace_read_only", "Whether writes are refused", None);
        gauges(
            out,
            protected,
            all().map(|ns| (of_namespace(ns), f64::from(u8::from(ns.read_only)))),
        )?;
        let help = "Whether the disk still is what it was opened as: not cut, deleted or replaced";
        let well = all().map(|ns| (of_namespace(ns), f64::from(u8::from(ns.trouble.is_none()))));
        gauges(out, Family("namespace_disk_well", help, None), well)
    }

    /// Of the disks under the namespaces, over all cores.
    fn disks(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut disks: BTreeMap<u32, (Latency, u32)> = BTreeMap::new();
        for disk in self.shown().flat_map(|(_, shown)| &shown.disks) {
            let (latency, in_flight) = disks.entry(disk.id.0).or_default();
            *latency += disk.latency;
            *in_flight += disk.in_flight;
        }
        let each = || {
            let all = self.picture.namespaces();
            all.filter_map(|ns| Some((of_namespace(ns), *disks.get(&ns.disk)?)))
        };
        let depth = Family("disk_operations_in_flight", "Operations under way on the disk", None);
        gauges(out, depth, each().map(|(labels, (_, in_flight))| (labels, f64::from(in_flight))))?;
        let help = "How long operations on the disk took";
        let times = Family("disk_latency", help, Some(Unit::Seconds));
        samples(out, times, each().map(|(labels, (latency, _))| (labels, Times(latency))))
    }

    /// What became of connections.
    fn ends(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let stats = &self.picture.control;
        let events = [
            ("request", stats.requests),
            ("refused", stats.refused),
            ("connected", stats.connected),
            ("connect_failed", stats.connects_failed),
            ("ended", stats.ended),
            ("ended_early", stats.ended_early),
        ];
        let labelled = events.map(|(event, count)| (vec![("event", event.to_owned())], count));
        let help = "What became of connections, one for each queue";
        counters(out, Family("connection_events", help, None), labelled)?;
        let help = "Controllers that ended since their hosts were not heard in time";
        let expiries = [(Vec::new(), stats.keep_alive_expiries)];
        counters(out, Family("keep_alive_expiries", help, None), expiries)
    }

    /// How long things took on each core.
    fn times(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Part = (&'static str, &'static str, fn(&CoreStats) -> Latency);
        let parts: [Part; 3] = [
            ("command_latency", "From a command's capsule to its response", |core| {
                core.command_latency
            }),
            ("command_pull_latency", "Of that, waiting for data of the host", |core| {
                core.pull_latency
            }),
            ("command_disk_latency", "Of that, waiting for the disk", |core| core.disk_latency),
        ];
        for (name, help, latency) in parts {
            let all = self.shown().map(|(core, shown)| (of_core(core), latency(&shown.core)));
            let times = all.map(|(labels, latency)| (labels, Times(latency)));
            samples(out, Family(name, help, Some(Unit::Seconds)), times)?;
        }
        let each = self.shown().flat_map(|(core, shown)| {
            Stage::ALL.into_iter().map(move |stage| {
                let mut labels = of_core(core);
                labels.push(("stage", stage.name().to_owned()));
                (labels, Times(*shown.core.stages.of(stage)))
            })
        });
        let help = "Where one command of 61 spent its time";
        samples(out, Family("command_stage_latency", help, Some(Unit::Seconds)), each)
    }

    /// Responses that were no success.
    fn failures(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let each = self.shown().flat_map(|(core, shown)| {
            shown.failures.iter().map(move |(status, count)| {
                let mut labels = of_core(core);
                labels.push(("status", status.to_string()));
                (labels, *count)
            })
        });
        let family = Family("core_failed_responses", "Responses by their NVMe status", None);
        counters(out, family, each)
    }

    fn connections(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        #[derive(Default)]
        struct Sum {
            controllers: u32,
            io_queues: usize,
            io_commands: u64,
            io: Io,
            admin_errors: u64,
        }
        let mut hosts: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
        for connection in &self.picture.connections {
            let sum = hosts.entry((&connection.host, &connection.subsystem)).or_default();
            sum.controllers += 1;
            sum.io_queues += connection.io_queues;
            sum.io_commands += connection.io_commands;
            sum.io += connection.io;
            sum.admin_errors += connection.admin_errors;
        }
        let labels = |(host, subsystem): &(&str, &str)| {
            vec![("host", (*host).to_owned()), ("subsystem", (*subsystem).to_owned())]
        };
        let controllers = Family("host_controllers", "Controllers of a host", None);
        let values = hosts.iter().map(|(names, sum)| (labels(names), f64::from(sum.controllers)));
        gauges(out, controllers, values)?;
        let queues = Family("host_io_queues", "I/O queues of a host", None);
        gauges(
            out,
            queues,
            hosts.iter().map(|(names, sum)| (labels(names), sum.io_queues as f64)),
        )?;
        let help = "I/O commands received on the queues that a host has now";
        let commands = Family("host_commands", help, None);
        counters(out, commands, hosts.iter().map(|(names, sum)| (labels(names), sum.io_commands)))?;
        let help = "Bytes that commands moved on the queues that a host has now";
        let data = Family("host_data", help, Some(Unit::Bytes));
        let moved = hosts.iter().flat_map(|(names, sum)| {
            [("read", sum.io.read_bytes), ("write", sum.io.write_bytes)].map(|(way, bytes)| {
                let mut labels = labels(names);
                labels.push(("direction", way.to_owned()));
                (labels, bytes)
            })
        });
        counters(out, data, moved)?;
        let errors = Family(
            "host_admin_errors",
            "Admin commands that failed on the controllers that a host has now",
            None,
        );
        let values = hosts.iter().map(|(names, sum)| (labels(names), sum.admin_errors as f64));
        gauges(out, errors, values)
    }

    fn cores(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let counts: [OfCore; 25] = [
            (Family("core_turns", "Turns of a core's loop", None), |core| core.turns),
            (Family("core_busy_turns", "Turns that found work", None), |core| core.busy_turns),
            (Family("core_capsules", "Commands received", None), |core| core.capsules),
            (Family("core_responses", "Responses sent", None), |core| core.responses),
            (Family("core_rdma_reads", "RDMA READs posted", None), |core| core.reads),
            (Family("core_rdma_writes", "RDMA WRITEs posted", None), |core| core.writes),
            (Family("core_disk_operations", "Operations on disks", None), |core| core.ios),
            (Family("core_disk_errors", "Operations that disks failed", None), |core| {
                core.io_errors
            }),
            (Family("core_admin_commands", "Commands for the control thread", None), |core| {
                core.executes
            }),
            (Family("core_turn_waits", "Commands that waited for a limit", None), |core| {
                core.turn_waits
            }),
            (Family("core_claim_waits", "Operations that waited for a fused pair", None), |core| {
                core.claim_waits
            }),
            (
                Family("core_receives_vacated", "Writes moved out of scarce receives", None),
                |core| core.vacated,
            ),
            (Family("core_buffer_waits", "Commands that waited for a buffer", None), |core| {
                core.buffer_waits
            }),
            (Family("core_read_waits", "Waits for an RDMA READ credit", None), |core| {
                core.read_waits
            }),
            (
                Family("core_window_waits", "Turns in which RDMA READs waited for others", None),
                |core| core.window_waits,
            ),
            (Family("core_send_waits", "Waits for a send credit", None), |core| core.send_waits),
            (Family("core_queues_attached", "Queues taken in", None), |core| core.attached),
            (Family("core_queues_refused", "Queues refused for lack of memory", None), |core| {
                core.refused
            }),
            (
                Family("core_queue_faults", "Queues ended by a fault or a broken rule", None),
                |core| core.faults,
            ),
            (Family("core_packets_received", "Packets taken in", None), |core| core.wire.received),
            (Family("core_packets_sent", "Packets sent", None), |core| core.wire.sent),
            (Family("core_packets_resent", "Packets sent again", None), |core| core.wire.resent),
            (Family("core_packets_discarded", "Packets damaged or for nobody", None), |core| {
                core.wire.discarded
            }),
            (Family("core_congestion_notifications", "Of the network", None), |core| {
                core.wire.congestion
            }),
            (Family("core_queue_pairs_failed", "Queue pairs that failed", None), |core| {
                core.wire.failed
            }),
        ];
        for (family, count) in counts {
            counters(out, family, self.each_core(count))?;
        }
        let levels: [OfCore; 3] = [
            (Family("core_queues", "Queues of a core now", None), |core| core.queues),
            (Family("core_transfer_memory", "Buffers in use now", Some(Unit::Bytes)), |core| {
                core.transfer_bytes
            }),
            (
                Family("core_receive_memory", "Memory for receives in use now", Some(Unit::Bytes)),
                |core| core.standing_bytes,
            ),
        ];
        for (family, level) in levels {
            let values = self.each_core(level);
            gauges(out, family, values.map(|(labels, value)| (labels, value as f64)))?;
        }
        Ok(())
    }

    /// A number of each core, the control thread's first.
    fn each_core(&self, number: fn(&CoreStats) -> u64) -> impl Iterator<Item = (Labels, u64)> + '_ {
        self.shown().map(move |(core, shown)| (of_core(core), number(&shown.core)))
    }

    /// What the cores show, the control thread's first.
    fn shown(&self) -> impl Iterator<Item = (usize, &Shown)> + '_ {
        std::iter::once(&self.picture.control_core).chain(&self.cores).enumerate()
    }
}

fn of_core(core: usize) -> Labels {
    vec![("core", core.to_string())]
}

fn of_namespace(namespace: &Namespace) -> Labels {
    let nsid = namespace.nsid.to_string();
    vec![("subsystem", namespace.subsystem.clone()), ("nsid", nsid)]
}

fn counters(
    out: &mut DescriptorEncoder<'_>,
    family: Family,
    values: impl IntoIterator<Item = (Labels, u64)>,
) -> Result<(), Error> {
    samples(out, family, values.into_iter().map(|(labels, n)| (labels, ConstCounter::new(n))))
}

fn gauges(
    out: &mut DescriptorEncoder<'_>,
    family: Family,
    values: impl IntoIterator<Item = (Labels, f64)>,
) -> Result<(), Error> {
    samples(out, family, values.into_iter().map(|(labels, n)| (labels, ConstGauge::new(n))))
}

fn samples<M: EncodeMetric>(
    out: &mut DescriptorEncoder<'_>,
    Family(name, help, unit): Family,
    values: impl Iterator<Item = (Labels, M)>,
) -> Result<(), Error> {
    let mut values = values.peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let kind = first.metric_type();
    let mut family = out.encode_descriptor(name, help, unit.as_ref(), kind)?;
    for (labels, value) in values {
        value.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
