//! Fields that hold one less than they mean.

use core::fmt;

use crate::layout::Field;

/// A *0's based* field: the wire holds `count - 1` (NVMe Base 2.1, 1.4.3).
///
/// `T` is the field's width: `u8`, `u16` or `u32`. A count is 1 to 2 to the
/// power of that width, so it is returned one size up.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZeroBased<T>(T);

macro_rules! zero_based {
    ($($t:ty => $wide:ty),*) => {$(
        impl ZeroBased<$t> {
            /// A field as it stands on the wire.
            pub const fn from_raw(raw: $t) -> Self {
                Self(raw)
            }
            /// The field for `count`; `None` when it does not fit: 0, or past the width.
            pub const fn from_count(count: $wide) -> Option<Self> {
                if count == 0 || count - 1 > <$t>::MAX as $wide {
                    return None;
                }
                Some(Self((count - 1) as $t))
            }
            /// The field for `count`, taking the nearest that fits.
            pub const fn saturating(count: $wide) -> Self {
                match Self::from_count(count) {
                    Some(field) => field,
                    None if count == 0 => Self(0),
                    None => Self(<$t>::MAX),
                }
            }
            /// What the field means: at least 1.
            #[inline]
            pub const fn count(self) -> $wide {
                self.0 as $wide + 1
            }
            /// The field as it stands on the wire: `count() - 1`.
            #[inline]
            pub const fn raw(self) -> $t {
                self.0
            }
        }
        impl fmt::Debug for ZeroBased<$t> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.count())
            }
        }
    )*};
}
zero_based!(u8 => u16, u16 => u32, u32 => u64);

impl<T: Field> Field for ZeroBased<T> {
    const SIZE: usize = T::SIZE;
    #[inline]
    fn get(bytes: &[u8]) -> Self {
        Self(T::get(bytes))
    }
    #[inline]
    fn put(&self, out: &mut [u8]) {
        self.0.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_one_more_than_the_wire_value() {
        assert_eq!(ZeroBased::<u16>::from_raw(31).count(), 32);
        assert_eq!(ZeroBased::<u16>::from_raw(u16::MAX).count(), 65536);
        assert_eq!(ZeroBased::<u16>::from_count(32).unwrap().raw(), 31);
    }

    #[test]
    fn counts_that_do_not_fit_are_refused_or_clamped() {
        assert_eq!(ZeroBased::<u8>::from_count(0), None);
        assert_eq!(ZeroBased::<u8>::from_count(257), None);
        assert_eq!(ZeroBased::<u8>::saturating(0).count(), 1);
        assert_eq!(ZeroBased::<u8>::saturating(9999).count(), 256);
    }
}
