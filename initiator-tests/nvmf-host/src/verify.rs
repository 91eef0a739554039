//! `verify`: writes a pattern over a range, reads it back, and says which block is wrong.

use crate::args::VerifyArgs;
use crate::output::say;
use crate::pattern::Pattern;
use crate::progress;
use crate::pump::{Io, Op, Pace, Portions, Work, pump};
use crate::session::Session;
use anyhow::{Result, bail};
use initiator::NamespaceInfo;
use nvme_spec_types::Completion;
use rdma::{Connector, HostDevice};
use std::time::Instant;

/// One pass over the range.
struct Pass {
    portions: Portions,
    pattern: Pattern,
    lba_len: usize,
    expected: Vec<u8>,
    /// Commands ended so far, and after how many to cut the connections, last first.
    ended: u64,
    cuts: Vec<u64>,
}

impl Work for Pass {
    fn next(&mut self) -> Option<Io> {
        self.portions.next()
    }

    fn fill(&mut self, io: &Io, buffer: &mut [u8]) -> Result<()> {
        for (lba, block) in (io.slba..).zip(buffer.chunks_mut(self.lba_len)) {
            self.pattern.fill(lba, block);
        }
        Ok(())
    }

    fn done(&mut self, io: &Io, completion: &Completion, data: &[u8]) -> Result<()> {
        self.ended += 1;
        if !completion.status.is_success() {
            bail!("{:?} of blocks {}+{}: {}", io.op, io.slba, io.blocks, completion.status);
        }
        for (lba, block) in (io.slba..).zip(data.chunks(self.lba_len)) {
            if let Some(wrong) = self.pattern.check(lba, block, &mut self.expected) {
                bail!("{wrong}");
            }
        }
        Ok(())
    }

    fn cut_due(&mut self) -> bool {
        let due = self.cuts.last().is_some_and(|&at| at <= self.ended);
        if due {
            self.cuts.pop();
        }
        due
    }
}

/// Writes and checks, as often as asked.
///
/// # Errors
/// At the first block that is wrong, and when a command fails.
pub(crate) fn run<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    args: &VerifyArgs,
    ns: NamespaceInfo,
) -> Result<()> {
    let range = args.range.resolve(&ns)?;
    let blocks = args.pace.blocks(&ns, session.host.info())?;
    let bytes = range.blocks << ns.lba_shift;
    let commands = range.blocks.div_ceil(u64::from(blocks));
    for pass in 1..=args.passes {
        let pattern = Pattern { seed: args.seed, generation: args.generation + pass - 1 };
        for (op, what) in [(Op::Write, "write"), (Op::Read, "check")] {
            if op == Op::Write && args.read_only {
                continue;
            }
            let cuts = u64::from(args.kill_and_reconnect);
            let mut work = Pass {
                portions: Portions::new(op, range.slba, range.blocks, blocks),
                pattern,
                lba_len: 1 << ns.lba_shift,
                expected: vec![0; 1 << ns.lba_shift],
                ended: 0,
                cuts: (1..=cuts).rev().map(|cut| commands * cut / (cuts + 1)).collect(),
            };
            let bar = progress::bytes(what, bytes);
            let began = Instant::now();
            let pace = Pace { depth: args.pace.depth, blocks };
            pump(session, ns, pace, &mut work, &bar)?;
            bar.finish_and_clear();
            let seconds = began.elapsed().as_secs_f64();
            say!(
                "{what} {:.1} MiB in {seconds:.2} s, {:.0} MB/s, generation {}{}",
                bytes as f64 / f64::from(1 << 20),
                bytes as f64 / 1e6 / seconds,
                pattern.generation,
                if cuts > 0 { format!(", connections cut {cuts} times") } else { String::new() },
            );
        }
    }
    say!("verified: every block is as written");
    Ok(())
}
