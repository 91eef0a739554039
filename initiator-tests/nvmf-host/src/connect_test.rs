//! `connect-test`: connects and leaves, again and again, as fast as it goes or at a given rate.

use crate::args::ConnectArgs;
use crate::output::say;
use crate::provider::Provider;
use crate::session::{INTERRUPTED, Peer, Session, Shape, host_config};
use anyhow::{Context, Result, bail};
use rdma::CoreIndex;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Connects and leaves as often as asked, and says how long connecting took.
///
/// # Errors
/// When one attempt fails.
pub(crate) fn run<P: Provider>(peer: &Peer, args: &ConnectArgs) -> Result<()> {
    let between = match args.rate {
        None => Duration::ZERO,
        Some(rate) if rate > 0.0 => Duration::try_from_secs_f64(1.0 / rate).context("--rate")?,
        Some(_) => bail!("--rate must be more than 0"),
    };
    let shape = Shape { queues: args.queues, depth: args.depth, data: 0 };
    let region = shape.map()?;
    let mut manager = P::open(1)?;
    let core = CoreIndex(0);
    let device = P::device(&mut manager, core, region.clone());
    let mut session = Session::new(host_config(peer, &shape, core), region, manager, device);
    session.set_spin(args.spin.time());
    let mut times = Vec::new();
    let mut about = String::new();
    let start = Instant::now();
    for number in 0..args.count {
        let due = between * number;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        if INTERRUPTED.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let began = Instant::now();
        session.connect()?;
        times.push(began.elapsed());
        let host = &session.host;
        about = format!(
            "controller {}, {} I/O queues of {} entries, {} namespaces, transfers up to {} bytes, \
             {} bytes in a capsule",
            host.cntlid(),
            host.io_queues(),
            host.entries(1),
            host.namespaces().len(),
            host.info().max_transfer.map_or_else(|| "any".to_owned(), |max| max.to_string()),
            host.info().in_capsule,
        );
        session.leave();
    }
    let seconds = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let (Some(least), Some(most)) = (times.first(), times.last()) else { return Ok(()) };
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let middle = &times[times.len() / 2];
    say!("{about}");
    say!(
        "connected {} times: {:.2} ms at least, {:.2} ms in the middle, {:.2} ms at most",
        times.len(),
        ms(least),
        ms(middle),
        ms(most)
    );
    if let Some(path) = &args.json {
        let figures = json!({
            "connects": times.len(),
            "per_s": times.len() as f64 / seconds,
            "connect_ms": { "min": ms(least), "p50": ms(middle), "max": ms(most) },
        });
        let text = serde_json::to_string_pretty(&figures)? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
