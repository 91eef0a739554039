//! `raw`: a capsule of any content, on a connection that is otherwise in good order.

mod capsule;
mod error_log;

use crate::args::RawArgs;
use crate::output::{put, say};
use crate::provider::Provider;
use crate::session::{INTERRUPTED, Peer, Shape};
use crate::transfer::hex_dump;
use anyhow::{Context, Result, bail};
use capsule::Capsule;
use initiator::{Bare, BareEvent, BareQueue};
use nvme_spec_types::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAttributes, ConnectData, ConnectResponse, PropertyGet,
    PropertySet, PropertySize,
};
use nvme_spec_types::property::{CC_OFFSET, CSTS_OFFSET, Cc, Csts};
use nvme_spec_types::rdma_cm::{CmReject, CmRequest};
use nvme_spec_types::{Completion, SglDescriptor, ZeroBased};
use rdma::{Access, CoreIndex, Now};
use region::Span;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Entries of both queues.
const ENTRIES: u16 = 32;
/// How long each step of connecting may take.
const STEP_WITHIN: Duration = Duration::from_secs(5);
/// Command identifiers of our own, out of the way of the user's.
const OWN_CID: u16 = 0xf000;

struct Wire<'a, P: Provider> {
    bare: Bare<P::Manager, P::Device>,
    start: Instant,
    peer: &'a Peer,
}

impl<P: Provider> Wire<'_, P> {
    fn now(&self) -> Now {
        self.start.elapsed()
    }

    /// The next event, or `None` at the deadline.
    fn next(&mut self, deadline: Now) -> Result<Option<BareEvent>> {
        loop {
            if INTERRUPTED.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if let Some(event) = self.bare.poll_event() {
                return Ok(Some(event));
            }
            let now = self.now();
            if now >= deadline {
                return Ok(None);
            }
            if !self.bare.turn(now) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// A connection for queue `qid`.
    fn open(&mut self, qid: u16, cntlid: u16) -> Result<BareQueue> {
        let hsqsize = ZeroBased::<u16>::saturating(u32::from(ENTRIES));
        let request = CmRequest { recfmt: 0, qid, hrqsize: ENTRIES, hsqsize, cntlid };
        let now = self.now();
        let queue = self.bare.open(now, &request.to_bytes(), ENTRIES, 16)?;
        match self.next(now + STEP_WITHIN)? {
            Some(BareEvent::Connected { .. }) => Ok(queue),
            Some(BareEvent::Refused { reason, private_data, .. }) => {
                match CmReject::parse(&private_data) {
                    Ok(reject) => bail!("connection refused: {reason}: {}", reject.sts),
                    Err(_) => bail!("connection refused: {reason}"),
                }
            }
            Some(event) => bail!("instead of a connection came {event:?}"),
            None => bail!("no connection within {} s", STEP_WITHIN.as_secs()),
        }
    }

    /// Sends a command of our own and waits for its completion.
    fn ask(&mut self, what: &str, queue: BareQueue, message: &[u8]) -> Result<Completion> {
        if !self.bare.send(queue, message) {
            bail!("{what}: the queue takes no message");
        }
        match self.next(self.now() + STEP_WITHIN)? {
            Some(BareEvent::Message { bytes, .. }) => {
                let completion = Completion::parse(&bytes).context("the response")?;
                if !completion.status.is_success() {
                    bail!("{what}: {}", completion.status);
                }
                Ok(completion)
            }
            Some(event) => bail!("{what}: instead of a response came {event:?}"),
            None => bail!("{what}: no response within {} s", STEP_WITHIN.as_secs()),
        }
    }

    /// Connect on queue `qid`.
    fn connect(&mut self, queue: BareQueue, qid: u16, cntlid: u16) -> Result<u16> {
        let Peer { hostid, subnqn, hostnqn, .. } = self.peer;
        let data = ConnectData::new(*hostid, cntlid, subnqn, hostnqn).to_bytes();
        let span = self.bare.arena().alloc(data.len() as u32).context("no memory")?;
        self.bare.region().write(span, &data);
        let remote =
            self.bare.lend(queue, span, Access::RemoteRead).context("cannot open memory")?;
        let connect = Connect {
            cid: OWN_CID,
            sgl1: SglDescriptor::Keyed {
                addr: remote.addr,
                len: span.len(),
                key: remote.rkey,
                invalidate: false,
            },
            recfmt: 0,
            qid,
            sqsize: ZeroBased::<u16>::saturating(u32::from(ENTRIES)),
            cattr: ConnectAttributes::empty(),
            kato_ms: 0,
        };
        let completion = self.ask("Connect", queue, connect.to_command().as_bytes())?;
        Ok(ConnectResponse::from_dw0(completion.dw0).cntlid)
    }

    /// Sets CC.EN and waits for CSTS.RDY.
    fn enable(&mut self, queue: BareQueue) -> Result<()> {
        let cc = Cc::default().with_en(true).with_iosqes(6).with_iocqes(4);
        let (cid, size) = (OWN_CID, PropertySize::Four);
        let set = PropertySet { cid, size, offset: CC_OFFSET, value: u64::from(cc.0) };
        self.ask("Property Set", queue, set.to_command().as_bytes())?;
        let get = PropertyGet { cid, size, offset: CSTS_OFFSET };
        let deadline = self.now() + STEP_WITHIN;
        while self.now() < deadline {
            let completion = self.ask("Property Get", queue, get.to_command().as_bytes())?;
            if Csts(completion.dw0).rdy() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("the controller is not ready within {} s", STEP_WITHIN.as_secs())
    }

    /// The queue that the user's capsule goes to.
    fn prepare(&mut self, args: &RawArgs) -> Result<BareQueue> {
        let admin = self.open(0, 0)?;
        if args.no_connect {
            return Ok(admin);
        }
        let cntlid = self.connect(admin, 0, CNTLID_DYNAMIC)?;
        if !args.disabled {
            self.enable(admin)?;
        }
        if args.queue == 0 {
            return Ok(admin);
        }
        let queue = self.open(args.queue, cntlid)?;
        self.connect(queue, args.queue, cntlid)?;
        Ok(queue)
    }
}

/// Sends and prints.
///
/// # Errors
/// When the connection cannot be had or the capsule is no JSON or hexadecimal text.
pub(crate) fn run<P: Provider>(peer: &Peer, args: &RawArgs) -> Result<()> {
    let capsule = Capsule::of(args)?;
    let region = Shape::ADMIN.map()?;
    let mut manager = P::open(1)?;
    let device = P::device(&mut manager, CoreIndex(0), region.clone());
    let bare = Bare::new(peer.target, CoreIndex(0), region, manager, device);
    let mut wire = Wire::<P> { bare, start: Instant::now(), peer };
    let queue = wire.prepare(args)?;
    let (data, descriptor) = lend(&mut wire, queue, args)?;
    for index in 0..args.count {
        if !wire.bare.send(queue, &capsule.bytes(index, descriptor)) {
            bail!("the queue takes no more than {index} messages at a time");
        }
    }
    let deadline = wire.now() + Duration::from_millis(args.wait);
    let mut answers = 0;
    while answers < args.count {
        match wire.next(deadline)? {
            Some(BareEvent::Message { queue: of, bytes, invalidated }) if of == queue => {
                answers += 1;
                print_response(&bytes, invalidated);
                if args.error_log
                    && let Ok(completion) = Completion::parse(&bytes)
                {
                    wire.show_error_log(args.queue, completion.cid)?;
                }
            }
            Some(BareEvent::Gone { queue: of, reason }) if of == queue => {
                say!("the connection ended: {reason}");
                return Ok(());
            }
            Some(event) => say!("{event:?}"),
            None => {
                say!("{} answers are missing after {} ms", args.count - answers, args.wait);
                break;
            }
        }
    }
    if let (Some(span), Some(_)) = (data, args.read) {
        let mut bytes = vec![0; span.len() as usize];
        wire.bare.region().read(span, &mut bytes);
        put!("{}", hex_dump(0, &bytes));
    }
    // Connections end with the process; told to, the target learns it at once.
    for at in 0..2 {
        let now = wire.now();
        wire.bare.close(now, BareQueue(at));
    }
    let deadline = wire.now() + Duration::from_millis(200);
    while let Some(BareEvent::Gone { .. }) = wire.next(deadline)? {}
    Ok(())
}

/// Opens the memory that the user asked for.
fn lend<P: Provider>(
    wire: &mut Wire<'_, P>,
    queue: BareQueue,
    args: &RawArgs,
) -> Result<(Option<Span>, Option<SglDescriptor>)> {
    let (bytes, access) = match (args.read, &args.write) {
        (Some(len), _) => (vec![0; usize::try_from(len)?], Access::RemoteWrite),
        (None, Some(path)) => {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            (bytes, Access::RemoteRead)
        }
        (None, None) => return Ok((None, None)),
    };
    let len = u32::try_from(bytes.len())?;
    let span = wire.bare.arena().alloc(len).context("at most 16 MiB of memory can be opened")?;
    wire.bare.region().write(span, &bytes);
    let remote = wire.bare.lend(queue, span, access).context("cannot open memory")?;
    let (addr, key) = (remote.addr, remote.rkey);
    Ok((Some(span), Some(SglDescriptor::Keyed { addr, len, key, invalidate: false })))
}

fn print_response(bytes: &[u8], invalidated: Option<u32>) {
    match Completion::parse(bytes) {
        Ok(completion) if bytes.len() == 16 => say!(
            "cid {:#06x}: {} (sct {:#x}, sc {:#04x}); dw0 {:#010x}, dw1 {:#010x}, sqid {}, sqhd {}",
            completion.cid,
            completion.status,
            completion.status.sct().0,
            completion.status.sc(),
            completion.dw0,
            completion.result64() >> 32,
            completion.sqid,
            completion.sqhd,
        ),
        _ => put!("a message of {} bytes:\n{}", bytes.len(), hex_dump(0, bytes)),
    }
    if let Some(rkey) = invalidated {
        say!("key {rkey:#x} was invalidated with it");
    }
}
