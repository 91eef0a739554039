//! How a structure's table of offsets becomes a type.
//!
//! `layout!` takes the table as the specification prints it (offset, field,
//! type) and writes the struct, its parser and its encoder. Overlapping or
//! out-of-order fields and fields past the end do not compile.
//! `codes!` makes a number with names that keeps values nobody has named.

/// A value that takes a fixed number of bytes inside a structure.
pub(crate) trait Field: Sized {
    /// Bytes taken.
    const SIZE: usize;
    /// Reads from a slice of exactly `SIZE` bytes; total.
    fn get(bytes: &[u8]) -> Self;
    /// Writes to a slice of exactly `SIZE` bytes.
    fn put(&self, out: &mut [u8]);
}

macro_rules! integer_field {
    ($($t:ty),*) => {$(
        impl Field for $t {
            const SIZE: usize = size_of::<$t>();
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut b = [0; size_of::<$t>()];
                b.copy_from_slice(bytes);
                <$t>::from_le_bytes(b)
            }
            #[inline]
            fn put(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
integer_field!(u8, u16, u32, u64, u128);

impl<T: Field, const N: usize> Field for [T; N] {
    const SIZE: usize = T::SIZE * N;
    fn get(bytes: &[u8]) -> Self {
        core::array::from_fn(|i| T::get(&bytes[i * T::SIZE..(i + 1) * T::SIZE]))
    }
    fn put(&self, out: &mut [u8]) {
        for (i, item) in self.iter().enumerate() {
            item.put(&mut out[i * T::SIZE..(i + 1) * T::SIZE]);
        }
    }
}

/// Reads a `T` at byte `at` of `bytes`, which the caller knows to be there.
#[inline(always)] // a move or two, once its length is known
pub(crate) fn get<T: Field>(bytes: &[u8], at: usize) -> T {
    T::get(&bytes[at..at + T::SIZE])
}

/// Writes `value` at byte `at` of `out`, which the caller knows to be there.
#[inline]
pub(crate) fn put<T: Field>(out: &mut [u8], at: usize, value: T) {
    value.put(&mut out[at..at + T::SIZE]);
}

/// A structure with a fixed size and fields at fixed offsets.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $name:ident[$size:expr] {
            $( $(#[$fmeta:meta])* $at:literal => $fvis:vis $field:ident: $ty:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$fmeta])* $fvis $field: $ty, )*
        }

        const _: () = {
            let mut end = 0usize;
            $(
                assert!($at >= end, "fields overlap or are out of order");
                end = $at + <$ty as $crate::layout::Field>::SIZE;
            )*
            assert!(end <= $size, "field past the end");
        };

        impl $name {
            /// Bytes this structure takes on the wire.
            pub const SIZE: usize = $size;

            /// Reads the structure from the first [`Self::SIZE`] bytes.
            ///
            /// # Errors
            /// [`ParseError`](crate::ParseError) when there are fewer.
            pub fn parse(bytes: &[u8]) -> Result<Self, $crate::ParseError> {
                $crate::ParseError::check(bytes, Self::SIZE)?;
                Ok(<Self as $crate::layout::Field>::get(&bytes[..Self::SIZE]))
            }

            /// Writes the structure to the first [`Self::SIZE`] bytes of
            /// `out`, reserved bytes as zero.
            ///
            /// # Panics
            /// When `out` is shorter than that.
            pub fn encode(&self, out: &mut [u8]) {
                let out = &mut out[..Self::SIZE];
                out.fill(0);
                $( $crate::layout::put(out, $at, self.$field.clone()); )*
            }

            /// The structure as it goes on the wire.
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut out = [0; Self::SIZE];
                self.encode(&mut out);
                out
            }
        }

        impl $crate::layout::Field for $name {
            const SIZE: usize = $size;
            fn get(bytes: &[u8]) -> Self {
                Self { $( $field: $crate::layout::get(bytes, $at), )* }
            }
            fn put(&self, out: &mut [u8]) {
                self.encode(out);
            }
        }

        impl Default for $name {
            /// All bytes zero.
            fn default() -> Self {
                <Self as $crate::layout::Field>::get(&[0; $size])
            }
        }
    };
}

/// A number with named values; others are kept and shown in hexadecimal.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($t:ty) {
            $( $(#[$cmeta:meta])* $konst:ident = $value:expr, $text:literal; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $t);

        impl $name {
            $( $(#[$cmeta])* #[doc = concat!("`", stringify!($value), "`: ", $text, ".")]
               pub const $konst: Self = Self($value); )*

            /// The value's name, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                $( if self.0 == $value { return Some($text); } )*
                None
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({:#x})", stringify!($name), self.0),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{:#x} ({name})", self.0),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl $crate::layout::Field for $name {
            const SIZE: usize = size_of::<$t>();
            #[inline]
            fn get(bytes: &[u8]) -> Self { Self(<$t as $crate::layout::Field>::get(bytes)) }
            #[inline]
            fn put(&self, out: &mut [u8]) { self.0.put(out); }
        }
    };
}

/// A set of single bits; bits nobody has named are kept.
macro_rules! flags {
    (
        $(#[$($meta:tt)*])*
        pub struct $name:ident($t:ty) {
            $( $(#[$($cmeta:tt)*])* $konst:ident = $bit:literal; )*
        }
    ) => {
        bitflags::bitflags! {
            $(#[$($meta)*])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name: $t {
                $( $(#[$($cmeta)*])* const $konst = 1 << $bit; )*
                // Bits that later revisions define stay as they came.
                const _ = !0;
            }
        }

        impl $crate::layout::Field for $name {
            const SIZE: usize = size_of::<$t>();
            fn get(bytes: &[u8]) -> Self {
                Self::from_bits_retain(<$t as $crate::layout::Field>::get(bytes))
            }
            fn put(&self, out: &mut [u8]) {
                self.bits().put(out);
            }
        }
    };
}
