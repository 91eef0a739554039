//! NVMe qualified names.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// The longest NQN in bytes, without the NUL that ends it on the wire
/// (NVMe Base 2.1, 4.7).
pub const NQN_MAX_LEN: usize = 223;

/// Bytes of an NQN field on the wire; the name, a NUL, and zeroes.
pub const NQN_FIELD_SIZE: usize = 256;

/// The name every discovery subsystem answers to.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// An NVMe qualified name: 1 to 223 bytes of UTF-8 without control characters.
///
/// That is what a host may send. Whether the name also has the form the
/// specification asks of those who *choose* names is [`Nqn::check_form`].
/// Names are compared byte by byte.
#[derive(Clone, Copy)]
pub struct Nqn {
    len: u8,
    bytes: [u8; NQN_MAX_LEN],
}

/// Why bytes are not an NQN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NqnError {
    /// No bytes before the NUL.
    Empty,
    /// More than 223 bytes, or no NUL in the field.
    TooLong,
    /// Not UTF-8, or a control character, at this byte of the name.
    BadCharacter {
        /// Byte offset in the name.
        at: usize,
    },
    /// White space at this byte of the name, which nobody sees or types right.
    Blank {
        /// Byte offset in the name.
        at: usize,
    },
    /// Not of the form `nqn.YYYY-MM.reverse.domain[:name]`.
    BadForm,
}

impl Nqn {
    /// Takes a name.
    ///
    /// # Errors
    /// [`NqnError`] by length and characters; the form is not checked.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        Self::from_bytes(name.as_bytes())
    }

    /// Takes a name of which each byte counts (no NUL at the end).
    ///
    /// # Errors
    /// As [`Nqn::new`].
    pub fn from_bytes(name: &[u8]) -> Result<Self, NqnError> {
        if name.is_empty() {
            return Err(NqnError::Empty);
        }
        if name.len() > NQN_MAX_LEN {
            return Err(NqnError::TooLong);
        }
        let text = core::str::from_utf8(name)
            .map_err(|e| NqnError::BadCharacter { at: e.valid_up_to() })?;
        // Names go to logs and terminals: C1 controls are kept out as well.
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(NqnError::BadCharacter { at });
        }
        let mut bytes = [0; NQN_MAX_LEN];
        bytes[..name.len()].copy_from_slice(name);
        Ok(Self { len: name.len() as u8, bytes })
    }

    /// Reads a NUL-terminated name from a field, usually of 256 bytes. What
    /// follows the NUL is not looked at.
    ///
    /// # Errors
    /// [`NqnError::TooLong`] when there is no NUL after at most 223 bytes;
    /// else as [`Nqn::new`].
    pub fn from_field(field: &[u8]) -> Result<Self, NqnError> {
        let end = field.iter().take(NQN_MAX_LEN + 1).position(|&b| b == 0);
        Self::from_bytes(&field[..end.ok_or(NqnError::TooLong)?])
    }

    /// The name as a field of 256 bytes, filled up with zeroes.
    pub fn to_field(&self) -> [u8; NQN_FIELD_SIZE] {
        let mut field = [0; NQN_FIELD_SIZE];
        field[..self.as_bytes().len()].copy_from_slice(self.as_bytes());
        field
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        // Checked when the value was made; an empty string is unreachable.
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The name's bytes, 1 to 223.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether this is the well-known discovery name.
    pub fn is_discovery(&self) -> bool {
        self.as_bytes() == DISCOVERY_NQN.as_bytes()
    }

    /// Checks the form `nqn.YYYY-MM.reverse.domain[:name]`
    /// (NVMe Base 2.1, 4.7): a year, a month of 01 to 12, a domain of
    /// letters, digits, hyphens and dots, and a name that is not empty; and no
    /// white space anywhere.
    ///
    /// # Errors
    /// [`NqnError::Blank`], [`NqnError::BadForm`].
    pub fn check_form(&self) -> Result<(), NqnError> {
        if let Some((at, _)) = self.as_str().char_indices().find(|(_, c)| c.is_whitespace()) {
            return Err(NqnError::Blank { at });
        }
        let well_formed = || {
            let rest = self.as_bytes().strip_prefix(b"nqn.")?;
            let (date, rest) = rest.split_first_chunk::<8>()?;
            let [y1, y2, y3, y4, b'-', m1, m2, b'.'] = *date else { return None };
            let digits = [y1, y2, y3, y4, m1, m2].iter().all(u8::is_ascii_digit);
            let month = matches!((m1, m2), (b'0', b'1'..=b'9') | (b'1', b'0'..=b'2'));
            let colon = rest.iter().position(|&b| b == b':');
            let domain = &rest[..colon.unwrap_or(rest.len())];
            let labels = domain.split(|&b| b == b'.').all(|label| {
                !label.is_empty() && label.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
            });
            let named = colon.is_none_or(|at| at + 1 < rest.len());
            (digits && month && labels && named).then_some(())
        };
        well_formed().ok_or(NqnError::BadForm)
    }
}

impl FromStr for Nqn {
    type Err = NqnError;
    /// As [`Nqn::new`].
    fn from_str(name: &str) -> Result<Self, NqnError> {
        Self::new(name)
    }
}

impl AsRef<str> for Nqn {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Nqn {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
impl Eq for Nqn {}

impl PartialOrd for Nqn {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Nqn {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Nqn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for NqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::TooLong => write!(f, "the name is longer than {NQN_MAX_LEN} bytes"),
            Self::BadCharacter { at } => {
                write!(f, "byte {at} of the name is a control character or not UTF-8")
            }
            Self::Blank { at } => write!(f, "byte {at} of the name is a blank"),
            Self::BadForm => f.write_str("the name is not of the form nqn.YYYY-MM.domain:name"),
        }
    }
}

impl core::error::Error for NqnError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_of_223_bytes_is_taken_and_one_of_224_refused() {
        let mut field = [b'a'; 256];
        assert_eq!(Nqn::from_field(&field), Err(NqnError::TooLong));
        field[224] = 0;
        assert_eq!(Nqn::from_field(&field), Err(NqnError::TooLong));
        field[223] = 0;
        assert_eq!(Nqn::from_field(&field).unwrap().as_bytes().len(), 223);
    }

    #[test]
    fn a_field_without_nul_is_refused_even_if_short() {
        assert_eq!(Nqn::from_field(b"nqn.x"), Err(NqnError::TooLong));
        assert_eq!(Nqn::from_field(b""), Err(NqnError::TooLong));
    }

    #[test]
    fn empty_names_and_control_characters_are_refused() {
        assert_eq!(Nqn::new(""), Err(NqnError::Empty));
        assert_eq!(Nqn::new("nqn.\n"), Err(NqnError::BadCharacter { at: 4 }));
        assert_eq!(Nqn::new("é\u{9b}"), Err(NqnError::BadCharacter { at: 2 }));
        assert_eq!(Nqn::from_bytes(b"ab\xff"), Err(NqnError::BadCharacter { at: 2 }));
    }

    #[test]
    fn names_by_domain_and_by_uuid_have_the_right_form() {
        for good in [
            DISCOVERY_NQN,
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "nqn.2016-06.io.spdk:cnode1",
            "nqn.2014-08.com.vmware:nvme:esx-01",
        ] {
            assert_eq!(Nqn::new(good).unwrap().check_form(), Ok(()), "{good}");
        }
        for bad in [
            "nqn",
            "nqn.2014-13.org.x:a",
            "nqn.2014-00.org.x:a",
            "nqn.14-08.org:a",
            "nqn.2014-08.:a",
            "nqn.2014-08.org.x:",
            "nqn.2014-08.org..x:a",
            "nqn.20x4-08.org:a",
            "iqn.2014-08.org:a",
        ] {
            assert_eq!(Nqn::new(bad).unwrap().check_form(), Err(NqnError::BadForm), "{bad}");
        }
    }

    #[test]
    fn a_name_with_a_blank_has_the_wrong_form() {
        for (name, at) in [
            ("nqn.2014-08.a b:c", 13),
            ("nqn.2014-08.org.x:a ", 19),
            ("nqn.2014-08.org.x:\u{a0}", 18),
        ] {
            let error = Nqn::new(name).unwrap().check_form();
            assert_eq!(error, Err(NqnError::Blank { at }), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_read_without_panic(field in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(nqn) = Nqn::from_field(&field) {
                let _ = nqn.check_form();
                prop_assert_eq!(Nqn::from_field(&nqn.to_field()), Ok(nqn));
                prop_assert_eq!(nqn.as_str().as_bytes(), nqn.as_bytes());
            }
        }
    }
}
