//! What a guest is told of changed namespaces, and whether that is all of it and nothing else.
//!
//! A host that was told reads which ones, and by that lets the controller tell it again. So every
//! change while it is connected reaches it, whether it came alone or with others.

use super::ask::Extent;
use super::{Guest, Kind, Moment, Op, Shared};
use initiator::{HostState, Payload, Request, commands};
use nvme_spec_types::AsyncEvent;
use rdma::Access;

/// Log page of changed namespaces (NVMe Base 2.1, 5.1.12.1.5), and its length.
const CHANGED: (u8, u32) = (0x04, 4096);
/// In place of the list: more changed than it holds.
const TOO_MANY: u32 = u32::MAX;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct News {
    /// It was told, and has not asked which ones.
    told: bool,
    /// What changed up to the first moment was read for certain, and after the second for certain
    /// not. While not connected, nothing is to be read.
    read: Option<(Moment, Moment)>,
}

impl News {
    /// A controller came into use which was made after `since`.
    pub(super) fn begin(&mut self, since: Moment, now: Moment) {
        *self = News { told: false, read: Some((since, now)) };
    }

    pub(super) fn end(&mut self) {
        *self = News::default();
    }

    pub(super) fn on_event(&mut self, dw0: u32) {
        self.told |= dw0 == AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED.to_dw0();
    }
}

impl Guest {
    /// Whether it knows of all changes that it must have been told of.
    pub fn is_informed(&self, shared: &Shared) -> bool {
        let unread = |until| shared.changes.iter().any(|&(made, _)| made > until);
        let read = self.news.read.filter(|_| self.host.state() == HostState::Live);
        !self.news.told && !read.is_some_and(|(_, until)| unread(until))
    }

    /// Asks what changed if it was told that something did.
    pub(super) fn read_news(&mut self, shared: &mut Shared) -> bool {
        if !self.news.told {
            return false;
        }
        let (page, len) = CHANGED;
        let Some(spans) = self.memory(len, 1) else { return false };
        let (access, invalidate) = (Access::RemoteWrite, self.config.invalidate);
        let data = Payload::Keyed { spans: spans.clone(), access, invalidate };
        let command = commands::get_log_page(page, u32::MAX, 0, len, false);
        let token = shared.token();
        let asked = self.submit(
            shared,
            Request { command, data, token },
            Kind::Changed,
            Extent::NONE,
            spans,
        );
        self.news.told &= !asked;
        asked
    }

    /// Whether the list holds what changed since the one before, and nothing that did not.
    pub(super) fn check_news(&mut self, op: &Op, shared: &mut Shared) -> Result<(), String> {
        let Some((surely, until)) = self.news.read else { return Ok(()) };
        let bytes = self.take(&op.spans);
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let listed: Vec<u32> = bytes.chunks_exact(4).map(word).take_while(|&id| id != 0).collect();
        let now = shared.tick();
        let changed = |nsid, after, before| {
            let within = |&(made, id): &(Moment, u32)| id == nsid && made > after && made < before;
            shared.changes.iter().any(within)
        };
        self.news.read = Some((op.issued, now));
        if !listed.is_sorted() || listed.contains(&TOO_MANY) {
            return Err(format!("is no list of a few namespaces: {listed:?}"));
        }
        if let Some(nsid) = listed.iter().find(|&&nsid| !changed(nsid, surely, now)) {
            return Err(format!("lists namespace {nsid}, which did not change"));
        }
        let missing = shared
            .changes
            .iter()
            .find(|(made, nsid)| *made > until && *made < op.issued && !listed.contains(nsid));
        match missing {
            Some((_, nsid)) => Err(format!("does not list namespace {nsid}, which changed")),
            None => Ok(()),
        }
    }
}
