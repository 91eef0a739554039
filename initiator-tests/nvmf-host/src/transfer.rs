//! `read`, `write`, `compare` and `flush`.

use crate::args::{IoArgs, Source};
use crate::output::{put, say, write_bytes};
use crate::progress;
use crate::pump::{Io, Op, Pace, Portions, Work, pump};
use crate::session::{Data, Session};
use anyhow::{Context, Result, bail};
use initiator::{NamespaceInfo, commands};
use nvme_spec_types::Completion;
use rdma::{Connector, HostDevice};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where read data goes.
enum Sink {
    /// In hexadecimal, for a person.
    Hex,
    Stdout,
    File(File),
}

struct Copy {
    portions: Portions,
    first: u64,
    lba_shift: u8,
    source: Box<dyn Read>,
    sink: Sink,
    differ: Vec<u64>,
}

impl Work for Copy {
    fn next(&mut self) -> Option<Io> {
        self.portions.next()
    }

    fn fill(&mut self, _io: &Io, buffer: &mut [u8]) -> Result<()> {
        let mut at = 0;
        while at < buffer.len() {
            match self.source.read(&mut buffer[at..]).context("reading the input")? {
                0 => break,
                count => at += count,
            }
        }
        if at < buffer.len() {
            bail!("the input became shorter meanwhile");
        }
        Ok(())
    }

    fn done(&mut self, io: &Io, completion: &Completion, data: &[u8]) -> Result<()> {
        /// Compare Failure (NVM Command Set 1.1, 3.3.1).
        const COMPARE_FAILURE: (u8, u8) = (2, 0x85);
        let status = completion.status;
        if io.op == Op::Compare && (status.sct().0, status.sc()) == COMPARE_FAILURE {
            self.differ.push(io.slba);
            return Ok(());
        }
        if !status.is_success() {
            bail!("{:?} of blocks {}+{}: {status}", io.op, io.slba, io.blocks);
        }
        let offset = (io.slba - self.first) << self.lba_shift;
        match &mut self.sink {
            Sink::Hex => put!("{}", hex_dump(io.slba << self.lba_shift, data)),
            Sink::Stdout => write_bytes(data),
            Sink::File(file) => file.write_all_at(data, offset).context("writing the output")?,
        }
        Ok(())
    }
}

/// Lines of sixteen bytes with their address; a line that only repeats the one before is left out.
pub(crate) fn hex_dump(start: u64, data: &[u8]) -> String {
    let mut out = String::new();
    let mut last: &[u8] = &[];
    let mut skipped = false;
    for (index, line) in data.chunks(16).enumerate() {
        if line == last {
            if !skipped {
                out.push_str("*\n");
            }
            skipped = true;
            continue;
        }
        (last, skipped) = (line, false);
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = line.iter().map(text).collect();
        out.push_str(&format!(
            "{:010x}  {:<47}  {text}\n",
            start + index as u64 * 16,
            hex.join(" ")
        ));
    }
    out
}

/// Reads, writes or compares a range.
///
/// # Errors
/// When a file cannot be used, a command fails, or a comparison finds a difference.
pub(crate) fn run<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    op: Op,
    args: &IoArgs,
    ns: NamespaceInfo,
) -> Result<()> {
    let max = args.pace.blocks(&ns, session.host.info())?;
    let mut range = args.range.resolve(&ns)?;
    let mut source: Box<dyn Read> = Box::new(std::io::empty());
    let mut sink = Sink::Hex;
    let mut depth = args.pace.depth;
    if op == Op::Read {
        if args.byte.is_some() {
            bail!("--byte is for write and compare: read takes --file or nothing");
        }
        sink = match &args.file {
            None => Sink::Hex,
            Some(path) if path == Path::new("-") => Sink::Stdout,
            Some(path) => {
                Sink::File(File::create(path).with_context(|| path.display().to_string())?)
            }
        };
        if !matches!(sink, Sink::File(_)) {
            depth = 1; // in order
        }
    } else {
        let (bytes, reader) = match args.source()? {
            Source::File(file, len) => (Some(len), Box::new(file) as Box<dyn Read>),
            Source::Bytes(bytes) => {
                (Some(bytes.len() as u64), Box::new(std::io::Cursor::new(bytes)) as Box<dyn Read>)
            }
            Source::Repeat(byte) => (None, Box::new(std::io::repeat(byte)) as Box<dyn Read>),
        };
        source = reader;
        if let Some(bytes) = bytes {
            range.blocks = blocks_of(bytes, range.blocks, args.range.has_length(), ns.lba_shift)?;
        }
    }
    if op == Op::Read && matches!(sink, Sink::Hex) && !args.range.has_length() {
        range.blocks = 1; // what fits a screen
    }
    let mut work = Copy {
        portions: Portions::new(op, range.slba, range.blocks, max),
        first: range.slba,
        lba_shift: ns.lba_shift,
        source,
        sink,
        differ: Vec::new(),
    };
    let total = range.blocks << ns.lba_shift;
    let bar = progress::bytes("copy", total);
    pump(session, ns, Pace { depth, blocks: max }, &mut work, &bar)?;
    bar.finish_and_clear();
    work.differ.sort_unstable();
    match work.differ.first() {
        Some(first) => {
            bail!("{} commands found a difference, the first at block {first}", work.differ.len())
        }
        None if op == Op::Read => {}
        None => say!("{op:?}: {} blocks from {}, {total} bytes", range.blocks, range.slba),
    }
    Ok(())
}

/// How many blocks an input of `bytes` bytes is, of which `room` is what was asked for or what there
/// is. Nothing is filled up: what is not written would look as if it were.
fn blocks_of(bytes: u64, room: u64, was_asked: bool, lba_shift: u8) -> Result<u64> {
    let block = 1u64 << lba_shift;
    if was_asked && bytes < room << lba_shift {
        bail!("the input has {bytes} bytes, fewer than the {} asked for", room << lba_shift);
    }
    if was_asked {
        return Ok(room);
    }
    if bytes == 0 || bytes > room << lba_shift {
        bail!("the input has {bytes} bytes: {block} to {} fit there", room << lba_shift);
    }
    if !bytes.is_multiple_of(block) {
        bail!(
            "the input has {bytes} bytes, which are not whole blocks of {block}: extend it \
             (truncate --size=%{block} FILE), or say how much of it to take (--blocks)"
        );
    }
    Ok(bytes / block)
}

/// Flush.
///
/// # Errors
/// When the command fails.
pub(crate) fn flush<C: Connector, D: HostDevice<Endpoint = C::Endpoint>>(
    session: &mut Session<C, D>,
    nsid: u32,
) -> Result<()> {
    session.must("Flush", 1, commands::flush(nsid), Data::None)?;
    say!("flushed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::hex_dump;

    #[test]
    fn a_dump_leaves_out_lines_that_repeat() {
        let mut data = [0u8; 64];
        data[48..52].copy_from_slice(b"nvme");
        let dump = hex_dump(512, &data);
        let lines: Vec<&str> = dump.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("0000000200  00 00"), "{dump}");
        assert_eq!(lines[1], "*");
        assert!(lines[2].starts_with("0000000230  6e 76 6d 65 00"), "{dump}");
        assert!(lines[2].ends_with("nvme............"), "{dump}");
    }
}
