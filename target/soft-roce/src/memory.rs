//! Memory that peers may read or write: remote keys and what they open.
//!
//! A key is 32 random bits, so a peer cannot guess one that it was not given. A key belongs to one
//! queue pair: packets of another do not match.

use rand::Rng;
use rand::rngs::StdRng;
use rdma::{Access, QpId, RemoteAddr};
use region::Span;
use std::collections::HashMap;

/// Most keys that one device hands out at a time.
const MAX_KEYS: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct Window {
    qp: QpId,
    span: Span,
    access: Access,
}

/// The keys of one device.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    keys: HashMap<u32, Window>,
}

/// Addresses that a peer sees are offsets into the region plus this, so that address zero is
/// never valid.
const BASE: u64 = 1 << 32;

impl Memory {
    /// Opens `span` to the peer of `qp`.
    pub(crate) fn expose(
        &mut self,
        rng: &mut StdRng,
        qp: QpId,
        span: Span,
        access: Access,
    ) -> Option<RemoteAddr> {
        if self.keys.len() >= MAX_KEYS {
            return None;
        }
        let mut rkey: u32 = rng.random();
        while rkey == 0 || self.keys.contains_key(&rkey) {
            rkey = rng.random();
        }
        self.keys.insert(rkey, Window { qp, span, access });
        Some(RemoteAddr { addr: BASE + u64::from(span.offset()), rkey })
    }

    /// Closes a key of that queue pair; `false` if it has no such key.
    pub(crate) fn close(&mut self, qp: QpId, rkey: u32) -> bool {
        let ours = self.keys.get(&rkey).is_some_and(|window| window.qp == qp);
        ours && self.keys.remove(&rkey).is_some()
    }

    /// Closes all keys of a queue pair.
    pub(crate) fn close_all(&mut self, qp: QpId) {
        self.keys.retain(|_, window| window.qp != qp);
    }

    /// The local bytes behind a remote address, if the peer of `qp` may touch all of them so.
    pub(crate) fn resolve(
        &self,
        qp: QpId,
        remote: RemoteAddr,
        len: u32,
        write: bool,
    ) -> Option<Span> {
        let window = self.keys.get(&remote.rkey)?;
        let allowed = window.qp == qp && (!write || window.access == Access::RemoteWrite);
        let at = remote.addr.checked_sub(BASE + u64::from(window.span.offset()))?;
        let end = at.checked_add(u64::from(len))?;
        (allowed && end <= u64::from(window.span.len())).then(|| window.span.slice(at as u32, len))
    }

    /// Keys handed out and not closed.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_key_opens_just_its_span_to_its_queue_pair() {
        let (mut memory, mut rng) = (Memory::default(), StdRng::seed_from_u64(1));
        let (qp, span) = (QpId(3), Span::new(8192, 4096));
        let open = memory.expose(&mut rng, qp, span, Access::RemoteRead).unwrap();
        assert_eq!(memory.resolve(qp, open, 4096, false), Some(span));
        let inner = RemoteAddr { addr: open.addr + 96, ..open };
        assert_eq!(memory.resolve(qp, inner, 4000, false), Some(Span::new(8288, 4000)));
        assert_eq!(memory.resolve(qp, inner, 4001, false), None);
        assert_eq!(memory.resolve(qp, open, 1, true), None);
        assert_eq!(memory.resolve(QpId(4), open, 1, false), None);
        let before = RemoteAddr { addr: open.addr - 1, ..open };
        assert_eq!(memory.resolve(qp, before, 1, false), None);
        let wrapped = RemoteAddr { addr: u64::MAX, ..open };
        assert_eq!(memory.resolve(qp, wrapped, 2, false), None);
        assert!(!memory.close(QpId(4), open.rkey));
        assert!(memory.close(qp, open.rkey));
        assert_eq!(memory.resolve(qp, open, 1, false), None);
    }
}
