//! Packet sequence numbers: 24 bits, compared on a circle.

/// A packet sequence number (InfiniBand Architecture vol. 1, 9.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Psn(u32);

impl Psn {
    const MASK: u32 = 0x00ff_ffff;

    /// The low 24 bits of `value`.
    pub(crate) const fn new(value: u32) -> Psn {
        Psn(value & Self::MASK)
    }

    /// As a number below 2^24.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// `n` packets later.
    #[must_use]
    pub(crate) const fn plus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// `n` packets earlier.
    #[must_use]
    pub(crate) const fn minus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(n))
    }

    /// Packets from `earlier` to `self`: negative when `self` is the earlier one. The circle is
    /// cut half way round.
    pub(crate) const fn since(self, earlier: Psn) -> i32 {
        ((self.0.wrapping_sub(earlier.0) << 8) as i32) >> 8
    }

    /// Whether `self` comes before `other`.
    pub(crate) const fn is_before(self, other: Psn) -> bool {
        self.since(other) < 0
    }
}

impl std::fmt::Debug for Psn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "psn {:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_across_the_wrap() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).minus(1), last);
        assert_eq!(last.plus(5).since(last), 5);
        assert_eq!(last.since(last.plus(5)), -5);
        assert!(last.is_before(last.plus(1)));
        assert!(!last.is_before(last));
    }

    #[test]
    fn half_the_circle_is_the_limit() {
        assert_eq!(Psn::new(0x7f_ffff).since(Psn::new(0)), 0x7f_ffff);
        assert!(Psn::new(0x80_0000).since(Psn::new(0)) < 0);
    }
}
