//! `nvmfd doctor --peer`: whether RDMA to another machine is alive, and how fast; and
//! `nvmfd doctor --serve`, which answers such tests over there.
//!
//! # Contract
//! - Everything goes through the RDMA seam, on an RDMA device or on the endpoint of this program:
//!   what is measured is what a daemon would get.
//! - The asking side opens memory of its own and says where it is; the answering side reads and
//!   writes there, as a target does with its host. The answering side opens nothing: a stranger who
//!   finds it can make it work and no more, one at a time and for a bounded time.
//! - One kind of request serves whoever listens: it is a host's for an admin queue, with a greeting
//!   behind it. A target accepts the one and an answering doctor the other, so RDMA to a running
//!   daemon is shown to be alive with nothing to be started there.
//!
//! `way` finds what leads there, `end` is one side of a connection, `message` what the sides say,
//! `ask` and `serve` are the sides, `times` is what is counted, and `judge` makes findings of an
//! [`Outcome`](ask::Outcome) without a look at anything else.

mod ask;
mod end;
mod judge;
mod message;
mod serve;
#[cfg(test)]
mod tests;
mod times;
mod way;

use super::{finding::Level, show};
use crate::RUN_ERROR;
use crate::config::Provider;
use crate::provider::Choice;
use end::{End, REGION_LEN};
use rdma::{Connector, CoreIndex, HostDevice};
use region::{Pages, Region};
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Where a doctor answers, unless told otherwise: a port of RDMA that is nobody's, near NVMe's.
pub(crate) const ANSWERING_PORT: u16 = 4429;

/// The core whose device is used: there is no other.
const CORE: CoreIndex = CoreIndex(0);

/// An address with a port, or with the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Port 0 stands for the usual one.
    address: SocketAddr,
}

impl Place {
    /// Reads an address.
    ///
    /// # Errors
    /// What is allowed, in words.
    pub(crate) fn parse(text: &str) -> Result<Place, String> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let alone = bare.parse().map(|ip| SocketAddr::new(ip, 0));
        let address: SocketAddr = alone.clone().or_else(|_| text.parse()).map_err(|_| {
            format!("\"{text}\" is no address: write 10.0.0.2, 10.0.0.2:4420 or [fd00::2]:4420")
        })?;
        if alone.is_err() && address.port() == 0 {
            return Err("0 is not a port: use 1 to 65535, or leave it out".to_owned());
        }
        if address.ip().is_unspecified() {
            return Err(format!("{} stands for every address: give one of them", address.ip()));
        }
        Ok(Place { address })
    }

    /// The port that was given.
    fn port(self) -> Option<u16> {
        Some(self.address.port()).filter(|port| *port != 0)
    }

    fn at(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address.ip(), port)
    }
}

/// Tests RDMA to a peer, measures each bandwidth for `time`, and prints what there is to say.
/// Succeeds if RDMA is alive.
pub(crate) fn ask(place: Place, provider: Provider, time: Duration, json: bool) -> ExitCode {
    let outcome = ask::outcome(place, provider, time);
    let findings = judge::findings(&outcome);
    let text = if json {
        show::json_with(&findings, outcome.measured())
    } else {
        show::text(&findings, show::wants_colour())
    };
    let status = match show::worst(&findings) {
        Level::Fault => ExitCode::from(RUN_ERROR),
        _ => ExitCode::SUCCESS,
    };
    crate::output::end(text, status)
}

/// Answers tests at an address until the process is ended.
pub(crate) fn serve(place: Place, provider: Provider) -> ExitCode {
    let address = place.at(place.port().unwrap_or(ANSWERING_PORT));
    let choice = way::at(address, provider);
    let why = match with_provider(&choice, serve::Answering { address, choice: &choice }) {
        Ok(why) | Err(why) => why,
    };
    let _ = writeln!(std::io::stderr(), "{why}");
    ExitCode::from(RUN_ERROR)
}

/// Something to be done with one end, whatever the RDMA provider.
trait Act {
    type Output;

    fn act<M, D>(self, end: End<M, D>) -> Self::Output
    where
        M: Connector<Endpoint = D::Endpoint>,
        D: HostDevice;
}

/// Does it with the provider that was chosen.
///
/// # Errors
/// What this machine or this program lacks, and what to do.
fn with_provider<A: Act>(choice: &Choice, act: A) -> Result<A::Output, String> {
    let region = Region::map(REGION_LEN, Pages::Normal).map_err(|error| error.to_string())?;
    let region = Arc::new(region);
    match choice {
        Choice::Soft(_) => {
            let config = soft_roce::Config { cores: 1, shared_recv_depth: 0, ..Default::default() };
            let mut manager = soft_roce::Manager::new(config);
            let device = manager.open_device(region.clone());
            Ok(act.act(End::new(manager, device, region)))
        }
        #[cfg(feature = "verbs")]
        Choice::Verbs(_) => {
            let config = rdma_verbs::VerbsConfig {
                shared_recv_depth: 0,
                cq_entries: 256,
                ..Default::default()
            };
            let mut manager = rdma_verbs::Verbs::new(config).map_err(|error| error.to_string())?;
            let device = manager.open_device(CORE, region.clone());
            Ok(act.act(End::new(manager, device, region)))
        }
        #[cfg(not(feature = "verbs"))]
        Choice::Verbs(_) => Err("verbs is not built in: build with the feature `verbs`, or use \
                                 --provider soft"
            .to_owned()),
    }
}
